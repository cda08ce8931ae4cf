//! Label and field selectors: reading, checking, matching and printing them as apimachinery's `labels` and `fields`
//! packages do. Matching allocates nothing, since every watch event passes through it. Knows nothing of kinds.

mod field;
mod label;
mod parse;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector is none, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);
