//! The kinds of the group `apiextensions.k8s.io`.

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

/// The behaviour of definitions with a judge of what is in their schemas. Without one, as [`crate::strategy`] has it,
/// defaults and expressions are not looked at.
#[must_use]
pub fn definitions(judge: Arc<dyn SchemaJudge>) -> Arc<dyn Strategy> {
    Arc::new(definition::Definition { judge })
}
