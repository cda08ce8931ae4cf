//! The APIServices of the versions that the server serves itself.

use std::collections::BTreeSet;

use pintle_integration::{Cluster, Options, RuntimeConfig, run};
use serde_json::{Value, json};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

fn options() -> Options {
    Options { api_services: true, ..Options::default() }
}

fn path(name: &str) -> String {
    format!("{SERVICES}/{name}")
}

async fn ready(cluster: &Cluster) {
    cluster.get_until("/readyz/autoregister-completion", |found| found.text() == "ok").await;
}

async fn get(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&path(name)).await.expect(200).json()
}

/// Waits until an APIService meets a condition. The condition gets `None` if it is absent.
async fn wait_until(cluster: &Cluster, name: &str, condition: impl Fn(Option<&Value>) -> bool) {
    let mut watch = cluster.watch(&format!("{SERVICES}?watch=1")).await;
    let current = cluster.get(&path(name)).await;
    if condition((current.status == 200).then(|| current.json()).as_ref()) {
        return;
    }
    loop {
        let event = watch.next().await.expect("an event");
        let object = Some(&event["object"]).filter(|_| event["type"] != "DELETED");
        if event["object"]["metadata"]["name"] == name && condition(object) {
            return;
        }
    }
}

async fn patch(cluster: &Cluster, path: &str, patch: Value) {
    let _ = cluster.patch(path, "merge", patch.to_string()).await.expect(200);
}

fn crd(served: &[(&str, bool)]) -> String {
    let versions = served.iter().enumerate().map(|(i, (name, is_served))| {
        json!({"name": name, "served": is_served, "storage": i == 0, "schema": {"openAPIV3Schema": {"type": "object"}}})
    });
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": versions.collect::<Vec<Value>>(),
        },
    })
    .to_string()
}

#[test]
fn every_built_in_version_has_a_service() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        ready(&cluster).await;
        let groups = cluster.get("/apis").await.expect(200).json();
        let groups = groups["groups"].as_array().expect("groups").iter();
        let versions = groups.flat_map(|group| group["versions"].as_array().expect("versions"));
        let names = versions.map(|version| {
            let (group, version) =
                version["groupVersion"].as_str().expect("a version").split_once('/').expect("a group");
            format!("{version}.{group}")
        });
        let mut names: BTreeSet<String> = names.collect();
        assert!(names.remove("v1.apiregistration.k8s.io"), "the aggregator's own version has none");
        names.insert("v1.".to_owned());
        let list = cluster.get(SERVICES).await.expect(200).json();
        let items = list["items"].as_array().expect("items");
        let found: BTreeSet<String> =
            items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect();
        assert_eq!(found, names);

        let service = get(&cluster, "v1.apps").await;
        let spec = json!({"group": "apps", "groupPriorityMinimum": 17800, "version": "v1", "versionPriority": 15});
        assert_eq!(service["spec"], spec);
        assert_eq!(service["metadata"]["labels"], json!({LABEL: "onstart"}));
        let condition = &service["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Available"), &json!("True")));
        assert_eq!(condition["reason"], "Local");
        assert_eq!(condition["message"], "Local APIServices are always available");
        let managers = service["metadata"]["managedFields"].as_array().expect("managed fields");
        let [manager] = &managers[..] else { panic!("{managers:?}") };
        assert_eq!((&manager["manager"], &manager["operation"]), (&json!("kube-apiserver"), &json!("Update")));
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:kube-aggregator.kubernetes.io/automanaged": {}}},
            "f:spec": {"f:group": {}, "f:groupPriorityMinimum": {}, "f:version": {}, "f:versionPriority": {}},
        });
        assert_eq!(manager["fieldsV1"], fields);
        cluster.stop().await;
    });
}

#[test]
fn services_of_built_in_versions_are_restored_when_the_server_starts() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        ready(&cluster).await;
        let _ = cluster.delete(&path("v1.batch")).await.expect(200);
        patch(&cluster, &path("v1.apps"), json!({"spec": {"versionPriority": 7}})).await;
        patch(&cluster, &path("v1.policy"), json!({"spec": {"versionPriority": 7}, "metadata": {"labels": null}}))
            .await;
        // While the server runs, the controller restores only the condition. If it restored the specs and objects, they
        // would be back together with the condition.
        let lost = json!({"status": {"conditions": []}});
        patch(&cluster, &format!("{}/status", path("v1.apps")), lost).await;
        let is_available =
            |service: Option<&Value>| service.is_some_and(|s| s["status"]["conditions"][0]["reason"] == "Local");
        wait_until(&cluster, "v1.apps", is_available).await;
        assert_eq!(get(&cluster, "v1.apps").await["spec"]["versionPriority"], 7);
        let _ = cluster.get(&path("v1.batch")).await.expect(404);

        let disabled = RuntimeConfig::from_flags(Default::default(), &["node.k8s.io/v1=false"]).expect("valid values");
        let cluster = cluster.restart_with(|options| options.runtime_config = disabled).await;
        ready(&cluster).await;
        wait_until(&cluster, "v1.apps", |service| service.is_some_and(|s| s["spec"]["versionPriority"] == 15)).await;
        wait_until(&cluster, "v1.node.k8s.io", |service| service.is_none()).await;
        let _ = cluster.get(&path("v1.batch")).await.expect(200);
        assert_eq!(get(&cluster, "v1.policy").await["spec"]["versionPriority"], 7, "it is not managed any more");

        let cluster = cluster.restart_with(|options| options.runtime_config = RuntimeConfig::default()).await;
        ready(&cluster).await;
        let _ = cluster.get(&path("v1.node.k8s.io")).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn services_of_crds_are_kept_at_any_time() {
    run(async {
        let cluster = Cluster::durable_with_options(options()).await;
        let _ = cluster.post(CRDS, crd(&[("v1", true), ("v2", false)])).await.expect(201);
        let exists = |service: Option<&Value>| service.is_some();
        wait_until(&cluster, "v1.example.com", exists).await;
        let service = get(&cluster, "v1.example.com").await;
        let spec =
            json!({"group": "example.com", "groupPriorityMinimum": 1000, "version": "v1", "versionPriority": 100});
        assert_eq!(service["spec"], spec);
        assert_eq!(service["metadata"]["labels"], json!({LABEL: "true"}));
        let _ = cluster.get(&path("v2.example.com")).await.expect(404);

        // The controller creates the APIService again without changes.
        let _ = cluster.delete(&path("v1.example.com")).await.expect(200);
        let uid = service["metadata"]["uid"].clone();
        wait_until(&cluster, "v1.example.com", |service| service.is_some_and(|s| s["metadata"]["uid"] != uid)).await;
        patch(&cluster, &path("v1.example.com"), json!({"spec": {"versionPriority": 7}})).await;
        wait_until(&cluster, "v1.example.com", |s| s.is_some_and(|s| s["spec"]["versionPriority"] == 100)).await;

        // The APIServices follow the versions of the CRD.
        let version =
            |is_served: bool| json!([{"op": "replace", "path": "/spec/versions/1/served", "value": is_served}]);
        let path_of_crd = format!("{CRDS}/things.example.com");
        let _ = cluster.patch(&path_of_crd, "json", version(true).to_string()).await.expect(200);
        wait_until(&cluster, "v2.example.com", exists).await;
        let _ = cluster.patch(&path_of_crd, "json", version(false).to_string()).await.expect(200);
        wait_until(&cluster, "v2.example.com", |service| service.is_none()).await;

        // The controller does not change APIServices with another service or without the label.
        let labels = json!({"metadata": {"labels": null}, "spec": {"versionPriority": 7}});
        patch(&cluster, &path("v1.example.com"), labels).await;
        let spurious = json!({
            "metadata": {"name": "v1.gone.example.com", "labels": {LABEL: "true"}},
            "spec": {"group": "gone.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        });
        let _ = cluster.post(SERVICES, spurious.to_string()).await.expect(201);
        wait_until(&cluster, "v1.gone.example.com", |service| service.is_none()).await;
        let _ = cluster.delete(&path_of_crd).await.expect(200);
        assert_eq!(get(&cluster, "v1.example.com").await["spec"]["versionPriority"], 7);
        patch(&cluster, &path("v1.example.com"), json!({"metadata": {"labels": {LABEL: "true"}}})).await;
        wait_until(&cluster, "v1.example.com", |service| service.is_none()).await;

        // This simulates a CRD that another server has deleted.
        let _ = cluster.post(CRDS, crd(&[("v1", true)])).await.expect(201);
        wait_until(&cluster, "v1.example.com", exists).await;
        let cluster = cluster.restart_with(|options| options.api_services = false).await;
        let _ = cluster.delete(&path_of_crd).await.expect(200);
        let cluster = cluster.restart_with(|options| options.api_services = true).await;
        wait_until(&cluster, "v1.example.com", |service| service.is_none()).await;
        cluster.stop().await;
    });
}

#[test]
fn services_show_their_condition() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let service = json!({
            "metadata": {"name": "v1.metrics.example.com"},
            "spec": {
                "group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": {"namespace": "kube-system", "name": "metrics"},
            },
        });
        let created = cluster.post(SERVICES, service.to_string()).await.expect(201);
        assert_eq!(created.headers.get("warning"), None);
        assert_eq!(created.json()["status"], json!({}));
        ready(&cluster).await;
        let reason = |service: Option<&Value>| {
            service.map_or(Value::Null, |service| service["status"]["conditions"][0]["reason"].clone())
        };
        wait_until(&cluster, "v1.metrics.example.com", |service| reason(service) == "ServiceNotFound").await;
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let unavailable = "aggregator_unavailable_apiservice{name=\"v1.metrics.example.com\"} 1\n";
        assert!(metrics.contains(unavailable), "{metrics}");
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let table = cluster.request("GET", SERVICES).header("accept", table).send().await.expect(200).json();
        let columns: Vec<&Value> =
            table["columnDefinitions"].as_array().expect("columns").iter().map(|column| &column["name"]).collect();
        assert_eq!(columns, ["Name", "Service", "Available", "Age"]);
        let rows = table["rows"].as_array().expect("rows");
        let row = |name: &str| rows.iter().map(|row| &row["cells"]).find(|cells| cells[0] == name).expect("a row");
        assert_eq!((&row("v1.apps")[1], &row("v1.apps")[2]), (&json!("Local"), &json!("True")));
        let remote = row("v1.metrics.example.com");
        assert_eq!((&remote[1], &remote[2]), (&json!("kube-system/metrics"), &json!("False (ServiceNotFound)")));
        // A condition that somebody else writes is decided again.
        let passed = json!({"status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]}});
        patch(&cluster, &format!("{}/status", path("v1.metrics.example.com")), passed).await;
        wait_until(&cluster, "v1.metrics.example.com", |service| reason(service) == "ServiceNotFound").await;
        let local = json!({"status": {"conditions": []}});
        patch(&cluster, &format!("{}/status", path("v1.apps")), local).await;
        wait_until(&cluster, "v1.apps", |service| reason(service) == "Local").await;
        cluster.stop().await;
    });
}

/// The groups of `/apis` with their versions.
async fn discovered(cluster: &Cluster) -> Vec<(String, Vec<String>)> {
    let list = cluster.get("/apis").await.expect(200).json();
    let texts = |values: &Value, field: &str| -> Vec<String> {
        values.as_array().expect("a list").iter().map(|v| v[field].as_str().expect("a text").to_owned()).collect()
    };
    let groups = list["groups"].as_array().expect("groups").iter();
    groups
        .map(|group| {
            let versions = texts(&group["versions"], "version");
            assert_eq!(group["preferredVersion"]["version"], json!(versions[0]));
            (group["name"].as_str().expect("a name").to_owned(), versions)
        })
        .collect()
}

#[test]
fn priorities_of_services_are_the_order_of_discovery() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        ready(&cluster).await;
        let groups = |found: &[(String, Vec<String>)]| found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let before = discovered(&cluster).await;
        assert_eq!(groups(&before)[0], "apiregistration.k8s.io");
        let aggregated = || async {
            let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            cluster.request("GET", "/apis").header("accept", accept).send().await.expect(200).text()
        };
        let aggregated_before = aggregated().await;
        // A group moves with the highest priority of its APIServices.
        patch(&cluster, &path("v1.networking.k8s.io"), json!({"spec": {"groupPriorityMinimum": 19_000}})).await;
        let mut expect = groups(&before);
        expect.retain(|name| name != "networking.k8s.io");
        expect.insert(1, "networking.k8s.io".to_owned());
        assert_eq!(groups(&discovered(&cluster).await), expect);
        // The order of versions changes, too.
        let versions = |found: &[(String, Vec<String>)]| {
            found.iter().find(|(name, _)| name == "autoscaling").map(|(_, versions)| versions.clone())
        };
        assert_eq!(versions(&before), Some(vec!["v2".to_owned(), "v1".to_owned()]));
        patch(&cluster, &path("v1.autoscaling"), json!({"spec": {"versionPriority": 40}})).await;
        let swapped = Some(vec!["v1".to_owned(), "v2".to_owned()]);
        assert_eq!(versions(&discovered(&cluster).await), swapped);
        let group = cluster.get("/apis/autoscaling").await.expect(200).json();
        assert_eq!(group["preferredVersion"]["version"], "v1");
        // With equal priority, the newer version is first.
        patch(&cluster, &path("v2.autoscaling"), json!({"spec": {"versionPriority": 40}})).await;
        assert_eq!(versions(&discovered(&cluster).await), versions(&before));
        // Aggregated discovery keeps the server's own priorities.
        assert_eq!(aggregated().await, aggregated_before);
        // Without an APIService, a version is not listed, but served.
        let _ = cluster.delete(&path("v1.batch")).await.expect(200);
        assert!(!groups(&discovered(&cluster).await).contains(&"batch".to_owned()));
        let group = cluster.get("/apis/batch").await.expect(200).json();
        assert_eq!(group["versions"][0]["version"], "v1");
        let _ = cluster.get("/apis/batch/v1/jobs").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn no_local_service_is_unavailable_in_metrics() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        ready(&cluster).await;
        let has = |metrics: &str, name: &str| {
            metrics.contains(&format!("aggregator_unavailable_apiservice{{name=\"{name}\"}} 0\n"))
        };
        let metrics = cluster.get("/metrics").await.expect(200).text();
        assert!(has(&metrics, "v1.apps") && has(&metrics, "v1."), "{metrics}");
        let _ = cluster.delete(&path("v1.batch")).await.expect(200);
        assert!(!has(&cluster.get("/metrics").await.expect(200).text(), "v1.batch"));
        cluster.stop().await;
    });
}
