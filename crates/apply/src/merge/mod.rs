//! Updates and applies: how they change an object and the field sets of all managers (upstream: structured-merge-diff's
//! `merge`). A set is stored and compared at the version at which it was written. The key of a manager can be any
//! ordered type.

mod prune;
mod updater;
mod versioned_object;

use std::collections::BTreeMap;

use pintle_value::Str;

use crate::typed::ValidationErrors;
use pintle_fieldpath::path::Path;
use pintle_fieldpath::set::FieldSet;

pub use updater::Updater;
pub use versioned_object::{ConvertError, VersionConverter};

/// The fields that one manager owns, at the version of its last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The field set.
    pub set: FieldSet,
    /// The version (`apps/v1`) that the field set refers to.
    pub version: Str,
    /// True if the fields were applied. Such fields are removed when the manager no longer applies them.
    pub applied: bool,
}

/// The field sets of all managers of an object.
pub type ManagedFields<M> = BTreeMap<M, VersionedSet>;

/// A field that an apply would change but that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict<M> {
    /// The owner.
    pub manager: M,
    /// The path of the field.
    pub path: Path,
}

/// The reason why an update or an apply failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError<M> {
    /// Other managers own fields that would change. Never empty, sorted by manager.
    Conflicts(Vec<Conflict<M>>),
    /// Any other failure, with upstream's message.
    Failed(String),
}

impl<M> UpdateError<M> {
    fn typed(step: &'static str) -> impl Fn(ValidationErrors) -> Self {
        move |errors| Self::Failed(format!("{step}: {errors}"))
    }
}
