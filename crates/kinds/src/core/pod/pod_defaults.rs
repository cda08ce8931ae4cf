//! Defaults of pods that do not apply to templates: requests from limits, pod-level resources and host ports. They
//! include the effects of the conversion of a pod. (Upstream: `SetDefaults_Pod`.) Since 1.37, the strategy sets the
//! defaults of pod-level resources, after mutating admission.

use std::cmp::Ordering;

use pintle_value::{Object, Value};

use super::defaults::{drop_init_container_annotations, for_each_item, round_resource_list, set_pod_spec_defaults};
use super::disabled::STATUS_LISTS;
use super::resources::{
    ResourceList, aggregate_container_resources, has_pod_resources, is_overcommit_allowed, is_pod_level, resource_list,
};

/// Sets the defaults of a pod. If the pod is a changed copy of a defaulted pod, `live` is the defaulted pod.
/// `pod_level_resources` says whether pod-level resources have defaults.
pub(crate) fn pod_defaults(pod: &mut Value, live: Option<&Value>, pod_level_resources: bool) {
    let has_defaults = |field: &str, pod: &Value| {
        let live = live.and_then(|live| live.get(field));
        pod.get(field).zip(live).is_some_and(|(own, live)| own.shares_members(live))
    };
    if !has_defaults("spec", pod)
        && let Some(spec) = pod.get_mut("spec")
    {
        for list in ["containers", "initContainers"] {
            for_each_item(spec, &[list], set_requests_from_limits);
        }
        if pod_level_resources {
            set_huge_page_limits(spec);
            set_pod_requests_of_limits(spec);
        }
        spec.set_default("enableServiceLinks", true);
        if spec.bool_at(&["hostNetwork"]) {
            for list in ["containers", "initContainers"] {
                for_each_item(spec, &[list], |container| for_each_item(container, &["ports"], set_host_port));
            }
        }
        set_pod_spec_defaults(spec);
        if spec.int_at(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
            spec.set("terminationGracePeriodSeconds", 1);
        }
    }
    drop_init_container_annotations(pod);
    if !has_defaults("status", pod)
        && let Some(status) = pod.get_mut("status")
    {
        set_status_defaults(status);
    }
}

fn set_requests_from_limits(container: &mut Value) {
    let Some(limits) = container.at(&["resources", "limits"]).and_then(Value::as_object).cloned() else { return };
    for (name, limit) in limits.iter() {
        if container.at(&["resources", "requests", name]).is_none() {
            container.set_at(&["resources", "requests", name], limit.clone());
        }
    }
}

/// Sets the defaults of the pod-level resources of a pod that has some (upstream: the strategy of pods with the feature
/// `PodLevelResourcesFixDefaulting`). Values that are set stay.
pub(crate) fn set_pod_resource_defaults(spec: &mut Value) {
    if has_pod_resources(spec) {
        set_huge_page_limits(spec);
        set_pod_requests(spec);
        set_pod_limits(spec);
    }
}

/// Sets the pod-level limit of huge pages from its containers, if the pod has pod-level resources but no such limit.
fn set_huge_page_limits(spec: &mut Value) {
    if !has_pod_resources(spec) {
        return;
    }
    for (name, sum) in aggregate_container_resources(spec, "limits") {
        let is_set = ["requests", "limits"].iter().any(|kind| spec.at(&["resources", kind, &name]).is_some());
        if name.starts_with("hugepages-") && !is_set {
            spec.set_at(&["resources", "limits", &name], &sum);
        }
    }
}

/// Sets the pod-level requests of a pod with pod-level limits.
fn set_pod_requests_of_limits(spec: &mut Value) {
    if spec.at(&["resources", "limits"]).is_some_and(|limits| !limits.is_empty()) {
        set_pod_requests(spec);
    }
}

/// Sets the pod-level requests from the containers, or else from the pod-level limits.
fn set_pod_requests(spec: &mut Value) {
    let limits = spec.at(&["resources", "limits"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut requests = spec.at(&["resources", "requests"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut add = |name: &str, amount: Value| {
        if !requests.contains_key(name) {
            requests.insert(name, amount);
        }
    };
    for (name, sum) in aggregate_container_resources(spec, "requests") {
        if is_pod_level(&name) && is_overcommit_allowed(&name) {
            add(&name, Value::from(&sum));
        }
    }
    for (name, limit) in limits.iter().filter(|(name, _)| is_pod_level(name)) {
        add(name, limit.clone());
    }
    if !requests.is_empty() {
        spec.set_at(&["resources", "requests"], requests);
    }
}

/// Sets the pod-level limits of the resources that every container limits. They are not below the pod-level requests.
fn set_pod_limits(spec: &mut Value) {
    let limits_of = |container: &Value| resource_list(container, &["resources", "limits"]);
    let containers: Vec<ResourceList> =
        ["containers", "initContainers"].iter().flat_map(|list| spec.items_at(&[list])).map(limits_of).collect();
    let requests = resource_list(spec, &["resources", "requests"]);
    for (name, sum) in aggregate_container_resources(spec, "limits") {
        let is_set = spec.at(&["resources", "limits", &name]).is_some();
        if is_set || !is_pod_level(&name) || !containers.iter().all(|limits| limits.contains_key(&name)) {
            continue;
        }
        let request = requests.get(&name).filter(|request| (*request).cmp(&sum) == Ordering::Greater);
        spec.set_at(&["resources", "limits", &name], request.unwrap_or(&sum));
    }
}

fn set_host_port(port: &mut Value) {
    if port.int_at(&["hostPort"]).unwrap_or(0) == 0
        && let Some(own) = port.int_at(&["containerPort"])
        // Go's encoding has no host port that is zero.
        && own != 0
    {
        port.set("hostPort", own);
    }
}

fn set_status_defaults(status: &mut Value) {
    // `podIP` is the first of `podIPs`. If they differ, `podIP` takes precedence.
    let first = status["podIPs"][0].str_at(&["ip"]).to_owned();
    let single = status.str_at(&["podIP"]).to_owned();
    if single.is_empty() {
        if !first.is_empty() {
            status.set("podIP", first);
        }
    } else if single != first {
        let entry = Object::from_entries(vec![("ip".into(), Value::from(single))]);
        status.set("podIPs", vec![entry]);
    }
    for list in STATUS_LISTS {
        for_each_item(status, &[list], |container| {
            round_resource_list(container, &["allocatedResources"]);
            round_resource_list(container, &["resources", "limits"]);
            round_resource_list(container, &["resources", "requests"]);
        });
    }
    round_resource_list(status, &["allocatedResources"]);
    round_resource_list(status, &["resources", "limits"]);
    round_resource_list(status, &["resources", "requests"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn check(pod: &str, path: &[&str], expect: &str) {
        let mut pod = object(pod);
        pod_defaults(&mut pod, None, true);
        assert_eq!(pod.at(path).cloned().unwrap_or_default(), object(expect), "{path:?} of {pod:?}");
        let once = pod.clone();
        pod_defaults(&mut pod, None, true);
        assert_eq!(pod, once);
    }

    #[test]
    fn pod_defaults_match_upstream() {
        check(
            r#"{"spec":{"containers":[{"name":"c","image":"nginx","resources":{}}]},"status":{}}"#,
            &[],
            r#"{"spec":{"containers":[{"name":"c","image":"nginx","resources":{},"imagePullPolicy":"Always",
                "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
                "dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler",
                "securityContext":{},"terminationGracePeriodSeconds":30},"status":{}}"#,
        );
    }

    #[test]
    fn what_a_changed_pod_shares_has_its_defaults() {
        let mut live = Value::object();
        for (field, text) in [("spec", r#"{"nodeName":"n"}"#), ("status", r#"{"podIP":"1.1.1.1"}"#)] {
            let Value::Object(members) = object(text) else { unreachable!("{text}") };
            live.set(field, Value::Object(members.into_shared(0..0)));
        }
        let mut changed = live.clone();
        pod_defaults(&mut changed, Some(&live), true);
        assert_eq!(changed, live);
        changed.set_at(&["status", "phase"], "Running");
        pod_defaults(&mut changed, Some(&live), true);
        assert_eq!(changed["spec"], live["spec"]);
        assert_eq!(changed["status"]["podIPs"], object(r#"[{"ip":"1.1.1.1"}]"#));
        changed.set_at(&["spec", "nodeName"], "m");
        pod_defaults(&mut changed, Some(&live), true);
        assert_eq!(changed["spec"].str_at(&["dnsPolicy"]), "ClusterFirst");
    }

    #[test]
    fn requests_default_to_limits() {
        check(
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}}]}}"#,
            &["spec", "containers"],
            r#"[{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}},
                "imagePullPolicy":"IfNotPresent","terminationMessagePath":"/dev/termination-log",
                "terminationMessagePolicy":"File"}]"#,
        );
    }

    #[test]
    fn pod_level_resources_are_defaulted() {
        let containers = r#""containers":[{"resources":{"requests":{"cpu":"100m"}}},{"resources":{"requests":{"cpu":"1",
            "hugepages-2Mi":"2Mi"},"limits":{"hugepages-2Mi":"2Mi"}}}]"#;
        check(
            &format!(r#"{{"spec":{{{containers},"resources":{{"limits":{{"cpu":"2","memory":"1Gi"}}}}}}}}"#),
            &["spec", "resources"],
            r#"{"limits":{"cpu":"2","memory":"1Gi","hugepages-2Mi":"2Mi"},
                "requests":{"cpu":"1100m","memory":"1Gi","hugepages-2Mi":"2Mi"}}"#,
        );
        check(&format!(r#"{{"spec":{{{containers}}}}}"#), &["spec", "resources"], "null");
        let mut pod = object(&format!(r#"{{"spec":{{{containers},"resources":{{"limits":{{"cpu":"2"}}}}}}}}"#));
        pod_defaults(&mut pod, None, false);
        assert_eq!(pod["spec"]["resources"], object(r#"{"limits":{"cpu":"2"}}"#), "without the feature");
    }

    #[test]
    fn pod_level_resources_are_defaulted_from_all_containers() {
        let check = |spec: &str, expect: &str| {
            let mut spec = object(spec);
            set_pod_resource_defaults(&mut spec);
            assert_eq!(spec["resources"], object(expect), "{spec:?}");
            let once = spec.clone();
            set_pod_resource_defaults(&mut spec);
            assert_eq!(spec, once);
        };
        let container =
            |cpu: &str| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"{cpu}"}}}}}}"#);
        let both = format!(r#""containers":[{},{}]"#, container("1"), container("2"));
        check(&format!("{{{both}}}"), "null");
        check(&format!(r#"{{{both},"resources":{{}}}}"#), "{}");
        check(
            &format!(r#"{{{both},"resources":{{"requests":{{"memory":"1Gi"}}}}}}"#),
            r#"{"requests":{"memory":"1Gi","cpu":"3"},"limits":{"cpu":"3"}}"#,
        );
        check(
            &format!(r#"{{{both},"resources":{{"requests":{{"cpu":"4"}},"limits":{{"memory":"1Gi"}}}}}}"#),
            r#"{"requests":{"cpu":"4","memory":"1Gi"},"limits":{"memory":"1Gi","cpu":"4"}}"#,
        );
        check(
            &format!(r#"{{{both},"initContainers":[{{}}],"resources":{{"requests":{{"cpu":"4"}}}}}}"#),
            r#"{"requests":{"cpu":"4"}}"#,
        );
        check(
            r#"{"containers":[{"resources":{"limits":{"hugepages-2Mi":"4Mi"},"requests":{"hugepages-2Mi":"4Mi"}}},{}],
                "resources":{"requests":{"cpu":"1"}}}"#,
            r#"{"requests":{"cpu":"1","hugepages-2Mi":"4Mi"},"limits":{"hugepages-2Mi":"4Mi"}}"#,
        );
    }

    #[test]
    fn host_ports_and_addresses() {
        check(
            r#"{"spec":{"hostNetwork":true,"containers":[{"ports":[{"containerPort":80}]}]}}"#,
            &["spec", "containers"],
            r#"[{"ports":[{"containerPort":80,"hostPort":80}],"imagePullPolicy":"IfNotPresent",
                "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}]"#,
        );
        check(
            r#"{"spec":{"hostNetwork":true,"containers":[{"ports":[{"containerPort":0}]}]}}"#,
            &["spec", "containers"],
            r#"[{"ports":[{"containerPort":0}],"imagePullPolicy":"IfNotPresent",
                "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}]"#,
        );
        check(r#"{"status":{"podIP":"1.1.1.1"}}"#, &["status", "podIPs"], r#"[{"ip":"1.1.1.1"}]"#);
        check(r#"{"status":{"podIPs":[{"ip":"::1"}]}}"#, &["status", "podIP"], r#""::1""#);
        check(
            r#"{"status":{"podIP":"1.1.1.1","podIPs":[{"ip":"::1"}]}}"#,
            &["status", "podIPs"],
            r#"[{"ip":"1.1.1.1"}]"#,
        );
        check(r#"{"spec":{"terminationGracePeriodSeconds":-5}}"#, &["spec", "terminationGracePeriodSeconds"], "1");
    }
}
