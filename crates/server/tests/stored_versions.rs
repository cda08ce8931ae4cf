//! Old versions of kube-apiserver have stored objects at versions that are not served any more. Reads show them with
//! the defaults and conversions of these versions (upstream: `defaults.go` and `conversion.go` of each version).

use pintle_catalog::ResourceFacts;
use pintle_codec::{json, protobuf};
use pintle_gates::Gates;
use pintle_schema::Schema;
use pintle_server::StoredForm;
use pintle_store::ValueTransformer as _;
use serde_json::{Value, json};

/// Checks the fields of an object after a read. Null means that the object does not have the field.
fn check(api_version: &str, kind: &str, mut object: Value, expect: &[(&str, Value)]) {
    let catalog = pintle_catalog::complete();
    let (group, version) = api_version.split_once('/').expect("a group");
    let is_read_as = |facts: &&ResourceFacts| {
        facts.kind == kind && facts.storage().is_some_and(|storage| storage.stored_versions.contains(&(group, version)))
    };
    let facts = catalog.resources().iter().find(is_read_as).unwrap_or_else(|| panic!("{api_version} {kind}"));
    let prefix = facts.storage().expect("it is stored").prefix;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = "a".into();
    let stored_types = catalog.stored_types().expect("types");
    let schema = stored_types.kind_schema(group, version, kind);
    let schema = schema.or_else(|| catalog.kind_schema(facts.group, facts.version, kind)).expect("a type");
    let stored = object.to_string();
    let form = StoredForm::new("/registry", true, &Gates::default()).expect("a form");
    for stored in [protobuf_of(&schema, &stored), stored.into_bytes()] {
        let read = form.transform_from_storage(&format!("/registry/{prefix}/n/a"), stored.into());
        let read = read.unwrap_or_else(|error| panic!("{api_version} {kind}: {}", error.detail)).value;
        let read: Value = serde_json::from_slice(&read).expect("JSON");
        for (path, expect) in expect {
            let pointer = format!("/{}", path.replace('.', "/").replace('|', "."));
            let found = read.pointer(&pointer).unwrap_or(&Value::Null);
            assert_eq!(found, expect, "{path} of {api_version} {kind} is wrong in {read}");
        }
    }
}

fn protobuf_of(Schema { types, root }: &Schema, object: &str) -> Vec<u8> {
    let object = json::decode_typed(object.as_bytes(), types, *root).expect("an object").value;
    let mut stored = Vec::new();
    protobuf::encode_object(&object, types, *root, &mut stored);
    stored
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[test]
fn deployments_have_the_defaults_of_their_version() {
    let spec = |spec: Value| {
        let mut object = json!({"metadata": {}, "spec": {"template": template()}});
        object["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("fields").clone());
        object
    };
    let rolling =
        |bound: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": bound, "maxSurge": bound}});
    let template_labels = [
        ("apiVersion", json!("apps/v1")),
        ("metadata.labels", json!({"app": "a"})),
        ("spec.selector", json!({"matchLabels": {"app": "a"}})),
        ("spec.replicas", json!(1)),
        ("spec.template.spec.restartPolicy", json!("Always")),
        ("metadata.annotations", Value::Null),
    ];
    let with = |own: &[(&'static str, Value)]| [&template_labels, own].concat();
    check(
        "extensions/v1beta1",
        "Deployment",
        spec(json!({})),
        &with(&[
            ("spec.strategy", rolling(json!(1))),
            ("spec.revisionHistoryLimit", json!(i32::MAX)),
            ("spec.progressDeadlineSeconds", json!(i32::MAX)),
        ]),
    );
    check(
        "apps/v1beta1",
        "Deployment",
        spec(json!({})),
        &with(&[
            ("spec.strategy", rolling(json!("25%"))),
            ("spec.revisionHistoryLimit", json!(2)),
            ("spec.progressDeadlineSeconds", json!(600)),
        ]),
    );
    check(
        "apps/v1beta2",
        "Deployment",
        spec(json!({})),
        &[
            ("metadata.labels", Value::Null),
            ("spec.strategy", rolling(json!("25%"))),
            ("spec.revisionHistoryLimit", json!(10)),
            ("spec.progressDeadlineSeconds", json!(600)),
        ],
    );
    // Values that are set stay.
    let mut set = spec(json!({
        "replicas": 0, "revisionHistoryLimit": 3, "progressDeadlineSeconds": 4, "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"b": "c"}}, "rollbackTo": {"revision": 7},
    }));
    set["metadata"] =
        json!({"labels": {"d": "e"}, "annotations": {"deprecated.deployment.rollback.to": "1", "f": "g"}});
    for version in ["extensions/v1beta1", "apps/v1beta1"] {
        check(
            version,
            "Deployment",
            set.clone(),
            &[
                ("metadata.labels", json!({"d": "e"})),
                ("metadata.annotations", json!({"deprecated.deployment.rollback.to": "7", "f": "g"})),
                ("spec.rollbackTo", Value::Null),
                ("spec.replicas", json!(0)),
                ("spec.selector", json!({"matchLabels": {"b": "c"}})),
                ("spec.strategy", json!({"type": "Recreate"})),
                ("spec.revisionHistoryLimit", json!(3)),
                ("spec.progressDeadlineSeconds", json!(4)),
            ],
        );
    }
}

#[test]
fn other_workloads_have_the_defaults_of_their_version() {
    let object = || json!({"metadata": {}, "spec": {"template": template()}});
    let labels = [("metadata.labels", json!({"app": "a"})), ("spec.selector", json!({"matchLabels": {"app": "a"}}))];
    let with = |own: &[(&'static str, Value)]| [&labels, own].concat();
    let mut counted = object();
    counted["spec"]["templateGeneration"] = 5.into();
    check(
        "extensions/v1beta1",
        "DaemonSet",
        counted,
        &with(&[
            ("apiVersion", json!("apps/v1")),
            ("metadata.annotations", json!({"deprecated.daemonset.template.generation": "5"})),
            ("spec.templateGeneration", Value::Null),
            ("spec.updateStrategy", json!({"type": "OnDelete"})),
            ("spec.revisionHistoryLimit", json!(10)),
        ]),
    );
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    let mut updated = object();
    updated["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    check("extensions/v1beta1", "DaemonSet", updated, &with(&[("spec.updateStrategy", rolling.clone())]));
    check(
        "apps/v1beta2",
        "DaemonSet",
        object(),
        &[
            ("spec.updateStrategy", rolling),
            ("spec.selector", Value::Null),
            ("metadata.labels", Value::Null),
            ("metadata.annotations", json!({"deprecated.daemonset.template.generation": "0"})),
        ],
    );
    check("extensions/v1beta1", "ReplicaSet", object(), &with(&[("spec.replicas", json!(1))]));
    check("apps/v1beta2", "ReplicaSet", object(), &[("spec.replicas", json!(1)), ("metadata.labels", Value::Null)]);
    check(
        "apps/v1beta1",
        "StatefulSet",
        object(),
        &with(&[
            ("spec.updateStrategy", json!({"type": "OnDelete"})),
            ("spec.podManagementPolicy", json!("OrderedReady")),
            ("spec.replicas", json!(1)),
            ("spec.revisionHistoryLimit", json!(10)),
        ]),
    );
    check(
        "apps/v1beta2",
        "StatefulSet",
        object(),
        &[
            ("spec.updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
            ("metadata.labels", Value::Null),
        ],
    );
}

#[test]
fn backends_of_ingresses_name_a_service() {
    let path = |backend: Value| json!({"path": "/", "backend": backend});
    let ingress = json!({"metadata": {}, "spec": {
        "backend": {"serviceName": "s", "servicePort": 80},
        "rules": [{"host": "h", "http": {"paths": [
            path(json!({"serviceName": "s", "servicePort": "web"})),
            path(json!({"resource": {"apiGroup": "a.b", "kind": "K", "name": "n"}})),
            path(json!({"servicePort": 1})),
            path(json!({"serviceName": "s"})),
        ]}}, {"host": "i"}],
        "tls": [{"hosts": ["h"], "secretName": "t"}],
    }});
    for version in ["extensions/v1beta1", "networking.k8s.io/v1beta1"] {
        check(
            version,
            "Ingress",
            ingress.clone(),
            &[
                ("apiVersion", json!("networking.k8s.io/v1")),
                ("spec.backend", Value::Null),
                ("spec.defaultBackend", json!({"service": {"name": "s", "port": {"number": 80}}})),
                ("spec.tls", json!([{"hosts": ["h"], "secretName": "t"}])),
                (
                    "spec.rules.0",
                    json!({"host": "h", "http": {"paths": [
                        {"path": "/", "pathType": "ImplementationSpecific",
                            "backend": {"service": {"name": "s", "port": {"name": "web"}}}},
                        {"path": "/", "pathType": "ImplementationSpecific",
                            "backend": {"resource": {"apiGroup": "a.b", "kind": "K", "name": "n"}}},
                        {"path": "/", "pathType": "ImplementationSpecific",
                            "backend": {"service": {"name": "", "port": {"number": 1}}}},
                        {"path": "/", "pathType": "ImplementationSpecific",
                            "backend": {"service": {"name": "s", "port": {}}}},
                    ]}}),
                ),
                ("spec.rules.1", json!({"host": "i"})),
            ],
        );
    }
    let class = json!({"metadata": {}, "spec": {"controller": "c", "parameters": {"kind": "K", "name": "n"}}});
    check("networking.k8s.io/v1beta1", "IngressClass", class, &[("spec.parameters.scope", json!("Cluster"))]);
    let policy = json!({"metadata": {}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}});
    check(
        "extensions/v1beta1",
        "NetworkPolicy",
        policy,
        &[
            ("apiVersion", json!("networking.k8s.io/v1")),
            ("spec.policyTypes", json!(["Ingress"])),
            ("spec.ingress", json!([{"ports": [{"port": 80}]}])),
        ],
    );
}

#[test]
fn an_empty_selector_of_a_budget_selects_no_pods() {
    const LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let expression = |operator: &str| json!({"key": LABEL, "operator": operator});
    let other = json!({"key": "a", "operator": "Exists"});
    for (selector, expect) in [
        (Value::Null, Value::Null),
        (json!({}), json!({"matchExpressions": [expression("Exists")]})),
        (json!({"matchExpressions": [expression("DoesNotExist")]}), json!({})),
        (json!({"matchExpressions": [expression("Exists")]}), json!({})),
        (
            json!({"matchLabels": {"b": "c"}, "matchExpressions": [expression("DoesNotExist")]}),
            json!({"matchLabels": {"b": "c"}}),
        ),
        (json!({"matchExpressions": [expression("DoesNotExist"), other]}), json!({"matchExpressions": [other]})),
    ] {
        let budget = json!({"metadata": {}, "spec": {"minAvailable": 1, "selector": selector}});
        check("policy/v1beta1", "PodDisruptionBudget", budget, &[("spec.selector", expect)]);
    }
}

#[test]
fn subjects_of_alpha_bindings_get_a_group() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let subjects = json!([
        {"kind": "User", "name": "*"},
        {"kind": "User", "name": "u", "apiVersion": "other/v1"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiVersion": "v1"},
        {"kind": "Robot", "name": "r", "apiVersion": "robots.example.com/v1"},
        {"kind": "Robot", "name": "r", "apiVersion": "v1"},
        {"kind": "Robot", "name": "r", "apiVersion": "a/b/c"},
    ]);
    let expect = json!([
        {"kind": "Group", "apiGroup": GROUP, "name": "system:authenticated"},
        {"kind": "User", "apiGroup": GROUP, "name": "u"},
        {"kind": "Group", "apiGroup": GROUP, "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        {"kind": "Robot", "apiGroup": "robots.example.com", "name": "r"},
        {"kind": "Robot", "name": "r"},
        {"kind": "Robot", "name": "r"},
    ]);
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        let binding = json!({"metadata": {}, "subjects": subjects, "roleRef": {"kind": "ClusterRole", "name": "r"}});
        check(
            "rbac.authorization.k8s.io/v1alpha1",
            kind,
            binding,
            &[
                ("apiVersion", json!("rbac.authorization.k8s.io/v1")),
                ("subjects", expect.clone()),
                ("roleRef.apiGroup", json!(GROUP)),
            ],
        );
        let binding = json!({
            "metadata": {}, "subjects": [{"kind": "User", "name": "*"}], "roleRef": {"kind": "ClusterRole", "name": "r"},
        });
        let everybody = json!([{"kind": "User", "apiGroup": GROUP, "name": "*"}]);
        check("rbac.authorization.k8s.io/v1beta1", kind, binding, &[("subjects", everybody)]);
    }
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]);
    for kind in ["Role", "ClusterRole"] {
        let role = json!({"metadata": {}, "rules": rules});
        check("rbac.authorization.k8s.io/v1alpha1", kind, role, &[("rules", rules.clone())]);
    }
}

#[test]
fn fields_of_runtime_classes_move_out_of_the_spec() {
    let spec = json!({"runtimeHandler": "h", "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"a": "b"}}});
    check(
        "node.k8s.io/v1alpha1",
        "RuntimeClass",
        json!({"metadata": {}, "spec": spec}),
        &[
            ("spec", Value::Null),
            ("handler", json!("h")),
            ("overhead", json!({"podFixed": {"cpu": "1"}})),
            ("scheduling", json!({"nodeSelector": {"a": "b"}})),
        ],
    );
    check(
        "node.k8s.io/v1beta1",
        "RuntimeClass",
        json!({"metadata": {}, "handler": "h"}),
        &[("apiVersion", json!("node.k8s.io/v1")), ("handler", json!("h"))],
    );
}

#[test]
fn no_shares_of_a_priority_level_are_the_default() {
    const ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    let level = |field: &str, shares: i64, annotations: Value| {
        json!({"metadata": {"annotations": annotations}, "spec": {"type": "Limited",
            "limited": {field: shares, "limitResponse": {"type": "Queue", "queuing": {"queues": 1}}}}})
    };
    let queuing = json!({"type": "Queue", "queuing": {"queues": 1, "handSize": 8, "queueLengthLimit": 50}});
    for version in ["v1beta1", "v1beta2", "v1beta3"] {
        let api_version = format!("flowcontrol.apiserver.k8s.io/{version}");
        let field = if version == "v1beta3" { "nominalConcurrencyShares" } else { "assuredConcurrencyShares" };
        for (shares, annotations, expect) in [(0, json!({}), 30), (5, json!({}), 5), (5, json!({ZERO: ""}), 5)] {
            check(
                &api_version,
                "PriorityLevelConfiguration",
                level(field, shares, annotations),
                &[
                    ("apiVersion", json!("flowcontrol.apiserver.k8s.io/v1")),
                    ("spec.limited.nominalConcurrencyShares", json!(expect)),
                    ("spec.limited.lendablePercent", json!(0)),
                    ("spec.limited.limitResponse", queuing.clone()),
                    ("spec.limited.assuredConcurrencyShares", Value::Null),
                ],
            );
        }
        let schema = json!({"metadata": {}, "spec": {"priorityLevelConfiguration": {"name": "p"}}});
        check(&api_version, "FlowSchema", schema, &[("spec.matchingPrecedence", json!(1000))]);
    }
    check(
        "flowcontrol.apiserver.k8s.io/v1beta3",
        "PriorityLevelConfiguration",
        level("nominalConcurrencyShares", 0, json!({ZERO: "", "a": "b"})),
        &[("spec.limited.nominalConcurrencyShares", json!(0)), ("metadata.annotations", json!({"a": "b"}))],
    );
}

#[test]
fn the_topology_of_endpoints_becomes_fields() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const HOST: &str = "kubernetes.io/hostname";
    for (endpoint, expect) in [
        (json!({}), json!({})),
        (json!({"topology": {ZONE: "z", HOST: "h"}}), json!({"zone": "z", "nodeName": "h"})),
        (json!({"nodeName": "h", "topology": {HOST: "h"}}), json!({"nodeName": "h"})),
        (
            json!({"nodeName": "n", "topology": {HOST: "h", "a": "b"}}),
            json!({"nodeName": "n", "deprecatedTopology": {HOST: "h", "a": "b"}}),
        ),
    ] {
        let fill = |mut endpoint: Value| {
            endpoint["addresses"] = json!(["10.0.0.1"]);
            endpoint["conditions"] = json!({"ready": true});
            endpoint
        };
        let slice =
            json!({"metadata": {}, "addressType": "IPv4", "endpoints": [fill(endpoint)], "ports": [{"port": 80}]});
        check(
            "discovery.k8s.io/v1beta1",
            "EndpointSlice",
            slice,
            &[
                ("apiVersion", json!("discovery.k8s.io/v1")),
                ("endpoints.0", fill(expect)),
                ("ports.0", json!({"name": "", "protocol": "TCP", "port": 80})),
            ],
        );
    }
}

#[test]
fn webhooks_have_the_defaults_of_their_version() {
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    let client = json!({"service": {"namespace": "n", "name": "s"}});
    for (kind, reinvocation) in
        [("ValidatingWebhookConfiguration", Value::Null), ("MutatingWebhookConfiguration", json!("Never"))]
    {
        check(
            "admissionregistration.k8s.io/v1beta1",
            kind,
            json!({"metadata": {}, "webhooks": [{"name": "a.b.c", "clientConfig": client, "rules": rules}]}),
            &[
                ("apiVersion", json!("admissionregistration.k8s.io/v1")),
                ("webhooks.0.failurePolicy", json!("Ignore")),
                ("webhooks.0.matchPolicy", json!("Exact")),
                ("webhooks.0.sideEffects", json!("Unknown")),
                ("webhooks.0.timeoutSeconds", json!(30)),
                ("webhooks.0.admissionReviewVersions", json!(["v1beta1"])),
                ("webhooks.0.namespaceSelector", json!({})),
                ("webhooks.0.objectSelector", json!({})),
                ("webhooks.0.reinvocationPolicy", reinvocation),
                ("webhooks.0.clientConfig.service.port", json!(443)),
                ("webhooks.0.rules.0.scope", json!("*")),
            ],
        );
    }
}

#[test]
fn rules_of_stored_versions_belong_to_their_kinds() {
    let catalog = pintle_catalog::complete();
    let stored_types = catalog.stored_types().expect("types");
    // These versions need only another type and no rules, because they differ only in the numbers of fields.
    let with_type_only = [("rbac.authorization.k8s.io", "ClusterRole"), ("rbac.authorization.k8s.io", "Role")];
    let mut found = Vec::new();
    for resource in pintle_kinds::resources(catalog) {
        let facts = catalog.resource(&resource.group, &resource.version, &resource.plural).expect("facts");
        let versions = facts.storage().map_or(&[][..], |storage| &storage.stored_versions);
        let named: Vec<String> = versions.iter().map(|(group, version)| format!("{group}/{version}")).collect();
        let rules: Vec<&str> = resource.strategy.unserved_versions().iter().map(|rules| rules.api_version).collect();
        for version in &rules {
            assert!(named.iter().any(|named| named == version), "{version} {} is not stored", resource.kind);
        }
        for (group, version) in versions {
            let has_type = stored_types.kind_schema(group, version, facts.kind).is_some();
            if has_type && !rules.contains(&format!("{group}/{version}").as_str()) {
                found.push((*group, facts.kind));
            }
        }
    }
    found.sort_unstable();
    assert_eq!(found, with_type_only);
}
