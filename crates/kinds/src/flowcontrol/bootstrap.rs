//! The priority levels and flow schemas that every cluster has (upstream:
//! `k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap`). Mandatory objects have fixed specs. Users may change suggested
//! objects.

use pintle_registry::GroupResource;
use pintle_value::Value;

/// The API group.
const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The annotation that says whether the server updates the spec of a bootstrap object.
pub const FLOW_CONTROL_AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The objects of upstream's package, recorded as JSON, one object a line.
const OBJECTS: &str = include_str!("../../data/flow_control_objects.txt");

/// An object of the bootstrap configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowControlObject {
    /// The object as a client creates it, with all defaults.
    pub object: Value,
    /// True if its spec is fixed.
    pub is_mandatory: bool,
}

/// The resource of the priority levels.
#[must_use]
pub fn flow_control_priority_levels_resource() -> GroupResource {
    GroupResource::new(GROUP, "prioritylevelconfigurations")
}

/// The resource of the flow schemas.
#[must_use]
pub fn flow_control_schemas_resource() -> GroupResource {
    GroupResource::new(GROUP, "flowschemas")
}

/// The priority levels of the bootstrap configuration.
#[must_use]
pub fn flow_control_priority_levels() -> Vec<FlowControlObject> {
    objects().filter(|bootstrap| !is_schema(bootstrap)).collect()
}

/// The flow schemas of the bootstrap configuration.
#[must_use]
pub fn flow_control_schemas() -> Vec<FlowControlObject> {
    objects().filter(is_schema).collect()
}

fn objects() -> impl Iterator<Item = FlowControlObject> {
    // Malformed lines are skipped; a test detects them.
    OBJECTS.lines().filter_map(|line| {
        let (sort, json) = line.split_once(' ')?;
        Some(FlowControlObject { object: serde_json::from_str(json).ok()?, is_mandatory: sort == "mandatory" })
    })
}

fn is_schema(bootstrap: &FlowControlObject) -> bool {
    bootstrap.object.at(&["spec", "matchingPrecedence"]).is_some()
}

/// Whether the server updates the spec of an object, by its annotation; `None` if the annotation does not say.
#[must_use]
pub fn flow_control_auto_update(object: &Value) -> Option<bool> {
    pintle_value::parse_bool(object.str_at(&["metadata", "annotations", FLOW_CONTROL_AUTO_UPDATE])).ok()
}

/// The spec of the mandatory object of a name, if there is one.
pub(super) fn mandatory_spec(objects: fn() -> Vec<FlowControlObject>, name: &str) -> Option<Value> {
    let mut mandatory = objects().into_iter().filter(|bootstrap| bootstrap.is_mandatory);
    mandatory.find(|bootstrap| bootstrap.object.name() == name)?.object.remove("spec")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages};

    #[test]
    fn all_objects_are_read() {
        assert_eq!((flow_control_priority_levels().len(), flow_control_schemas().len()), (8, 11));
        assert_eq!(objects().count(), OBJECTS.lines().count());
        let mandatory = objects().filter(|bootstrap| bootstrap.is_mandatory);
        assert!(
            mandatory
                .map(|bootstrap| bootstrap.object.name().to_owned())
                .all(|name| ["exempt", "catch-all"].contains(&name.as_str()))
        );
    }

    #[test]
    fn objects_are_valid_and_have_all_defaults() {
        let check = |plural: &str, objects: Vec<FlowControlObject>| {
            let strategy = crate::strategy("flowcontrol.apiserver.k8s.io", "v1", plural);
            for FlowControlObject { object, .. } in objects {
                let mut defaulted = object.clone();
                strategy.defaults(&mut defaulted);
                assert_eq!(defaulted, object);
                let none: [&str; 0] = [];
                assert_eq!(messages(&strategy.validate(&context(), &object)), none, "{}", object.name());
            }
        };
        check("prioritylevelconfigurations", flow_control_priority_levels());
        check("flowschemas", flow_control_schemas());
    }
}
