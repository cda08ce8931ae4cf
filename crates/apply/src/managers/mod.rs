//! Who owns what: what an update or an apply does to an object and to the sets of all managers. Sets are kept at the
//! version they were written at, and compared at that version. Managers are told apart by any key that has an order.

mod objects;
mod prune;
mod updater;

use std::collections::BTreeMap;

use pintle_value::Str;

use crate::path::Path;
use crate::set::FieldSet;
use crate::typed::TypeErrors;

pub use objects::{ConvertError, Versions};
pub use updater::Updater;

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub set: FieldSet,
    /// The version (`apps/v1`) that the fields are of.
    pub version: Str,
    /// True if the fields were applied, and so go away when they are applied no more.
    pub applied: bool,
}

/// All managers of an object.
pub type Managers<M> = BTreeMap<M, Owned>;

/// A field that an apply would change, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict<M> {
    /// The owner.
    pub manager: M,
    /// The field.
    pub path: Path,
}

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError<M> {
    /// Others own what would change; at least one. They are sorted by manager.
    Conflicts(Vec<Conflict<M>>),
    /// Something else went wrong, in upstream's words.
    Failed(String),
}

impl<M> UpdateError<M> {
    fn typed(step: &'static str) -> impl Fn(TypeErrors) -> Self {
        move |errors| Self::Failed(format!("{step}: {errors}"))
    }
}
