//! Reset fields: the fields that a write through an object or subresource does not change (upstream: `GetResetFields`).
//! The field manager of the write does not own them.

use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Filter};

/// The fields that a write resets to their old values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetFields {
    /// No fields.
    None,
    /// The fields at these dotted paths, including all fields below them.
    Paths(&'static [&'static str]),
}

impl ResetFields {
    /// The filter that excludes these fields from managed fields. `None` if there are none.
    #[must_use]
    pub fn filter(self) -> Option<Filter> {
        match self {
            Self::None => None,
            Self::Paths(paths) => {
                let path = |text: &&str| text.split('.').map(PathElement::field).collect::<Vec<_>>();
                Some(Filter::Exclude(paths.iter().map(path).collect::<FieldSet>()))
            }
        }
    }
}
