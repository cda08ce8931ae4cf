//! Validation options of a CustomResourceDefinition: which checks apply (upstream: `validationOptions`). This module
//! does not import its siblings, so that all of them can take options.

use std::collections::HashSet;

/// Which checks apply (upstream: `validationOptions`).
#[derive(Debug)]
pub(super) struct ValidationOptions {
    /// `conversionReviewVersions` must contain a version that the server knows.
    pub(super) require_known_review_version: bool,
    /// The scope and the kind are immutable.
    pub(super) require_immutable_names: bool,
    /// Every version must have a schema.
    pub(super) require_schemas: bool,
    /// The types in schemas must be known.
    pub(super) require_known_types: bool,
    /// Schemas must be structural.
    pub(super) require_structural_schemas: bool,
    /// Default values may not contain unknown fields.
    pub(super) require_pruned_defaults: bool,
    /// Items of sets must be atomic.
    pub(super) require_atomic_sets: bool,
    /// Items of sets and maps may not be nullable, and keys of maps must be required or have a default.
    pub(super) require_list_items: bool,
    /// The CA bundle must be parsable.
    pub(super) require_readable_bundle: bool,
    /// The versions whose schema did not change.
    pub(super) unchanged_schemas: HashSet<String>,
    /// The versions whose selectable fields may exceed the limit; the empty name stands for the fields common to all
    /// versions.
    pub(super) too_many_selectable_fields: HashSet<String>,
}

impl ValidationOptions {
    /// The options for a new CRD. It is not established yet, so its CA bundle is not validated.
    pub(super) fn for_create() -> Self {
        Self {
            require_known_review_version: true,
            require_immutable_names: false,
            require_schemas: true,
            require_known_types: true,
            require_structural_schemas: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_list_items: true,
            require_readable_bundle: false,
            unchanged_schemas: HashSet::new(),
            too_many_selectable_fields: HashSet::new(),
        }
    }
}
