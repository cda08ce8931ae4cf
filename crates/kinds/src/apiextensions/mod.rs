//! Strategies of the group `apiextensions.k8s.io`.

mod approval;
mod conversion;
mod formats;
mod names;
mod ratcheting;
pub(crate) mod schema;
mod selectable_fields;
mod spec;
mod status;
mod stored;
mod strategy;
mod validation_options;
mod versions;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use approval::{ApiApproval, api_approval};
pub use conversion::has_unreadable_bundle;
pub use schema::field_path::{PathSchema, ResolvedFieldPath, resolve as resolve_field_path};
pub use schema::validator::{CompiledRule, RuleCost, RuledNode, SchemaStep, SchemaValidator};
pub use strategy::CLEANUP_FINALIZER;

/// Returns the strategy for CustomResourceDefinition with a validator for the contents of schemas. Without one, as in
/// [`crate::strategy`], defaults and expressions are not validated.
#[must_use]
pub fn custom_resource_definition_strategy(validator: Arc<dyn SchemaValidator>) -> Arc<dyn Strategy> {
    Arc::new(strategy::CustomResourceDefinitionStrategy { validator })
}
