//! Strategies of the group `apiextensions.k8s.io`.

mod approval;
mod conversion;
mod definition;
mod formats;
mod names;
mod ratchet;
mod schema;
mod selectable;
mod spec;
mod status;
mod versions;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use definition::CLEANUP_FINALIZER;
pub use schema::field_path::{FoundPath, PathSchema, follow as follow_field_path};
pub use schema::judge::{CompiledRule, RuleCost, Ruled, SchemaJudge, Step};

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "customresourcedefinitions" => {
            Some(Arc::new(definition::Definition { judge: Arc::new(schema::judge::Lenient) }))
        }
        _ => None,
    }
}

/// Returns the strategy for CustomResourceDefinition with a validator for the contents of schemas. Without one, as in
/// [`crate::strategy`], defaults and expressions are not validated.
#[must_use]
pub fn definitions(judge: Arc<dyn SchemaJudge>) -> Arc<dyn Strategy> {
    Arc::new(definition::Definition { judge })
}
