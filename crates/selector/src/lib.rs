//! Label and field selectors (upstream: apimachinery's `labels` and `fields` packages). Matching does not allocate,
//! since every watch event is matched against selectors.

mod field;
mod label;
mod parse;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// A parse error, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorParseError(pub(crate) String);
