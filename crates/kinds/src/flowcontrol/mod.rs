//! Strategies of the group `flowcontrol.apiserver.k8s.io`.

mod bootstrap;
pub(crate) mod flow_schema;
pub(crate) mod priority_level;

use pintle_value::{Errors, FieldPath, Value};

use crate::generic::{SPEC_AND_METADATA, StatusStrategy};

pub use self::bootstrap::{
    FLOW_CONTROL_AUTO_UPDATE, FlowControlObject, flow_control_auto_update, flow_control_priority_levels,
    flow_control_priority_levels_resource, flow_control_schemas, flow_control_schemas_resource,
};

static STATUS: StatusStrategy = StatusStrategy::new(|_, object, _| {
    let mut errors = Errors::new();
    validate_conditions(&mut errors, object);
    errors
})
.preserving(SPEC_AND_METADATA);

/// Validates the conditions of a status: non-empty unique types.
fn validate_conditions(errors: &mut Errors, object: &Value) {
    let list = FieldPath::new("status.conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in object.items_at(&["status", "conditions"]).iter().enumerate() {
        let path = list.index(i);
        let kind = condition.str_at(&["type"]);
        if seen.contains(&kind) {
            errors.duplicate(&path.child("type"), kind);
        }
        seen.push(kind);
        if kind.is_empty() {
            errors.required(&path.child("type"), "must not be empty");
        }
    }
}
