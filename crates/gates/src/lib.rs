//! Feature gates of kube-apiserver 1.36: the table of gates, the effect of each gate here, the flag `--feature-gates`,
//! and the resulting state (upstream: `k8s.io/component-base/featuregate`). The callers implement the features.

mod effects;
mod flag;
mod gates;
mod table;

pub use effects::{Effect, EffectKind, all_effects, markdown};
pub use flag::{FeatureGatesFlag, help_lines};
pub use gates::{Feature, GateError, GateId, Gates, Warning};
pub use table::{Gate, Stage, all_gates};
