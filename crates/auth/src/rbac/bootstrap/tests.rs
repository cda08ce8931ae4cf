//! Facts about the bootstrap policy: the number of objects, and the content of well-known objects. Some parts depend on
//! feature gates, others on the version.

use std::collections::{BTreeMap, BTreeSet};

use pintle_versions::EffectiveVersion;

use super::*;
use crate::rbac::{Role, RoleBinding};

fn policy(overrides: &[(&str, bool)]) -> BootstrapPolicy {
    policy_of(Minor::DEFAULT, overrides)
}

/// The policy of a server of a version.
fn policy_of(minor: Minor, overrides: &[(&str, bool)]) -> BootstrapPolicy {
    let overrides: BTreeMap<_, _> = overrides.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let gates = Gates::of(EffectiveVersion::of(minor));
    BootstrapPolicy::new(&gates.overridden(&overrides).expect("valid gates").0)
}

/// A policy with all gates that can be enabled.
fn full_policy() -> BootstrapPolicy {
    policy(&[("AllAlpha", true), ("AllBeta", true)])
}

fn find<'p>(objects: &'p [Value], name: &str) -> &'p Value {
    objects.iter().find(|object| object.name() == name).unwrap_or_else(|| panic!("{name} exists"))
}

fn join(items: &[Value]) -> String {
    items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(",")
}

/// A rule in the form `VERBS RESOURCES in GROUPS [named NAMES]` or `VERBS PATHS`.
fn describe(rule: &Value) -> String {
    let list = |key: &str| join(rule.items_at(&[key]));
    let verbs = list("verbs");
    if rule.get("nonResourceURLs").is_some() {
        return format!("{verbs} {}", list("nonResourceURLs"));
    }
    let names =
        if rule.get("resourceNames").is_some() { format!(" named {}", list("resourceNames")) } else { String::new() };
    format!("{verbs} {} in {}{names}", list("resources"), list("apiGroups"))
}

fn rules(role: &Value) -> Vec<String> {
    role.items_at(&["rules"]).iter().map(describe).collect()
}

/// The names of all objects, with the namespaces of namespaced objects.
fn names(policy: &BootstrapPolicy) -> BTreeSet<String> {
    let BootstrapPolicy { cluster_roles, cluster_role_bindings, roles, role_bindings } = policy;
    let objects = cluster_roles.iter().chain(cluster_role_bindings).chain(roles).chain(role_bindings);
    objects.map(|object| format!("{} {}/{}", object.kind(), object.namespace(), object.name())).collect()
}

#[test]
fn every_line_is_well_formed_and_names_existing_gates() {
    for minor in Minor::known() {
        check_lines(minor);
    }
}

fn check_lines(minor: Minor) {
    let all = |_: &str| true;
    let mut reader = PolicyReader { policy: BootstrapPolicy::default(), is_enabled: &all, rules_go_to: None };
    let known: Vec<Gates> = Minor::known().map(|minor| Gates::of(EffectiveVersion::of(minor))).collect();
    for line in lines(minor) {
        assert!(reader.read_line(line).is_some(), "{line}");
        assert!(!line.contains(" in="), "{line}: the range is malformed");
        if let Some((_, gates)) = line.split_once(" if ") {
            for name in gates.split(',') {
                let find = |gates: &Gates| gates.states().find(|(gate, _)| gate.name == name);
                let found: Vec<_> = known.iter().filter_map(find).collect();
                assert!(found.iter().any(|(gate, _)| !gate.locked), "{name} is locked or unknown");
            }
        }
    }
    let roles = reader.policy.cluster_roles.iter().chain(&reader.policy.roles);
    for role in roles.filter(|role| role.get("aggregationRule").is_none()) {
        assert!(!role.items_at(&["rules"]).is_empty(), "{}", role.name());
        assert!(Role::from_value(role).is_ok(), "{}", role.name());
    }
}

#[test]
fn there_are_as_many_objects_as_upstream() {
    let counts = |policy: &BootstrapPolicy| {
        let BootstrapPolicy { cluster_roles, cluster_role_bindings, roles, role_bindings } = policy;
        [cluster_roles.len(), cluster_role_bindings.len(), roles.len(), role_bindings.len()]
    };
    // 31 cluster roles of users and components, of which 12 are bound, and 38 cluster roles of controllers.
    assert_eq!(counts(&policy(&[])), [69, 50, 7, 7]);
    // One more cluster role for trust bundles, and six more for controllers.
    assert_eq!(counts(&full_policy()), [76, 57, 7, 7]);
    let full = full_policy();
    assert_eq!(names(&full).len(), counts(&full).iter().sum::<usize>(), "every name is used once");
}

#[test]
fn all_objects_are_marked_and_take_part_in_reconciliation() {
    let BootstrapPolicy { cluster_roles, cluster_role_bindings, roles, role_bindings } = full_policy();
    for (kind, objects) in [
        ("ClusterRole", cluster_roles),
        ("ClusterRoleBinding", cluster_role_bindings),
        ("Role", roles),
        ("RoleBinding", role_bindings),
    ] {
        for object in objects {
            assert_eq!((object.api_version(), object.kind()), ("rbac.authorization.k8s.io/v1", kind));
            assert_eq!(object.label("kubernetes.io/bootstrapping"), Some("rbac-defaults"));
            let annotations: Vec<_> = object.entries_at(&["metadata", "annotations"]).collect();
            assert_eq!(annotations, [("rbac.authorization.kubernetes.io/autoupdate", &Value::from("true"))]);
            let namespaces: &[&str] = if kind.starts_with("Cluster") { &[""] } else { &["kube-system", "kube-public"] };
            assert!(namespaces.contains(&object.namespace()), "{}", object.name());
        }
    }
}

#[test]
fn roles_have_the_rules_of_upstream_in_its_order() {
    let policy = policy(&[]);
    let check = |name: &str, expect: &[&str]| assert_eq!(rules(find(&policy.cluster_roles, name)), expect, "{name}");
    let events = "create,patch,update events in ,events.k8s.io";
    check("cluster-admin", &["* * in *", "* *"]);
    check(
        "system:discovery",
        &["get /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/"],
    );
    check(
        "system:basic-user",
        &[
            "create selfsubjectaccessreviews,selfsubjectrulesreviews in authorization.k8s.io",
            "create selfsubjectreviews in authentication.k8s.io",
        ],
    );
    check("system:public-info-viewer", &["get /healthz,/livez,/readyz,/version,/version/"]);
    check(
        "system:monitoring",
        &[
            "get /healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*",
            "get /flagz",
            "get /statusz",
        ],
    );
    check(
        "system:node",
        &[
            "create tokenreviews in authentication.k8s.io",
            "create localsubjectaccessreviews,subjectaccessreviews in authorization.k8s.io",
            "get,list,watch services in ",
            "create,get,list,watch nodes in ",
            "patch,update nodes/status in ",
            "patch,update nodes in ",
            "create,patch,update events in ",
            "get,list,watch pods in ",
            "create,delete pods in ",
            "patch,update pods/status in ",
            "create pods/eviction in ",
            "get,list,watch configmaps,secrets in ",
            "get persistentvolumeclaims,persistentvolumes in ",
            "get endpoints in ",
            "create,get,list,watch certificatesigningrequests in certificates.k8s.io",
            "create,delete,get,patch,update leases in coordination.k8s.io",
            "get volumeattachments in storage.k8s.io",
            "create serviceaccounts/token in ",
            "get,patch,update persistentvolumeclaims/status in ",
            "get,list,watch csidrivers in storage.k8s.io",
            "create,delete,get,patch,update csinodes in storage.k8s.io",
            "get,list,watch runtimeclasses in node.k8s.io",
            "get resourceclaims in resource.k8s.io",
            "deletecollection resourceslices in resource.k8s.io",
            "get serviceaccounts in ",
        ],
    );
    check(
        "system:aggregate-to-admin",
        &[
            "create localsubjectaccessreviews in authorization.k8s.io",
            "create,delete,deletecollection,get,list,patch,update,watch rolebindings,roles in rbac.authorization.k8s.io",
        ],
    );
    check(
        "system:kube-controller-manager",
        &[
            events,
            "create leases in coordination.k8s.io",
            "get,update leases in coordination.k8s.io named kube-controller-manager",
            "create secrets,serviceaccounts in ",
            "delete secrets in ",
            "get configmaps,namespaces,secrets,serviceaccounts in ",
            "update secrets,serviceaccounts in ",
            "create tokenreviews in authentication.k8s.io",
            "create subjectaccessreviews in authorization.k8s.io",
            "list,watch * in *",
            "create serviceaccounts/token in ",
        ],
    );
    check(
        "system:controller:namespace-controller",
        &[
            "delete,get,list,watch namespaces in ",
            "update namespaces/finalize,namespaces/status in ",
            "delete,deletecollection,get,list,watch * in *",
        ],
    );
    check("system:controller:generic-garbage-collector", &["delete,get,list,patch,update,watch * in *", events]);
    check(
        "system:controller:clusterrole-aggregation-controller",
        &["escalate,get,list,patch,update,watch clusterroles in rbac.authorization.k8s.io"],
    );
    check(
        "system:controller:legacy-service-account-token-cleaner",
        &["get configmaps in  named kube-apiserver-legacy-service-account-token-tracking", "delete,patch secrets in "],
    );
    let role = |name: &str| rules(find(&policy.roles, name));
    assert_eq!(
        role("extension-apiserver-authentication-reader"),
        ["get,list,watch configmaps in  named extension-apiserver-authentication"]
    );
    assert_eq!(role("system:controller:token-cleaner"), ["delete,get,list,watch secrets in ", events]);
}

#[test]
fn user_roles_aggregate_each_other() {
    let policy = policy(&[]);
    let check = |name: &str, label: Option<&str>, selects: Option<&str>| {
        let key = |label: &str| format!("rbac.authorization.k8s.io/aggregate-to-{label}");
        let role = find(&policy.cluster_roles, name);
        let labels: Vec<&str> = role.entries_at(&["metadata", "labels"]).map(|(key, _)| key).collect();
        let expect: Vec<String> =
            ["kubernetes.io/bootstrapping".to_owned()].into_iter().chain(label.map(key)).collect();
        assert_eq!(labels, expect, "{name}");
        let expect = selects.map(|selects| {
            let mut rule = Value::object();
            let mut selector = Value::object();
            selector.set_at(&["matchLabels", &key(selects)], "true");
            rule.set("clusterRoleSelectors", vec![selector]);
            rule
        });
        assert_eq!(role.get("aggregationRule"), expect.as_ref(), "{name}");
        assert_eq!(role.get("rules").is_none(), selects.is_some(), "{name}");
    };
    check("admin", None, Some("admin"));
    check("edit", Some("admin"), Some("edit"));
    check("view", Some("edit"), Some("view"));
    check("system:aggregate-to-admin", Some("admin"), None);
    check("system:aggregate-to-edit", Some("edit"), None);
    check("system:aggregate-to-view", Some("view"), None);
    check("cluster-admin", None, None);
}

#[test]
fn bindings_are_for_the_subjects_of_upstream() {
    let policy = policy(&[]);
    let subjects = |binding: &Value| -> Vec<String> {
        let subject = |subject: &Value| {
            let text = |key: &str| subject.str_at(&[key]).to_owned();
            let expect_group = if text("kind") == "ServiceAccount" { "" } else { "rbac.authorization.k8s.io" };
            assert_eq!(text("apiGroup"), expect_group);
            format!("{} {} {}", text("kind"), text("namespace"), text("name"))
        };
        binding.items_at(&["subjects"]).iter().map(subject).collect()
    };
    let check = |name: &str, expect: &[&str]| {
        let binding = find(&policy.cluster_role_bindings, name);
        let role = &binding["roleRef"];
        assert_eq!(role.str_at(&["apiGroup"]), "rbac.authorization.k8s.io");
        assert_eq!((role.str_at(&["kind"]), role.str_at(&["name"])), ("ClusterRole", name));
        assert_eq!(subjects(binding), expect, "{name}");
        assert!(RoleBinding::from_value(binding).is_ok());
    };
    check("cluster-admin", &["Group  system:masters"]);
    check("system:discovery", &["Group  system:authenticated"]);
    check("system:public-info-viewer", &["Group  system:authenticated", "Group  system:unauthenticated"]);
    check("system:kube-scheduler", &["User  system:kube-scheduler"]);
    check("system:volume-scheduler", &["User  system:kube-scheduler"]);
    check("system:service-account-issuer-discovery", &["Group  system:serviceaccounts"]);
    check("system:kube-dns", &["ServiceAccount kube-system kube-dns"]);
    check("system:node", &[]);
    check("system:controller:job-controller", &["ServiceAccount kube-system job-controller"]);

    let reader = find(&policy.role_bindings, "system::extension-apiserver-authentication-reader");
    let role = &reader["roleRef"];
    assert_eq!((role.str_at(&["kind"]), role.str_at(&["name"])), ("Role", "extension-apiserver-authentication-reader"));
    assert_eq!(subjects(reader), ["User  system:kube-controller-manager", "User  system:kube-scheduler"]);
    let signer = find(&policy.role_bindings, "system:controller:bootstrap-signer");
    assert_eq!(subjects(signer), ["ServiceAccount kube-system bootstrap-signer"]);
    // Every binding has its role.
    let cluster_roles: BTreeSet<_> = policy.cluster_roles.iter().map(Value::name).collect();
    for binding in &policy.cluster_role_bindings {
        assert!(cluster_roles.contains(binding.str_at(&["roleRef", "name"])), "{}", binding.name());
    }
    let roles: BTreeSet<_> = policy.roles.iter().map(|role| (role.namespace(), role.name())).collect();
    for binding in &policy.role_bindings {
        assert!(roles.contains(&(binding.namespace(), binding.str_at(&["roleRef", "name"]))), "{}", binding.name());
    }
}

#[test]
fn gates_decide_which_roles_and_rules_exist() {
    let default = policy(&[]);
    let added = |overrides: &[(&str, bool)]| -> Vec<String> {
        let changed = policy(overrides);
        let mut added: Vec<String> = names(&changed).difference(&names(&default)).cloned().collect();
        for role in &changed.cluster_roles {
            let before = default.cluster_roles.iter().find(|other| other.name() == role.name());
            let before = before.map(rules).unwrap_or_default();
            if !before.is_empty() {
                let new = rules(role).into_iter().filter(|rule| !before.contains(rule));
                added.extend(new.map(|rule| format!("{}: {rule}", role.name())));
            }
        }
        added
    };
    assert_eq!(
        added(&[("ClusterTrustBundle", true)]),
        [
            "ClusterRole /system:cluster-trust-bundle-discovery",
            "ClusterRole /system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
            "ClusterRoleBinding /system:cluster-trust-bundle-discovery",
            "ClusterRoleBinding /system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
            "system:node: get,list,watch clustertrustbundles in certificates.k8s.io",
        ]
    );
    assert_eq!(
        added(&[("StorageVersionAPI", true)]),
        [
            "ClusterRole /system:controller:storage-version-garbage-collector",
            "ClusterRoleBinding /system:controller:storage-version-garbage-collector",
        ]
    );
    assert_eq!(
        added(&[("DRADeviceTaintRules", true)]),
        [
            "system:kube-scheduler: get,list,watch devicetaintrules in resource.k8s.io",
            "system:controller:device-taint-eviction-controller: patch,update devicetaintrules/status in resource.k8s.io",
            "system:controller:device-taint-eviction-controller: get,list,watch devicetaintrules in resource.k8s.io",
        ]
    );
    let without_flagz = policy(&[("ComponentFlagz", false)]);
    assert_eq!(rules(find(&without_flagz.cluster_roles, "system:monitoring")).len(), 2);
    let without_taints = policy(&[("DRADeviceTaints", false)]);
    let gone: Vec<String> = names(&default).difference(&names(&without_taints)).cloned().collect();
    assert_eq!(
        gone,
        [
            "ClusterRole /system:controller:device-taint-eviction-controller",
            "ClusterRoleBinding /system:controller:device-taint-eviction-controller",
        ]
    );
}

#[test]
fn roles_follow_the_version() {
    let (older, newer) = (policy_of(Minor::new(36), &[]), policy_of(Minor::new(37), &[]));
    let all: [(&str, bool); 2] = [("AllAlpha", true), ("AllBeta", true)];
    let newer_full = policy_of(Minor::new(37), &all);
    let mut new: Vec<String> = names(&newer).difference(&names(&older)).cloned().collect();
    new.retain(|name| name.starts_with("ClusterRole "));
    assert_eq!(
        new,
        [
            "ClusterRole /system:cluster-trust-bundle-discovery",
            "ClusterRole /system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
            "ClusterRole /system:controller:podcertificaterequestcleaner",
            "ClusterRole /system:controller:storage-version-migrator-controller",
        ]
    );
    assert!(names(&older).is_subset(&names(&newer)));
    let check = |name: &str, gone: &[&str], came: &[&str], came_with_gates: &[&str]| {
        let rules = |policy: &BootstrapPolicy| rules(find(&policy.cluster_roles, name));
        let without = |rules: Vec<String>, others: &[String]| -> Vec<String> {
            rules.into_iter().filter(|rule| !others.contains(rule)).collect()
        };
        assert_eq!(without(rules(&older), &rules(&newer)), gone, "{name}: gone");
        assert_eq!(without(rules(&newer), &rules(&older)), came, "{name}: came");
        let full = without(rules(&newer_full), &rules(&newer));
        let before = rules(&policy_of(Minor::new(36), &all));
        assert_eq!(without(full, &before), came_with_gates, "{name}: came with gates");
    };
    check(
        "system:aggregate-to-view",
        &[
            "get,list,watch bindings,events,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status in ",
        ],
        &[
            "get,list,watch bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status in ",
            "get,list,watch events in ,events.k8s.io",
        ],
        &[
            "get,list,watch podgroups,podgroups/status,workloads in scheduling.k8s.io",
            "get,list,watch compositepodgroups,compositepodgroups/status in scheduling.k8s.io",
            "get,list,watch evictionrequests,evictions in lifecycle.k8s.io",
        ],
    );
    check(
        "system:kube-scheduler",
        &["get,list,patch,update,watch pods/finalizers in "],
        &["update pods/finalizers in ", "get,list,watch devicetaintrules in resource.k8s.io"],
        &[
            "get,list,watch compositepodgroups in scheduling.k8s.io",
            "patch,update compositepodgroups/status in scheduling.k8s.io",
        ],
    );
    check(
        "system:node",
        &["create,patch,update events in "],
        &[
            "create,patch,update events in ,events.k8s.io",
            "get,list,watch clustertrustbundles in certificates.k8s.io",
            "create,get,list,watch podcertificaterequests in certificates.k8s.io",
        ],
        &["get,patch,update csinodes/status in storage.k8s.io"],
    );
    check("system:controller:node-controller", &[], &["get,list,watch leases in coordination.k8s.io"], &[]);
    assert_eq!(
        rules(find(&newer.cluster_roles, "system:controller:storage-version-migrator-controller"))[0],
        "list,patch * in *"
    );
}
