//! Managed fields of objects that are written at two versions.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRD, cluster_with_webhook, widget_path, widgets_path};

async fn apply(
    cluster: &Cluster,
    version: &str,
    manager: &str,
    spec: &Value,
    query: &str,
) -> pintle_integration::Response {
    let config = json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "a"}, "spec": spec,
    });
    let path = format!("{}?fieldManager={manager}{query}", widget_path(version, "a"));
    cluster.request("PATCH", &path).body("application/apply-patch+yaml", config.to_string()).send().await
}

/// The managed fields as `manager version fields`.
fn owners(object: &Value) -> Vec<String> {
    let entry = |entry: &Value| {
        let version = entry["apiVersion"].as_str().unwrap_or_default().trim_start_matches("example.com/");
        let fields: Vec<&str> = entry["fieldsV1"]["f:spec"]
            .as_object()
            .map(|fields| fields.keys().map(|key| key.trim_start_matches("f:")).filter(|key| *key != ".").collect())
            .unwrap_or_default();
        format!("{} {version} {}", entry["manager"].as_str().unwrap_or_default(), fields.join(","))
    };
    let mut owners: Vec<String> =
        object["metadata"]["managedFields"].as_array().into_iter().flatten().map(entry).collect();
    owners.sort();
    owners
}

#[test]
fn managers_apply_at_different_versions() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        let created = apply(&cluster, "v1", "one", &json!({"colour": "red", "size": 5}), "").await.expect(201).json();
        assert_eq!(owners(&created), ["one v1 colour,size"]);
        // Equal values at two versions have two owners.
        let shared = apply(&cluster, "v2", "two", &json!({"hue": "red", "replicas": 3}), "").await.expect(200).json();
        assert_eq!(owners(&shared), ["one v1 colour,size", "two v2 hue,replicas"]);
        assert_eq!(shared["spec"], json!({"hue": "red", "size": 5, "replicas": 3}));
        // Different values conflict. The message names the field at its owner's version.
        let refused =
            apply(&cluster, "v2", "two", &json!({"hue": "green", "replicas": 3}), "").await.expect(409).json();
        assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.colour");
        let forced = apply(&cluster, "v2", "two", &json!({"hue": "green"}), "&force=true").await.expect(200).json();
        assert_eq!(owners(&forced), ["one v1 size", "two v2 hue"]);
        // Fields that no manager applies are removed, except for defaults.
        assert_eq!(forced["spec"], json!({"hue": "green", "size": 5, "replicas": 1}));
        // An update takes over fields from owners at other versions.
        let patch = format!("{}?fieldManager=three", widget_path("v1", "a"));
        let updated =
            cluster.patch(&patch, "merge", r#"{"spec": {"colour": "blue", "size": 7}}"#).await.expect(200).json();
        assert_eq!(owners(&updated), ["three v1 colour,size"]);
        // Applying the same again changes nothing.
        let first = apply(&cluster, "v2", "two", &json!({"hue": "green"}), "&force=true").await.expect(200).json();
        let second = apply(&cluster, "v2", "two", &json!({"hue": "green"}), "").await.expect(200).json();
        assert_eq!(first, second);
        cluster.stop().await;
    });
}

#[test]
fn owners_at_unserved_versions_are_kept() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        let _ = apply(&cluster, "v2", "old", &json!({"hue": "red", "size": 3}), "").await.expect(201);
        let hidden = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
        let _ = cluster.patch(CRD, "json", hidden.to_string()).await.expect(200);
        cluster.get_until_status(&widgets_path("v2"), 404).await;
        let refused = apply(&cluster, "v1", "new", &json!({"colour": "blue"}), "").await.expect(409).json();
        assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"old\": .spec.hue");
        let forced = apply(&cluster, "v1", "new", &json!({"colour": "blue"}), "&force=true").await.expect(200).json();
        assert_eq!(owners(&forced), ["new v1 colour", "old v2 size"]);
        cluster.stop().await;
    });
}

#[test]
fn apply_fails_if_an_owner_has_a_removed_version() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        let _ = apply(&cluster, "v2", "old", &json!({"hue": "red"}), "").await.expect(201);
        let removed = json!([{"op": "remove", "path": "/spec/versions/1"}]);
        let _ = cluster.patch(CRD, "json", removed.to_string()).await.expect(200);
        cluster.get_until_status(&widgets_path("v2"), 404).await;
        let why = "request to convert CR to an invalid group/version: example.com/v2";
        apply(&cluster, "v1", "new", &json!({"size": 3}), "").await.expect_error(500, "", why);
        // Other writes succeed, and clear the managed fields.
        let written =
            cluster.patch(&widget_path("v1", "a"), "merge", r#"{"spec": {"size": 4}}"#).await.expect(200).json();
        assert_eq!(owners(&written), Vec::<String>::new());
        let applied = apply(&cluster, "v1", "new", &json!({"replicas": 3}), "&force=true").await.expect(200).json();
        assert_eq!(owners(&applied), ["before-first-apply v1 colour,size", "new v1 replicas"]);
        cluster.stop().await;
    });
}
