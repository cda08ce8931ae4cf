//! The bootstrap policy of RBAC: the roles and bindings that every cluster has, and their reconciliation when the
//! server starts.

use std::collections::BTreeMap;

use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, Options, run};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const KINDS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
const GROUP: &str = "rbac.authorization.k8s.io";
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

fn options() -> Options {
    Options { rbac_bootstrap: Some(true), ..Options::default() }
}

fn cluster_role(name: &str) -> String {
    format!("{RBAC}/clusterroles/{name}")
}

fn cluster_role_binding(name: &str) -> String {
    format!("{RBAC}/clusterrolebindings/{name}")
}

/// The roles and bindings by kind, namespace and name.
async fn objects(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for kind in KINDS {
        let list = cluster.get(&format!("{RBAC}/{kind}")).await.expect(200).json();
        for object in list["items"].as_array().expect("items") {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
            objects.insert(format!("{kind} {} {}", text("namespace"), text("name")), object.clone());
        }
    }
    objects
}

/// An object without its type, which items of lists do not have, and without the fields that differ in every cluster.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    for key in ["apiVersion", "kind"] {
        object.as_object_mut().expect("an object").remove(key);
    }
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(key);
    }
    object
}

async fn patch(cluster: &Cluster, path: &str, patch: Value) -> Value {
    cluster.patch(path, "merge", patch.to_string()).await.expect(200).json()
}

fn users(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"apiGroup": GROUP, "kind": "User", "name": name})).collect()
}

#[test]
fn a_new_cluster_has_the_roles_and_bindings_of_upstream() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let objects = objects(&cluster).await;
        let count = |kind: &str| objects.keys().filter(|key| key.starts_with(&format!("{kind} "))).count();
        assert_eq!(KINDS.map(count), [69, 50, 7, 7]);

        let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
        let metadata = |name: &str| json!({"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}});
        assert_eq!(
            content(&objects["clusterroles  system:public-info-viewer"]),
            json!({
                "metadata": metadata("system:public-info-viewer"),
                "rules": [{"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}],
            })
        );
        assert_eq!(
            content(&objects["clusterrolebindings  system:public-info-viewer"]),
            json!({
                "metadata": metadata("system:public-info-viewer"),
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "system:public-info-viewer"},
                "subjects": [
                    {"apiGroup": GROUP, "kind": "Group", "name": "system:authenticated"},
                    {"apiGroup": GROUP, "kind": "Group", "name": "system:unauthenticated"},
                ],
            })
        );
        let binding = &objects["clusterrolebindings  system:node"];
        assert!(binding.get("subjects").is_none(), "{binding}");
        let managers = &binding["metadata"]["managedFields"];
        assert_eq!((&managers[0]["manager"], &managers[0]["operation"]), (&json!("kube-apiserver"), &json!("Update")));
        let role = &objects["roles kube-public system:controller:bootstrap-signer"];
        assert_eq!(
            role["rules"],
            json!([
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resourceNames": ["cluster-info"], "resources": ["configmaps"], "verbs": ["update"]},
                {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
            ])
        );
        let _ = cluster.get("/readyz/poststarthook/rbac/bootstrap-roles").await.expect(200);
        cluster.stop().await;

        let without = Cluster::start().await;
        assert!(self::objects(&without).await.is_empty());
        let _ = without.get("/readyz/poststarthook/rbac/bootstrap-roles").await.expect(404);
        without.stop().await;
    });
}

#[test]
fn gates_decide_which_roles_exist() {
    run(async {
        let gates = [("ClusterTrustBundle".to_owned(), true)].into_iter().collect();
        let gates = pintle_gates::Gates::with_overrides(&gates).expect("gates").0;
        let cluster = Cluster::with_options(Options { gates, ..options() }).await;
        let _ = cluster.get(&cluster_role("system:cluster-trust-bundle-discovery")).await.expect(200);
        let _ = cluster.get(&cluster_role_binding("system:cluster-trust-bundle-discovery")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn a_start_with_nothing_to_change_writes_nothing() {
    run(async {
        let cluster = Cluster::durable_with_options(Options { controllers: false, ..options() }).await;
        let before = objects(&cluster).await;
        let cluster = cluster.restart().await;
        assert_eq!(objects(&cluster).await, before);
        cluster.stop().await;
    });
}

#[test]
fn missing_permissions_come_back_and_additions_stay() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        let before = objects(&cluster).await;

        // The server adds missing rules, subjects, labels and annotations.
        let rules = json!([{"nonResourceURLs": ["/api", "/mine"], "verbs": ["get"]}]);
        let _ = patch(&cluster, &cluster_role("system:discovery"), json!({"rules": rules})).await;
        let metadata = json!({"labels": {"kubernetes.io/bootstrapping": null}, "annotations": {AUTO_UPDATE: null}});
        let changed = json!({"metadata": metadata, "subjects": users(&["alice"])});
        let _ = patch(&cluster, &cluster_role_binding("system:basic-user"), changed).await;
        // A label value from a user stays.
        let labels = json!({"labels": {"kubernetes.io/bootstrapping": "mine", "team": "mine"}});
        let _ = patch(&cluster, &cluster_role("system:basic-user"), json!({"metadata": labels})).await;
        // The server replaces an unexpected aggregation rule.
        let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"no": "such"}}]});
        let _ = patch(&cluster, &cluster_role("system:monitoring"), json!({"aggregationRule": selectors})).await;
        // The server replaces a binding with another role.
        let binding = cluster_role_binding("system:kube-dns");
        let _ = cluster.delete(&binding).await.expect(200);
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"});
        let other = json!({"metadata": {"name": "system:kube-dns"}, "roleRef": role, "subjects": users(&["alice"])});
        let _ = cluster.post(&format!("{RBAC}/clusterrolebindings"), other.to_string()).await.expect(201);
        // The server creates missing objects again.
        let gone = [
            cluster_role("system:heapster"),
            cluster_role_binding("system:controller:job-controller"),
            format!("{RBAC}/namespaces/kube-system/roles/system:controller:token-cleaner"),
            format!("{RBAC}/namespaces/kube-public/rolebindings/system:controller:bootstrap-signer"),
        ];
        for path in &gone {
            let _ = cluster.delete(path).await.expect(200);
        }
        // Objects with auto-update disabled stay as they are.
        let protection = json!({"annotations": {AUTO_UPDATE: "false"}});
        let protected = [cluster_role("system:kube-dns"), cluster_role_binding("system:discovery")];
        for path in &protected {
            let _ = patch(&cluster, path, json!({"metadata": protection, "rules": [], "subjects": []})).await;
        }
        // Objects of users stay as they are.
        let own = json!({"metadata": {"name": "own"}, "rules": []});
        let _ = cluster.post(&format!("{RBAC}/clusterroles"), own.to_string()).await.expect(201);

        let cluster = cluster.restart().await;
        let after = objects(&cluster).await;
        let get = async |path: &str| content(&cluster.get(path).await.expect(200).json());

        let discovery = get(&cluster_role("system:discovery")).await;
        let urls: Vec<&str> = discovery["rules"]
            .as_array()
            .expect("rules")
            .iter()
            .flat_map(|rule| rule["nonResourceURLs"].as_array().expect("paths"))
            .filter_map(Value::as_str)
            .collect();
        // First comes the user's rule, then a rule for each missing URL.
        let missing = [
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ];
        assert_eq!(urls, [&["/api", "/mine"][..], &missing].concat());
        assert_eq!(discovery["rules"].as_array().map(Vec::len), Some(1 + missing.len()));

        let basic_user = get(&cluster_role_binding("system:basic-user")).await;
        let mut expect = content(&before["clusterrolebindings  system:basic-user"]);
        let group = expect["subjects"][0].clone();
        expect["subjects"] = users(&["alice"]);
        expect["subjects"].as_array_mut().expect("subjects").push(group);
        assert_eq!(basic_user, expect);
        let mut expect = content(&before["clusterroles  system:basic-user"]);
        expect["metadata"]["labels"] = labels["labels"].clone();
        assert_eq!(get(&cluster_role("system:basic-user")).await, expect);
        for same in ["clusterroles  system:monitoring", "clusterrolebindings  system:kube-dns"] {
            assert_eq!(content(&after[same]), content(&before[same]), "{same}");
        }
        let uid = |objects: &BTreeMap<String, Value>| {
            objects["clusterrolebindings  system:kube-dns"]["metadata"]["uid"].clone()
        };
        assert_ne!(uid(&before), uid(&after));
        for path in &gone {
            let _ = cluster.get(path).await.expect(200);
        }
        assert_eq!(get(&protected[0]).await["rules"], json!([]));
        assert!(get(&protected[1]).await.get("subjects").is_none());
        let _ = cluster.get(&cluster_role("own")).await.expect(200);
        assert_eq!(after.len(), before.len() + 1);
        cluster.stop().await;
    });
}

#[test]
fn an_object_that_cannot_be_read_does_not_prevent_the_start() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        let _ = cluster.write_to_store("/registry/clusterroles/system:heapster", "{").await;
        let _ = cluster.delete(&cluster_role("system:kube-dns")).await.expect(200);
        let cluster = cluster.restart().await;
        let _ = cluster.get(&cluster_role("system:heapster")).await.expect(500);
        let _ = cluster.get(&cluster_role("system:kube-dns")).await.expect(200);
        let _ = cluster.get("/readyz").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn roles_that_users_made_before_keep_their_permissions() {
    run(async {
        let cluster = Cluster::durable().await;
        let rules = json!([{"apiGroups": [""], "resources": ["widgets"], "verbs": ["get"]}]);
        let role = json!({"metadata": {"name": "view"}, "rules": rules});
        let _ = cluster.post(&format!("{RBAC}/clusterroles"), role.to_string()).await.expect(201);
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "system:discovery"});
        let binding = json!({"metadata": {"name": "system:discovery"}, "roleRef": role, "subjects": users(&["alice"])});
        let _ = cluster.post(&format!("{RBAC}/clusterrolebindings"), binding.to_string()).await.expect(201);
        let cluster = cluster.restart_with(|options| options.rbac_bootstrap = Some(true)).await;
        // From now on the rules of the old role are aggregated. Both bindings have the subjects of the old binding.
        let aggregated = cluster.get(&cluster_role("system:aggregate-to-view")).await.expect(200).json();
        assert_eq!(aggregated["rules"][0], rules[0]);
        assert!(aggregated["rules"].as_array().expect("rules").len() > 10);
        let view = cluster.get(&cluster_role("view")).await.expect(200).json();
        assert_eq!(view["aggregationRule"]["clusterRoleSelectors"].as_array().map(Vec::len), Some(1));
        for name in ["system:discovery", "system:public-info-viewer"] {
            let binding = cluster.get(&cluster_role_binding(name)).await.expect(200).json();
            assert_eq!(binding["subjects"][0]["name"], "alice", "{name}");
            assert_eq!(binding["subjects"][1]["name"], "system:authenticated", "{name}");
        }
        cluster.stop().await;
    });
}

#[test]
fn the_policy_is_in_force_when_the_server_is_ready() {
    run(async {
        let access = AccessOptions {
            tokens: Some("alice,alice,1\n".to_owned()),
            authorization_modes: vec![AuthorizationMode::Rbac],
            ..AccessOptions::default()
        };
        let cluster = Cluster::with_options(Options { access, ..options() }).await;
        let alice = async |method: &str, path: &str| {
            let request = cluster.request(method, path).anonymous().header("Authorization", "Bearer alice");
            let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
            if method == "POST" { request.json(review.to_string()).send().await } else { request.send().await }
        };
        for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"] {
            let _ = alice("GET", path).await.expect(200);
        }
        let _ = alice("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await.expect(201);
        for path in ["/metrics", "/readyz/ping", "/api/v1/namespaces", &cluster_role("view")] {
            let _ = alice("GET", path).await.expect(403);
        }
        for (path, code) in [("/version", 200), ("/livez", 200), ("/api", 403)] {
            let _ = cluster.request("GET", path).anonymous().send().await.expect(code);
        }
        cluster.stop().await;
    });
}
