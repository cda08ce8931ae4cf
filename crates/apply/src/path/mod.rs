//! Where a field is: elements, their order and texts, and paths made of them.

mod element;
mod order;
mod text;

use std::fmt;

pub use element::{KeyFields, PathElement};
pub use order::{compare_values, same_value};
pub use text::{TextError, write_json_string};

/// The way from an object to one of its fields. Empty for the object itself, which nobody owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

/// As conflicts name fields: `.spec.containers[name="a"].image`.
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
