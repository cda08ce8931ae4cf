//! The fields that a write through an object, or through one of its subresources, does not set, so that nobody comes to
//! own them that way (upstream: `GetResetFields`).

use pintle_apply::path::PathElement;
use pintle_apply::set::{FieldSet, Filter};

/// Which fields a write resets to what they were. Paths have dots between their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetFields {
    /// None.
    None,
    /// These, with all that is below them.
    These(&'static [&'static str]),
}

impl ResetFields {
    /// What of a write counts.
    #[must_use]
    pub fn filter(self) -> Option<Filter> {
        match self {
            Self::None => None,
            Self::These(paths) => {
                let path = |text: &&str| text.split('.').map(PathElement::field).collect::<Vec<_>>();
                Some(Filter::Exclude(paths.iter().map(path).collect::<FieldSet>()))
            }
        }
    }
}
