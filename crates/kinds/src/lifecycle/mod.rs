//! Strategies of the group `lifecycle.k8s.io` (KEP-4563; upstream: `pkg/registry/lifecycle`). Requesters ask for the
//! eviction of a pod with an EvictionRequest. An Eviction records how responders carry it out, one after the other.

pub(crate) mod eviction;
pub(crate) mod eviction_request;
mod responder_states;
mod responders;
mod target_responders;

use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value, metadata};

/// The conditions that say that an eviction has ended.
const FINAL_CONDITIONS: [&str; 2] = ["TargetEvicted", "Failed"];

/// Validates the conditions of a status.
fn validate_conditions(context: &StrategyContext, object: &Value) -> Errors {
    let path = FieldPath::new("status.conditions");
    metadata::validate_conditions(&object["status"]["conditions"], context.missing_fields(), &path)
}

/// Whether a condition is true.
fn is_true(object: &Value, condition: &str) -> bool {
    let mut conditions = object.items_at(&["status", "conditions"]).iter();
    conditions.any(|found| found.str_at(&["type"]) == condition && found.str_at(&["status"]) == "True")
}
