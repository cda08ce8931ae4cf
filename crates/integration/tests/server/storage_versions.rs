//! The storage versions that servers record (gate `StorageVersionAPI`): objects, refused writes, stale records.

use pintle::Options;
use pintle_gates::FeatureGatesFlag;
use pintle_integration::{Cluster, RuntimeConfig, run};
use serde_json::{Value, json};

const VERSIONS: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CHECK: &str = "/readyz/poststarthook/built-in-resources-storage-version-updater";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn options(gates: &str, is_served: bool) -> Options {
    let mut flag = FeatureGatesFlag::default();
    flag.add(gates);
    let (gates, _) = flag.gates(Default::default()).expect("gates");
    let runtime_config = RuntimeConfig::from_flags(
        Default::default(),
        &[format!("internal.apiserver.k8s.io/v1alpha1={is_served}").as_str()],
    );
    let runtime_config = runtime_config.expect("a configuration");
    Options { gates, runtime_config, register: true, controllers: true, ..Options::default() }
}

async fn recorded(cluster: &Cluster) {
    cluster.get_until(CHECK, |found| found.text() == "ok").await;
}

async fn server_id(cluster: &Cluster) -> String {
    let leases = cluster.get(LEASES).await.expect(200).json();
    let of_server =
        |lease: &&Value| lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver";
    let lease = leases["items"].as_array().expect("items").iter().find(of_server).expect("an identity lease");
    lease["metadata"]["name"].as_str().expect("a name").to_owned()
}

#[test]
fn servers_record_how_they_store_resources() {
    run(async {
        let cluster = Cluster::with_options(options("StorageVersionAPI=true", true)).await;
        recorded(&cluster).await;
        let id = server_id(&cluster).await;
        let deployments = cluster.get(&format!("{VERSIONS}/apps.deployments")).await.expect(200).json();
        let expect = json!([{
            "apiServerID": id, "encodingVersion": "apps/v1", "servedVersions": ["apps/v1"],
            "decodableVersions": ["apps/v1", "apps/v1beta2", "apps/v1beta1"],
        }]);
        assert_eq!(deployments["status"]["storageVersions"], expect);
        assert_eq!(deployments["status"]["commonEncodingVersion"], "apps/v1");
        let condition = &deployments["status"]["conditions"][0];
        let texts = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap_or_default());
        let expect = ["AllEncodingVersionsEqual", "True", "CommonEncodingVersionSet", "Common encoding version set"];
        assert_eq!(texts, expect);
        let list = cluster.get(VERSIONS).await.expect(200).json();
        let names: Vec<&str> = list["items"]
            .as_array()
            .expect("items")
            .iter()
            .filter_map(|item| item["metadata"]["name"].as_str())
            .collect();
        for name in ["core.pods", "core.events", "internal.apiserver.k8s.io.storageversions"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(!names.contains(&"events.k8s.io.events"));
        let _ = cluster.post(CONFIGMAPS, r#"{"metadata": {"name": "a"}}"#).await.expect(201);
    });
}

#[test]
fn records_of_gone_servers_are_removed() {
    run(async {
        let cluster = Cluster::with_options(options("StorageVersionAPI=true", true)).await;
        recorded(&cluster).await;
        let path = format!("{VERSIONS}/core.pods");
        let mut object = cluster.get(&path).await.expect(200).json();
        let records = object["status"]["storageVersions"].as_array_mut().expect("records");
        records.push(json!({"apiServerID": "gone", "encodingVersion": "v2", "decodableVersions": ["v2"]}));
        object["status"].as_object_mut().expect("a status").remove("commonEncodingVersion");
        let mut watch = cluster.watch(&format!("{VERSIONS}?watch=1&fieldSelector=metadata.name%3Dcore.pods")).await;
        let _ = cluster.put(&format!("{path}/status"), object.to_string()).await.expect(200);
        loop {
            let event = watch.next().await.expect("an event");
            let status = &event["object"]["status"];
            if event["type"] == "MODIFIED" && status["commonEncodingVersion"] == "v1" {
                assert_eq!(status["storageVersions"].as_array().map(Vec::len), Some(1));
                break;
            }
        }
        // The controller deletes a StorageVersion that no server has recorded.
        let other = json!({"metadata": {"name": "example.com.things"}, "spec": {}});
        let _ = cluster.post(VERSIONS, other.to_string()).await.expect(201);
        let path = format!("{VERSIONS}/example.com.things");
        let mut other = cluster.get(&path).await.expect(200).json();
        other["status"] = json!({
            "storageVersions": [{"apiServerID": "gone", "encodingVersion": "v2", "decodableVersions": ["v2"]}],
            "commonEncodingVersion": "v2",
        });
        let mut watch = cluster.watch(&format!("{VERSIONS}?watch=1")).await;
        let _ = cluster.put(&format!("{path}/status"), other.to_string()).await.expect(200);
        loop {
            let event = watch.next().await.expect("an event");
            if event["type"] == "DELETED" && event["object"]["metadata"]["name"] == "example.com.things" {
                break;
            }
        }
    });
}

#[test]
fn writes_wait_until_their_version_is_recorded() {
    run(async {
        // The API version of the records is off, so the server cannot record anything.
        let cluster = Cluster::with_options(options("StorageVersionAPI=true", false)).await;
        let text = cluster.get(CHECK).await.expect(500).text();
        assert_eq!(text, "internal server error: not finished\n");
        let wait = "wait for storage version registration to complete for resource: configmaps, last seen error: ";
        let response = cluster.post(CONFIGMAPS, r#"{"metadata": {"name": "a"}}"#).await.expect(503);
        let status = response.json();
        assert_eq!(status["reason"], "ServiceUnavailable");
        let message = status["message"].as_str().expect("a message");
        let known = [
            "<nil>",
            "the server could not find the requested resource (post storageversions.internal.apiserver.k8s.io)",
        ];
        assert!(known.iter().any(|error| *message == format!("{wait}{error}")), "{message}");
        for (method, path) in [("DELETE", format!("{CONFIGMAPS}/a")), ("DELETE", CONFIGMAPS.to_owned())] {
            let _ = cluster.request(method, &path).send().await.expect(503);
        }
        // The server allows reads, system leases, and requests that store nothing.
        let _ = cluster.get(CONFIGMAPS).await.expect(200);
        let _ = cluster.post(LEASES, r#"{"metadata": {"name": "a"}}"#).await.expect(201);
        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}).to_string();
        let _ = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.expect(201);
        let other = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let _ = cluster.post(other, r#"{"metadata": {"name": "a"}}"#).await.expect(503);
    });
}

#[test]
fn nothing_is_recorded_without_the_feature_or_an_identity() {
    run(async {
        for gates in ["StorageVersionAPI=false", "APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"] {
            let cluster = Cluster::with_options(options(gates, true)).await;
            let _ = cluster.get(CHECK).await.expect(404);
            let _ = cluster.post(CONFIGMAPS, r#"{"metadata": {"name": "a"}}"#).await.expect(201);
            let list = cluster.get(VERSIONS).await.expect(200).json();
            assert_eq!(list["items"], json!([]));
        }
    });
}
