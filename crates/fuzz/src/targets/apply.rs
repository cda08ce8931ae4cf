//! Server-side apply: field sets as JSON (`fieldsV1`), and apply requests for objects with managed fields. The input of
//! such a request begins with two bytes that choose the kind. A live object and a configuration follow, separated by a zero byte.

use std::sync::LazyLock;

use pintle_apply::managed_fields::{self, FieldManager, FieldManagerRequest, Managed};
use pintle_apply::merge::{ConvertError, Updater, VersionConverter};
use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_codec::json;
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Filter};
use pintle_schema::{Problems, TypeId, normalise};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

use super::{kinds, split_kind};
use crate::{MemoryLimit, Random, sample, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 64 << 10 };

pub(super) fn fields_v1(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(set) = with_memory_limit(text.len(), LIMIT, || FieldSet::decode(text)) else { return };
    let written = set.encode();
    let again = FieldSet::decode(&written).unwrap_or_else(|e| panic!("{written:?}: {e}"));
    assert_eq!(again, set, "{written}");
    let value = set.to_value();
    assert_eq!(FieldSet::from_value(&value).as_ref(), Ok(&set));
    // A field set that is kept as text is encoded like its tree.
    let tree = without_text(&value);
    assert_eq!(value, tree);
    assert_eq!(json::encode(&value), json::encode(&tree));
    assert_eq!(set.difference(&set).len(), 0);
    assert_eq!(set.union(&set), set);
}

/// A copy of a value in which no part is kept as text.
fn without_text(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key, without_text(value))).collect::<Object>().into()
        }
        Value::Array(items) => items.iter().map(without_text).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

/// A kind with one version.
struct OneVersion<'t>(TypeRef<'t>);

/// The fields that a write of the main resource does not own.
static NOT_OWNED: LazyLock<Filter> =
    LazyLock::new(|| Filter::Exclude([[PathElement::field("status")]].into_iter().collect()));

impl VersionConverter for OneVersion<'_> {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        (version == VERSION).then_some(self.0)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        if from == to { Ok(object.clone()) } else { Err(ConvertError::MissingVersion) }
    }

    fn ignore_filter(&self, _: &str) -> Option<&Filter> {
        Some(&NOT_OWNED)
    }
}

const VERSION: &str = "v1";

pub(super) fn apply(input: &[u8]) {
    let Some((catalog, type_id, texts)) = split_kind(input) else { return };
    let Some(zero) = texts.iter().position(|byte| *byte == 0) else { return };
    let types = catalog.types();
    let read = |text: &[u8]| json::decode_typed(text, types, type_id).ok().map(|read| read.value);
    let (Some(mut live), Some(mut config)) = (read(&texts[..zero]), read(&texts[zero + 1..])) else { return };
    let type_ref = TypeRef::new(types, type_id);
    if type_ref.validate(&live, Duplicates::Allowed).is_err()
        || type_ref.validate(&config, Duplicates::Forbidden).is_err()
    {
        return;
    }
    let entries = remove_managed_fields(&mut live);
    remove_managed_fields(&mut config);
    let managed = managed_fields::decode(&entries).unwrap_or_default();
    let written = managed_fields::encode(&managed);
    let decoded = managed_fields::decode(&written).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(managed_fields::encode(&decoded), written, "managed fields round-trip");
    let converter = OneVersion(type_ref);
    let manager = FieldManager { updater: Updater { converter: &converter } };
    let request =
        FieldManagerRequest { manager: "fuzz", version: VERSION, subresource: "", now: Time::from_seconds(1) };
    let _ = manager.update(&live, &config, managed.clone(), &request);
    check_create(&manager, &live, &request, type_id);
    let _ = manager.apply(&live, &config, managed.clone(), &request, false, None);
    let Ok((object, owners)) = manager.apply(&live, &config, managed, &request, true, None) else { return };
    let object = object.unwrap_or(live);
    if let Ok((again, owners_again)) = manager.apply(&object, &config, owners.clone(), &request, true, None) {
        assert_eq!(again, None, "applied twice, a configuration changes nothing");
        assert_eq!(managed_fields::encode(&owners_again), managed_fields::encode(&owners));
    }
}

/// Checks that a create gives the same managed fields as an update from the empty object.
fn check_create(manager: &FieldManager<'_>, new: &Value, request: &FieldManagerRequest<'_>, type_id: TypeId) {
    let types = pintle_catalog::shared().types();
    let mut empty = Value::object();
    normalise(types, type_id, &mut empty, &mut Problems::default());
    for empty in [empty, Value::object()] {
        let Some(entries) = manager.create(&empty, new, request) else { continue };
        let updated = manager.update(&empty, new, Managed::default(), request).expect("an update");
        let expected = managed_fields::encode(&updated);
        assert_eq!(entries, expected);
        let fields =
            |entries: &[Value]| entries.iter().map(|entry| json::encode(&entry["fieldsV1"])).collect::<Vec<_>>();
        assert_eq!(fields(&entries), fields(&expected));
    }
}

fn remove_managed_fields(object: &mut Value) -> Vec<Value> {
    let entries = object.items_at(&["metadata", "managedFields"]).to_vec();
    object.set_at(&["metadata", "managedFields"], Value::Null);
    entries
}

pub(super) fn apply_seeds() -> Vec<Vec<u8>> {
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(9);
    let mut seed = |(number, type_id): ([u8; 2], _)| {
        let mut seed = number.to_vec();
        for separator in [&b"\0"[..], b""] {
            let mut value = sample(&mut random, types, type_id);
            normalise(types, type_id, &mut value, &mut Problems::default());
            json::encode_into(&value, &mut seed);
            seed.extend_from_slice(separator);
        }
        seed
    };
    kinds().map(&mut seed).collect()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#,
        r#"{"f:finalizers":{"v:\"a\"":{},"v:1":{},"v:1.5":{},"v:null":{},"v:true":{}},"i:3":{}}"#,
        r#"{".":{},"f:":{},"f:.":{".":{}}}"#,
        // These must be decoded to the nearest float.
        r#"{"v:2.0001e+27":{},"v:20001000000000000000000000000":{}}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
