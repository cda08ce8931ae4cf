//! Feature gates that change more than the fields of objects: the validation, and the answers to reads.

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=true\
                     &resourceVersionMatch=NotOlderThan&timeoutSeconds=1";

/// The gates whose state in the tested server differs from the default.
const CHANGED: [(&str, bool); 14] = [
    ("APIResponseCompression", false),
    ("ClearingNominatedNodeNameAfterBinding", false),
    ("MutatingAdmissionPolicy", false),
    ("OpenAPIEnums", false),
    ("PodDeletionCost", false),
    ("PodTopologyLabelsAdmission", false),
    ("RelaxedServiceNameValidation", false),
    ("RestartAllContainersOnContainerExits", false),
    ("SELinuxMount", true),
    ("StorageVersionHash", false),
    ("StrictIPCIDRValidation", false),
    ("TaintTolerationComparisonOperators", true),
    ("UserNamespacesHostNetworkSupport", true),
    ("WatchList", false),
];

fn pod(metadata: Value, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["metadata"].as_object_mut().expect("metadata").extend(metadata.as_object().cloned().unwrap_or_default());
    pod["spec"].as_object_mut().expect("a spec").extend(spec.as_object().cloned().unwrap_or_default());
    pod
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})
}

async fn clusters() -> (Cluster, Cluster) {
    let settings = CHANGED.map(|(gate, enabled)| (gate.to_owned(), enabled)).into();
    let (gates, _) = Gates::with_overrides(&settings).expect("settable feature gates");
    let changed = Cluster::with_options(Options { gates, ..Options::default() }).await;
    (Cluster::with_options(Options::default()).await, changed)
}

/// An object that a gate makes valid or invalid.
struct ValidationCase {
    gate: &'static str,
    /// The path of the collection.
    path: &'static str,
    object: Value,
    /// The status codes by default and with the changed gate.
    codes: [u16; 2],
    /// The field of the error.
    field: &'static str,
}

fn validation_cases() -> Vec<ValidationCase> {
    let case = |gate, path, object, codes, field| ValidationCase { gate, path, object, codes, field };
    let restart = json!([{"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]}]);
    vec![
        case("RelaxedServiceNameValidation", SERVICES, service("1a"), [201, 422], "metadata.name"),
        case(
            "StrictIPCIDRValidation",
            ENDPOINTS,
            json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "010.0.0.1"}]}]}),
            [422, 201],
            "subsets[0].addresses[0].ip",
        ),
        case(
            "StrictIPCIDRValidation",
            PODS,
            pod(json!({}), json!({"hostAliases": [{"ip": "010.0.0.1", "hostnames": ["a"]}]})),
            [422, 201],
            "spec.hostAliases[0].ip",
        ),
        case(
            "PodDeletionCost",
            PODS,
            pod(json!({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "x"}}), json!({})),
            [422, 201],
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]",
        ),
        case(
            "TaintTolerationComparisonOperators",
            PODS,
            pod(json!({}), json!({"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]})),
            [422, 201],
            "spec.tolerations[0].operator",
        ),
        case(
            "SELinuxMount",
            PODS,
            pod(json!({}), json!({"securityContext": {"seLinuxChangePolicy": "MountOption"}})),
            [422, 201],
            "spec.securityContext.seLinuxChangePolicy",
        ),
        case(
            "UserNamespacesHostNetworkSupport",
            PODS,
            pod(json!({}), json!({"hostUsers": false, "hostNetwork": true})),
            [422, 201],
            "spec.hostNetwork",
        ),
        case(
            "RestartAllContainersOnContainerExits",
            PODS,
            pod(json!({}), json!({ "containers": restart })),
            [201, 422],
            "spec.containers[0].restartPolicyRules[0].action",
        ),
    ]
}

#[test]
fn gates_decide_what_is_valid() {
    run(async {
        let (default, changed) = clusters().await;
        for ValidationCase { gate, path, object, codes, field } in validation_cases() {
            for (cluster, code) in [&default, &changed].into_iter().zip(codes) {
                let answer = cluster.post(&format!("{path}?dryRun=All"), object.to_string()).await;
                let answer = answer.expect(code).json();
                if code == 422 {
                    let fields: Vec<_> = answer["details"]["causes"].as_array().expect("causes").iter().collect();
                    assert!(fields.iter().any(|cause| cause["field"] == field), "{gate}: {answer}");
                }
            }
        }
        default.stop().await;
        changed.stop().await;
    });
}

#[test]
fn gates_decide_what_reads_answer() {
    run(async {
        let (default, changed) = clusters().await;
        let _ = default.get(WATCH).await.expect(200);
        let error = changed.get(WATCH).await.expect(422).json();
        assert_eq!(error["details"]["causes"][0]["field"], "sendInitialEvents");
        for (cluster, shown) in [(&default, true), (&changed, false)] {
            let list = cluster.get("/api/v1").await.expect(200).text();
            assert_eq!(list.contains("storageVersionHash"), shown);
            let schemas = cluster.get("/openapi/v3/apis/apps/v1").await.expect(200).text();
            assert_eq!(schemas.contains("Possible enum values"), shown);
            assert_eq!(schemas.contains("\"enum\":"), shown);
        }
        default.stop().await;
        changed.stop().await;
    });
}

#[test]
fn gates_decide_what_a_binding_changes() {
    run(async {
        let (default, changed) = clusters().await;
        for (cluster, clears) in [(&default, true), (&changed, false)] {
            let _ = cluster.post(PODS, pod(json!({}), json!({})).to_string()).await.expect(201);
            let status = json!({"status": {"nominatedNodeName": "n"}}).to_string();
            let _ = cluster.patch(&format!("{PODS}/p/status"), "merge", status).await.expect(200);
            let binding =
                json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}});
            let _ = cluster.post(&format!("{PODS}/p/binding"), binding.to_string()).await.expect(201);
            let bound = cluster.get(&format!("{PODS}/p")).await.expect(200).json();
            assert_eq!(bound["spec"]["nodeName"], "n");
            assert_eq!(bound["status"].get("nominatedNodeName").is_none(), clears, "{bound}");
            assert_eq!(bound["metadata"]["labels"]["a"] == "b", clears, "{bound}");
        }
        default.stop().await;
        changed.stop().await;
    });
}

#[test]
fn gates_decide_whether_large_answers_are_compressed() {
    run(async {
        let (default, changed) = clusters().await;
        let path = "/api/v1/namespaces/default/configmaps";
        let large = json!({"metadata": {"name": "large"}, "data": {"k": "v".repeat(200_000)}}).to_string();
        for (cluster, encoding) in [(&default, "gzip"), (&changed, "")] {
            let _ = cluster.post(path, large.clone()).await.expect(201);
            let answer = cluster.request("GET", path).header("Accept-Encoding", "gzip").send().await.expect(200);
            assert_eq!(answer.header("content-encoding"), encoding);
        }
        default.stop().await;
        changed.stop().await;
    });
}

#[test]
fn gates_decide_whether_policies_change_objects() {
    run(async {
        let (default, changed) = clusters().await;
        let group = "/apis/admissionregistration.k8s.io/v1";
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
        let expression = r#"Object{data: {"a": "b"}}"#;
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]}});
        let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
        for (cluster, data) in [(&default, json!({"a": "b"})), (&changed, Value::Null)] {
            let _ = cluster.post(&format!("{group}/mutatingadmissionpolicies"), policy.to_string()).await.expect(201);
            let bindings = format!("{group}/mutatingadmissionpolicybindings");
            let _ = cluster.post(&bindings, binding.to_string()).await.expect(201);
            let object = r#"{"metadata": {"name": "c"}}"#;
            let created = cluster.post("/api/v1/namespaces/default/configmaps", object).await.expect(201).json();
            assert_eq!(created["data"], data);
        }
        default.stop().await;
        changed.stop().await;
    });
}

#[test]
fn servers_work_with_all_gates_on_and_with_all_off() {
    run(async {
        for enabled in [true, false] {
            let gates = Gates::default();
            let unlocked = gates.states().filter(|(gate, _)| !gate.locked);
            let settings = unlocked.map(|(gate, _)| (gate.name.to_owned(), enabled)).collect();
            let (gates, _) = Gates::with_overrides(&settings).expect("settable feature gates");
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            let certificate = json!({"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "k"});
            let spec = json!({
                "schedulingGroup": {"podGroupName": "g"},
                "hostnameOverride": "h",
                "resources": {"requests": {"cpu": "1"}},
                "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}},
                    {"podCertificate": certificate}]}}],
            });
            let created = cluster.post(PODS, pod(json!({}), spec).to_string()).await;
            // A source whose only field is dropped is empty, and an empty source is valid.
            let created = created.expect(201).json();
            for field in ["schedulingGroup", "hostnameOverride", "resources"] {
                assert_eq!(created["spec"].get(field).is_some(), enabled, "{field}: {created}");
            }
            let source = &created["spec"]["volumes"][0]["projected"]["sources"][1];
            assert_eq!(source.get("podCertificate").is_some(), enabled, "{created}");
            let template =
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let set = json!({"metadata": {"name": "s"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s", "template": template}});
            let created = cluster.post("/apis/apps/v1/namespaces/default/statefulsets", set.to_string()).await;
            let created = created.expect(201).json();
            let max = created.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
            assert_eq!(max, enabled.then(|| json!(1)).as_ref(), "{created}");
            let _ = cluster.post(SERVICES, service("a").to_string()).await.expect(201);
            let _ = cluster.get("/readyz").await.expect(200);
            cluster.stop().await;
        }
    });
}
