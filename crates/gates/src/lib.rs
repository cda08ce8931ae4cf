//! Feature gates of kube-apiserver 1.36: the table of gates, the effect of each gate here, the flag `--feature-gates`,
//! and the resulting state (upstream: `k8s.io/component-base/featuregate`). The callers implement the features.
//!
//! ```
//! use pintle_gates::{Feature, FeatureGatesFlag, Gates};
//!
//! let mut flag = FeatureGatesFlag::default();
//! flag.add("CBORServingAndStorage=true");
//! let (gates, _warnings) = flag.gates().expect("known gates");
//! assert!(gates.is_enabled_by_name("CBORServingAndStorage"));
//! assert!(!Gates::default().is_enabled(Feature::SHARDED_LIST_AND_WATCH));
//!
//! flag.add("Unknown=true");
//! assert!(flag.gates().is_err());
//! ```

mod effects;
mod flag;
mod gates;
mod table;

pub use effects::{Effect, EffectKind, all_effects, markdown};
pub use flag::{FeatureGatesFlag, help_lines};
pub use gates::{Feature, GateError, GateId, Gates, Warning};
pub use table::{Gate, Stage, all_gates};
