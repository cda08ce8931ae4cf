//! Access by roles and bindings.

use pintle_testkit::{AccessOptions, AuthorizationMode, Cluster, Options, Response, run};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The users, whose tokens are their names.
const TOKENS: &str = "alice,alice,1,dev\nbob,bob,2\n";

/// Options of a cluster where only roles and bindings, of which there are none, allow anything.
fn options() -> Options {
    let access = AccessOptions {
        tokens: Some(TOKENS.to_owned()),
        authorization_modes: vec![AuthorizationMode::Rbac],
        ..AccessOptions::default()
    };
    Options { access, ..Options::default() }
}

/// Sends a request as a user.
async fn send_as(cluster: &Cluster, user: &str, method: &str, path: &str, body: Option<Value>) -> Response {
    let request = cluster.request(method, path).anonymous().header("Authorization", &format!("Bearer {user}"));
    match body {
        Some(body) => request.json(body.to_string()).send().await,
        None => request.send().await,
    }
}

fn cluster_role(name: &str, rules: Value) -> String {
    json!({"metadata": {"name": name}, "rules": rules}).to_string()
}

/// A binding of a cluster role.
fn binding(name: &str, role: &str, subject: Value) -> String {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}).to_string()
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// Creates what allows `alice` these verbs on config maps in the namespace `default`.
async fn allow_config_maps(cluster: &Cluster, verbs: &[&str]) {
    let rules = json!([{"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"]}]);
    let _ = cluster.post(&format!("{RBAC}/clusterroles"), cluster_role("maps", rules)).await.expect(201);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let _ = cluster.post(&bindings, binding("maps", "maps", user("alice"))).await.expect(201);
}

#[test]
fn users_without_bindings_are_forbidden_everything() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let _ = cluster.post(CONFIGMAPS, json!({"metadata": {"name": "a"}}).to_string()).await.expect(201);
        let in_default = "in API group \"\" in the namespace \"default\"";
        for (method, path, expect) in [
            ("GET", "/api", "cannot get path \"/api\"".to_owned()),
            (
                "GET",
                "/apis/nothing/v1/things",
                "cannot list resource \"things\" in API group \"nothing\" at the cluster scope".to_owned(),
            ),
            ("GET", CONFIGMAPS, format!("cannot list resource \"configmaps\" {in_default}")),
            ("GET", &format!("{CONFIGMAPS}/a"), format!("cannot get resource \"configmaps\" {in_default}")),
            ("GET", &format!("{CONFIGMAPS}/b"), format!("cannot get resource \"configmaps\" {in_default}")),
            ("DELETE", CONFIGMAPS, format!("cannot deletecollection resource \"configmaps\" {in_default}")),
            (
                "GET",
                "/api/v1/pods?watch=1",
                "cannot watch resource \"pods\" in API group \"\" at the cluster scope".to_owned(),
            ),
            (
                "GET",
                "/api/v1/namespaces/n",
                "cannot get resource \"namespaces\" in API group \"\" in the namespace \"n\"".to_owned(),
            ),
            (
                "POST",
                "/api/v1/namespaces/n/pods/p/binding",
                "cannot create resource \"pods/binding\" in API group \"\" in the namespace \"n\"".to_owned(),
            ),
            ("GET", "/metrics", "cannot get path \"/metrics\"".to_owned()),
        ] {
            for (user, name) in [("alice", "alice"), ("", "system:anonymous")] {
                let request = cluster.request(method, path).anonymous();
                let request = match user {
                    "" => request,
                    user => request.header("Authorization", &format!("Bearer {user}")),
                };
                let status = request.send().await.expect(403).json();
                let found = status["message"].as_str().unwrap_or_default();
                assert!(found.ends_with(&format!("User \"{name}\" {expect}")), "{method} {path}: {found}");
                assert_eq!(status["reason"], "Forbidden", "{method} {path}");
            }
        }
        let wrong = send_as(&cluster, "wrong", "GET", CONFIGMAPS, None).await;
        wrong.expect_error(401, "Unauthorized", "Unauthorized");
        cluster.stop().await;
    });
}

#[test]
fn changes_are_in_force_before_they_are_answered() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        allow_config_maps(&cluster, &["list"]).await;
        let _ = send_as(&cluster, "alice", "GET", CONFIGMAPS, None).await.expect(200);
        let _ = send_as(&cluster, "bob", "GET", CONFIGMAPS, None).await.expect(403);
        let other = "/api/v1/namespaces/kube-system/configmaps";
        let _ = send_as(&cluster, "alice", "GET", other, None).await.expect(403);
        let (bindings, role) = (format!("{RBAC}/clusterrolebindings"), format!("{RBAC}/clusterroles/maps"));
        let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "dev"});
        for round in 0..50 {
            let name = format!("round-{round}");
            let _ = cluster.post(&bindings, binding(&name, "maps", group.clone())).await.expect(201);
            let _ = send_as(&cluster, "alice", "GET", other, None).await.expect(200);
            let _ = cluster.put(&role, cluster_role("maps", json!([]))).await.expect(200);
            let _ = send_as(&cluster, "alice", "GET", other, None).await.expect(403);
            let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}]);
            let _ = cluster.put(&role, cluster_role("maps", rules)).await.expect(200);
            let _ = send_as(&cluster, "alice", "GET", other, None).await.expect(200);
            let _ = cluster.delete(&format!("{bindings}/{name}")).await.expect(200);
            let _ = send_as(&cluster, "alice", "GET", other, None).await.expect(403);
        }
        cluster.stop().await;
    });
}

#[test]
fn roles_and_bindings_are_in_force_after_a_restart() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        allow_config_maps(&cluster, &["list"]).await;
        let cluster = cluster.restart().await;
        let _ = send_as(&cluster, "alice", "GET", CONFIGMAPS, None).await.expect(200);
        let _ = send_as(&cluster, "bob", "GET", CONFIGMAPS, None).await.expect(403);
        cluster.stop().await;
    });
}

#[test]
fn an_update_that_creates_needs_the_verb_create() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let rules =
            |verbs: &[&str]| json!([{"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}]);
        let role = format!("{RBAC}/clusterroles/leases");
        let _ = cluster.put(&role, cluster_role("leases", rules(&["update"]))).await.expect(201);
        let bindings = format!("{RBAC}/clusterrolebindings");
        let _ = cluster.post(&bindings, binding("leases", "leases", user("alice"))).await.expect(201);
        let lease = json!({"metadata": {"name": "l"}, "spec": {}});
        let path = format!("{leases}/l");
        send_as(&cluster, "alice", "PUT", &path, Some(lease.clone())).await.expect_error(
            403,
            "Forbidden",
            "leases.coordination.k8s.io \"l\" is forbidden: User \"alice\" cannot create resource \"leases\" in API group \
             \"coordination.k8s.io\" in the namespace \"default\"",
        );
        let _ = cluster.get(&path).await.expect(404);
        let _ = cluster.put(&role, cluster_role("leases", rules(&["update", "create"]))).await.expect(200);
        let _ = send_as(&cluster, "alice", "PUT", &path, Some(lease)).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn impersonation_needs_permission() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        allow_config_maps(&cluster, &["list"]).await;
        let as_alice = |user: &str| {
            let request = cluster.request("GET", CONFIGMAPS).anonymous();
            request.header("Authorization", &format!("Bearer {user}")).header("Impersonate-User", "alice")
        };
        let denied = as_alice("bob").send().await;
        denied.expect_error(
            403,
            "Forbidden",
            "configmaps is forbidden: User \"bob\" cannot impersonate-on:user-info:list resource \"configmaps\" in API \
             group \"\" in the namespace \"default\"",
        );
        let rules =
            json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["alice"]}]);
        let _ = cluster.post(&format!("{RBAC}/clusterroles"), cluster_role("act", rules)).await.expect(201);
        let bindings = format!("{RBAC}/clusterrolebindings");
        let _ = cluster.post(&bindings, binding("act", "act", user("bob"))).await.expect(201);
        let _ = as_alice("bob").send().await.expect(200);
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let attempts: Vec<_> =
            metrics.lines().filter(|line| line.starts_with("apiserver_impersonation_attempts_total{")).collect();
        assert!(
            attempts.iter().any(|line| line.contains("decision=\"denied\"") && line.contains("mode=\"\"")),
            "{attempts:?}"
        );
        assert!(attempts.iter().any(|line| line.contains("decision=\"allowed\"")), "{attempts:?}");
        cluster.stop().await;
    });
}
