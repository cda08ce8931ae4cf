//! Values and their types: what a value's field set is, whether it fits its type, and how two values of a type are
//! merged and compared. Types are those of `pintle_schema`; where there is none, the type is deduced from the value.

mod compare;
mod errors;
mod extract;
mod field_set;
mod items;
mod merge;
mod named;
mod reconcile;
mod shape;
mod validate;

use std::borrow::Cow;

use pintle_schema::{TypeId, Types};
use pintle_value::Value;

use crate::set::FieldSet;

pub use compare::Comparison;
pub use errors::{TypeError, TypeErrors};
pub use shape::Place;
pub use validate::Duplicates;

use merge::Merged;

impl<'t> Place<'t> {
    /// The place of a whole object of a type.
    #[must_use]
    pub fn new(types: &'t Types, root: TypeId) -> Self {
        Self::declared(types, root)
    }

    /// Checks that a value fits the type.
    pub fn validate(self, value: &Value, duplicates: Duplicates) -> Result<(), TypeErrors> {
        validate::validate(self, value, duplicates)
    }

    /// Every leaf field and item of a value that fits the type.
    #[must_use]
    pub fn field_set(self, value: &Value) -> FieldSet {
        field_set::field_set(self, value)
    }

    /// Puts a configuration over a live value. Nothing is taken away; where both have a leaf, the configuration's stays.
    /// Items keep the live order, or take that of the configuration where it says one. Borrowed if nothing changes.
    pub fn merge<'v>(self, live: &'v Value, config: &Value) -> Result<Cow<'v, Value>, TypeErrors> {
        Ok(match merge::merge(self, live, config)? {
            Merged::AsItWas => Cow::Borrowed(live),
            Merged::New(value) => Cow::Owned(value),
        })
    }

    /// What changed from one value to another.
    pub fn compare(self, old: &Value, new: &Value) -> Result<Comparison, TypeErrors> {
        compare::compare(self, old, new)
    }

    /// The value without the fields and items of a set. Containers that lose everything become null, as upstream's do.
    #[must_use]
    pub fn remove(self, value: &Value, items: &FieldSet) -> Value {
        extract::remove(self, value, items)
    }

    /// Only those fields and items of a value that are in a set. Atomic values are extracted whole.
    #[must_use]
    pub fn extract(self, value: &Value, items: &FieldSet) -> Value {
        extract::extract(self, value, items)
    }

    /// A set to which the declared fields are added that it has something below of. Sets of fields do not list structs,
    /// which come and go with their fields; to take them away they must be listed.
    #[must_use]
    pub fn with_named_fields(self, set: &FieldSet) -> FieldSet {
        named::with_named_fields(Some(self), set)
    }

    /// What a set that was written under an older schema means now: where something has become atomic, its owner has all
    /// of it. `None` where nothing changes.
    #[must_use]
    pub fn reconcile(self, set: &FieldSet) -> Option<FieldSet> {
        reconcile::reconcile(self, set)
    }
}
