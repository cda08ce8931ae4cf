use super::*;
use crate::testing::{check_counted, check_usage, check_usage_with, fields, json};

/// Checks the usage of an active pod beside the number of pods.
fn check(pod: &str, expect: &[&str]) {
    let mut names = vec!["count/pods=1", "pods=1"];
    names.extend(expect);
    check_usage("", "pods", pod, &names.join(","));
}

fn with_containers(containers: &str) -> String {
    format!(r#"{{"spec":{{"containers":[{containers}]}}}}"#)
}

#[test]
fn pods_use_what_their_containers_need() {
    let container = |requests: &str, limits: &str| {
        with_containers(&format!(r#"{{"name":"c","resources":{{"requests":{{{requests}}},"limits":{{{limits}}}}}}}"#))
    };
    check(&container("", ""), &[]);
    check(&container(r#""cpu":"1m""#, r#""cpu":"2m""#), &["cpu=1m", "limits.cpu=2m", "requests.cpu=1m"]);
    check(
        &container(r#""memory":"1Mi""#, r#""memory":"2Mi""#),
        &["limits.memory=2Mi", "memory=1Mi", "requests.memory=1Mi"],
    );
    check(
        &container(r#""ephemeral-storage":"1Mi""#, r#""ephemeral-storage":"2Mi""#),
        &["ephemeral-storage=1Mi", "limits.ephemeral-storage=2Mi", "requests.ephemeral-storage=1Mi"],
    );
    check(
        &container(r#""hugepages-2Mi":"4Mi""#, r#""hugepages-2Mi":"4Mi""#),
        &["hugepages-2Mi=4Mi", "requests.hugepages-2Mi=4Mi"],
    );
    check(&container(r#""example.com/gpu":"3""#, r#""example.com/gpu":"3""#), &["requests.example.com/gpu=3"]);
    let class = r#""deviceclass.resource.kubernetes.io/gpu":"1""#;
    check(&container(class, class), &["requests.deviceclass.resource.kubernetes.io/gpu=1"]);
    check(&container(r#""requests.example.com/gpu":"1","kubernetes.io/x":"1""#, ""), &[]);
}

#[test]
fn init_containers_sidecars_and_overhead_count() {
    let container =
        |cpu: &str, more: &str| format!(r#"{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#);
    let pod = |containers: &[String], init: &[String], more: &str| {
        format!(r#"{{"spec":{{"containers":[{}],"initContainers":[{}]{more}}}}}"#, containers.join(","), init.join(","))
    };
    let sidecar = r#","restartPolicy":"Always""#;
    let check = |pod: &str, cpu: &str| check(pod, &[&format!("cpu={cpu}"), &format!("requests.cpu={cpu}")]);
    check(&pod(&[container("1", ""), container("2", "")], &[container("2", "")], ""), "3");
    check(&pod(&[container("1", "")], &[container("4", ""), container("3", "")], ""), "4");
    check(&pod(&[container("1", "")], &[container("2", sidecar), container("3", "")], ""), "5");
    check(&pod(&[container("1", "")], &[container("2", sidecar)], ""), "3");
    check(&pod(&[container("1", "")], &[], r#","overhead":{"cpu":"100m"}"#), "1100m");
}

#[test]
fn overhead_adds_to_limits_that_are_set() {
    let pod = |limits: &str| {
        format!(
            r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"limits":{{{limits}}}}}}}],"overhead":{{"cpu":"1"}}}}}}"#
        )
    };
    check(&pod(r#""cpu":"2""#), &["cpu=1", "limits.cpu=3", "requests.cpu=1"]);
    check(&pod(r#""cpu":"0","memory":"1""#), &["cpu=1", "limits.cpu=0", "limits.memory=1", "requests.cpu=1"]);
}

#[test]
fn pod_level_resources_replace_those_of_containers() {
    let pod = |resources: &str, status: &str| {
        format!(
            r#"{{"spec":{{"resources":{{{resources}}},"containers":[{{"name":"c","resources":{{
                "requests":{{"cpu":"1","memory":"1Mi"}},"limits":{{"cpu":"1"}}}}}}]}},"status":{{{status}}}}}"#
        )
    };
    let memory = ["memory=1Mi", "requests.memory=1Mi"];
    check(
        &pod(r#""requests":{"cpu":"5"},"limits":{"cpu":"6"}"#, ""),
        &[&["cpu=5", "limits.cpu=6", "requests.cpu=5"][..], &memory].concat(),
    );
    check(
        &pod(r#""requests":{"cpu":"5"}"#, r#""resources":{"requests":{"cpu":"7"}},"allocatedResources":{"cpu":"8"}"#),
        &[&["cpu=8", "limits.cpu=1", "requests.cpu=8"][..], &memory].concat(),
    );
}

#[test]
fn a_resize_uses_the_most_of_before_and_after() {
    let pod = |reason: &str, resources: &str| {
        format!(
            r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"2"}},"limits":{{"cpu":"2"}}}}}}]}},
                "status":{{"conditions":[{{"type":"PodResizePending","reason":"{reason}"}}],
                "containerStatuses":[{{"name":"c"{resources}}}]}}}}"#
        )
    };
    let check = |reason: &str, resources: &str, requests: &str, limits: &str| {
        check(
            &pod(reason, resources),
            &[&format!("cpu={requests}"), &format!("limits.cpu={limits}"), &format!("requests.cpu={requests}")],
        );
    };
    let actual = |cpu: i64, allocated: i64| {
        format!(
            r#","resources":{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"{cpu}"}}}},"allocatedResources":{{"cpu":"{allocated}"}}"#
        )
    };
    check("Deferred", "", "2", "2");
    check("Deferred", &actual(1, 1), "2", "2");
    check("Deferred", &actual(3, 4), "4", "3");
    check("Infeasible", &actual(1, 1), "1", "1");
}

#[test]
fn pods_that_have_ended_count_as_objects_only() {
    let pod = |metadata: &str, phase: &str| {
        format!(
            r#"{{"metadata":{{{metadata}}},"spec":{{"containers":[{{"name":"c"}}]}},"status":{{"phase":"{phase}"}}}}"#
        )
    };
    let check = |metadata: &str, phase: &str, expect: &str| {
        check_usage("", "pods", &pod(metadata, phase), expect);
    };
    let (active, ended) = ("count/pods=1,pods=1", "count/pods=1");
    check("", "Running", active);
    check("", "Pending", active);
    check("", "Succeeded", ended);
    check("", "Failed", ended);
    let deleted = |time: &str| format!(r#""deletionTimestamp":"{time}","deletionGracePeriodSeconds":30"#);
    check(&deleted("2025-12-31T23:59:00Z"), "Running", ended);
    check(&deleted("2025-12-31T23:59:30Z"), "Running", active);
    check(r#""deletionTimestamp":"2025-12-31T00:00:00Z""#, "Running", active);
    let now = crate::testing::Context::default().now();
    let (running, failed) = (json(&pod("", "Running")), json(&pod("", "Failed")));
    assert!(Pods.replenishes(&running, &failed, now) && !Pods.replenishes(&failed, &failed, now));
    assert!(Pods.may_replenish(pod("", "Failed").as_bytes()) && !Pods.may_replenish(pod("", "Running").as_bytes()));
}

#[test]
fn pods_have_scopes() {
    let check = |spec: &str, expect: &[&str]| {
        let text = format!(r#"{{"spec":{{{spec}}}}}"#);
        let pod = json(&text);
        assert_eq!(Pods.scopes(&fields(&Pods, &text)), Pods.scopes(&pod));
        let ObjectScopes { flags, names } = Pods.scopes(&pod);
        let mut found: Vec<String> =
            flags.into_iter().filter(|(_, flag)| *flag).map(|(scope, _)| scope.to_owned()).collect();
        found.extend(
            names.into_iter().flat_map(|(scope, names)| names.into_iter().map(move |n| format!("{scope}={n}"))),
        );
        assert_eq!(found, expect, "{spec}");
    };
    let burstable = r#""containers":[{"resources":{"requests":{"cpu":"1"}}}]"#;
    check("", &["NotTerminating", "BestEffort"]);
    check(burstable, &["NotTerminating", "NotBestEffort"]);
    check(r#""activeDeadlineSeconds":0"#, &["Terminating", "BestEffort"]);
    check(r#""priorityClassName":"high""#, &["NotTerminating", "BestEffort", "PriorityClass=high"]);
    let affinity = |kind: &str, terms: &str| format!(r#""affinity":{{"{kind}":{{{terms}}}}}"#);
    let required = |term: &str| format!(r#""requiredDuringSchedulingIgnoredDuringExecution":[{{{term}}}]"#);
    let preferred =
        |term: &str| format!(r#""preferredDuringSchedulingIgnoredDuringExecution":[{{"podAffinityTerm":{{{term}}}}}]"#);
    let crossing = ["NotTerminating", "BestEffort", "CrossNamespacePodAffinity"];
    for kind in ["podAffinity", "podAntiAffinity"] {
        check(&affinity(kind, &required(r#""namespaces":["a"]"#)), &crossing);
        check(&affinity(kind, &preferred(r#""namespaceSelector":{}"#)), &crossing);
        check(&affinity(kind, &required(r#""topologyKey":"a""#)), &crossing[..2]);
    }
}

#[test]
fn containers_must_set_what_is_limited() {
    let check_with = |features: QuotaFeatures, spec: &str, expect: &[&str]| {
        let unset = Pods.unset_resources(&json(&format!(r#"{{"spec":{{{spec}}}}}"#)), features);
        let found: Vec<String> = unset
            .iter()
            .map(|(limit, names)| format!("{limit}: {}", names.iter().cloned().collect::<Vec<_>>().join(",")))
            .collect();
        assert_eq!(found, expect, "{spec}");
    };
    let check = |spec: &str, expect: &[&str]| check_with(QuotaFeatures::default(), spec, expect);
    check(
        r#""containers":[{"name":"b","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1","memory":"1"}}}],
           "initContainers":[{"name":"a","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}]"#,
        &["limits.memory: a", "memory: a,b", "requests.memory: a,b"],
    );
    let with_own_limit = r#""containers":[{"name":"b"}],"resources":{"limits":{"memory":"1"}}"#;
    check(with_own_limit, &[]);
    let disabled = QuotaFeatures { pod_level_resources: false, ..QuotaFeatures::default() };
    let all = ["cpu: b", "limits.cpu: b", "limits.memory: b", "memory: b", "requests.cpu: b", "requests.memory: b"];
    check_with(disabled, with_own_limit, &all);
}

#[test]
fn features_decide_whether_resources_of_the_whole_pod_count() {
    let pod = r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}],
                  "resources":{"requests":{"cpu":"2"}}},"status":{"resources":{"requests":{"cpu":"3"}}}}"#;
    let check = |pod_level_resources: bool, pod_level_resize: bool, cpu: u32| {
        let features = QuotaFeatures { pod_level_resources, pod_level_resize, ..QuotaFeatures::default() };
        let expect = format!("count/pods=1,cpu={cpu},pods=1,requests.cpu={cpu}");
        check_usage_with(features, "", "pods", pod, &expect);
    };
    check(true, true, 3);
    check(true, false, 2);
    check(false, false, 1);
}

#[test]
fn limits_on_pods_have_many_names() {
    let counted = [
        "count/pods",
        "pods",
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.ephemeral-storage",
        "limits.memory",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/gpu",
    ];
    let others =
        ["count/services", "requests.storage", "storage", "example.com/gpu", "limits.example.com/gpu", "secrets"];
    check_counted("", "pods", &counted, &others);
}

#[test]
fn writes_that_change_the_usage_are_handled() {
    let pod = |spec: &str| json(&format!(r#"{{"spec":{{{spec}}}}}"#));
    let (object, with_deadline) = (pod(""), pod(r#""activeDeadlineSeconds":5"#));
    let check = |subresource: &str, old: Option<&Value>, object: &Value, expect: bool| {
        assert_eq!(Pods.handles(QuotaWrite { subresource, object, old }), expect, "{subresource} {old:?}");
    };
    check("", None, &object, true);
    check("", Some(&object), &object, false);
    check("", Some(&object), &with_deadline, true);
    check("resize", Some(&object), &object, true);
    check("ephemeralcontainers", Some(&object), &object, false);
    check("status", Some(&object), &object, false);
    check("binding", None, &object, false);
}

#[test]
fn resources_are_summed_by_source_since_1_37() {
    // One container grows while the other one shrinks.
    let pod = |status: &str| {
        let container = |name: &str, cpu: u8| {
            format!(r#"{{"name":"{name}","resources":{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"{cpu}"}}}}}}"#)
        };
        let status_of = |name: &str, cpu: u8| {
            let resources = format!(r#""resources":{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"{cpu}"}}}}"#);
            format!(r#"{{"name":"{name}",{resources},"allocatedResources":{{"cpu":"{cpu}"}}}}"#)
        };
        format!(
            r#"{{"spec":{{"containers":[{},{}]}},"status":{{"containerStatuses":[{},{}]{status}}}}}"#,
            container("a", 1),
            container("b", 4),
            status_of("a", 3),
            status_of("b", 1)
        )
    };
    let check = |sums_by_source: bool, status: &str, cpu: u8| {
        let features = QuotaFeatures { sums_by_source, ..QuotaFeatures::default() };
        let expect = format!("count/pods=1,cpu={cpu},limits.cpu={cpu},pods=1,requests.cpu={cpu}");
        check_usage_with(features, "", "pods", &pod(status), &expect);
    };
    check(false, "", 7);
    check(true, "", 5);
    let infeasible = r#","conditions":[{"type":"PodResizePending","reason":"Infeasible"}]"#;
    check(true, infeasible, 4);
    // The status of the pod as a whole replaces the sums of its containers.
    let whole = r#","resources":{"requests":{"cpu":"6"},"limits":{"cpu":"6"}},"allocatedResources":{"cpu":"6"}"#;
    check(true, whole, 6);
}
