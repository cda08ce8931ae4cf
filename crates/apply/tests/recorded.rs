//! Compares the `managedFields` of created objects with the `managedFields` of a real API server.

use pintle_apply::managed_fields::{FieldManager, FieldManagerRequest, Managed, encode};
use pintle_apply::merge::{ConvertError, Updater, VersionConverter};
use pintle_apply::typed::TypeRef;
use pintle_fieldpath::set::{FieldSet, Filter, encoded_field_set, is_sorted_text};
use pintle_schema::{Problems, Schema, normalise};
use pintle_value::Value;
use pintle_value::time::Time;

/// A built-in kind at its only version.
struct BuiltInKind {
    schema: Schema,
    version: String,
    filter: Filter,
}

impl VersionConverter for BuiltInKind {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        (version == self.version).then(|| TypeRef::new(&self.schema.types, self.schema.root))
    }

    fn convert(&self, _: &Value, _: &str, _: &str) -> Result<Value, ConvertError> {
        Err(ConvertError::MissingVersion)
    }

    fn ignore_filter(&self, _: &str) -> Option<&Filter> {
        Some(&self.filter)
    }
}

/// Creates an object and compares the fields of its creator.
#[track_caller]
fn check((group, version, kind): (&str, &str, &str), object: &str, expect: &str) {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let schema = pintle_catalog::shared().kind_schema(group, version, kind).expect(kind);
    let normalised = |text: &str| {
        let mut object: Value = serde_json::from_str(text).expect(text);
        normalise(&schema.types, schema.root, &mut object, &mut Problems::default());
        object
    };
    let (live, new) = (normalised("{}"), normalised(object));
    let filter = Filter::Exclude(FieldSet::decode(r#"{"f:status":{}}"#).expect("a set"));
    let kind = BuiltInKind { schema: schema.clone(), version: group_version, filter };
    let field_manager = FieldManager { updater: Updater { converter: &kind } };
    let request =
        FieldManagerRequest { manager: "golden", version: &kind.version, subresource: "", now: Time::from_seconds(0) };
    let managed = field_manager.update(&live, &new, Managed::default(), &request).expect("an update");
    let entries = encode(&managed);
    assert_eq!(field_manager.create(&live, &new, &request).as_ref(), Some(&entries), "written without a comparison");
    let fields: Value = serde_json::from_str(expect).expect(expect);
    assert_eq!(entries.first().map(|entry| &entry["fieldsV1"]), Some(&fields));
}

#[test]
fn created_config_map_matches_the_recorded_fields() {
    check(
        ("", "v1", "ConfigMap"),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u",
            "resourceVersion":"74","creationTimestamp":"2026-11-20T21:36:27Z","labels":{"app":"x"}},"data":{"k":"v"}}"#,
        r#"{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#,
    );
}

#[test]
fn created_crd_matches_the_recorded_fields() {
    check(
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"w.x.example"},
            "spec":{"conversion":{"strategy":"None"},"group":"x.example","names":{"kind":"W","listKind":"WList",
            "plural":"w","shortNames":["s"],"singular":"v"},"scope":"Namespaced","versions":[{"name":"v1","served":true,
            "storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
        r#"{"f:spec":{"f:conversion":{".":{},"f:strategy":{}},"f:group":{},"f:names":{"f:kind":{},"f:listKind":{},
            "f:plural":{},"f:shortNames":{},"f:singular":{}},"f:scope":{},"f:versions":{}}}"#,
    );
}

#[test]
fn fields_of_list_items_are_written_as_the_comparison_writes_them() {
    let schema = pintle_catalog::shared().kind_schema("", "v1", "Pod").expect("a kind");
    let filter = Filter::Exclude(FieldSet::decode(r#"{"f:status":{}}"#).expect("a set"));
    let kind = BuiltInKind { schema, version: "v1".to_owned(), filter };
    let field_manager = FieldManager { updater: Updater { converter: &kind } };
    let request =
        FieldManagerRequest { manager: "golden", version: &kind.version, subresource: "", now: Time::from_seconds(0) };
    let container = |fields: &str| format!(r#"{{"name":"a","image":"i",{fields}}}"#);
    let cases = [
        r#"{"name":"b"},{"name":"a"}"#.to_owned(),
        // The order of the keys as text differs from the order of the names.
        r#"{"name":"a"},{"name":"a b"},{"name":"a!"},{"name":""}"#.to_owned(),
        r#"{"name":"a"},{"name":"a"},{"name":"b"}"#.to_owned(),
        r#"{"name":"a\"b"},{"name":"c\\d"}"#.to_owned(),
        r#"{"name":"a<"},{"name":"\u00e9"}"#.to_owned(),
        r#"{"name":"\u00e9"}"#.to_owned(),
        r#"{"image":"nameless"}"#.to_owned(),
        r#"{"image":"nameless"},{"name":"a"}"#.to_owned(),
        container(r#""ports":[{"containerPort":80,"protocol":"TCP"}]"#),
        container(r#""ports":[{"containerPort":80}]"#),
        container(r#""ports":[{"containerPort":443,"protocol":"TCP"},{"containerPort":80,"protocol":"TCP"}]"#),
        container(
            r#""env":[{"name":"Z","value":"1"},{"name":"A"},{"name":"A"}],"volumeMounts":[{"mountPath":"/a b"}]"#,
        ),
        container(r#""env":[{"name":"Z","value":"1"},{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"x"}}}]"#),
    ];
    for containers in cases {
        let object = format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{containers}]}}}}"#);
        let (live, new) = (Value::object(), serde_json::from_str(&object).expect(&object));
        let managed = field_manager.update(&live, &new, Managed::default(), &request);
        let entries = field_manager.create(&live, &new, &request);
        let compared = managed.ok().map(|managed| encode(&managed));
        // Keys with unusual escapes are left to the comparison.
        let is_written = !object.contains('<') && !object.contains("\\u") || compared.is_none();
        assert_eq!(entries.as_ref(), compared.as_ref().filter(|_| is_written), "{object}");
        let fields = entries.as_ref().and_then(|entries| entries[0]["fieldsV1"].as_object()?.encoded());
        if let Some(fields) = fields.filter(|fields| fields.is_sorted_by(is_sorted_text)) {
            let (read, _) = encoded_field_set(fields.text(), 0).expect("a field set");
            assert!(read.is_sorted_by(is_sorted_text), "{}", fields.text());
        }
    }
}

#[test]
fn objects_that_do_not_fit_their_type_are_left_to_the_comparison() {
    let schema = pintle_catalog::shared().kind_schema("apps", "v1", "Deployment").expect("a kind");
    let filter = Filter::Exclude(FieldSet::decode(r#"{"f:status":{}}"#).expect("a set"));
    let kind = BuiltInKind { schema, version: "apps/v1".to_owned(), filter };
    let field_manager = FieldManager { updater: Updater { converter: &kind } };
    let request =
        FieldManagerRequest { manager: "golden", version: &kind.version, subresource: "", now: Time::from_seconds(0) };
    for (object, fits) in [
        (r#"{"spec":{"replicas":1},"status":{"replicas":1}}"#, true),
        (r#"{"spec":{"replicas":"x"}}"#, false),
        // Nobody owns the status, but it counts whether it fits.
        (r#"{"spec":{"replicas":1},"status":{"replicas":"x"}}"#, false),
        (r#"{"spec":{"unknown":1}}"#, false),
    ] {
        let (live, new) = (Value::object(), serde_json::from_str(object).expect(object));
        assert_eq!(field_manager.create(&live, &new, &request).is_some(), fits, "{object}");
        assert_eq!(field_manager.update(&live, &new, Managed::default(), &request).is_ok(), fits, "{object}");
    }
}
