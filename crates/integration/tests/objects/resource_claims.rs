//! Claims for devices (dynamic resource allocation): their validation, admin access, and the permissions for changes of
//! their status.

use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, Options, Response, run};
use serde_json::{Value, json};

const GROUP: &str = "/apis/resource.k8s.io/v1";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const STATUS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a/status";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A claim for one device.
fn claim(name: &str, exactly: Value) -> String {
    let requests = json!([{"name": "gpu", "exactly": exactly}]);
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}).to_string()
}

/// A device, in the result of an allocation or in the status of devices.
fn device(name: &str) -> Value {
    json!({"driver": "gpu.example.com", "pool": "node-1", "device": name})
}

/// The status of a claim with these devices, which are allocated on a node.
fn allocated(devices: &[&str], statuses: Option<&[&str]>) -> Value {
    let results = devices.iter().map(|name| {
        let mut result = device(name);
        result["request"] = json!("gpu");
        result
    });
    let node = json!({"key": "metadata.name", "operator": "In", "values": ["node-1"]});
    let mut status = json!({"allocation": {
        "devices": {"results": results.collect::<Vec<_>>()},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [node]}]},
    }});
    if let Some(statuses) = statuses {
        status["devices"] = statuses.iter().map(|name| device(name)).collect();
    }
    json!({"status": status})
}

#[test]
fn claims_are_validated_and_allocated() {
    run(async {
        let cluster = Cluster::start().await;
        let invalid = claim("a", json!({"selectors": [{"cel": {"expression": "device.driver"}}]}));
        cluster.post(CLAIMS, invalid).await.expect_error(
            422,
            "Invalid",
            "ResourceClaim.resource.k8s.io \"a\" is invalid: [spec.devices.requests[0].exactly.deviceClassName: Required value, \
             spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.driver\": must evaluate to \
             bool or the unknown type, not string]",
        );
        let created = cluster.post(CLAIMS, claim("a", json!({"deviceClassName": "gpu"}))).await.expect(201).json();
        let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
        assert_eq!(created["spec"]["devices"]["requests"][0]["exactly"], exactly);
        let change = json!({"spec": {"devices": {"requests": []}}}).to_string();
        cluster.patch(&format!("{CLAIMS}/a"), "merge", change).await.expect_error(
            422,
            "Invalid",
            "ResourceClaim.resource.k8s.io \"a\" is invalid: spec: Invalid value: \
             {\"Devices\":{\"Requests\":[],\"Constraints\":null,\"Config\":null}}: field is immutable",
        );

        let patch = |status: Value| cluster.patch(STATUS, "merge", status.to_string());
        let found = patch(allocated(&["one", "two"], Some(&["one", "two"]))).await.expect(200).json();
        let names: Vec<_> = [0, 1].map(|i| found["status"]["devices"][i]["device"].clone()).into();
        assert_eq!(names, ["one", "two"]);
        let message = patch(allocated(&["two"], None)).await.expect(422).json()["message"].to_string();
        assert!(message.contains("status.allocation: Invalid value:"), "{message}");
        // With the allocation, the status of its devices is removed, too.
        let found = patch(json!({"status": {"allocation": null}})).await.expect(200).json();
        assert_eq!(found["status"], json!({}));
        cluster.stop().await;
    });
}

#[test]
fn admin_access_needs_a_labelled_namespace() {
    run(async {
        let cluster = Cluster::start().await;
        let namespace = json!({"metadata": {"name": "n"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces", namespace).await.expect(201);
        let claims = format!("{GROUP}/namespaces/n/resourceclaims");
        let with_access = || claim("a", json!({"deviceClassName": "gpu", "adminAccess": true}));
        let detail = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing \
                      namespace";
        cluster.post(&claims, with_access()).await.expect_error(
            422,
            "Invalid",
            &format!(
                "ResourceClaim.resource.k8s.io \"a\" is invalid: spec.devices.requests[0].adminAccess: Forbidden: {detail}"
            ),
        );
        let _ = cluster.post(&claims, claim("b", json!({"deviceClassName": "gpu"}))).await.expect(201);
        let mut status = allocated(&["one"], None);
        status["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = json!(true);
        let status_path = format!("{claims}/b/status");
        let patch_status = || cluster.patch(&status_path, "merge", status.to_string());
        patch_status().await.expect_error(
            422,
            "Invalid",
            &format!(
                "ResourceClaim.resource.k8s.io \"b\" is invalid: status.allocation.devices.results[0].adminAccess: Forbidden: \
                 {detail}"
            ),
        );
        let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}).to_string();
        let _ = cluster.patch("/api/v1/namespaces/n", "merge", label).await.expect(200);
        let created = cluster.post(&claims, with_access()).await.expect(201).json();
        assert_eq!(created["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"], true);
        let _ = patch_status().await.expect(200);
        cluster.stop().await;
    });
}

/// Patches the status of a claim as a driver on a node.
async fn patch_as_driver(cluster: &Cluster, node: &str, status: Value) -> Response {
    let request = cluster.request("PATCH", STATUS);
    let request = request.header("Impersonate-User", "system:serviceaccount:default:driver");
    let request = request.header("Impersonate-Extra-authentication.kubernetes.io%2Fnode-name", node);
    request.body("application/merge-patch+json", status.to_string()).send().await
}

/// Gives the driver these rules everywhere.
async fn give_driver(cluster: &Cluster, rules: Value) {
    let role = json!({"metadata": {"name": "driver"}, "rules": rules}).to_string();
    let _ = cluster.put(&format!("{RBAC}/clusterroles/driver"), role).await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "driver"});
    let subject = json!({"kind": "ServiceAccount", "namespace": "default", "name": "driver"});
    let binding = json!({"metadata": {"name": "driver"}, "roleRef": role, "subjects": [subject]}).to_string();
    let _ = cluster.put(&format!("{RBAC}/clusterrolebindings/driver"), binding).await;
}

fn rule(resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs})
}

#[test]
fn changes_of_the_status_need_permissions() {
    run(async {
        let access = AccessOptions { authorization_modes: vec![AuthorizationMode::Rbac], ..AccessOptions::default() };
        let cluster = Cluster::with_options(Options { access, ..Options::default() }).await;
        let _ = cluster.post(CLAIMS, claim("a", json!({"deviceClassName": "gpu"}))).await.expect(201);
        let status = rule("resourceclaims/status", &["patch"]);
        give_driver(&cluster, json!([status])).await;
        let user = "User \"system:serviceaccount:default:driver\" cannot";
        let invalid = "ResourceClaim.resource.k8s.io \"a\" is invalid:";
        patch_as_driver(&cluster, "node-1", allocated(&["one"], None)).await.expect_error(
            422,
            "Invalid",
            &format!(
                "{invalid} status: Forbidden: changing status.allocation or status.reservedFor requires \
                 resource=\"resourceclaims/binding\", verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: \
                 {user} patch resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope"
            ),
        );
        give_driver(&cluster, json!([status, rule("resourceclaims/binding", &["patch"])])).await;
        let _ = patch_as_driver(&cluster, "node-1", allocated(&["one"], None)).await.expect(200);

        let devices = || json!({"status": {"devices": [device("one")]}});
        patch_as_driver(&cluster, "node-2", devices()).await.expect_error(
            422,
            "Invalid",
            &format!(
                "{invalid} status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                 verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"gpu.example.com\" is forbidden: \
                 {user} arbitrary-node:patch resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in the \
                 namespace \"default\""
            ),
        );
        // On the node of the allocation, another verb suffices.
        give_driver(&cluster, json!([status, rule("resourceclaims/driver", &["associated-node:patch"])])).await;
        let _ = patch_as_driver(&cluster, "node-2", devices()).await.expect(422);
        let _ = patch_as_driver(&cluster, "node-1", devices()).await.expect(200);
        cluster.stop().await;
    });
}
