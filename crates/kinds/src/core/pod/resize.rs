//! Updates of the CPU and memory of a running pod's containers through `pods/resize` (upstream: `podResizeStrategy`,
//! `ValidatePodResize`).

use pintle_gates::Feature;
use pintle_registry::{StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value};

use super::disabled::drop_disabled_pod_fields;
use super::options::{PodOptions, is_sidecar};
use super::resources::{has_pod_resources, qos_class};
use super::spec::MIRROR_POD;
use super::strategy::set_late_defaults;
use super::update::validate_metadata_and_spec;
use super::{restore_metadata, set_generation};
use crate::generic::{keep_old, same, same_at};

/// The strategy for `pods/resize`.
pub(crate) struct ResizeStrategy;

impl SubresourceStrategy for ResizeStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, pod: &mut Value, old: &Value) {
        let resizes_volumes = context.gates.is_enabled(Feature::IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES);
        restore_all_but_resources(pod, old, resizes_volumes);
        drop_disabled_pod_fields(context, pod, Some(old));
        set_late_defaults(context, pod, Some(old));
        set_generation(pod, Some(old));
    }

    fn validate_update(&self, context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
        validate_resize(context, pod, old)
    }
}

fn restore_all_but_resources(pod: &mut Value, old: &Value, resizes_volumes: bool) {
    let count = |pod: &Value, list: &str| pod.items_at(&["spec", list]).len();
    // Validation reports added and removed containers.
    if ["containers", "initContainers"].iter().any(|list| count(pod, list) != count(old, list)) {
        return;
    }
    let merged = ["containers", "initContainers"].map(|list| {
        let new = pod.items_at(&["spec", list]);
        let old = old.items_at(&["spec", list]);
        if new.iter().zip(old).any(|(new, old)| new.str_at(&["name"]) != old.str_at(&["name"])) {
            return new.to_vec();
        }
        let pairs = new.iter().zip(old);
        let merge = |(new, old): (&Value, &Value)| {
            let mut container = old.clone();
            keep_old(&mut container, new, &["resources"]);
            keep_old(&mut container, new, &["resizePolicy"]);
            container
        };
        pairs.map(merge).collect()
    });
    let resources = pod.at(&["spec", "resources"]).cloned();
    let volumes = resizes_volumes.then(|| merge_volumes(pod.items_at(&["spec", "volumes"]), &old["spec"]));
    keep_old(pod, old, &["spec"]);
    if let Some(volumes) = volumes.filter(|volumes| !volumes.is_empty()) {
        pod.set_at(&["spec", "volumes"], volumes);
    }
    match resources {
        Some(resources) => pod.set_at(&["spec", "resources"], resources),
        None => {
            pod.remove_at(&["spec", "resources"]);
        }
    }
    for (list, containers) in ["containers", "initContainers"].into_iter().zip(merged) {
        if !containers.is_empty() {
            pod.set_at(&["spec", list], Value::Array(containers));
        }
    }
    keep_old(pod, old, &["status"]);
    restore_metadata(pod, old);
}

const SIZE_LIMIT: [&str; 2] = ["emptyDir", "sizeLimit"];

fn is_in_memory(volume: &Value) -> bool {
    volume.str_at(&["emptyDir", "medium"]) == "Memory"
}

/// The old volumes, with the new sizes of volumes in memory. Validation reports added, removed and renamed volumes.
fn merge_volumes(new: &[Value], old_spec: &Value) -> Vec<Value> {
    let old = old_spec.items_at(&["volumes"]);
    let is_renamed = |(new, old): (&Value, &Value)| new.str_at(&["name"]) != old.str_at(&["name"]);
    if new.len() != old.len() || new.iter().zip(old).any(is_renamed) {
        return new.to_vec();
    }
    let merge = |(new, old): (&Value, &Value)| {
        let mut volume = old.clone();
        if is_in_memory(new) && is_in_memory(old) {
            keep_old(&mut volume, new, &SIZE_LIMIT);
        }
        volume
    };
    new.iter().zip(old).map(merge).collect()
}

/// Replaces the sizes of volumes in memory by the old sizes. A size may not be added or removed.
fn restore_sizes(spec: &mut Value, old: &Value) {
    let old = old.items_at(&["volumes"]);
    let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) else { return };
    for (volume, old) in volumes.iter_mut().zip(old) {
        if is_in_memory(volume)
            && is_in_memory(old)
            && volume.at(&SIZE_LIMIT).is_some()
            && old.at(&SIZE_LIMIT).is_some()
        {
            keep_old(volume, old, &SIZE_LIMIT);
        }
    }
}

fn validate_resize(context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
    let refused = |why: &str| {
        let mut errors = Errors::new();
        errors.forbidden(&FieldPath::new(""), why);
        errors
    };
    let has_pod_resources = has_pod_resources(&old["spec"]) || has_pod_resources(&pod["spec"]);
    if has_pod_resources && !context.gates.is_enabled(Feature::IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING) {
        return refused("pods with pod-level resources cannot be resized");
    }
    if old.annotation(MIRROR_POD).is_some() {
        return refused("static pods cannot be resized");
    }
    if old.str_at(&["spec", "os", "name"]) == "windows" {
        return refused("windows pods cannot be resized");
    }
    let mut errors = validate_metadata_and_spec(pod, &PodOptions::for_pod(context, Some(old)));
    let path = FieldPath::new("spec");
    let (new_spec, old_spec) = (&pod["spec"], &old["spec"]);
    let class = match old.str_at(&["status", "qosClass"]) {
        "" => qos_class(&context.gates, old_spec),
        class => class,
    };
    if class != qos_class(&context.gates, new_spec) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, pod.str_at(&["status", "qosClass"]), detail);
    }
    if !is_supported(old) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }

    let mut rest = new_spec.clone();
    if context.gates.is_enabled(Feature::IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES) {
        restore_sizes(&mut rest, old_spec);
    }
    if has_pod_resources {
        validate_pod_level(&mut errors, &mut rest, new_spec, old_spec, &path);
    }
    if !old.items_at(&["status", "nodeAllocatableResourceClaimStatuses"]).is_empty() {
        errors.forbidden(&path, "pods with node allocatable resource claims cannot be resized");
    }
    if !validate_order(&mut errors, new_spec, old_spec, &path) {
        return errors;
    }
    for list in ["initContainers", "containers"] {
        let list_path = path.child(list);
        let pairs = new_spec.items_at(&[list]).iter().zip(old_spec.items_at(&[list]));
        for (i, (new, old)) in pairs.enumerate() {
            let path = list_path.index(i);
            let path = path.child("resources");
            for kind in ["requests", "limits"] {
                if was_removed(&new["resources"], &old["resources"], kind) {
                    let singular = kind.trim_end_matches('s');
                    errors.forbidden(&path.child(kind), format!("resource {singular}s cannot be removed"));
                }
            }
        }
    }
    let resizes_init = context.gates.is_enabled(Feature::IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS);
    restore_container_resources(&mut errors, &mut rest, old_spec, resizes_init, &path);
    if errors.is_empty() && !same(Some(&rest), Some(old_spec)) {
        errors.forbidden(&path, "only cpu and memory resources are mutable");
    }
    errors
}

/// Returns true if the kubelet supports resizing: it then reports the resources of running containers.
fn is_supported(pod: &Value) -> bool {
    let running =
        pod.items_at(&["status", "containerStatuses"]).iter().find(|status| status.at(&["state", "running"]).is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

fn validate_pod_level(errors: &mut Errors, rest: &mut Value, new: &Value, old: &Value, path: &FieldPath<'_>) {
    let resources_path = path.child("resources");
    if old.get("resources").is_some() {
        if new.get("resources").is_none() {
            errors.forbidden(&resources_path, "pod-level resources cannot be removed");
            return;
        }
        for (kind, singular) in [("requests", "request"), ("limits", "limit")] {
            if was_removed(&new["resources"], &old["resources"], kind) {
                let detail = format!("pod-level resource {singular}s cannot be removed");
                errors.forbidden(&resources_path.child(kind), detail);
            }
        }
    }
    if let Some(resources) = rest.get_mut("resources") {
        restore_cpu_and_memory(resources, &old["resources"]);
        if old.get("resources").is_none() && resources.is_empty() {
            rest.remove("resources");
        }
    }
    if !same_at(rest, old, &["resources"]) {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

fn validate_order(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath<'_>) -> bool {
    let before = errors.count();
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        let (new, old) = (new.items_at(&[list]), old.items_at(&[list]));
        if new.len() != old.len() {
            errors.forbidden(&list_path, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (i, (new, old)) in new.iter().zip(old).enumerate() {
            if new.str_at(&["name"]) != old.str_at(&["name"]) {
                let path = list_path.index(i);
                errors.forbidden(&path.child("name"), format!("{list} may not be renamed or reordered on resize"));
            }
        }
    }
    errors.count() == before
}

fn was_removed(new: &Value, old: &Value, kind: &str) -> bool {
    old.entries_at(&[kind]).any(|(name, _)| new.at(&[kind, name]).is_none())
}

/// Replaces the CPU and memory of resources by the old CPU and memory.
fn restore_cpu_and_memory(resources: &mut Value, old: &Value) {
    for kind in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            keep_old(resources, old, &[kind, name]);
        }
        // Also remove a list that had no other entry.
        if resources.get(kind).is_some_and(Value::is_empty) && old.get(kind).is_none() {
            resources.remove(kind);
        }
    }
}

fn restore_container_resources(
    errors: &mut Errors,
    rest: &mut Value,
    old: &Value,
    resizes_init: bool,
    path: &FieldPath<'_>,
) {
    for list in ["containers", "initContainers"] {
        let list_path = path.child(list);
        let old = old.items_at(&[list]);
        let Some(containers) = rest.get_mut(list).and_then(Value::as_array_mut) else { continue };
        for (i, (container, old)) in containers.iter_mut().zip(old).enumerate() {
            let modified = !same(Some(container), Some(old));
            if list == "initContainers" && !resizes_init && !is_sidecar(old) {
                if !same_at(container, old, &["resources"]) {
                    let detail = "resources for non-sidecar init containers are immutable";
                    errors.forbidden(&list_path.index(i).child("resources"), detail);
                }
                continue;
            }
            if let Some(resources) = container.get_mut("resources") {
                restore_cpu_and_memory(resources, &old["resources"]);
                // Upstream compares without the claims of the new container, so any claim counts as a difference.
                resources.remove("claims");
            }
            let differs = !same(Some(container), Some(old));
            if list == "containers" {
                if differs {
                    errors.forbidden(path, "only cpu and memory resources are mutable");
                }
                continue;
            }
            if differs {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.forbidden(&list_path.index(i), detail);
            }
            if modified && !is_sidecar(container) {
                for policy in container.items_at(&["resizePolicy"]) {
                    if policy.str_at(&["restartPolicy"]) == "RestartContainer" {
                        let detail =
                            "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                        errors.forbidden(&list_path.index(i), detail);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, context_of, gated_context, messages, object};

    fn pod(resources: &str) -> Value {
        object(&format!(
            r#"{{"metadata":{{"name":"p","generation":1}},"spec":{{"containers":[{{"name":"c","image":"a",
            "imagePullPolicy":"Always","terminationMessagePolicy":"File","resources":{resources}}}],
            "restartPolicy":"Always","dnsPolicy":"Default","terminationGracePeriodSeconds":30}},"status":{{}}}}"#
        ))
    }

    fn check(new: &str, old: &str, expect: &[&str]) {
        let (mut new, old) = (pod(new), pod(old));
        new.set_at(&["spec", "hostname"], "ignored");
        ResizeStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new["spec"]["hostname"], Value::Null);
        assert_eq!(messages(&ResizeStrategy.validate_update(&context(), &new, &old)), expect);
        if expect.is_empty() {
            assert_eq!(new.generation(), if new["spec"] == old["spec"] { 1 } else { 2 });
        }
    }

    #[test]
    fn resize_changes_cpu_and_memory() {
        let old = r#"{"requests":{"cpu":"1","memory":"1Gi"}}"#;
        check(old, old, &[]);
        check(r#"{"requests":{"cpu":"2","memory":"2Gi"}}"#, old, &[]);
        check(r#"{"requests":{"cpu":"2","memory":"1Gi"},"limits":{"cpu":"3"}}"#, old, &[]);
        check(
            r#"{"requests":{"cpu":"2"}}"#,
            old,
            &["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
        );
        check(
            r#"{"requests":{"cpu":"1","memory":"1Gi","ephemeral-storage":"1Gi"}}"#,
            old,
            &["spec: Forbidden: only cpu and memory resources are mutable"],
        );
        check(
            r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#,
            old,
            &["spec: Invalid value: \"\": Pod QOS Class may not change as a result of resizing"],
        );
    }

    #[test]
    fn gates_decide_what_is_resized() {
        let check = |gate: &str, change: &dyn Fn(&mut Value, &str), refused: &str| {
            let (mut old, mut new) = (pod("{}"), pod("{}"));
            change(&mut old, "1");
            change(&mut new, "2");
            for (enabled, expect) in [(true, &[][..]), (false, &[refused])] {
                let context = gated_context(&[(gate, enabled)]);
                let mut new = new.clone();
                ResizeStrategy.prepare_for_update(&context, &mut new, &old);
                assert_eq!(messages(&ResizeStrategy.validate_update(&context, &new, &old)), expect, "{gate}");
            }
        };
        check(
            "InPlacePodLevelResourcesVerticalScaling",
            &|pod, cpu| pod.set_at(&["spec", "resources", "requests", "cpu"], cpu),
            "[]: Forbidden: pods with pod-level resources cannot be resized",
        );
        let init = |pod: &mut Value, cpu: &str| {
            let container = format!(
                r#"{{"name":"i","image":"a","imagePullPolicy":"Always","terminationMessagePolicy":"File",
                "resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#
            );
            pod.set_at(&["spec", "initContainers"], vec![object(&container)]);
        };
        check(
            "InPlacePodVerticalScalingInitContainers",
            &init,
            "spec.initContainers[0].resources: Forbidden: resources for non-sidecar init containers are immutable",
        );
    }

    #[test]
    fn resize_rejects_other_changes() {
        let old = pod("{}");
        let mut new = pod("{}");
        new.at_mut(&["spec", "containers"]).and_then(Value::as_array_mut).unwrap()[0].set("name", "d");
        ResizeStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(
            messages(&ResizeStrategy.validate_update(&context(), &new, &old)),
            ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"]
        );
    }

    #[test]
    fn volumes_in_memory_are_resized_with_their_feature() {
        let with = |volumes: &str| {
            let mut pod = pod("{}");
            pod.set_at(&["spec", "volumes"], object(volumes));
            pod
        };
        let volume = |medium: &str, size: &str| {
            with(&format!(r#"[{{"name":"v","emptyDir":{{"medium":"{medium}","sizeLimit":"{size}"}}}}]"#))
        };
        let unlimited = with(r#"[{"name":"v","emptyDir":{"medium":"Memory"}}]"#);
        let on = context_of(37, &[("InPlacePodVerticalScalingMemoryBackedVolumes", true)]);
        let check = |context: &StrategyContext, new: &Value, old: &Value, changes: bool, expect: &[&str]| {
            let mut written = new.clone();
            ResizeStrategy.prepare_for_update(context, &mut written, old);
            assert_eq!(written["spec"] != old["spec"], changes, "{new:?}");
            assert_eq!(messages(&ResizeStrategy.validate_update(context, &written, old)), expect, "{new:?}");
        };
        let (old, new) = (volume("Memory", "1Mi"), volume("Memory", "2Mi"));
        check(&on, &new, &old, true, &[]);
        check(&context_of(37, &[]), &new, &old, false, &[]);
        check(&on, &volume("", "2Mi"), &volume("", "1Mi"), false, &[]);
        let refused = "spec: Forbidden: only cpu and memory resources are mutable";
        check(&on, &unlimited, &old, true, &[refused]);
        check(&on, &new, &unlimited, true, &[refused]);
        check(&on, &with(r#"[{"name":"w","emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}}]"#), &old, true, &[refused]);
    }
}
