//! Access by roles and bindings.

use pintle_integration::{AccessOptions, AuthorizationMode, Cluster, Options, Response, bootstrapped, run};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The users. The token of each user is the user name.
const TOKENS: &str = "alice,alice,1,dev\nbob,bob,2\n";

/// Options of a cluster where only roles and bindings allow anything. There are none at first.
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

/// Creates a role and a binding that allow `alice` these verbs on config maps in the namespace `default`.
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
            (
                "POST",
                "/api/v1/namespaces/n/pods/p/eviction",
                "cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"n\"".to_owned(),
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

/// There are more changes than a watcher buffers and than one read of the history returns, without a decision in
/// between.
#[test]
fn many_changes_are_in_force_at_once() {
    const CHANGES: usize = 4500;
    run(async {
        let cluster = Cluster::with_options(options()).await;
        allow_config_maps(&cluster, &["list"]).await;
        let _ = send_as(&cluster, "alice", "GET", CONFIGMAPS, None).await.expect(200);
        let bindings = format!("{RBAC}/namespaces/default/rolebindings");
        let _ = cluster.post(&bindings, binding("other", "maps", user("bob"))).await.expect(201);
        let labelled = |number: usize| json!({"metadata": {"labels": {"n": number.to_string()}}}).to_string();
        for number in 0..CHANGES {
            let _ = cluster.patch(&format!("{bindings}/other"), "merge", labelled(number)).await.expect(200);
        }
        let _ = cluster.delete(&format!("{bindings}/maps")).await.expect(200);
        let _ = send_as(&cluster, "alice", "GET", CONFIGMAPS, None).await.expect(403);
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

/// Gives `alice` these rules everywhere.
async fn give_alice(cluster: &Cluster, rules: Value) {
    let _ = cluster.put(&format!("{RBAC}/clusterroles/alice"), cluster_role("alice", rules)).await;
    let bindings = format!("{RBAC}/clusterrolebindings/alice");
    let _ = cluster.put(&bindings, binding("alice", "alice", user("alice"))).await;
}

/// The rule to write roles and bindings, with further verbs.
fn policy_rule(verbs: &[&str]) -> Value {
    let verbs: Vec<_> = ["get", "create", "update", "patch"].iter().chain(verbs).collect();
    json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]})
}

#[test]
fn a_role_grants_only_what_its_author_holds() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let get_pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let list_pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        give_alice(&cluster, json!([policy_rule(&[]), get_pods])).await;
        let roles = format!("{RBAC}/clusterroles");
        let role = |name: &str, rule: &Value| json!({"metadata": {"name": name}, "rules": [rule]});
        let escalation = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: user \"alice\" \
             (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}";
        let as_alice =
            async |method: &str, path: &str, body: Value| send_as(&cluster, "alice", method, path, Some(body)).await;
        // The escalation check comes before other errors.
        let bad = json!({"metadata": {"name": "r"}, "rules": [list_pods, {"verbs": []}]});
        as_alice("POST", &roles, bad).await.expect_error(403, "Forbidden", escalation);
        as_alice("POST", &roles, role("r", &list_pods)).await.expect_error(403, "Forbidden", escalation);
        as_alice("PUT", &format!("{roles}/r"), role("r", &list_pods)).await.expect_error(403, "Forbidden", escalation);
        let created = as_alice("POST", &roles, role("r", &get_pods)).await.expect(201).json();
        let mut update = created.clone();
        update["rules"] = json!([list_pods]);
        as_alice("PUT", &format!("{roles}/r"), update.clone()).await.expect_error(403, "Forbidden", escalation);
        update["metadata"]["resourceVersion"] = json!("1");
        as_alice("PUT", &format!("{roles}/r"), update).await.expect_error(403, "Forbidden", escalation);
        let merge = cluster.request("PATCH", &format!("{roles}/r")).anonymous().header("Authorization", "Bearer alice");
        let merge = merge.body("application/merge-patch+json", json!({"rules": [list_pods]}).to_string()).send().await;
        merge.expect_error(403, "Forbidden", escalation);
        let apply = cluster.request("PATCH", &format!("{roles}/r?fieldManager=m&force=true")).anonymous();
        let apply = apply.header("Authorization", "Bearer alice");
        let config = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [list_pods]});
        let apply = apply.body("application/apply-patch+yaml", config.to_string()).send().await;
        apply.expect_error(403, "Forbidden", escalation);
        assert_eq!(cluster.get(&format!("{roles}/r")).await.expect(200).json()["rules"], json!([get_pods]));

        // The garbage collector's changes of a role are allowed, and so are changes by users with the verb `escalate`.
        let _ = cluster.put(&format!("{roles}/r"), role("r", &list_pods).to_string()).await.expect(200);
        let mut collected = cluster.get(&format!("{roles}/r")).await.expect(200).json();
        collected["metadata"]["finalizers"] = json!(["example.com/wait"]);
        let _ = as_alice("PUT", &format!("{roles}/r"), collected.clone()).await.expect(200);
        collected["metadata"]["labels"] = json!({"a": "b"});
        collected["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        as_alice("PUT", &format!("{roles}/r"), collected.clone()).await.expect_error(403, "Forbidden", escalation);
        give_alice(&cluster, json!([policy_rule(&["escalate"])])).await;
        let _ = as_alice("PUT", &format!("{roles}/r"), collected).await.expect(200);
        let _ = as_alice("POST", &roles, role("s", &list_pods)).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn an_aggregation_rule_needs_all_permissions() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        give_alice(&cluster, json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])).await;
        // The rule includes the verb `escalate`, which lets alice write any role. So the test removes the verb.
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
        give_alice(&cluster, json!([{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}])).await;
        let roles = format!("{RBAC}/clusterroles");
        let role = json!({"metadata": {"name": "r"}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
        let why = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: must have cluster-admin privileges to use the \
             aggregationRule";
        send_as(&cluster, "alice", "POST", &roles, Some(role.clone())).await.expect_error(403, "Forbidden", why);
        let _ = cluster.post(&roles, role.to_string()).await.expect(201);
        // The aggregation rule may not be removed either, because the role would keep the aggregated rules.
        let fixed = json!({"metadata": {"name": "r"}, "rules": []});
        let path = format!("{roles}/r");
        send_as(&cluster, "alice", "PUT", &path, Some(fixed.clone())).await.expect_error(403, "Forbidden", why);
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]);
        give_alice(&cluster, all).await;
        let _ = send_as(&cluster, "alice", "PUT", &path, Some(fixed)).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn a_binding_grants_only_what_its_author_holds() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let get_pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        give_alice(&cluster, json!([policy_rule(&[])])).await;
        let _ =
            cluster.post(&format!("{RBAC}/clusterroles"), cluster_role("pods", json!([get_pods]))).await.expect(201);
        let (local, global) =
            (format!("{RBAC}/namespaces/default/rolebindings"), format!("{RBAC}/clusterrolebindings"));
        let bind = |role: &str| -> Value { serde_json::from_str(&binding("b", role, user("bob"))).expect("JSON") };
        for (path, resource) in [(&local, "rolebindings"), (&global, "clusterrolebindings")] {
            send_as(&cluster, "alice", "POST", path, Some(bind("pods"))).await.expect_error(
                403,
                "Forbidden",
                &format!(
                    "{resource}.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\" (groups=[\"dev\" \
                     \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                     {{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}}"
                ),
            );
            let missing = send_as(&cluster, "alice", "POST", path, Some(bind("none"))).await;
            let message = format!("{resource}.rbac.authorization.k8s.io \"none\" not found");
            missing.expect_error(404, "NotFound", &message);
            let mut unknown = bind("pods");
            unknown["roleRef"]["kind"] = json!("Group");
            let unknown = send_as(&cluster, "alice", "POST", path, Some(unknown)).await.expect(500).json();
            assert_eq!(unknown["message"], "unsupported role reference kind: \"Group\"");
            let _ = send_as(&cluster, "bob", "GET", PODS, None).await.expect(403);
        }
        // Users who hold the permissions in a namespace may grant them there.
        let _ = cluster.post(&local, binding("own", "pods", user("alice"))).await.expect(201);
        let _ = send_as(&cluster, "alice", "POST", &local, Some(bind("pods"))).await.expect(201);
        let _ = send_as(&cluster, "alice", "POST", &global, Some(bind("pods"))).await.expect(403);
        let _ = send_as(&cluster, "bob", "GET", &format!("{PODS}/p"), None).await.expect(404);
        // Users with the verb `bind` for the role may grant them, too.
        let bind_rule = json!({"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["pods"]});
        give_alice(&cluster, json!([policy_rule(&[]), bind_rule])).await;
        let _ = send_as(&cluster, "alice", "POST", &global, Some(bind("pods"))).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn reviews_tell_what_roles_and_bindings_allow() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        allow_config_maps(&cluster, &["list"]).await;
        let reviews = "/apis/authorization.k8s.io/v1";
        let allowed = json!({"allowed": true, "reason":
            "RBAC: allowed by RoleBinding \"maps/default\" of ClusterRole \"maps\" to User \"alice\""});
        for (user, namespace, verb, expect) in [
            ("alice", "default", "list", allowed.clone()),
            ("alice", "default", "get", json!({"allowed": false})),
            ("alice", "other", "list", json!({"allowed": false})),
            ("bob", "default", "list", json!({"allowed": false})),
        ] {
            let attributes = json!({"verb": verb, "resource": "configmaps", "namespace": namespace});
            let spec = json!({"user": user, "resourceAttributes": attributes});
            let (path, local) = (
                format!("{reviews}/subjectaccessreviews"),
                format!("{reviews}/namespaces/{namespace}/localsubjectaccessreviews"),
            );
            for path in [path, local] {
                let review = cluster.post(&path, json!({"spec": spec}).to_string()).await.expect(201).json();
                assert_eq!(review["status"], expect, "{path} {spec}");
            }
            let own = cluster.request("POST", &format!("{reviews}/selfsubjectaccessreviews"));
            let own = own.header("Impersonate-User", user);
            let review = json!({"spec": {"resourceAttributes": attributes}}).to_string();
            let _ = own.json(review).send().await.expect(403);
        }
        give_alice(
            &cluster,
            json!([
                {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            ]),
        )
        .await;
        let review =
            json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}}});
        let path = format!("{reviews}/selfsubjectaccessreviews");
        let review = send_as(&cluster, "alice", "POST", &path, Some(review)).await.expect(201).json();
        assert_eq!(review["status"], allowed);
        let review = json!({"spec": {"namespace": "default"}});
        let path = format!("{reviews}/selfsubjectrulesreviews");
        let review = send_as(&cluster, "alice", "POST", &path, Some(review)).await.expect(201).json();
        let expect = json!({
            "resourceRules": [
                {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
                {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
            "incomplete": false,
        });
        assert_eq!(review["status"], expect);
        let selector = json!({"spec": {"user": "a", "resourceAttributes": {"labelSelector": {}}}});
        cluster.post(&format!("{reviews}/subjectaccessreviews"), selector.to_string()).await.expect_error(
            422,
            "Invalid",
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: \
             spec.resourceAttributes.labelSelector.requirements: Required value: when \
             spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        );
        cluster.stop().await;
    });
}

#[test]
fn anonymous_clients_may_read_what_is_public() {
    run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        for path in ["/livez", "/readyz", "/healthz", "/version", "/version/"] {
            let _ = cluster.request("GET", path).anonymous().send().await.expect(200);
        }
        // A single check tells the reason of its failure.
        for path in ["/livez/ping", "/readyz?verbose", "/metrics", "/api", "/apis", "/openapi/v2", "/", CONFIGMAPS] {
            let response = cluster.request("GET", path).anonymous().send().await;
            // As upstream, rules ignore the query.
            let _ = response.expect(if path == "/readyz?verbose" { 200 } else { 403 });
        }
        cluster.stop().await;
    });
}

/// The verbs of discovery, with the method of their requests, whether they name an object, and their query.
const VERBS: [(&str, &str, bool, &str); 8] = [
    ("get", "GET", true, ""),
    ("list", "GET", false, ""),
    ("watch", "GET", false, "?watch=1"),
    ("create", "POST", false, ""),
    ("update", "PUT", true, ""),
    ("patch", "PATCH", true, ""),
    ("delete", "DELETE", true, ""),
    ("deletecollection", "DELETE", false, ""),
];

/// The resources of a group version. Each has the path of the collection, the path of an object or of its subresource,
/// and the verbs.
async fn resources(cluster: &Cluster, base: &str) -> Vec<(Option<String>, String, Value)> {
    let list = cluster.get(base).await.expect(200).json();
    let resources = list["resources"].as_array().expect("resources").iter();
    let paths = resources.map(|resource| {
        let name = resource["name"].as_str().expect("a name");
        let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
        let verbs = resource["verbs"].clone();
        match name.split_once('/') {
            Some((resource, subresource)) => (None, format!("{base}{namespace}/{resource}/x/{subresource}"), verbs),
            None => (Some(format!("{base}{namespace}/{name}")), format!("{base}{namespace}/{name}/x"), verbs),
        }
    });
    paths.collect()
}

#[test]
fn nothing_that_discovery_lists_is_open_to_users_without_permission() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let groups = cluster.get("/apis").await.expect(200).json();
        let versions = groups["groups"].as_array().into_iter().flatten();
        let versions = versions.flat_map(|group| group["versions"].as_array().expect("versions"));
        let bases = versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().expect("a version")));
        let mut checked = 0;
        for base in bases.chain(["/api/v1".to_owned()]) {
            for (collection, object, verbs) in resources(&cluster, &base).await {
                for (verb, method, named, query) in VERBS {
                    if !verbs.as_array().expect("verbs").iter().any(|known| known == verb) {
                        continue;
                    }
                    let target = if named { &object } else { collection.as_ref().unwrap_or(&object) };
                    let body = matches!(method, "POST" | "PUT" | "PATCH").then(|| json!({}));
                    let response = send_as(&cluster, "bob", method, &format!("{target}{query}"), body).await;
                    let status = response.expect(403).json();
                    let message = status["message"].as_str().expect("a message");
                    let expect = format!("User \"bob\" cannot {verb} resource ");
                    assert!(message.contains(&expect), "{verb} {target}: {message}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 500, "{checked}");
        cluster.stop().await;
    });
}

#[test]
fn the_answer_is_the_same_whether_an_object_exists_or_not() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let _ = cluster.post(CONFIGMAPS, json!({"metadata": {"name": "aaa"}}).to_string()).await.expect(201);
        let _ = cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "aaa"}}).to_string()).await.expect(201);
        for (method, path) in [
            ("GET", "/api/v1/namespaces/default/configmaps/NAME"),
            ("PUT", "/api/v1/namespaces/default/configmaps/NAME"),
            ("PATCH", "/api/v1/namespaces/default/configmaps/NAME"),
            ("DELETE", "/api/v1/namespaces/default/configmaps/NAME"),
            ("GET", "/api/v1/namespaces/NAME"),
            ("GET", "/api/v1/namespaces/NAME/configmaps"),
            ("POST", "/api/v1/namespaces/NAME/configmaps"),
            ("DELETE", "/api/v1/namespaces/NAME/configmaps"),
            ("GET", "/apis/NAME/v1/things"),
        ] {
            let answer = async |name: &str| {
                let body = matches!(method, "POST" | "PUT" | "PATCH").then(|| json!({}));
                let response = send_as(&cluster, "bob", method, &path.replace("NAME", name), body).await;
                let mut headers: Vec<_> = response
                    .headers
                    .iter()
                    .filter(|(name, _)| !matches!(name.as_str(), "audit-id" | "date"))
                    .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
                    .collect();
                headers.sort();
                (response.status, headers, response.text().replace(name, "NAME"))
            };
            assert_eq!(answer("aaa").await, answer("bbb").await, "{method} {path}");
        }
        cluster.stop().await;
    });
}

/// The verb of a non-resource request is its method in lower case, whatever the method.
#[test]
fn unusual_methods_are_verbs_of_other_paths() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let rules = json!([
            {"verbs": ["brew", "options"], "nonResourceURLs": ["/healthz"]},
            {"verbs": ["brew"], "apiGroups": [""], "resources": ["configmaps"]},
        ]);
        let _ = cluster.post(&format!("{RBAC}/clusterroles"), cluster_role("brewer", rules)).await.expect(201);
        let bindings = format!("{RBAC}/clusterrolebindings");
        let _ = cluster.post(&bindings, binding("brewer", "brewer", user("alice"))).await.expect(201);
        let too_long = "X".repeat(65);
        for (method, path, expect) in [
            ("BREW", "/healthz", None),
            ("Brew", "/healthz", None),
            ("OPTIONS", "/healthz", None),
            ("BREWER", "/healthz", Some("cannot brewer path \"/healthz\"".to_owned())),
            ("BREW", "/livez", Some("cannot brew path \"/livez\"".to_owned())),
            (&too_long, "/healthz", Some("cannot  path \"/healthz\"".to_owned())),
            // Requests for resources have no verb for an unusual method.
            (
                "BREW",
                CONFIGMAPS,
                Some("cannot  resource \"configmaps\" in API group \"\" in the namespace \"default\"".to_owned()),
            ),
        ] {
            let response = send_as(&cluster, "alice", method, path, None).await;
            match expect {
                None => assert_eq!(response.expect(200).text(), "ok", "{method} {path}"),
                Some(why) => {
                    let message = response.expect(403).json()["message"].clone();
                    assert!(message.as_str().unwrap_or_default().ends_with(&why), "{method} {path}: {message}");
                }
            }
        }
        let metrics = cluster.get("/metrics").await.expect(200).text();
        assert!(metrics.contains("verb=\"other\"") && !metrics.to_ascii_lowercase().contains("brew"), "{metrics}");
    });
}
