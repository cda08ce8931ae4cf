//! Feature gates of kube-apiserver (upstream: `k8s.io/component-base/featuregate`). Here are the table of the gates of
//! all known versions, the effect of each gate, the flag `--feature-gates`, and the resulting state. A change between
//! versions that has no gate is a [`Change`]. The callers implement the features and the changes.
//!
//! ```
//! use pintle_gates::{Feature, FeatureGatesFlag, Gates};
//! use pintle_versions::EffectiveVersion;
//!
//! let mut flag = FeatureGatesFlag::default();
//! flag.add("CBORServingAndStorage=true");
//! let (gates, _warnings) = flag.gates(EffectiveVersion::default()).expect("known gates");
//! assert!(gates.is_enabled_by_name("CBORServingAndStorage"));
//! assert!(!Gates::default().is_enabled(Feature::SHARDED_LIST_AND_WATCH));
//!
//! flag.add("Unknown=true");
//! assert!(flag.gates(EffectiveVersion::default()).is_err());
//! ```

mod changes;
mod effects;
mod flag;
mod gates;
mod table;

pub use changes::Change;
pub use effects::{Effect, EffectKind, all_effects, markdown};
pub use flag::{FeatureGatesFlag, help_lines};
pub use gates::{Feature, GateError, GateId, Gates, Warning};
pub use table::{Existence, Gate, Stage, all_gates};
