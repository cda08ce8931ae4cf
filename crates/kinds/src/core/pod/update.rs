//! Validates updates of pods (upstream: `ValidatePodUpdate`, `ValidatePodEphemeralContainersUpdate`). An update may
//! change images and the deadline, add tolerations, and remove scheduling gates. While there are gates, it may change
//! the node selector and affinity.

use std::collections::{BTreeMap, BTreeSet};

use pintle_registry::StrategyContext;
use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value, names};

use super::annotations::{validate_annotation_updates, validate_annotations_and_fields, validate_pod_annotations};
use super::containers::validate_padding;
use super::go_types::{NODE_SELECTOR_TERM, NODE_SELECTOR_TERMS};
use super::options::PodOptions;
use super::scheduling::validate_tolerations;
use super::spec::{MIRROR_POD, validate_pod_spec};
use super::volumes::projected_tokens;
use crate::generic::{keep_old, same, same_at};
use crate::go_diff::{self, GoStruct};
use crate::go_json;
use crate::validation::str_field;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates a new pod.
pub(crate) fn validate_create(context: &StrategyContext, pod: &Value) -> Errors {
    let mut errors = validate_metadata_and_spec(pod, &PodOptions::for_pod(context, None));
    let path = FieldPath::new("spec");
    let spec = &pod["spec"];
    if !spec.items_at(&["ephemeralContainers"]).is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.str_at(&["nodeName"]).is_empty() && !spec.items_at(&["schedulingGates"]).is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    validate_annotations_and_fields(&mut errors, pod, &path);
    errors
}

/// Validates a pod without its object metadata (upstream: `validatePodMetadataAndSpec`).
pub(crate) fn validate_metadata_and_spec(pod: &Value, options: &PodOptions) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &pod["spec"];
    validate_pod_annotations(&mut errors, pod, options, &FieldPath::new("metadata.annotations"));
    errors.append(validate_pod_spec(spec, Some(pod), &path, options));
    if spec.str_at(&["serviceAccountName"]).is_empty() {
        let volumes = path.child("volumes");
        for (i, j, _) in projected_tokens(spec) {
            let path = volumes.index(i);
            let path = path.child("projected");
            let path = path.child("sources");
            let path = path.index(j);
            let detail = "must not be specified when serviceAccountName is not set";
            errors.forbidden(&path.child("serviceAccountToken"), detail);
        }
    }
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        for (i, container) in spec.items_at(&[list]).iter().enumerate() {
            validate_padding(&mut errors, container, &list_path.index(i));
        }
    }
    errors
}

/// Validates an update of a pod.
pub(crate) fn validate_update(context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
    let options = PodOptions::for_pod(context, Some(old));
    let mut errors = validate_metadata_and_spec(pod, &options);
    let annotations = FieldPath::new("metadata.annotations");
    validate_annotation_updates(&mut errors, pod, old, &annotations);
    validate_pod_annotations(&mut errors, pod, &options, &annotations);

    let path = FieldPath::new("spec");
    let (new_spec, old_spec) = (&pod["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        let new = new_spec.items_at(&[list]);
        let list_path = path.child(list);
        if new.len() != old_spec.items_at(&[list]).len() {
            errors.forbidden(&list_path, "pod updates may not add or remove containers");
            return errors;
        }
        for (i, container) in new.iter().enumerate() {
            let path = list_path.index(i);
            if container.str_at(&["image"]).is_empty() {
                errors.required(&path.child("image"), "");
            }
            validate_padding(&mut errors, container, &path);
        }
    }

    let deadline_path = path.child("activeDeadlineSeconds");
    let old_deadline = old_spec.int_at(&["activeDeadlineSeconds"]);
    match new_spec.int_at(&["activeDeadlineSeconds"]) {
        Some(deadline) => {
            let problems = names::in_range(deadline, 0, i64::from(i32::MAX));
            if !problems.is_empty() {
                errors.invalid(&deadline_path, deadline, problems.concat());
                return errors;
            }
            if old_deadline.is_some_and(|old| old < deadline) {
                errors.invalid(&deadline_path, deadline, "must be less than or equal to previous value");
                return errors;
            }
        }
        None if old_deadline.is_some() => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(&deadline_path, Value::Null, detail);
        }
        None => {}
    }
    validate_added_tolerations(&mut errors, new_spec, old_spec, &options, &path.child("tolerations"));
    validate_removed_gates(&mut errors, new_spec, old_spec, &path.child("schedulingGates"));
    if same(Some(new_spec), Some(old_spec)) {
        return errors;
    }

    // Restores all mutable fields. Nothing else may differ.
    let mut rest = new_spec.clone();
    restore_images(&mut rest, old_spec);
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep_old(&mut rest, old_spec, &[field]);
    }
    let grace = |spec: &Value| spec.int_at(&["terminationGracePeriodSeconds"]);
    if grace(old_spec).is_some_and(|seconds| seconds < 0) && grace(&rest) == Some(1) {
        keep_old(&mut rest, old_spec, &["terminationGracePeriodSeconds"]);
    }
    if !old_spec.items_at(&["schedulingGates"]).is_empty() {
        restore_node_selection(&mut errors, &mut rest, old_spec, &path);
    }
    if !same(Some(&rest), Some(old_spec)) {
        let (old_spec, rest) = (with_host_fields(old_spec), with_host_fields(&rest));
        let diff = go_diff::structs(&old_spec, &rest, GoStruct("core/v1.PodSpec", context.minor()));
        errors.forbidden(&path, format!("pod updates may not change fields other than {UPDATABLE}\n{diff}"));
    }
    errors
}

/// A pod's spec in the form of the internal version: the security context has the fields about the host.
fn with_host_fields(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        let value = spec.remove(field);
        spec.set_at(&["securityContext", field], value);
    }
    spec
}

fn restore_images(spec: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let old = old.items_at(&[list]);
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (container, old) in containers.iter_mut().zip(old) {
            keep_old(container, old, &["image"]);
        }
    }
}

/// Restores the node selector and affinity of a gated pod. They may only become more restrictive.
fn restore_node_selection(errors: &mut Errors, spec: &mut Value, old: &Value, path: &FieldPath<'_>) {
    if !same_at(spec, old, &["nodeSelector"]) {
        let selector = &spec["nodeSelector"];
        if old.entries_at(&["nodeSelector"]).any(|(key, value)| selector.get(key) != Some(value)) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(&path.child("nodeSelector"), selector.clone(), detail);
        }
        keep_old(spec, old, &["nodeSelector"]);
    }
    let affinity = ["affinity", "nodeAffinity"];
    if !same_at(spec, old, &affinity) {
        let node_path = path.child("affinity");
        validate_node_affinity(errors, spec.at(&affinity), old.at(&affinity), &node_path.child("nodeAffinity"));
        keep_old(spec, old, &affinity);
        // Also remove an affinity that contained nothing but the node affinity.
        if old.get("affinity").is_none() && spec.get("affinity").is_some_and(Value::is_empty) {
            spec.remove("affinity");
        }
    }
}

fn validate_node_affinity(errors: &mut Errors, new: Option<&Value>, old: Option<&Value>, path: &FieldPath<'_>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |affinity: Option<&Value>| -> Vec<Value> {
        affinity.map(|a| a.items_at(&[REQUIRED, "nodeSelectorTerms"]).to_vec()).unwrap_or_default()
    };
    let (new, old) = (terms(new), terms(old));
    let path = path.child(REQUIRED);
    let list = path.child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(go_json::invalid(&list, &Value::Array(new), &NODE_SELECTOR_TERMS, detail));
        return;
    }
    for (i, (new, old)) in new.into_iter().zip(old).enumerate() {
        let fields = ["matchExpressions", "matchFields"];
        let was_empty = fields.iter().all(|field| old.items_at(&[field]).is_empty());
        let only_adds = fields.iter().all(|field| {
            let (new, old) = (new.items_at(&[field]), old.items_at(&[field]));
            let prefix = new.iter().zip(old).all(|(new, old)| same(Some(new), Some(old)));
            if was_empty { new.is_empty() } else { new.len() >= old.len() && prefix }
        });
        if !only_adds {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(go_json::invalid(&list.index(i), &new, &NODE_SELECTOR_TERM, detail));
        }
    }
}

fn validate_added_tolerations(
    errors: &mut Errors,
    new: &Value,
    old: &Value,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    // All fields of a toleration except `tolerationSeconds`.
    fn taint(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.str_at(&[field]))
    }
    let new = new.items_at(&["tolerations"]);
    let tolerated: BTreeSet<[&str; 4]> = new.iter().map(taint).collect();
    for old in old.items_at(&["tolerations"]) {
        if !tolerated.contains(&taint(old)) {
            errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
    validate_tolerations(errors, new, options, path);
}

fn validate_removed_gates(errors: &mut Errors, new: &Value, old: &Value, list: &FieldPath<'_>) {
    let gates = |spec: &Value| -> BTreeMap<String, usize> {
        let gates = spec.items_at(&["schedulingGates"]).iter().enumerate();
        gates.map(|(i, gate)| (gate.str_at(&["name"]).to_owned(), i)).collect()
    };
    let old = gates(old);
    for (name, i) in gates(new).into_iter().filter(|(name, _)| !old.contains_key(name)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        let path = list.index(i);
        errors.forbidden(&path.child("name"), detail);
    }
}

/// Validates an update through `pods/ephemeralcontainers`, which may only add containers.
pub(crate) fn validate_ephemeral_update(context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
    let options = PodOptions::for_pod(context, Some(old));
    if old.annotation(MIRROR_POD).is_some() {
        let mut errors = Errors::new();
        errors.forbidden(&FieldPath::new(""), "static pods do not support ephemeral containers");
        return errors;
    }
    let mut errors = validate_metadata_and_spec(pod, &options);
    let annotations = FieldPath::new("metadata.annotations");
    validate_annotation_updates(&mut errors, pod, old, &annotations);
    validate_pod_annotations(&mut errors, pod, &options, &annotations);
    let path = FieldPath::new("spec.ephemeralContainers");
    // If several containers have the same name, the last one counts.
    let containers: BTreeMap<&str, &Value> = pod
        .items_at(&["spec", "ephemeralContainers"])
        .iter()
        .filter_map(|container| Some((str_field(container, "name")?, container)))
        .collect();
    for old in old.items_at(&["spec", "ephemeralContainers"]) {
        let name = old.str_at(&["name"]);
        match containers.get(name) {
            None => {
                errors.forbidden(&path, format!("existing ephemeral containers {} may not be removed\n", quote(name)));
            }
            Some(new) if !same(Some(old), Some(*new)) => {
                let diff = go_diff::structs(old, new, GoStruct("core/v1.EphemeralContainer", context.minor()));
                let detail = format!("existing ephemeral containers {} may not be changed\n{diff}", quote(name));
                errors.forbidden(&path, detail);
            }
            Some(_) => {}
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    /// A pod spec with the required fields and additional ones.
    fn pod(fields: &str) -> Value {
        object(&format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","image":"a","imagePullPolicy":"Always",
            "resources":{{}},"terminationMessagePolicy":"File"}}],"restartPolicy":"Always","dnsPolicy":"Default",
            "terminationGracePeriodSeconds":30{fields}}}}}"#
        ))
    }

    fn check(new: &Value, old: &Value, expect: &[&str]) {
        assert_eq!(messages(&validate_update(&context(), new, old)), expect);
    }

    #[test]
    fn most_pod_fields_are_immutable() {
        let old = pod(r#","tolerations":[{"key":"a","operator":"Exists"}],"activeDeadlineSeconds":10"#);
        check(&old, &old, &[]);
        let new = pod(
            r#","tolerations":[{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"b","operator":"Exists"}],
                "activeDeadlineSeconds":5"#,
        );
        let expect =
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds";
        check(&new, &old, &[expect]);
        let new = pod(
            r#","tolerations":[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}],"activeDeadlineSeconds":5"#,
        );
        check(&new, &old, &[]);
        let mut image = old.clone();
        image.at_mut(&["spec", "containers"]).and_then(Value::as_array_mut).unwrap()[0].set("image", "b");
        check(&image, &old, &[]);
        check(
            &pod(r#","tolerations":[{"key":"a","operator":"Exists"}],"activeDeadlineSeconds":11"#),
            &old,
            &["spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"],
        );
        check(
            &pod(r#","tolerations":[{"key":"a","operator":"Exists"}]"#),
            &old,
            &["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
        );
        check(
            &pod(r#","hostname":"h""#),
            &pod(""),
            &["spec: Forbidden: pod updates may not change fields other than \
               `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
               (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
               was previously negative)\n@@ -64,7 +64,7 @@\n   \"SELinuxChangePolicy\": null\n  },\n  \"ImagePullSecrets\": null,\n- \"Hostname\": \"\",\n\
               + \"Hostname\": \"h\",\n  \"Subdomain\": \"\",\n  \"SetHostnameAsFQDN\": null,\n  \"Affinity\": null,\n"],
        );
        let mut more = pod("");
        more.at_mut(&["spec", "containers"]).and_then(Value::as_array_mut).unwrap().clear();
        check(
            &more,
            &pod(""),
            &[
                "spec.containers: Required value",
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ],
        );
    }

    #[test]
    fn gated_pods_may_narrow_their_node_selection() {
        let gate = r#","schedulingGates":[{"name":"g"}]"#;
        let affinity = |terms: &str| {
            format!(
                r#"{gate},"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{terms}}}}}}}"#
            )
        };
        let one = r#"{"key":"a","operator":"Exists"}"#;
        let two = r#"{"key":"b","operator":"Exists"}"#;
        check(&pod(&format!(r#"{gate},"nodeSelector":{{"a":"b"}}"#)), &pod(gate), &[]);
        check(&pod(r#","nodeSelector":{"a":"b"}"#), &pod(gate), &[]);
        check(&pod(&affinity(&format!(r#"[{{"matchExpressions":[{one}]}}]"#))), &pod(gate), &[]);
        check(
            &pod(&affinity(&format!(r#"[{{"matchExpressions":[{one},{two}]}}]"#))),
            &pod(&affinity(&format!(r#"[{{"matchExpressions":[{one}]}}]"#))),
            &[],
        );
        let errors = validate_update(
            &context(),
            &pod(&affinity(&format!(r#"[{{"matchExpressions":[{two}]}}]"#))),
            &pod(&affinity(&format!(r#"[{{"matchExpressions":[{one}]}}]"#))),
        );
        assert_eq!(errors.count(), 1);
        assert_eq!(
            errors.iter().next().expect("an error").detail,
            "only additions are allowed (no mutations or deletions)"
        );
        check(
            &pod(r#","schedulingGates":[{"name":"h"}],"nodeSelector":{"a":"c"}"#),
            &pod(r#","schedulingGates":[{"name":"g"}],"nodeSelector":{"a":"b"}"#),
            &[
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'",
                "spec.nodeSelector: Invalid value: {\"a\":\"c\"}: only additions to spec.nodeSelector are allowed (no \
                 mutations or deletions)",
            ],
        );
    }
}
