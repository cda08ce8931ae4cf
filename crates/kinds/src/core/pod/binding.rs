//! Binds a pod to a node for `pods/NAME/binding` and `bindings` (upstream: `BindingREST`).

use pintle_gates::{Change, Feature, Gates};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::time::Time;
use pintle_value::{Errors, FieldPath, Value};

use super::status::set_condition;
use crate::validation::validate_object_name;

/// Checks a `Binding`.
///
/// # Errors
/// Returns an error if it is malformed.
pub fn check_binding(gates: &Gates, binding: &Value) -> Result<(), ApiError> {
    let errors = validate_binding(gates, binding);
    // Upstream returns the bare errors here. They become a 500 without a reason.
    if errors.is_empty() { Ok(()) } else { Err(ApiError::Unclassified(errors.message())) }
}

/// Assigns a pod to the node that a valid `Binding` names, and copies the binding's annotations and labels to the pod.
///
/// # Errors
/// Returns an error if the pod is terminating, already assigned or gated, or if the binding's uid or resourceVersion
/// does not match.
pub fn bind(gates: &Gates, pod: &mut Value, binding: &Value, now: Time) -> Result<(), ApiError> {
    let name = pod.name().to_owned();
    let conflict = |resource: &str, why: String| ApiError::Conflict {
        resource: GroupResource::new("", resource),
        name: name.as_str().into(),
        why,
    };
    for (field, wanted, found) in
        [("UID", binding.uid(), pod.uid()), ("ResourceVersion", binding.resource_version(), pod.resource_version())]
    {
        // If the caller did not set the pod's resourceVersion, there is nothing to compare.
        if !wanted.is_empty() && !found.is_empty() && wanted != found {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}",
                pod.namespace()
            );
            return Err(conflict("pods", why));
        }
    }
    let refused = if pod.is_terminating() {
        Some(format!("pod {name} is being deleted, cannot be assigned to a host"))
    } else if !pod.str_at(&["spec", "nodeName"]).is_empty() {
        Some(format!("pod {name} is already assigned to node \"{}\"", pod.str_at(&["spec", "nodeName"])))
    } else if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
        Some(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        None
    };
    if let Some(why) = refused {
        return Err(conflict("pods/binding", why));
    }

    pod.set_at(&["spec", "nodeName"], binding.str_at(&["target", "name"]));
    if gates.is_enabled(Feature::CLEARING_NOMINATED_NODE_NAME_AFTER_BINDING) {
        pod.remove_at(&["status", "nominatedNodeName"]);
    }
    let copies_labels = gates.is_enabled(Feature::POD_TOPOLOGY_LABELS_ADMISSION);
    for map in ["annotations", "labels"].into_iter().filter(|map| *map == "annotations" || copies_labels) {
        for (key, value) in binding.entries_at(&["metadata", map]) {
            pod.set_at(&["metadata", map, key], value.clone());
        }
    }
    let mut condition = Value::object();
    condition.set("type", "PodScheduled");
    condition.set("status", "True");
    set_condition(pod, condition, now);
    Ok(())
}

fn validate_binding(gates: &Gates, binding: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("target");
    let kind = binding.str_at(&["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        errors.not_supported(&path.child("kind"), kind, &["Node", "<empty>"]);
    }
    let (name, name_path) = (binding.str_at(&["target", "name"]), path.child("name"));
    if name.is_empty() {
        errors.required(&name_path, "");
    } else if gates.has(Change::BINDING_TARGETS_ARE_NODE_NAMES) {
        validate_object_name(&mut errors, &name_path, name);
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context_of, object};

    const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

    fn check(pod: &str, binding: &str, expect: Result<&str, &str>) {
        let mut pod = object(pod);
        match bind(&Gates::default(), &mut pod, &object(binding), NOW) {
            Ok(()) => assert_eq!(Ok(pod), expect.map(object)),
            Err(error) => assert_eq!(Err(error.to_string().as_str()), expect.map(object)),
        }
    }

    #[test]
    fn a_pod_is_bound_only_once() {
        let binding = r#"{"metadata":{"name":"p","uid":"u","annotations":{"a":"1"},"labels":{"zone":"z"}},
            "target":{"kind":"Node","name":"n"}}"#;
        check(
            r#"{"metadata":{"name":"p","uid":"u"},"spec":{},"status":{"phase":"Pending","nominatedNodeName":"m"}}"#,
            binding,
            Ok(r#"{"metadata":{"name":"p","uid":"u","annotations":{"a":"1"},"labels":{"zone":"z"}},
                "spec":{"nodeName":"n"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True",
                "lastProbeTime":null,"lastTransitionTime":"2023-11-14T22:13:20Z"}]}}"#),
        );
        check(
            r#"{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"x"}}"#,
            binding,
            Err("Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"x\""),
        );
        check(
            r#"{"metadata":{"name":"p","namespace":"ns","uid":"v"},"spec":{}}"#,
            binding,
            Err(
                "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: /registry/pods/ns/p, \
                 ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: v",
            ),
        );
        check(
            r#"{"metadata":{"name":"p","uid":"u","deletionTimestamp":"x"},"spec":{}}"#,
            binding,
            Err(
                "Operation cannot be fulfilled on pods/binding \"p\": pod p is being deleted, cannot be assigned to a host",
            ),
        );
        check(
            r#"{"metadata":{"name":"p"},"spec":{"schedulingGates":[{"name":"g"}]}}"#,
            r#"{"target":{"name":"n"}}"#,
            Err("Operation cannot be fulfilled on pods/binding \"p\": pod p has non-empty .spec.schedulingGates"),
        );
    }

    #[test]
    fn targets_are_nodes() {
        let check = |minor: u8, target: &str, expect: Option<&str>| {
            let binding = object(&format!(r#"{{"target":{target}}}"#));
            let error = check_binding(&context_of(minor, &[]).gates, &binding).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expect, "{minor}");
        };
        let odd = r#"{"name":"a_b"}"#;
        check(36, odd, None);
        check(
            37,
            odd,
            Some(
                "target.name: Invalid value: \"a_b\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        );
        for minor in [36, 37] {
            check(minor, r#"{"name":"node.example.com"}"#, None);
            check(minor, r#"{"kind":"Node"}"#, Some("target.name: Required value"));
        }
    }
}
