//! Typed values: validation, field sets, merging and comparison (upstream: structured-merge-diff's `typed`). Types come
//! from `pintle_schema`; without a type, the type is deduced from the value.

mod added;
mod atom;
mod atomics;
mod compare;
mod errors;
mod extract;
mod field_set;
mod list_items;
mod merge;
mod named;
mod reconcile;
mod validate;

use std::borrow::Cow;

use pintle_schema::{TypeId, Types};
use pintle_value::Value;

use pintle_fieldpath::set::FieldSet;

pub use added::{AddedFields, Without};
pub use atom::TypeRef;
pub use compare::Comparison;
pub use errors::{ValidationError, ValidationErrors};
pub use validate::Duplicates;

use merge::MergeOutcome;

/// Whether values at this depth are compared as a whole before their contents. Few levels are, because each of them may
/// look at everything below: objects can be nested 10,000 levels deep.
const fn is_compared(depth: usize) -> bool {
    depth < 16 || depth.is_power_of_two()
}

impl<'t> TypeRef<'t> {
    /// The type of a whole object.
    #[must_use]
    pub fn new(types: &'t Types, root: TypeId) -> Self {
        Self::declared(types, root)
    }

    /// Validates a value against the type.
    pub fn validate(self, value: &Value, duplicates: Duplicates) -> Result<(), ValidationErrors> {
        validate::validate(self, value, duplicates)
    }

    /// The paths of the atomic lists and maps of a valid value. They replace the old value when they are merged.
    #[must_use]
    pub fn atomics(self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        atomics::collect(self, value, "", &mut found);
        found
    }

    /// The set of every leaf field and item of a valid value (upstream: `ToFieldSet`).
    #[must_use]
    pub fn field_set(self, value: &Value) -> FieldSet {
        field_set::field_set(self, value)
    }

    /// Merges a configuration into a live value. Nothing is removed; where both have a leaf, the configuration wins.
    /// Items keep the live order unless the configuration orders them differently. The result is borrowed if nothing
    /// changes.
    pub fn merge<'v>(self, live: &'v Value, config: &Value) -> Result<Cow<'v, Value>, ValidationErrors> {
        Ok(match merge::merge(self, live, config)? {
            MergeOutcome::Unchanged => Cow::Borrowed(live),
            MergeOutcome::Changed(value) => Cow::Owned(value),
        })
    }

    /// Compares two values.
    pub fn compare(self, old: &Value, new: &Value) -> Result<Comparison, ValidationErrors> {
        self.compare_without(old, new, &FieldSet::new())
    }

    /// Compares two values without the entries of maps that are in `ignored`.
    pub fn compare_without(self, old: &Value, new: &Value, ignored: &FieldSet) -> Result<Comparison, ValidationErrors> {
        compare::compare(self, old, new, ignored)
    }

    /// The fields that a new object adds to an empty one, as text.
    #[must_use]
    pub fn added_fields(self, empty: &Value, new: &Value, without: Without<'_>) -> AddedFields {
        added::added_fields(self, empty, new, without)
    }

    /// Removes the fields and items of a set (upstream: `RemoveItems`). A container that loses everything becomes null,
    /// as upstream.
    #[must_use]
    pub fn remove(self, value: &Value, set: &FieldSet) -> Value {
        extract::remove(self, value, set)
    }

    /// Keeps only the fields and items of a set (upstream: `ExtractItems`). Atomic values are extracted whole.
    #[must_use]
    pub fn extract(self, value: &Value, set: &FieldSet) -> Value {
        extract::extract(self, value, set)
    }

    /// Adds declared fields that have members below them (upstream: `EnsureNamedFieldsAreMembers`). Field sets omit
    /// structs, which exist through their fields; removing a struct requires listing it.
    #[must_use]
    pub fn ensure_named_fields_are_members(self, set: &FieldSet) -> FieldSet {
        named::ensure_named_fields_are_members(Some(self), set)
    }

    /// Adapts a set that was written under an older schema. If a value has become atomic, the owner of a part of it
    /// owns all of it. Returns `None` if nothing changes (upstream: `ReconcileFieldSetWithSchema`).
    #[must_use]
    pub fn reconcile(self, set: &FieldSet) -> Option<FieldSet> {
        reconcile::reconcile(self, set)
    }
}
