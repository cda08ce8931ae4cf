//! ComponentStatuses, which the server computes for each request and never stores.

use pintle_integration::{Cluster, Component, Options, bootstrapped, run};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/componentstatuses";

/// Starts a cluster with three components. A second cluster plays a healthy scheduler, the controller manager does not
/// listen, and a broken component responds with an error. Returns both clusters.
async fn start() -> (Cluster, Cluster) {
    let scheduler = Cluster::with_options(bootstrapped()).await;
    let component = |name: &str, health: String| Component { name: name.to_owned(), health };
    let cluster = Cluster::with_options(Options {
        components: vec![
            component("scheduler", format!("{}/healthz", scheduler.url())),
            component("controller-manager", format!("https://{}/healthz", unused_address())),
            component("broken", format!("{}/api", scheduler.url())),
        ],
        ..Options::default()
    })
    .await;
    (cluster, scheduler)
}

/// Returns an address without a listener.
fn unused_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

#[test]
fn list_reports_the_health_of_each_component() {
    run(async {
        let (cluster, scheduler) = start().await;
        let response = cluster.get(PATH).await.expect(200);
        assert_eq!(response.header("warning"), "299 - \"v1 ComponentStatus is deprecated in v1.19+\"");
        let mut list = response.json();
        let connection_error = list.pointer_mut("/items/1/conditions/0/message").expect("a message").take();
        let connection_error = connection_error.as_str().expect("a text");
        assert!(connection_error.starts_with("Get \"https://127.0.0.1:"), "{connection_error}");
        assert!(connection_error.ends_with(": connect: connection refused"), "{connection_error}");
        let item = |name: &str, status: &str, message: Value| {
            json!({
                "metadata": { "name": name },
                "conditions": [{ "type": "Healthy", "status": status, "message": message }],
            })
        };
        let expect = json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [
            item("broken", "False", json!("HTTP probe failed with statuscode: 403")),
            item("controller-manager", "False", Value::Null),
            item("etcd-0", "True", json!("ok")),
            item("scheduler", "True", json!("ok")),
        ]});
        assert_eq!(list, expect);
        let mut one = item("scheduler", "True", json!("ok"));
        one["kind"] = json!("ComponentStatus");
        one["apiVersion"] = json!("v1");
        assert_eq!(cluster.get(&format!("{PATH}/scheduler?resourceVersion=7")).await.expect(200).json(), one);
        cluster.stop().await;
        scheduler.stop().await;
    });
}

#[test]
fn component_statuses_can_be_selected() {
    run(async {
        let (cluster, scheduler) = start().await;
        for (query, expect) in [
            ("fieldSelector=metadata.name%3Detcd-0", vec!["etcd-0"]),
            (
                "fieldSelector=metadata.name%21%3Detcd-0,metadata.namespace%3D",
                vec!["broken", "controller-manager", "scheduler"],
            ),
            ("labelSelector=a", vec![]),
            ("labelSelector=%21a&limit=1", vec!["broken", "controller-manager", "etcd-0", "scheduler"]),
        ] {
            let list = cluster.get(&format!("{PATH}?{query}")).await.expect(200).json();
            assert_eq!(names(&list), expect, "{query}");
        }
        let unknown = "\"status.phase\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
        cluster.get(&format!("{PATH}?fieldSelector=status.phase%3DA")).await.expect_error(400, "BadRequest", unknown);
        cluster.stop().await;
        scheduler.stop().await;
    });
}

#[test]
fn component_statuses_support_get_and_list_only() {
    run(async {
        let cluster = Cluster::start().await;
        let check = async |method: &str, path: &str, code: u16, reason: &str, message: &str| {
            let response = cluster.request(method, path).json("{}").send().await;
            response.expect_error(code, reason, message);
        };
        let not_allowed = "the server does not allow this method on the requested resource";
        let watch = "watch is not supported on resources of kind \"componentstatuses\"";
        check("GET", &format!("{PATH}/nobody"), 500, "", "Component not found: nobody").await;
        check("GET", &format!("{PATH}?watch=true"), 405, "MethodNotAllowed", watch).await;
        let no_path = "the server could not find the requested resource";
        check("GET", "/api/v1/watch/componentstatuses", 404, "NotFound", no_path).await;
        check("GET", &format!("{PATH}/etcd-0/status"), 404, "NotFound", no_path).await;
        check("POST", PATH, 405, "MethodNotAllowed", not_allowed).await;
        check("DELETE", PATH, 405, "MethodNotAllowed", not_allowed).await;
        check("PUT", &format!("{PATH}/etcd-0"), 405, "MethodNotAllowed", not_allowed).await;
        cluster.stop().await;
    });
}
