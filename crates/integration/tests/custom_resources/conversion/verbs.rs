//! All verbs at a version that is not the storage version.

use serde_json::{Value, json};

use super::{cluster_with_webhook, widget_path, widget_v1, widget_v2, widgets_path};

/// An object's apiVersion, colour and hue.
fn version_and_colours(object: &Value) -> (&str, Value, Value) {
    let spec = &object["spec"];
    (object["apiVersion"].as_str().unwrap_or_default(), spec["colour"].clone(), spec["hue"].clone())
}

#[test]
fn objects_are_written_and_read_at_any_version() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        // A create at another version converts the object to the storage version, and back for the response.
        let created = cluster.post(&widgets_path("v2"), widget_v2("a", "red").to_string()).await.expect(201).json();
        assert_eq!(version_and_colours(&created), ("example.com/v2", Value::Null, json!("red")));
        assert_eq!(webhook.take_requests(), [(1, "example.com/v1".to_owned()), (1, "example.com/v2".to_owned())]);
        // The defaults of the request's version apply, and are stored.
        assert_eq!(created["spec"]["size"], 2);
        let stored = cluster.get(&widget_path("v1", "a")).await.expect(200).json();
        assert_eq!(version_and_colours(&stored), ("example.com/v1", json!("red"), Value::Null));
        assert_eq!(stored["spec"]["size"], 2);
        assert_eq!(stored["metadata"]["labels"]["made"], "v1");
        assert_eq!(webhook.take_requests(), []);
        let uid = &created["metadata"]["uid"];
        assert_eq!((&stored["metadata"]["uid"], &stored["metadata"]["generation"]), (uid, &json!(1)));

        // An update with the resourceVersion of the response.
        let mut wanted = created.clone();
        wanted["spec"]["hue"] = json!("green");
        let updated = cluster.put(&widget_path("v2", "a"), wanted.to_string()).await.expect(200).json();
        assert_eq!(version_and_colours(&updated), ("example.com/v2", Value::Null, json!("green")));
        assert_eq!(updated["metadata"]["generation"], 2);
        let _ = cluster.put(&widget_path("v2", "a"), wanted.to_string()).await.expect(409);
        // Writing the same again changes nothing.
        let again = cluster.put(&widget_path("v2", "a"), updated.to_string()).await.expect(200).json();
        assert_eq!(again["metadata"]["resourceVersion"], updated["metadata"]["resourceVersion"]);

        // Patches apply to the object at the request's version.
        let merge = r#"{"spec": {"hue": "blue"}}"#;
        let patched = cluster.patch(&widget_path("v2", "a"), "merge", merge).await.expect(200).json();
        assert_eq!(version_and_colours(&patched), ("example.com/v2", Value::Null, json!("blue")));
        let test = r#"[{"op": "test", "path": "/spec/hue", "value": "blue"}, {"op": "replace", "path": "/spec/hue", "value": "red"}]"#;
        let _ = cluster.patch(&widget_path("v2", "a"), "json", test).await.expect(200);
        let test = r#"[{"op": "test", "path": "/spec/colour", "value": "red"}, {"op": "replace", "path": "/spec/colour", "value": "green"}]"#;
        let patched = cluster.patch(&widget_path("v1", "a"), "json", test).await.expect(200).json();
        assert_eq!(version_and_colours(&patched), ("example.com/v1", json!("green"), Value::Null));
        // The schema of the request's version validates the object.
        let wrong =
            cluster.patch(&widget_path("v2", "a"), "merge", r#"{"spec": {"hue": "mauve"}}"#).await.expect(422).json();
        let expect = "Widget.example.com \"a\" is invalid: spec.hue: Unsupported value: \"mauve\": supported values: \"red\", \"green\", \"blue\"";
        assert_eq!(wrong["message"], expect);

        // A dry run calls the webhook, too, but stores nothing.
        let dry = cluster
            .post(&format!("{}?dryRun=All", widgets_path("v2")), widget_v2("b", "red").to_string())
            .await
            .expect(201);
        assert_eq!(version_and_colours(&dry.json()), ("example.com/v2", Value::Null, json!("red")));
        let _ = cluster.get(&widget_path("v2", "b")).await.expect(404);

        let deleted = cluster.delete(&widget_path("v2", "a")).await.expect(200).json();
        assert_eq!((&deleted["kind"], &deleted["details"]["uid"]), (&json!("Status"), uid));
        let _ = cluster.get(&widget_path("v1", "a")).await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn deletes_return_objects_at_the_requested_version() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        let mut with_finalizer = widget_v1("a", "red");
        with_finalizer["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let _ = cluster.post(&widgets_path("v1"), with_finalizer.to_string()).await.expect(201);
        let terminating = cluster.delete(&widget_path("v2", "a")).await.expect(200).json();
        assert_eq!(version_and_colours(&terminating), ("example.com/v2", Value::Null, json!("red")));
        assert!(terminating["metadata"]["deletionTimestamp"].is_string());
        let remove_finalizers = r#"{"metadata": {"finalizers": null}}"#;
        let last = cluster.patch(&widget_path("v2", "a"), "merge", remove_finalizers).await.expect(200).json();
        assert_eq!(version_and_colours(&last), ("example.com/v2", Value::Null, json!("red")));
        let _ = cluster.get(&widget_path("v1", "a")).await.expect(404);
        for name in ["a", "b", "c"] {
            let _ = cluster.post(&widgets_path("v1"), widget_v1(name, "red").to_string()).await.expect(201);
        }
        let list = cluster.delete(&format!("{}?labelSelector=made%3Dv2", widgets_path("v2"))).await.expect(200).json();
        let names: Vec<_> =
            list["items"].as_array().expect("items").iter().map(|item| version_and_colours(item).2).collect();
        assert_eq!(names, ["red", "red", "red"]);
        assert_eq!(cluster.get(&widgets_path("v1")).await.expect(200).json()["items"], json!([]));
        cluster.stop().await;
    });
}

#[test]
fn subresources_use_the_requested_version() {
    pintle_integration::run(async {
        let (cluster, _webhook) = cluster_with_webhook().await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let status = r#"{"status": {"hueSeen": "red", "replicas": 3, "colourSeen": "no"}}"#;
        let shown =
            cluster.patch(&format!("{}/status", widget_path("v2", "a")), "merge", status).await.expect(200).json();
        assert_eq!(shown["status"], json!({"hueSeen": "red", "replicas": 3}));
        let stored = cluster.get(&format!("{}/status", widget_path("v1", "a"))).await.expect(200).json();
        assert_eq!(stored["status"], json!({"colourSeen": "red", "replicas": 3}));
        assert_eq!(stored["metadata"]["generation"], 1);

        let scale = format!("{}/scale", widget_path("v2", "a"));
        let mut shown = cluster.get(&scale).await.expect(200).json();
        assert_eq!((&shown["spec"]["replicas"], &shown["status"]["replicas"]), (&json!(1), &json!(3)));
        shown["spec"]["replicas"] = json!(5);
        let scaled = cluster.put(&scale, shown.to_string()).await.expect(200).json();
        assert_eq!(scaled["spec"]["replicas"], 5);
        let _ = cluster.patch(&scale, "merge", r#"{"spec": {"replicas": 6}}"#).await.expect(200);
        let stored = cluster.get(&widget_path("v1", "a")).await.expect(200).json();
        assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["colour"]), (&json!(6), &json!("red")));
        cluster.stop().await;
    });
}

#[test]
fn requests_fail_if_the_conversion_fails() {
    pintle_integration::run(async {
        let (cluster, webhook) = cluster_with_webhook().await;
        let _ = cluster.post(&widgets_path("v1"), widget_v1("a", "red").to_string()).await.expect(201);
        let body = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {"uid": "$UID", "result": {"status": "Failure", "message": "not today"}}}"#;
        webhook.set_behavior(super::WebhookBehavior::Respond {
            code: 200,
            media_type: String::new(),
            body: body.to_owned(),
        });
        let from = |version| format!("conversion webhook for example.com/{version}, Kind=Widget failed: not today");
        let object = widget_path("v2", "a");
        let responses = [
            ("v1", cluster.get(&object).await),
            ("v1", cluster.get(&format!("{}?limit=1", widgets_path("v2"))).await),
            ("v2", cluster.post(&widgets_path("v2"), widget_v2("b", "red").to_string()).await),
            ("v1", cluster.put(&object, widget_v2("a", "green").to_string()).await),
            ("v1", cluster.patch(&object, "merge", r#"{"spec": {"hue": "green"}}"#).await),
            ("v1", cluster.patch(&format!("{object}/status"), "merge", r#"{"status": {}}"#).await),
            ("v1", cluster.get(&format!("{object}/scale")).await),
            ("v1", cluster.delete(&object).await),
            ("v1", cluster.delete(&widgets_path("v2")).await),
        ];
        for (version, response) in responses {
            response.expect_error(500, "", &from(version));
        }
        let unready =
            format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {}", from("v1"));
        cluster.get(&widgets_path("v2")).await.expect_error(429, "TooManyRequests", &unready);
        // Nothing was written, and the storage version still works.
        let list = cluster.get(&widgets_path("v1")).await.expect(200).json();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(version_and_colours(&list["items"][0]), ("example.com/v1", json!("red"), Value::Null));
        let _ = cluster.delete(&widget_path("v1", "a")).await.expect(200);
        cluster.stop().await;
    });
}
