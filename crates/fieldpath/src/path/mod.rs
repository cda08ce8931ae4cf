//! Field paths: path elements, their order and serialization (upstream: structured-merge-diff's `fieldpath`).

mod element;
mod order;
mod serialize;

use std::fmt;

pub use element::{KeyFields, PathElement};
pub use order::{compare_values, values_equal};
pub use serialize::{PathElementError, write_json_string};

/// The path from an object to one of its fields. The empty path is the object itself, which nobody owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

/// The form in conflicts: `.spec.containers[name="a"].image`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

impl From<&[PathElement]> for Path {
    fn from(elements: &[PathElement]) -> Self {
        Self(elements.to_vec())
    }
}
