//! `managedFields` of creations as a real API server answered them, worked out again with the built-in types.

use pintle_apply::managed_fields::{Keeper, Managed, Request, encode};
use pintle_apply::managers::{ConvertError, Updater, Versions};
use pintle_apply::set::{FieldSet, Filter};
use pintle_apply::typed::Place;
use pintle_schema::{Problems, Schema, normalise};
use pintle_value::Value;
use pintle_value::time::Time;

/// A built-in kind at its only version.
struct Kind {
    schema: Schema,
    version: String,
    filter: Filter,
}

impl Versions for Kind {
    fn place(&self, version: &str) -> Option<Place<'_>> {
        (version == self.version).then(|| Place::new(&self.schema.types, self.schema.root))
    }

    fn convert(&self, _: &Value, _: &str, _: &str) -> Result<Value, ConvertError> {
        Err(ConvertError::MissingVersion)
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        Some(&self.filter)
    }
}

/// Creates an object of a kind, and compares the fields of its creator.
#[track_caller]
fn check((group, version, kind): (&str, &str, &str), object: &str, expect: &str) {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let schema = pintle_catalog::shared().kind_schema(group, version, kind).expect(kind);
    let made = |text: &str| {
        let mut object: Value = serde_json::from_str(text).expect(text);
        normalise(&schema.types, schema.root, &mut object, &mut Problems::default());
        object
    };
    let (live, new) = (made("{}"), made(object));
    let filter = Filter::Exclude(FieldSet::decode(r#"{"f:status":{}}"#).expect("a set"));
    let kind = Kind { schema: schema.clone(), version: group_version, filter };
    let keeper = Keeper { updater: Updater { versions: &kind } };
    let request = Request { manager: "golden", version: &kind.version, subresource: "", now: Time::from_seconds(0) };
    let managed = keeper.update(&live, &new, Managed::default(), &request).expect("an update");
    let entries = encode(&managed);
    let fields: Value = serde_json::from_str(expect).expect(expect);
    assert_eq!(entries.first().map(|entry| &entry["fieldsV1"]), Some(&fields));
}

#[test]
fn config_map() {
    check(
        ("", "v1", "ConfigMap"),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u",
            "resourceVersion":"74","creationTimestamp":"2026-11-20T21:36:27Z","labels":{"app":"x"}},"data":{"k":"v"}}"#,
        r#"{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}}}"#,
    );
}

#[test]
fn custom_resource_definition() {
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
