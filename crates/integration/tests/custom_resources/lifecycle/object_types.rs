//! The kind and apiVersion of custom resources, which unstructured objects carry themselves. The messages are the same
//! as upstream's.

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{WIDGETS, start_with_widgets, widget};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Sends a request. Returns the status code and the message, or an empty message for a success.
async fn send(cluster: &Cluster, method: &str, path: &str, media_type: &str, body: &str) -> (u16, String) {
    let response = cluster.request(method, path).body(media_type, body.to_owned()).send().await;
    let status: Value = response.json();
    (response.status.as_u16(), status["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn bodies_must_have_the_kind_and_version_of_the_resource() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let unrecognized = |why: &str| format!("the object provided is unrecognized (must be of type Widget): {why}");
        let undecodable = |why: &str| format!("Widget in version \"v1\" cannot be handled as a Widget: {why}");
        let version = |found: &str| {
            format!("the API version in the data ({found}) does not match the expected API version (example.com/v1)")
        };
        let no_kind = r#"{"apiVersion":"example.com/v1","metadata":{"name":"a"}}"#;
        let missing = format!("Object 'Kind' is missing in '{no_kind}'");
        let (collection, ignored) = (WIDGETS.to_owned(), format!("{WIDGETS}?fieldValidation=Ignore"));
        for (path, media_type, body, message) in [
            (&collection, JSON, no_kind, unrecognized(&format!("{missing} ({{\"apiVersion\":\"example.com/v1\" ...)"))),
            (&ignored, JSON, no_kind, undecodable(&missing)),
            (&collection, JSON, "null", unrecognized("Object 'Kind' is missing in 'null' (6e756c6c)")),
            (&collection, JSON, "{}", unrecognized("Object 'Kind' is missing in '{}' ({})")),
            (&ignored, JSON, " {} ", undecodable("Object 'Kind' is missing in '{}'")),
            (&collection, YAML, "a: 1", unrecognized("Object 'Kind' is missing in 'a: 1' (613a2031)")),
            (&ignored, YAML, "a: <", undecodable(r#"Object 'Kind' is missing in '{"a":"\u003c"}'"#)),
            (&collection, JSON, r#"{"Kind":"Widget"}"#, unrecognized(r#"Object 'Kind' is missing in '{"Kind":"Widget"}' ({"Kind":"Widget"})"#)),
            (&collection, JSON, r#"{"kind":"Widget","metadata":{"name":"a"}}"#, version("")),
            (&collection, YAML, "{kind: Widget, apiVersion: example.com/v1beta1}", version("example.com/v1beta1")),
            (&collection, JSON, r#"{"kind":"Gadget","apiVersion":"example.com/v9"}"#, version("example.com/v9")),
            (&collection, JSON, r#"{"kind":"Widget","apiVersion":"x/y/z"}"#, unrecognized(r#"unexpected GroupVersion string: x/y/z ({"kind":"Widget","apiVersion": ...)"#)),
            (&collection, JSON, r#"{"kind":"Widget","apiVersion":null}"#, "Widget in version \"\" cannot be handled as a Widget: .apiVersion accessor error: <nil> is of the type <nil>, expected string".to_owned()),
        ] {
            assert_eq!(send(&cluster, "POST", path, media_type, body).await, (400, message), "{body}");
        }
        let gadget = json!({"kind": "Gadget", "apiVersion": "example.com/v1", "metadata": {"name": "a"}}).to_string();
        let other_kind = "Gadget.example.com \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget";
        assert_eq!(send(&cluster, "POST", WIDGETS, JSON, &gadget).await, (422, other_kind.to_owned()));
        let path = format!("{WIDGETS}/a");
        assert_eq!(send(&cluster, "PUT", &path, JSON, &gadget).await.0, 404, "the object does not exist");
        let mut object = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).json();
        for (key, code, message) in [("kind", 400, "Object 'Kind' is missing"), ("apiVersion", 400, "(example.com/v1)")]
        {
            let mut without = object.clone();
            without.as_object_mut().expect("an object").remove(key);
            let (found, text) = send(&cluster, "PUT", &path, JSON, &without.to_string()).await;
            assert!(found == code && text.contains(message), "{found} {text}");
        }
        object["kind"] = json!("Gadget");
        assert_eq!(send(&cluster, "PUT", &path, JSON, &object.to_string()).await, (422, other_kind.to_owned()));
        // A write of the status changes only the status. For another kind it records no managed fields.
        object["status"] = json!({"ready": true});
        let updated = cluster.put(&format!("{path}/status"), object.to_string()).await.expect(200).json();
        assert_eq!((&updated["kind"], &updated["status"]), (&json!("Widget"), &json!({"ready": true})));
        assert_eq!(updated["metadata"].get("managedFields"), None);
        cluster.stop().await;
    });
}

#[test]
fn patches_cannot_change_the_kind_or_version() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let created = cluster.post(WIDGETS, widget("a", &json!({})).to_string()).await.expect(201).text();
        let path = format!("{WIDGETS}/a");
        let no_version =
            "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'".to_owned();
        let invalid = |kind: &str, why: &str| format!("{kind} \"a\" is invalid: {why}");
        let (kind, version) = (
            r#"kind: Invalid value: "Gadget": must be Widget"#,
            r#"apiVersion: Invalid value: "example.com/v9": must be example.com/v1"#,
        );
        for (media_type, body, expect) in [
            (MERGE, r#"{"apiVersion":null}"#, (500, no_version.clone())),
            (MERGE, r#"{"apiVersion":""}"#, (500, no_version.clone())),
            (JSON_PATCH, r#"[{"op":"remove","path":"/apiVersion"}]"#, (500, no_version.clone())),
            (
                MERGE,
                r#"{"apiVersion":"","metadata":{"resourceVersion":""}}"#,
                (422, "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update".to_owned()),
            ),
            (MERGE, r#"{"kind":"Gadget"}"#, (422, invalid("Gadget.example.com", kind))),
            (
                JSON_PATCH,
                r#"[{"op":"replace","path":"/kind","value":"Gadget"}]"#,
                (422, invalid("Gadget.example.com", kind)),
            ),
            (MERGE, r#"{"apiVersion":"example.com/v9"}"#, (422, invalid("Widget.example.com", version))),
            (
                MERGE,
                r#"{"apiVersion":"example.com/v9","kind":"Gadget"}"#,
                (422, invalid("Gadget.example.com", &format!("[{kind}, {version}]"))),
            ),
            (
                MERGE,
                r#"{"apiVersion":"other.com/v1"}"#,
                (
                    422,
                    invalid("Widget.other.com", r#"apiVersion: Invalid value: "other.com/v1": must be example.com/v1"#),
                ),
            ),
        ] {
            assert_eq!(send(&cluster, "PATCH", &path, media_type, body).await, expect, "{body}");
        }
        for (media_type, body, why) in [
            (
                MERGE,
                r#"{"kind":null}"#,
                "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v1\",\"metadata\":{",
            ),
            (
                MERGE,
                r#"{"kind":""}"#,
                "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v1\",\"kind\":\"\",\"metadata\":{",
            ),
            (
                JSON_PATCH,
                r#"[{"op":"remove","path":"/kind"}]"#,
                "Object 'Kind' is missing in '{\"apiVersion\":\"example.com/v1\",\"metadata\":{",
            ),
            (MERGE, r#"{"apiVersion":"x/y/z"}"#, "unexpected GroupVersion string: x/y/z"),
            (
                JSON_PATCH,
                r#"[{"op":"replace","path":"/apiVersion","value":null}]"#,
                ".apiVersion accessor error: <nil> is of the type <nil>, expected string",
            ),
        ] {
            let (code, message) = send(&cluster, "PATCH", &path, media_type, body).await;
            assert!(
                code == 422 && message.starts_with(" \"\" is invalid: patch: Invalid value: ") && message.contains(why),
                "{code} {message}"
            );
        }
        assert_eq!(cluster.get(&path).await.expect(200).text(), created, "nothing is stored");

        // A patch of the status is checked for a version, but changes only the status.
        let status = format!("{path}/status");
        assert_eq!(send(&cluster, "PATCH", &status, MERGE, r#"{"apiVersion":null}"#).await, (500, no_version));
        let patched =
            cluster.patch(&status, "merge", r#"{"kind":"Gadget","status":{"ready":true}}"#).await.expect(200).json();
        assert_eq!((&patched["kind"], &patched["status"]), (&json!("Widget"), &json!({"ready": true})));
        cluster.stop().await;
    });
}

#[test]
fn patches_of_built_in_kinds_keep_the_kind_and_need_the_version() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let collection = "/api/v1/namespaces/default/configmaps";
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let created = cluster.post(collection, object.to_string()).await.expect(201).text();
        let path = format!("{collection}/a");
        for (patch, body) in [
            ("merge", r#"{"kind":null}"#),
            ("json", r#"[{"op":"remove","path":"/kind"}]"#),
            ("strategic-merge", r#"{"kind":"Gadget","apiVersion":null}"#),
        ] {
            assert_eq!(cluster.patch(&path, patch, body).await.expect(200).text(), created, "{body}");
        }
        let unnamed = "the name of the object (a based on URL) was undeterminable: name must be provided".to_owned();
        for (media_type, body) in
            [(MERGE, r#"{"apiVersion":null}"#), (JSON_PATCH, r#"[{"op":"remove","path":"/apiVersion"}]"#)]
        {
            assert_eq!(send(&cluster, "PATCH", &path, media_type, body).await, (400, unnamed.clone()), "{body}");
            let strict = format!("{path}?fieldValidation=Strict");
            let (code, message) = send(&cluster, "PATCH", &strict, media_type, body).await;
            let why = r#"strict decoding error: unknown field "data", unknown field "metadata""#;
            assert!(code == 422 && message.ends_with(why), "{code} {message}");
        }
        assert_eq!(cluster.get(&path).await.expect(200).text(), created);
        cluster.stop().await;
    });
}
