//! Create-only resources that are not stored: bindings, and the reviews of authentication and authorization.

use pintle_integration::{Cluster, run};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn a_binding_whose_response_is_not_accepted_does_nothing() {
    run(async {
        let cluster = Cluster::start().await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let _ = cluster.post(PODS, pod.to_string()).await.expect(201);
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}).to_string();
        let request = cluster.request("POST", &format!("{PODS}/p/binding")).header("Accept", "text/plain");
        let _ = request.json(binding).send().await.expect(406);
        let pod = cluster.get(&format!("{PODS}/p")).await.expect(200).json();
        assert_eq!(pod["spec"].get("nodeName"), None);
        cluster.stop().await;
    });
}

#[test]
fn binding_assigns_a_pod_only_once() {
    run(async {
        let cluster = Cluster::start().await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let _ = cluster.post(PODS, pod.to_string()).await.expect(201);
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}).to_string();
        let path = format!("{PODS}/p/binding");
        let response = cluster.post(&path, binding.clone()).await.expect(201).json();
        assert_eq!(response["status"], "Success");
        let bound = cluster.get(&format!("{PODS}/p")).await.expect(200).json();
        assert_eq!(bound["spec"]["nodeName"], "n1");
        cluster.post(&path, binding.clone()).await.expect_error(
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\"",
        );
        let other = binding.replace("\"p\"", "\"q\"");
        cluster.post(&path, other).await.expect_error(
            400,
            "BadRequest",
            "name in URL does not match name in Binding object",
        );
        cluster.stop().await;
    });
}

#[test]
fn bindings_have_the_name_and_the_preconditions_of_their_pod() {
    run(async {
        let cluster = Cluster::start().await;
        let bindings = "/api/v1/namespaces/default/bindings";
        let create = async |name: &str| {
            let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            cluster.post(PODS, pod.to_string()).await.expect(201).json()
        };
        let binding = |metadata: Value| json!({"metadata": metadata, "target": {"name": "n1"}}).to_string();
        let pod = create("p").await;
        let path = format!("{PODS}/p/binding");
        let mismatch = "name in URL does not match name in Binding object";
        cluster.post(&path, binding(json!({}))).await.expect_error(400, "BadRequest", mismatch);
        let nameless = cluster.post(bindings, binding(json!({}))).await;
        nameless.expect_error(400, "BadRequest", "Name parameter required.");
        for (field, what, found) in [
            ("uid", "UID", &pod["metadata"]["uid"]),
            ("resourceVersion", "ResourceVersion", &pod["metadata"]["resourceVersion"]),
        ] {
            let found = found.as_str().expect("a text");
            let why = format!(
                "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
                 /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in \
                 precondition: 1, {what} in object meta: {found}"
            );
            let metadata = json!({"name": "p", field: "1"});
            cluster.post(&path, binding(metadata)).await.expect_error(409, "Conflict", &why);
        }
        let _ = cluster.post(&path, binding(json!({"name": "p", "uid": pod["metadata"]["uid"]}))).await.expect(201);
        // A binding that is created outside the subresource loses its UID.
        let _ = create("q").await;
        let _ = cluster.post(bindings, binding(json!({"name": "q", "uid": "1"}))).await.expect(201);
        let bound = cluster.get(&format!("{PODS}/q")).await.expect(200).json();
        assert_eq!(bound["spec"]["nodeName"], "n1");
        cluster.stop().await;
    });
}

/// Creates a review and checks its status.
async fn check_status(cluster: &Cluster, group: &str, plural: &str, spec: Value, expect: Value) {
    let path = format!("/apis/{group}/v1/{plural}");
    let found = cluster.post(&path, json!({ "spec": spec }).to_string()).await.expect(201).json();
    let mut status = found["status"].clone();
    if let Some(user) = status.pointer_mut("/userInfo/extra") {
        *user = json!("-");
    }
    assert_eq!(status, expect, "{plural}");
}

#[test]
fn reviews_report_authentication_and_authorization() {
    run(async {
        let cluster = Cluster::with_tokens("secret,alice,7,\"dev,ops\"\n").await;
        let (authn, authz) = ("authentication.k8s.io", "authorization.k8s.io");
        let me = json!({"userInfo": {
            "username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"],
            "extra": "-",
        }});
        check_status(&cluster, authn, "selfsubjectreviews", json!({}), me).await;
        let as_bob = cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
        let as_bob =
            as_bob.header("impersonate-user", "bob").header("impersonate-group", "dev").json("{}").send().await;
        assert_eq!(
            as_bob.expect(201).json()["status"]["userInfo"],
            json!({"username": "bob", "groups": ["dev", "system:authenticated"]}),
        );
        let alice = json!({"authenticated": true, "audiences": [pintle::DEFAULT_SERVICE_ACCOUNT_ISSUER], "user": {
            "username": "alice", "uid": "7", "groups": ["dev", "ops", "system:authenticated"],
        }});
        check_status(&cluster, authn, "tokenreviews", json!({"token": "secret"}), alice).await;
        let unknown = json!({"user": {}, "error": "invalid bearer token"});
        check_status(&cluster, authn, "tokenreviews", json!({"token": "wrong"}), unknown).await;
        let get = json!({"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
        check_status(&cluster, authz, "selfsubjectaccessreviews", get, json!({"allowed": true})).await;
        let of = json!({"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/version"}});
        check_status(&cluster, authz, "subjectaccessreviews", of, json!({"allowed": true})).await;
        let any = json!(["*"]);
        let rules = json!({
            "resourceRules": [{"verbs": any, "apiGroups": any, "resources": any}],
            "nonResourceRules": [{"verbs": any, "nonResourceURLs": any}],
            "incomplete": false,
        });
        check_status(&cluster, authz, "selfsubjectrulesreviews", json!({"namespace": "default"}), rules).await;
        let nothing = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", r#"{"spec": {}}"#).await;
        nothing.expect_error(
            422,
            "Invalid",
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: [spec.resourceAttributes: Invalid value: null: \
             exactly one of nonResourceAttributes or resourceAttributes must be specified, spec.user: Invalid value: \
             \"\": at least one of user or group must be specified]",
        );
        cluster.stop().await;
    });
}
