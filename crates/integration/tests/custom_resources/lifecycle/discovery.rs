//! Custom resources in discovery and in the OpenAPI documents.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRDS, start_with_widgets, wait_for_condition};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A CRD with these versions. The first version is the storage version. Each version may be unserved.
fn crd(group: &str, plural: &str, versions: &[(&str, bool)]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(i, (name, served))| {
            let schema = json!({"openAPIV3Schema": {"type": "object"}});
            json!({"name": name, "served": served, "storage": i == 0, "schema": schema})
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": plural}, "versions": versions},
    })
}

async fn define(cluster: &Cluster, crd: Value) {
    let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
    wait_for_condition(cluster, crd["metadata"]["name"].as_str().expect("a name"), "Established", "True").await;
}

/// The strings at a path in the items of an array.
fn texts(array: &Value, key: &[&str]) -> Vec<String> {
    let text =
        |value: &Value| key.iter().fold(value, |value, key| &value[*key]).as_str().unwrap_or_default().to_owned();
    array.as_array().into_iter().flatten().map(text).collect()
}

#[test]
fn groups_and_versions_are_sorted_as_upstream() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, crd("a.example.com", "as", &[("v2", true)])).await;
        define(&cluster, crd("b.example.com", "bs", &[("v1beta1", true), ("v1", true), ("v10", true)])).await;
        define(&cluster, crd("c.example.com", "cs", &[("v1alpha1", false), ("v1beta1", true), ("foo", true)])).await;
        let groups = cluster.get("/apis").await.expect(200).json();
        let names = texts(&groups["groups"], &["name"]);
        // Groups of equal priority are sorted by the first of their APIService names: foo.c, v1.b, v2.a.
        assert_eq!(names[names.len() - 3..], ["c.example.com", "b.example.com", "a.example.com"]);
        let of_b = &groups["groups"][names.len() - 2];
        assert_eq!(texts(&of_b["versions"], &["version"]), ["v10", "v1", "v1beta1"]);
        assert_eq!(of_b["preferredVersion"]["version"], "v10");
        let aggregated = cluster.request("GET", "/apis").header("accept", AGGREGATED).send().await.expect(200).json();
        let names = texts(&aggregated["items"], &["metadata", "name"]);
        assert_eq!(names[names.len() - 3..], ["a.example.com", "b.example.com", "c.example.com"]);
        let of_c = &aggregated["items"][names.len() - 1];
        assert_eq!(texts(&of_c["versions"], &["version"]), ["v1beta1", "foo"]);
        assert_eq!(texts(&of_c["versions"], &["freshness"]), ["Current", "Current"]);
        // There is no storageVersionHash if the storage version is not served.
        let resources = cluster.get("/apis/c.example.com/v1beta1").await.expect(200).json();
        assert_eq!(resources["resources"][0].get("storageVersionHash"), None);
        cluster.stop().await;
    });
}

#[test]
fn resources_are_listed_with_all_their_names() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let found = cluster.get("/apis/example.com/v1").await.expect(200).json();
        let verbs = json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
        let of_subresources = json!(["get", "patch", "update"]);
        let expect = json!([
            {
                "name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "verbs": verbs,
                "shortNames": ["wd"], "categories": ["all"], "storageVersionHash": "gIwvi5rymmg=",
            },
            {
                "name": "widgets/status", "singularName": "", "namespaced": true, "kind": "Widget",
                "verbs": of_subresources,
            },
            {
                "name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": of_subresources,
            },
        ]);
        assert_eq!(found["resources"], expect);
        // The storageVersionHash is the same for all versions.
        let beta = cluster.get("/apis/example.com/v1beta1").await.expect(200).json();
        assert_eq!(beta["resources"][0]["storageVersionHash"], expect[0]["storageVersionHash"]);
        cluster.stop().await;
    });
}

#[test]
fn the_openapi_index_is_never_outdated_within_a_second() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        // kubectl has an index from before the creation of the CRD, and asks for changes since then.
        let before = cluster.get("/openapi/v3").await.expect(200);
        define(&cluster, crd("a.example.com", "as", &[("v1", true)])).await;
        let since = before.header("last-modified");
        let after = cluster.request("GET", "/openapi/v3").header("If-Modified-Since", since).send().await.expect(200);
        assert!(after.json()["paths"].get("apis/a.example.com/v1").is_some());
        cluster.stop().await;
    });
}

#[test]
fn openapi_documents_change_only_with_their_group() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let index = async || {
            let index = cluster.get("/openapi/v3").await.expect(200).json();
            index["paths"].as_object().expect("paths").clone()
        };
        let first = index().await;
        define(&cluster, crd("a.example.com", "as", &[("v1", true)])).await;
        let mut second = index().await;
        let of_new = second.remove("apis/a.example.com/v1").expect("a document");
        assert_eq!(first, second);
        // The document is served at the URL with its hash. A request with another hash is redirected there.
        let url = of_new["serverRelativeURL"].as_str().expect("a URL");
        let document = cluster.get(url).await.expect(200).json();
        assert!(document["components"]["schemas"].get("com.example.a.v1.as").is_some());
        let stale = cluster.get("/openapi/v3/apis/a.example.com/v1?hash=0").await;
        assert_eq!((stale.status.as_u16(), stale.header("location")), (301, url));
        // A changed description changes the kind's document, and no other.
        let described = json!({"spec": {"versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "description": "Something."}},
        }]}});
        let path = format!("{CRDS}/as.a.example.com");
        let _ = cluster.patch(&path, "merge", described.to_string()).await.expect(200);
        let mut third = index().await;
        while third.get("apis/a.example.com/v1") == Some(&of_new) {
            third = index().await;
        }
        third.remove("apis/a.example.com/v1");
        assert_eq!(first, third);
        cluster.stop().await;
    });
}
