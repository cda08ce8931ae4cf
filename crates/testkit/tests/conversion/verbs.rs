//! Every verb through a version that objects are not stored at.

use serde_json::{Value, json};

use super::{path, serving, v1, v2, widgets};

/// What an object has in its spec, without what is there by default.
fn look(object: &Value) -> (&str, Value, Value) {
    let spec = &object["spec"];
    (object["apiVersion"].as_str().unwrap_or_default(), spec["colour"].clone(), spec["hue"].clone())
}

#[test]
fn objects_are_written_and_read_at_any_version() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        // A create at the other version: to the store, and back for the answer.
        let made = cluster.post(&widgets("v2"), v2("a", "red").to_string()).await.expect(201).json();
        assert_eq!(look(&made), ("example.com/v2", Value::Null, json!("red")));
        assert_eq!(hook.asked(), [(1, "example.com/v1".to_owned()), (1, "example.com/v2".to_owned())]);
        // Defaults are those of the version that was written; what is stored has them.
        assert_eq!(made["spec"]["size"], 2);
        let stored = cluster.get(&path("v1", "a")).await.expect(200).json();
        assert_eq!(look(&stored), ("example.com/v1", json!("red"), Value::Null));
        assert_eq!(stored["spec"]["size"], 2);
        assert_eq!(stored["metadata"]["labels"]["made"], "v1");
        assert_eq!(hook.asked(), []);
        let uid = &made["metadata"]["uid"];
        assert_eq!((&stored["metadata"]["uid"], &stored["metadata"]["generation"]), (uid, &json!(1)));

        // An update, which names the revision that was shown.
        let mut wanted = made.clone();
        wanted["spec"]["hue"] = json!("green");
        let updated = cluster.put(&path("v2", "a"), wanted.to_string()).await.expect(200).json();
        assert_eq!(look(&updated), ("example.com/v2", Value::Null, json!("green")));
        assert_eq!(updated["metadata"]["generation"], 2);
        let _ = cluster.put(&path("v2", "a"), wanted.to_string()).await.expect(409);
        // Writing the same again changes nothing.
        let again = cluster.put(&path("v2", "a"), updated.to_string()).await.expect(200).json();
        assert_eq!(again["metadata"]["resourceVersion"], updated["metadata"]["resourceVersion"]);

        // Patches are of the version of the request.
        let merge = r#"{"spec": {"hue": "blue"}}"#;
        let patched = cluster.patch(&path("v2", "a"), "merge", merge).await.expect(200).json();
        assert_eq!(look(&patched), ("example.com/v2", Value::Null, json!("blue")));
        let test = r#"[{"op": "test", "path": "/spec/hue", "value": "blue"}, {"op": "replace", "path": "/spec/hue", "value": "red"}]"#;
        let _ = cluster.patch(&path("v2", "a"), "json", test).await.expect(200);
        let test = r#"[{"op": "test", "path": "/spec/colour", "value": "red"}, {"op": "replace", "path": "/spec/colour", "value": "green"}]"#;
        let patched = cluster.patch(&path("v1", "a"), "json", test).await.expect(200).json();
        assert_eq!(look(&patched), ("example.com/v1", json!("green"), Value::Null));
        // Each version judges what is written to it.
        let wrong = cluster.patch(&path("v2", "a"), "merge", r#"{"spec": {"hue": "mauve"}}"#).await.expect(422).json();
        let expect = "Widget.example.com \"a\" is invalid: spec.hue: Unsupported value: \"mauve\": supported values: \"red\", \"green\", \"blue\"";
        assert_eq!(wrong["message"], expect);

        // A dry run asks too, and stores nothing.
        let dry = cluster.post(&format!("{}?dryRun=All", widgets("v2")), v2("b", "red").to_string()).await.expect(201);
        assert_eq!(look(&dry.json()), ("example.com/v2", Value::Null, json!("red")));
        let _ = cluster.get(&path("v2", "b")).await.expect(404);

        let gone = cluster.delete(&path("v2", "a")).await.expect(200).json();
        assert_eq!((&gone["kind"], &gone["details"]["uid"]), (&json!("Status"), uid));
        let _ = cluster.get(&path("v1", "a")).await.expect(404);
        cluster.stop().await;
    });
}

#[test]
fn deletes_show_what_stays_at_their_version() {
    pintle_testkit::run(async {
        let (cluster, _hook) = serving().await;
        let mut held = v1("a", "red");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let _ = cluster.post(&widgets("v1"), held.to_string()).await.expect(201);
        let marked = cluster.delete(&path("v2", "a")).await.expect(200).json();
        assert_eq!(look(&marked), ("example.com/v2", Value::Null, json!("red")));
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        let free = r#"{"metadata": {"finalizers": null}}"#;
        let last = cluster.patch(&path("v2", "a"), "merge", free).await.expect(200).json();
        assert_eq!(look(&last), ("example.com/v2", Value::Null, json!("red")));
        let _ = cluster.get(&path("v1", "a")).await.expect(404);
        for name in ["a", "b", "c"] {
            let _ = cluster.post(&widgets("v1"), v1(name, "red").to_string()).await.expect(201);
        }
        let list = cluster.delete(&format!("{}?labelSelector=made%3Dv2", widgets("v2"))).await.expect(200).json();
        let names: Vec<_> = list["items"].as_array().expect("items").iter().map(|item| look(item).2).collect();
        assert_eq!(names, ["red", "red", "red"]);
        assert_eq!(cluster.get(&widgets("v1")).await.expect(200).json()["items"], json!([]));
        cluster.stop().await;
    });
}

#[test]
fn subresources_are_those_of_their_version() {
    pintle_testkit::run(async {
        let (cluster, _hook) = serving().await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let status = r#"{"status": {"hueSeen": "red", "replicas": 3, "colourSeen": "no"}}"#;
        let shown = cluster.patch(&format!("{}/status", path("v2", "a")), "merge", status).await.expect(200).json();
        assert_eq!(shown["status"], json!({"hueSeen": "red", "replicas": 3}));
        let stored = cluster.get(&format!("{}/status", path("v1", "a"))).await.expect(200).json();
        assert_eq!(stored["status"], json!({"colourSeen": "red", "replicas": 3}));
        assert_eq!(stored["metadata"]["generation"], 1);

        let scale = format!("{}/scale", path("v2", "a"));
        let mut shown = cluster.get(&scale).await.expect(200).json();
        assert_eq!((&shown["spec"]["replicas"], &shown["status"]["replicas"]), (&json!(1), &json!(3)));
        shown["spec"]["replicas"] = json!(5);
        let scaled = cluster.put(&scale, shown.to_string()).await.expect(200).json();
        assert_eq!(scaled["spec"]["replicas"], 5);
        let _ = cluster.patch(&scale, "merge", r#"{"spec": {"replicas": 6}}"#).await.expect(200);
        let stored = cluster.get(&path("v1", "a")).await.expect(200).json();
        assert_eq!((&stored["spec"]["replicas"], &stored["spec"]["colour"]), (&json!(6), &json!("red")));
        cluster.stop().await;
    });
}

#[test]
fn what_cannot_be_converted_is_neither_written_nor_shown() {
    pintle_testkit::run(async {
        let (cluster, hook) = serving().await;
        let _ = cluster.post(&widgets("v1"), v1("a", "red").to_string()).await.expect(201);
        let body = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {"uid": "$UID", "result": {"status": "Failure", "message": "not today"}}}"#;
        hook.set(super::Manner::Says { code: 200, media_type: String::new(), body: body.to_owned() });
        let from = |version| format!("conversion webhook for example.com/{version}, Kind=Widget failed: not today");
        let object = path("v2", "a");
        let answers = [
            ("v1", cluster.get(&object).await),
            ("v1", cluster.get(&format!("{}?limit=1", widgets("v2"))).await),
            ("v2", cluster.post(&widgets("v2"), v2("b", "red").to_string()).await),
            ("v1", cluster.put(&object, v2("a", "green").to_string()).await),
            ("v1", cluster.patch(&object, "merge", r#"{"spec": {"hue": "green"}}"#).await),
            ("v1", cluster.patch(&format!("{object}/status"), "merge", r#"{"status": {}}"#).await),
            ("v1", cluster.get(&format!("{object}/scale")).await),
            ("v1", cluster.delete(&object).await),
            ("v1", cluster.delete(&widgets("v2")).await),
        ];
        for (version, answer) in answers {
            answer.expect_error(500, "", &from(version));
        }
        let unready =
            format!("storage is (re)initializing: failed to list example.com/v2, Kind=Widget: {}", from("v1"));
        cluster.get(&widgets("v2")).await.expect_error(429, "TooManyRequests", &unready);
        // Nothing of it was stored, and the version that is stored goes on.
        let list = cluster.get(&widgets("v1")).await.expect(200).json();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(look(&list["items"][0]), ("example.com/v1", json!("red"), Value::Null));
        let _ = cluster.delete(&path("v1", "a")).await.expect(200);
        cluster.stop().await;
    });
}
