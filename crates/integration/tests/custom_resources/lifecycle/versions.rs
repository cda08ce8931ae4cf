//! Changes of Kubernetes 1.37 without a feature gate. They are tables and warnings of CRDs, errors of patches, managed
//! fields after a failed update, and defaults in OpenAPI documents.

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{Cluster, Response};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, start_with_widgets, widget, widget_crd};

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// A cluster of a version with widgets.
async fn cluster(minor: u8) -> Cluster {
    let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    start_with_widgets(Cluster::with_options(Options { gates, ..Options::default() }).await).await
}

async fn patch(cluster: &Cluster, path: &str, patch_type: &str, body: &str) -> Response {
    cluster.request("PATCH", path).body(&format!("application/{patch_type}"), body.to_owned()).send().await
}

#[test]
fn tables_of_definitions_have_their_versions() {
    pintle_integration::run(async {
        for (minor, columns) in [
            (36, json!([["Name", 0], ["Created At", 0]])),
            (
                37,
                json!([
                    ["Name", 0],
                    ["Scope", 0],
                    ["Versions", 0],
                    ["Created At", 0],
                    ["Group", 1],
                    ["Kind", 1],
                    ["ShortNames", 1],
                    ["Established", 1],
                ]),
            ),
        ] {
            let cluster = cluster(minor).await;
            let table = cluster.request("GET", CRDS).header("accept", AS_TABLE).send().await.expect(200).json();
            let found = table["columnDefinitions"].as_array().expect("columns").iter();
            let found: Value = found.map(|column| json!([column["name"], column["priority"]])).collect();
            assert_eq!(found, columns);
            let row = &table["rows"][0];
            let created = &row["object"]["metadata"]["creationTimestamp"];
            let expect = match minor {
                36 => json!(["widgets.example.com", created]),
                _ => json!([
                    "widgets.example.com",
                    "Namespaced",
                    "v1(storage),v1beta1",
                    created,
                    "example.com",
                    "Widget",
                    "wd",
                    true,
                ]),
            };
            assert_eq!(row["cells"], expect);
            cluster.stop().await;
        }
    });
}

/// A CRD with sets whose items are objects, lists and scalars.
fn crd_with_sets() -> Value {
    let set = |item: Value| json!({"type": "array", "items": item, "x-kubernetes-list-type": "set"});
    let item = json!({"type": "object", "x-kubernetes-map-type": "atomic"});
    let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"});
    let properties =
        json!({"a": set(item.clone()), "b": set(item), "c": set(json!({"type": "string"})), "d": set(list)});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

#[test]
fn clients_are_warned_about_sets_of_objects() {
    pintle_integration::run(async {
        let warnings = |response: &Response| -> Vec<String> {
            let all = response.headers.get_all("warning").into_iter();
            all.map(|text| text.to_str().expect("text").to_owned()).collect()
        };
        let warning = |item_type: &str| {
            format!(
                r#"299 - "x-kubernetes-list-type: set for items of type \"{item_type}\" is not supported by server-side apply or CEL validation rules""#
            )
        };
        let both = vec![warning("array"), warning("object")];
        for (minor, expect) in [(36, Vec::new()), (37, both)] {
            let cluster = cluster(minor).await;
            let created = cluster.post(CRDS, crd_with_sets().to_string()).await.expect(201);
            assert_eq!(warnings(&created), expect);
            let path = format!("{CRDS}/things.example.com");
            let updated = patch(&cluster, &path, "merge-patch+json", r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
            assert_eq!(warnings(&updated.expect(200)), Vec::<String>::new());
            cluster.stop().await;
        }
    });
}

#[test]
fn a_failed_precondition_of_a_definition_has_another_text() {
    pintle_integration::run(async {
        for (minor, failed) in [(36, "Precondition failed"), (37, "precondition failed")] {
            let cluster = cluster(minor).await;
            let uid = cluster.get(CRD).await.expect(200).json()["metadata"]["uid"].clone();
            let uid = uid.as_str().expect("a uid");
            let preconditions = json!({"preconditions": {"uid": "no"}}).to_string();
            cluster.request("DELETE", CRD).json(preconditions).send().await.expect_error(
                409,
                "Conflict",
                &format!(
                    "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \
                     \"widgets.example.com\": {failed}: UID in precondition: no, UID in object meta: {uid}"
                ),
            );
            cluster.stop().await;
        }
    });
}

#[test]
fn patches_are_checked_before_the_object_is_read() {
    const JSON_TYPES: [&str; 2] = ["json-patch+json", "merge-patch+json"];
    pintle_integration::run(async {
        let (older, newer) = (cluster(36).await, cluster(37).await);
        let absent = format!("{WIDGETS}/absent");
        let bad = |response: Response, message: &str| response.expect_error(400, "BadRequest", message);
        for patch_type in JSON_TYPES {
            for body in ["", "{", "{\"a\":1}}"] {
                let _ = patch(&older, &absent, patch_type, body).await.expect(404);
                bad(patch(&newer, &absent, patch_type, body).await, "invalid JSON patch");
            }
            for body in ["1", "[]"] {
                let _ = patch(&newer, &absent, patch_type, body).await.expect(404);
            }
        }
        let config_map = "/api/v1/namespaces/default/configmaps/absent";
        bad(patch(&newer, config_map, "strategic-merge-patch+json", "{").await, "invalid JSON patch");

        let mapping = "yaml: mapping values are not allowed in this context";
        let flow = "error converting YAML to JSON: yaml: line 1: did not find expected node content";
        let list = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type \
                    map[string]interface {}";
        let repeated =
            "error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"kind\" already set in map";
        let duplicate = "kind: Widget\nkind: Widget\napiVersion: example.com/v1\nmetadata: {name: absent}\n";
        for (body, text_before, text_since) in [
            (
                "a: b: c",
                format!("error decoding YAML: error converting YAML to JSON: {mapping}"),
                format!("error encoding patch: {mapping}"),
            ),
            (" {\"a\": ", format!("error decoding YAML: {flow}"), format!("error decoding patch: {flow}")),
            ("[]", format!("error decoding YAML: {list}"), format!("error decoding patch: {list}")),
            (
                duplicate,
                format!("error strict decoding YAML: {repeated}"),
                format!("error strict decoding patch: {repeated}"),
            ),
        ] {
            let path = format!("{absent}?fieldManager=m&fieldValidation=Strict");
            bad(patch(&older, &path, "apply-patch+yaml", body).await, &text_before);
            bad(patch(&newer, &path, "apply-patch+yaml", body).await, &text_since);
        }
        older.stop().await;
        newer.stop().await;
    });
}

#[test]
fn a_failed_update_keeps_managed_fields() {
    pintle_integration::run(async {
        for (minor, is_kept) in [(36, false), (37, true)] {
            let cluster = cluster(minor).await;
            let path = format!("{WIDGETS}?fieldManager=one");
            let created = cluster.post(&path, widget("a", &json!({})).to_string()).await.expect(201).json();
            assert_eq!(created["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
            // A status update ignores the kind, of which there is no schema.
            let path = format!("{WIDGETS}/a/status?fieldManager=two");
            let body = r#"{"kind":"Gadget","status":{"ready":true}}"#;
            let updated = patch(&cluster, &path, "merge-patch+json", body).await.expect(200).json();
            let expect = if is_kept { &created["metadata"]["managedFields"] } else { &Value::Null };
            assert_eq!(&updated["metadata"]["managedFields"], expect);
            cluster.stop().await;
        }
    });
}

#[test]
fn a_create_by_an_apply_ignores_system_fields() {
    pintle_integration::run(async {
        let cluster = cluster(37).await;
        let mut object = widget("a", &json!({}));
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["deletionGracePeriodSeconds"] = json!(7);
        let path = format!("{WIDGETS}/a?fieldManager=one");
        let created = patch(&cluster, &path, "apply-patch+yaml", &object.to_string()).await.expect(201).json();
        let metadata = &created["metadata"];
        assert_eq!([&metadata["deletionTimestamp"], &metadata["deletionGracePeriodSeconds"]], [&Value::Null; 2]);
        let owned = &metadata["managedFields"][0]["fieldsV1"]["f:metadata"];
        assert_eq!(owned, &json!({"f:deletionTimestamp": {}, "f:deletionGracePeriodSeconds": {}}));
        cluster.stop().await;
    });
}

#[test]
fn items_have_no_defaults_in_openapi() {
    pintle_integration::run(async {
        for (minor, default) in [(36, json!("")), (37, Value::Null)] {
            let cluster = cluster(minor).await;
            for path in ["/openapi/v3/api/v1", "/openapi/v3/apis/example.com/v1"] {
                let document = cluster.get(path).await.expect(200).json();
                let metadata = &document["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"];
                let labels = &metadata["properties"]["labels"]["additionalProperties"];
                assert_eq!((&labels["type"], &labels["default"]), (&json!("string"), &default), "{path}");
                let entries = &metadata["properties"]["managedFields"]["items"];
                assert_eq!(entries.get("$ref").is_none(), minor == 36, "{path} {entries}");
            }
            cluster.stop().await;
        }
    });
}

#[test]
fn owner_references_of_embedded_resources_have_their_indices() {
    pintle_integration::run(async {
        for (minor, expect) in [
            (36, ("embedded.metadata.ownerReferences.name", "Invalid value: \"\": must not be empty")),
            (37, ("embedded.metadata.ownerReferences[0].name", "Required value: must not be empty")),
        ] {
            let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
            let cluster = Cluster::with_options(Options { gates, ..Options::default() }).await;
            let mut crd = widget_crd();
            let embedded = json!({
                "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            });
            for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
                version["schema"]["openAPIV3Schema"]["properties"]["embedded"] = embedded.clone();
            }
            let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
            super::wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
            let mut object = widget("a", &json!({}));
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"});
            object["embedded"] = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": [owner]}});
            let refused = cluster.post(WIDGETS, object.to_string()).await.expect(422).json();
            let cause = &refused["details"]["causes"][0];
            assert_eq!((&cause["field"], &cause["message"]), (&json!(expect.0), &json!(expect.1)), "{refused}");
            cluster.stop().await;
        }
    });
}
