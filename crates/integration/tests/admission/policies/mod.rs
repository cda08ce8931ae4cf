//! Validating and mutating admission policies from a client's view.

mod bindings;
mod invalid_policies;
mod mutations;
mod params;
mod type_checking;
mod validations;

use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, Options, Response};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A cluster where each user's token is the user name, and roles decide about access.
async fn start_with_users() -> Cluster {
    let access = AccessOptions {
        tokens: Some("alice,alice,1,dev\nbob,bob,2\n".to_owned()),
        authorization_modes: vec![AuthorizationMode::Rbac],
        ..AccessOptions::default()
    };
    Cluster::with_options(Options { access, ..Options::default() }).await
}

/// Sends a request with a body as a user.
async fn send_as(cluster: &Cluster, user: &str, method: &str, path: &str, body: Value) -> Response {
    let request = cluster.request(method, path).anonymous().header("Authorization", &format!("Bearer {user}"));
    request.json(body.to_string()).send().await
}

/// Gives a user permissions by these rules.
async fn allow(cluster: &Cluster, user: &str, rules: Value) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": user}, "rules": rules});
    let _ = cluster.post(&format!("{rbac}/clusterroles"), role.to_string()).await.expect(201);
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    });
    let _ = cluster.post(&format!("{rbac}/clusterrolebindings"), binding.to_string()).await.expect(201);
}

/// Rules for all writes of a resource.
fn constraints(group: &str, version: &str, resource: &str) -> Value {
    json!({"resourceRules": [
        {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]},
    ]})
}

/// A policy for config maps, changed by a merge of its spec.
fn policy(name: &str, spec: Value) -> Value {
    let mut policy =
        json!({"metadata": {"name": name}, "spec": {"matchConstraints": constraints("", "v1", "configmaps")}});
    for (key, value) in spec.as_object().expect("an object") {
        policy["spec"][key] = value.clone();
    }
    policy
}

/// A binding of the policy with the same name, changed by a merge of its spec.
fn binding(policy: &str, spec: Value) -> Value {
    let mut binding = json!({
        "metadata": {"name": format!("{policy}-binding")},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    });
    for (key, value) in spec.as_object().expect("an object") {
        binding["spec"][key] = value.clone();
    }
    binding
}

/// Creates a policy and its binding.
async fn create(cluster: &Cluster, policy: Value, binding: Value) {
    let _ = cluster.post(POLICIES, policy.to_string()).await.expect(201);
    let _ = cluster.post(BINDINGS, binding.to_string()).await.expect(201);
}

/// Creates a policy with a binding that denies requests.
async fn enforce(cluster: &Cluster, name: &str, spec: Value) {
    create(cluster, policy(name, spec), binding(name, json!({}))).await;
}

fn configmap(name: &str, data: Value) -> String {
    json!({"metadata": {"name": name}, "data": data}).to_string()
}

fn deployment(name: &str, replicas: u32) -> String {
    let template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]},
    });
    let selector = json!({"matchLabels": {"app": name}});
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    })
    .to_string()
}

fn warnings(response: &Response) -> Vec<String> {
    let texts = response.headers.get_all("warning").iter().map(|text| text.to_str().expect("a text"));
    texts
        .map(|text| text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).expect("a warning"))
        .map(|text| text.replace("\\\"", "\""))
        .collect()
}

/// Checks that a policy denies a write of a config map with this message.
#[track_caller]
fn denied(response: Response, name: &str, policy: &str, message: &str) {
    let expect = format!(
        "configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}-binding' denied \
         request: {message}"
    );
    response.expect_error(422, "Invalid", &expect);
}
