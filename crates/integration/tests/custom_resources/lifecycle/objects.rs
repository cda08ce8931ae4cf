//! Custom resources: pruning, defaulting, validation, versions, subresources and server-side apply.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, start_with_widgets, wait_for_condition, widget, widget_crd};

const MERGE: &str = "merge";
const APPLY: &str = "application/apply-patch+yaml";

#[test]
fn objects_are_pruned_defaulted_and_validated() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let unknown = widget("a", &json!({"colour": "red", "nosuch": 1})).to_string();
        let created = cluster.post(WIDGETS, unknown.clone()).await.expect(201);
        assert_eq!(created.header("warning"), r#"299 - "unknown field \"spec.nosuch\"""#);
        let created = created.json();
        assert_eq!(created["spec"], json!({"colour": "red", "replicas": 1}));
        assert_eq!(created["metadata"]["generation"], 1);
        cluster.post(&format!("{WIDGETS}?fieldValidation=Strict"), unknown).await.expect_error(
            400,
            "BadRequest",
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.nosuch\"",
        );
        for (spec, expect) in [
            (
                json!({"colour": "pink"}),
                "spec.colour: Unsupported value: \"pink\": supported values: \"red\", \"green\"",
            ),
            (
                json!({"replicas": -1}),
                "[spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0, .spec.replicas: Invalid value: -1: should be a non-negative integer]",
            ),
            (
                json!({"replicas": "x"}),
                "[spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64]",
            ),
            (json!({"parts": [{"size": 1}]}), "spec.parts[0].name: Required value"),
        ] {
            let message = format!("Widget.example.com \"b\" is invalid: {expect}");
            cluster.post(WIDGETS, widget("b", &spec).to_string()).await.expect_error(422, "Invalid", &message);
        }
        cluster.stop().await;
    });
}

#[test]
fn all_versions_show_the_same_objects() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut old = widget("a", &json!({"colour": "red"}));
        old["apiVersion"] = json!("example.com/v1beta1");
        let beta = WIDGETS.replace("/v1/", "/v1beta1/");
        let created = cluster.post(&beta, old.to_string()).await.expect(201).json();
        assert_eq!(created["apiVersion"], "example.com/v1beta1");
        assert_eq!(created["metadata"]["managedFields"][0]["apiVersion"], "example.com/v1beta1");
        let found = cluster.get(&format!("{WIDGETS}/a")).await.expect(200).json();
        assert_eq!(found["apiVersion"], "example.com/v1");
        let list = cluster.get(&beta).await.expect(200).json();
        assert_eq!(
            (&list["kind"], &list["items"][0]["apiVersion"]),
            (&json!("WidgetList"), &json!("example.com/v1beta1"))
        );
        cluster.stop().await;
    });
}

#[test]
fn status_and_spec_are_written_separately() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let path = format!("{WIDGETS}/a");
        let mut created = widget("a", &json!({"colour": "red"}));
        created["status"] = json!({"ready": true});
        let created = cluster.post(WIDGETS, created.to_string()).await.expect(201).json();
        assert_eq!(created.get("status"), None);
        let both = r#"{"spec": {"colour": "green"}, "status": {"ready": true, "replicas": 2}}"#;
        let status = cluster.patch(&format!("{path}/status"), MERGE, both).await.expect(200).json();
        assert_eq!((&status["spec"]["colour"], &status["status"]["replicas"]), (&json!("red"), &json!(2)));
        assert_eq!(status["metadata"]["generation"], 1);
        let both = r#"{"spec": {"colour": "green"}, "status": {"ready": false}}"#;
        let object = cluster.patch(&path, MERGE, both).await.expect(200).json();
        assert_eq!((&object["spec"]["colour"], &object["status"]["ready"]), (&json!("green"), &json!(true)));
        assert_eq!(object["metadata"]["generation"], 2);

        let scale = cluster.get(&format!("{path}/scale")).await.expect(200).json();
        assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(1), &json!(2)));
        let more = r#"{"spec": {"replicas": 5}}"#;
        let _ = cluster.patch(&format!("{path}/scale"), MERGE, more).await.expect(200);
        assert_eq!(cluster.get(&path).await.expect(200).json()["spec"]["replicas"], 5);
        cluster.stop().await;
    });
}

/// As upstream, a new object is stored without a status, and has the default of the status whenever it is read.
#[test]
fn a_new_object_has_the_default_of_its_status() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        for version in 0..2 {
            let schema = &mut crd["spec"]["versions"][version]["schema"]["openAPIV3Schema"];
            schema["properties"]["status"]["default"] = json!({"replicas": 7});
        }
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let path = format!("{WIDGETS}/a");
        let mut object = widget("a", &json!({"colour": "red"}));
        object["status"] = json!({"ready": true, "replicas": 5});
        let created = cluster.post(WIDGETS, object.to_string()).await.expect(201).json();
        assert_eq!(created["status"], json!({"replicas": 7}));
        assert_eq!(cluster.get(&path).await.expect(200).json()["status"], json!({"replicas": 7}));
        let list = cluster.get(WIDGETS).await.expect(200).json();
        assert_eq!(list["items"][0]["status"], json!({"replicas": 7}));
        let ready = r#"{"status": {"ready": false}}"#;
        let patched = cluster.patch(&format!("{path}/status"), MERGE, ready).await.expect(200).json();
        assert_eq!(patched["status"], json!({"replicas": 7, "ready": false}));
        cluster.stop().await;
    });
}

#[test]
fn managers_own_items_of_a_list_map() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let apply = async |manager: &str, spec: Value| {
            let path = format!("{WIDGETS}/a?fieldManager={manager}");
            cluster.request("PATCH", &path).body(APPLY, widget("a", &spec).to_string()).send().await
        };
        let _ = apply("one", json!({"parts": [{"name": "a", "size": 1}]})).await.expect(201);
        let both = apply("two", json!({"parts": [{"name": "b", "size": 2}]})).await.expect(200).json();
        assert_eq!(both["spec"]["parts"], json!([{"name": "a", "size": 1}, {"name": "b", "size": 2}]));
        let unchanged = apply("two", json!({"parts": [{"name": "b", "size": 2}]})).await.expect(200).json();
        assert_eq!(unchanged, both);
        apply("two", json!({"parts": [{"name": "a", "size": 3}]})).await.expect_error(
            409,
            "Conflict",
            "Apply failed with 1 conflict: conflict with \"one\": .spec.parts[name=\"a\"].size",
        );
        let remaining = apply("one", json!({})).await.expect(200).json();
        assert_eq!(remaining["spec"]["parts"], json!([{"name": "b", "size": 2}]));
        cluster.stop().await;
    });
}

#[test]
fn an_apply_keeps_nulls_for_validation() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let apply = async |subresource: &str, body: Value| {
            let config = configuration(&body);
            let path = format!("{WIDGETS}/a{subresource}?fieldManager=m");
            cluster.request("PATCH", &path).body("application/apply-patch+yaml", config.to_string()).send().await
        };
        let invalid = |why: &str| format!("Widget.example.com \"a\" is invalid: {why}");
        for (body, why) in [
            (json!({"spec": null}), r#"spec: Invalid value: "null": spec in body must be of type object: "null""#),
            (
                json!({"spec": {"parts": [{"name": "x", "size": null}]}}),
                r#"spec.parts[0].size: Invalid value: "null": spec.parts[0].size in body must be of type integer: "null""#,
            ),
        ] {
            apply("", body).await.expect_error(422, "Invalid", &invalid(why));
        }
        // A default replaces a null.
        let applied = apply("", json!({"spec": {"replicas": null}})).await.expect(201).json();
        assert_eq!(applied["spec"], json!({"replicas": 1}));
        let ready = r#"status.ready: Invalid value: "null": ready in body must be of type boolean: "null""#;
        apply("/status", json!({"status": {"ready": null}})).await.expect_error(422, "Invalid", &invalid(ready));
        // A status that is null is not validated, and not stored.
        let applied = apply("/status", json!({"status": null})).await.expect(200).json();
        assert_eq!(applied.as_object().map(|object| object.contains_key("status")), Some(false));

        // Malformed times count as missing. The server sets the time of creation.
        for time in [json!("yesterday"), json!(5)] {
            let body = json!({"metadata": {"creationTimestamp": time, "deletionTimestamp": "x"}});
            let again = apply("", body).await.expect(200).json();
            assert_eq!(again["metadata"]["creationTimestamp"], applied["metadata"]["creationTimestamp"]);
            assert_eq!(again["metadata"].get("deletionTimestamp"), None);
        }
        cluster.stop().await;
    });
}

/// Adds the type and the name of widget `a` to a configuration.
fn configuration(body: &Value) -> Value {
    let mut config = body.clone();
    config["apiVersion"] = json!("example.com/v1");
    config["kind"] = json!("Widget");
    config["metadata"]["name"] = json!("a");
    config
}

#[test]
fn an_empty_list_of_managed_fields_resets_nothing() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let mut object = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).json();
        let entries = object["metadata"]["managedFields"].clone();
        let path = format!("{WIDGETS}/a");
        object["metadata"]["managedFields"] = json!([]);
        let merge = json!({"metadata": {"managedFields": []}}).to_string();
        let json_patch = json!([{"op": "replace", "path": "/metadata/managedFields", "value": []}]).to_string();
        for response in [
            cluster.put(&path, object.to_string()).await,
            cluster.patch(&path, "merge", merge).await,
            cluster.patch(&path, "json", json_patch).await,
        ] {
            assert_eq!(response.expect(200).json()["metadata"]["managedFields"], entries);
        }
        let merge = json!({"metadata": {"managedFields": [{}]}}).to_string();
        let reset = cluster.patch(&path, "merge", merge).await.expect(200).json();
        assert_eq!(reset["metadata"].get("managedFields"), None, "one empty entry resets");
        cluster.stop().await;
    });
}

#[test]
fn the_uid_of_a_scale_is_a_precondition_of_updates_only() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let created = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).json();
        let path = format!("{WIDGETS}/a/scale");
        let patch = json!({"metadata": {"uid": "other"}, "spec": {"replicas": 3}}).to_string();
        let patched = cluster.patch(&path, "merge", patch).await.expect(200).json();
        assert_eq!(
            (&patched["spec"]["replicas"], &patched["metadata"]["uid"]),
            (&json!(3), &created["metadata"]["uid"])
        );
        let mut scale = patched.clone();
        scale["metadata"]["uid"] = json!("other");
        let updated = cluster.put(&path, scale.to_string()).await.expect(409).json();
        let message = updated["message"].as_str().expect("a message");
        let why = "StorageError: invalid object, Code: 4, Key: /registry/example.com/widgets/default/a, \
                   ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, \
                   UID in object meta: ";
        assert!(message.contains(why), "{message}");
        cluster.stop().await;
    });
}

#[test]
fn a_self_link_is_removed_when_the_object_is_stored() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let created = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).text();
        let path = format!("{WIDGETS}/a");
        let patch = json!({"metadata": {"selfLink": "/x"}}).to_string();
        let dry = cluster.patch(&format!("{path}?dryRun=All"), "merge", patch.clone()).await.expect(200).text();
        // In sorted order, `selfLink` follows the resourceVersion.
        assert_eq!(dry.replace(r#""selfLink":"/x","#, ""), created);
        assert!(dry.contains(r#"","selfLink":"/x","uid":"#), "{dry}");
        assert_eq!(cluster.patch(&path, "merge", patch).await.expect(200).text(), created);
        cluster.stop().await;
    });
}

#[test]
fn floats_outside_of_int64_do_not_fit_into_integers() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        // The shortest decimal of the nearest float is below -2^63.
        for replicas in ["9223372036854775808", "-9223372036854775809"] {
            let body = widget("a", &json!({"replicas": "N"})).to_string().replace("\"N\"", replicas);
            let status = cluster.post(WIDGETS, body).await.expect(422).json();
            let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
            let message = |i: usize| causes[i]["message"].as_str().unwrap_or_default().to_owned();
            assert_eq!(
                message(0),
                r#"Invalid value: "number": spec.replicas in body must be of type integer: "number""#
            );
            assert_eq!(
                message(1),
                r#"Invalid value: "": Checked value must be of type integer (default format) in spec.replicas"#
            );
        }
        cluster.stop().await;
    });
}

/// Upstream converts both objects to their types before it compares them.
#[test]
fn an_update_to_a_value_of_another_type_loses_the_managed_fields() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let part = json!({"name": "n"});
        let spec = json!({"colour": "red", "parts": [part]});
        // The spec is reset before it is validated, but after the managed fields are updated.
        for (path, change, are_kept) in [
            ("a", json!({"colour": "green"}), true),
            ("b", json!({"colour": 1.5}), false),
            ("c", json!({"colour": {"x": 1}}), false),
            ("d", json!({"parts": [part, {"name": "m", "size": "x"}]}), false),
            ("e", json!({"parts": {"name": "n"}}), false),
            ("f", json!("x"), false),
            ("g", json!({"colour": null}), true),
        ] {
            let created = cluster.post(WIDGETS, widget(path, &spec).to_string()).await.expect(201).json();
            let patch = json!({"spec": change}).to_string();
            let patched = cluster.patch(&format!("{WIDGETS}/{path}/status"), "merge", patch).await.expect(200).json();
            let has_managers = patched["metadata"]["managedFields"].is_array();
            assert_eq!((has_managers, &patched["spec"]), (are_kept, &created["spec"]), "{change}");
            let is_written = patched["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"];
            assert_eq!(is_written, !are_kept, "{change}");
        }
        cluster.stop().await;
    });
}
