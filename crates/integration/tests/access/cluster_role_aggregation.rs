//! Aggregated cluster roles get the rules of the cluster roles that they select, while no controller manager aggregates
//! them.

use pintle_integration::{Cluster, Options, run};
use serde_json::{Value, json};

const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const NO_LABELS: &[&str] = &[];

fn path(name: &str) -> String {
    format!("{CLUSTER_ROLES}/{name}")
}

/// A rule for a resource.
fn rule(resource: &str) -> Value {
    json!({"apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"]})
}

fn rules(resources: &[&str]) -> Value {
    resources.iter().map(|resource| rule(resource)).collect()
}

fn labels(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!("true"))).collect::<serde_json::Map<_, _>>().into()
}

/// A cluster role with labels.
fn cluster_role(name: &str, names: &[&str], resources: &[&str]) -> String {
    json!({"metadata": {"name": name, "labels": labels(names)}, "rules": rules(resources)}).to_string()
}

/// An aggregated cluster role, with a selector for each label.
fn aggregated(name: &str, names: &[&str]) -> String {
    let selectors: Vec<Value> = names.iter().map(|name| json!({"matchLabels": labels(&[name])})).collect();
    json!({"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": selectors}}).to_string()
}

async fn create(cluster: &Cluster, role: String) {
    let _ = cluster.post(CLUSTER_ROLES, role).await.expect(201);
}

async fn patch(cluster: &Cluster, name: &str, patch: Value) {
    let _ = cluster.patch(&path(name), "merge", patch.to_string()).await.expect(200);
}

/// Waits until a cluster role meets a condition.
async fn wait_until(cluster: &Cluster, name: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut watch = cluster.watch(&format!("{CLUSTER_ROLES}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
    loop {
        let event = watch.next().await.expect("an event");
        if condition(&event["object"]) {
            return event["object"].clone();
        }
    }
}

async fn wait_for_rules(cluster: &Cluster, name: &str, resources: &[&str]) -> Value {
    let expect = if resources.is_empty() { Value::Null } else { rules(resources) };
    wait_until(cluster, name, |role| role["rules"] == expect).await
}

async fn rules_of(cluster: &Cluster, name: &str) -> Vec<Value> {
    let role = cluster.get(&path(name)).await.expect(200).json();
    role["rules"].as_array().cloned().unwrap_or_default()
}

/// Waits until the controller has failed to aggregate a role and will retry.
async fn wait_for_retry(cluster: &Cluster) {
    let retries = "workqueue_retries_total{name=\"ClusterRoleAggregator\"} ";
    let is_retried = |text: &str| text.lines().find_map(|line| line.strip_prefix(retries)).expect("the metric") != "0";
    cluster.get_until("/metrics", |metrics| is_retried(&metrics.text())).await;
}

#[test]
fn rules_come_selector_by_selector_and_by_name_and_each_once() {
    run(async {
        let cluster = Cluster::start().await;
        create(&cluster, cluster_role("saw", &["b"], &["boards", "nails"])).await;
        create(&cluster, cluster_role("hammer", &["a"], &["nails", "wedges"])).await;
        create(&cluster, cluster_role("chisel", &["a"], &["mortises"])).await;
        create(&cluster, cluster_role("drill", NO_LABELS, &["holes"])).await;
        create(&cluster, aggregated("all", &["b", "a"])).await;
        let all = wait_for_rules(&cluster, "all", &["boards", "nails", "mortises", "wedges"]).await;
        let owners: Vec<Value> = all["metadata"]["managedFields"]
            .as_array()
            .expect("managers")
            .iter()
            .filter(|manager| !manager["fieldsV1"]["f:rules"].is_null())
            .map(|manager| json!([manager["manager"], manager["operation"], manager["fieldsV1"]]))
            .collect();
        assert_eq!(owners, [json!(["clusterrole-aggregation-controller", "Apply", {"f:rules": {}}])]);

        // The controller follows changes of the selected roles' rules and labels, and of the selectors.
        patch(&cluster, "chisel", json!({"rules": rules(&["joints"])})).await;
        wait_for_rules(&cluster, "all", &["boards", "nails", "joints", "wedges"]).await;
        patch(&cluster, "saw", json!({"metadata": {"labels": {"b": null}}})).await;
        wait_for_rules(&cluster, "all", &["joints", "nails", "wedges"]).await;
        patch(&cluster, "drill", json!({"metadata": {"labels": {"b": "true"}}})).await;
        wait_for_rules(&cluster, "all", &["holes", "joints", "nails", "wedges"]).await;
        let _ = cluster.delete(&path("hammer")).await.expect(200);
        wait_for_rules(&cluster, "all", &["holes", "joints"]).await;
        let selectors = json!([{"matchLabels": {"none": "true"}}]);
        patch(&cluster, "all", json!({"aggregationRule": {"clusterRoleSelectors": selectors}})).await;
        wait_for_rules(&cluster, "all", &[]).await;
        // A role does not select itself, but it selects other aggregated roles.
        create(&cluster, aggregated("more", &["c"])).await;
        let selectors = json!([{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]);
        let more = json!({"labels": {"c": "true"}});
        patch(&cluster, "all", json!({"metadata": more, "aggregationRule": {"clusterRoleSelectors": selectors}})).await;
        patch(&cluster, "more", json!({"metadata": more})).await;
        wait_for_rules(&cluster, "more", &["holes"]).await;
        // The controller replaces rules that users write.
        patch(&cluster, "more", json!({"rules": rules(&["mine"])})).await;
        wait_for_rules(&cluster, "more", &["holes"]).await;
        cluster.stop().await;
    });
}

#[test]
fn the_roles_of_users_are_filled_and_extended_by_labels() {
    run(async {
        let cluster = Cluster::with_options(Options { rbac_bootstrap: Some(true), ..Options::default() }).await;
        let own = async |name: &str| rules_of(&cluster, &format!("system:aggregate-to-{name}")).await;
        let view = own("view").await;
        // The order is by name: `edit` comes before the roles of the system, and `view` after them.
        let edit = [own("edit").await, view.clone()].concat();
        let admin = [edit.clone(), own("admin").await].concat();
        assert_eq!([view.len(), edit.len(), admin.len()], [11, 25, 27]);
        for (name, expect) in [("view", &view), ("edit", &edit), ("admin", &admin)] {
            wait_until(&cluster, name, |role| role["rules"].as_array() == Some(expect)).await;
        }
        let widgets =
            json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]});
        let role = json!({
            "metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
            "rules": [widgets],
        });
        create(&cluster, role.to_string()).await;
        for name in ["view", "edit", "admin"] {
            let has_it = |role: &Value| role["rules"].as_array().is_some_and(|rules| rules.contains(&widgets));
            wait_until(&cluster, name, has_it).await;
        }
        let _ = cluster.delete(&path("widgets")).await.expect(200);
        wait_until(&cluster, "admin", |role| role["rules"].as_array() == Some(&admin)).await;
        cluster.stop().await;
    });
}

#[test]
fn a_restart_leaves_aggregated_roles_as_they_are() {
    run(async {
        let cluster = Cluster::durable_with_options(Options { rbac_bootstrap: Some(true), ..Options::default() }).await;
        // `admin` is filled last, because it selects `edit`, which selects `view`.
        let before =
            wait_until(&cluster, "admin", |role| role["rules"].as_array().is_some_and(|r| r.len() == 27)).await;
        let cluster = cluster.restart().await;
        create(&cluster, cluster_role("a", &["a"], &["boards"])).await;
        create(&cluster, aggregated("all", &["a"])).await;
        wait_for_rules(&cluster, "all", &["boards"]).await;
        assert_eq!(cluster.get(&path("admin")).await.expect(200).json(), before);
        cluster.stop().await;
    });
}

#[test]
fn nothing_is_aggregated_while_a_controller_manager_holds_its_lease() {
    run(async {
        let cluster = Cluster::start().await;
        let lease = |renewed: &str| {
            json!({
                "metadata": {"name": "kube-controller-manager"},
                "spec": {"holderIdentity": "someone", "leaseDurationSeconds": 3600, "renewTime": renewed},
            })
            .to_string()
        };
        let _ = cluster.post(LEASES, lease("2200-01-01T00:00:00.000000Z")).await.expect(201);
        create(&cluster, cluster_role("a", &["a"], &["boards"])).await;
        create(&cluster, aggregated("all", &["a"])).await;
        wait_for_retry(&cluster).await;
        assert_eq!(rules_of(&cluster, "all").await, [] as [Value; 0]);
        let path = format!("{LEASES}/kube-controller-manager");
        let _ = cluster.patch(&path, "merge", lease("2020-01-01T00:00:00.000000Z")).await.expect(200);
        wait_for_rules(&cluster, "all", &["boards"]).await;
        cluster.stop().await;
    });
}

#[test]
fn a_role_that_cannot_be_read_is_not_taken_for_deleted() {
    run(async {
        let cluster = Cluster::start().await;
        create(&cluster, cluster_role("a", &["a"], &["boards"])).await;
        create(&cluster, aggregated("all", &["a"])).await;
        wait_for_rules(&cluster, "all", &["boards"]).await;
        let mut readable = cluster.get(&path("a")).await.expect(200).json();
        readable["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        let _ = cluster.write_to_store("/registry/clusterroles/a", "{").await;
        create(&cluster, cluster_role("b", &["a"], &["nails"])).await;
        wait_for_retry(&cluster).await;
        assert_eq!(rules_of(&cluster, "all").await, [rule("boards")]);
        let _ = cluster.write_to_store("/registry/clusterroles/a", readable.to_string()).await;
        wait_for_rules(&cluster, "all", &["boards", "nails"]).await;
        cluster.stop().await;
    });
}
