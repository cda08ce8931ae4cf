//! Feature gates: which there are in kube-apiserver 1.36, what `--feature-gates` makes of them, and which are on
//! (upstream: `component-base/featuregate`). Pure facts and rules; what a feature does is the business of those who ask.

mod facts;
mod flag;
mod gates;

pub use facts::{Gate, Stage, known};
pub use flag::{Flag, help};
pub use gates::{Feature, GateError, Gates, Warning};
