//! Label and field selectors (upstream: apimachinery's `labels` and `fields` packages). Matching does not allocate,
//! since every watch event is matched against selectors.
//!
//! ```
//! use pintle_selector::{FieldSelector, LabelSelector};
//!
//! let selector = LabelSelector::parse("app in (web, api), tier!=test").expect("a valid selector");
//! let labels = |key: &str| [("app", "web"), ("tier", "prod")].into_iter().find(|(k, _)| *k == key).map(|(_, v)| v);
//! assert!(selector.matches(labels));
//! assert!(!selector.matches(|_| None));
//!
//! let selector = FieldSelector::parse("metadata.name=a").expect("a valid selector");
//! assert_eq!(selector.required_value("metadata.name"), Some("a"));
//! ```

mod field;
mod label;
mod parse;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelSelector, Operator};

/// A parse error, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorParseError(pub(crate) String);
