//! Objects of every kind, made up from the facts of their types, come back from every encoding as they were, and from each
//! through each other.

use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_fuzz::{Random, sample, survives_yaml};
use pintle_schema::{Problems, Type, TypeId, Types, normalise};
use pintle_value::Value;

/// How many objects of each kind.
const OBJECTS: u64 = 12;

struct Kind {
    name: String,
    types: &'static Types,
    id: TypeId,
}

impl Kind {
    fn json(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        json::encode_typed(value, self.types, self.id, &mut out);
        out
    }

    #[track_caller]
    fn read_json(&self, text: &[u8]) -> Value {
        let read = json::decode_typed(text, self.types, self.id).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        assert_eq!(read.strict_errors, Vec::<String>::new(), "{}", self.name);
        read.value
    }

    fn protobuf(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        protobuf::encode_object(value, self.types, self.id, &mut out);
        out
    }

    /// The same without a tree, from JSON as it is stored.
    fn json_as_protobuf(&self, value: &Value) -> Vec<u8> {
        let (text, mut tape) = (self.json(value), json::Tape::default());
        let mut message = Vec::new();
        protobuf::encode_json(&text, &mut tape, self.types, self.id, &mut message).expect("what is stored is JSON");
        let mut out = Vec::new();
        protobuf::encode_envelope(value.api_version(), value.kind(), &mut out, |out| out.extend_from_slice(&message));
        out
    }

    #[track_caller]
    fn read_protobuf(&self, message: &[u8]) -> Value {
        let read = protobuf::open_envelope(message).and_then(|e| protobuf::decode_object(&e, self.types, self.id));
        read.unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    fn cbor(&self, value: &Value) -> Vec<u8> {
        let mut out = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode_typed(value, self.types, self.id, &mut out);
        out
    }

    #[track_caller]
    fn read_cbor(&self, bytes: &[u8]) -> Value {
        let read = cbor::decode_typed(bytes, self.types, self.id, cbor::Limits::default());
        let read = read.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        assert_eq!(read.unknown_field, None, "{}", self.name);
        let mut value = read.value;
        let mut problems = Problems::default();
        normalise(self.types, self.id, &mut value, &mut problems);
        assert_eq!(problems, Problems::default(), "{}", self.name);
        value
    }

    /// An object as it is stored: read from JSON.
    fn object(&self, seed: u64) -> Value {
        let mut value = sample(&mut Random::new(seed), self.types, self.id);
        let mut problems = Problems::default();
        normalise(self.types, self.id, &mut value, &mut problems);
        assert_eq!(problems, Problems::default(), "{}: {}", self.name, json::encode(&value).escape_ascii());
        self.read_json(&self.json(&value))
    }
}

/// All kinds, each with a thousand seeds of its own.
fn kinds() -> impl Iterator<Item = (u64, Kind)> {
    let catalog = pintle_catalog::shared();
    let kinds = catalog.kinds().map(|(group, version, kind, id)| Kind {
        name: format!("{group}/{version} {kind}"),
        types: catalog.types(),
        id,
    });
    (0..).step_by(1_000).zip(kinds)
}

#[track_caller]
fn same(kind: &Kind, way: &str, came: &Value, went: &Value) {
    let text = |value| String::from_utf8_lossy(&json::encode(value)).into_owned();
    assert_eq!(text(came), text(went), "{} through {way}", kind.name);
    assert_eq!(came, went, "{} through {way}", kind.name);
}

/// The tree with null for lists and maps without entries.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Object(object) if object.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        Value::Object(mut object) => {
            object.iter_mut().for_each(|(_, value)| *value = without_empty(value.take()));
            Value::Object(object)
        }
        other => other,
    }
}

#[test]
fn objects_come_back_read_json_and_yaml() {
    let mut in_yaml = 0;
    for (seeds, kind) in kinds() {
        for seed in seeds..seeds + OBJECTS {
            let object = kind.object(seed);
            let text = kind.json(&object);
            same(&kind, "JSON", &kind.read_json(&text), &object);
            same(
                &kind,
                "pretty JSON",
                &kind.read_json(&json::encode_typed_pretty(&object, kind.types, kind.id)),
                &object,
            );
            if !survives_yaml(&object) {
                continue;
            }
            in_yaml += 1;
            let written = yaml::encode(&object);
            let read = yaml::decode(&written).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
            assert_eq!(read.strict_error, None, "{}", kind.name);
            same(&kind, "YAML", &kind.read_json(&json::encode(&read.value)), &object);
            // JSON is YAML too, but for characters that YAML does not allow as they are.
            if String::from_utf8_lossy(&text).contains(|c| matches!(c, '\u{7f}'..='\u{9f}')) {
                continue;
            }
            let read = yaml::decode(&text).unwrap_or_else(|e| panic!("{}: {e}: {}", kind.name, text.escape_ascii()));
            same(&kind, "JSON as YAML", &kind.read_json(&json::encode(&read.value)), &object);
        }
    }
    assert!(in_yaml > 1_000, "{in_yaml} objects came back from YAML");
}

#[test]
fn objects_come_back_read_protobuf() {
    // A table is no message.
    let is_message = |kind: &Kind| matches!(kind.types.get(kind.id), Type::Struct(ty) if ty.message(0).len() > 0);
    for (seeds, kind) in kinds().filter(|(_, kind)| is_message(kind)) {
        for seed in seeds..seeds + OBJECTS {
            let message = kind.protobuf(&kind.object(seed));
            assert!(kind.json_as_protobuf(&kind.object(seed)) == message, "{}", kind.name);
            // From here on lists without items are null, which a message does not tell apart.
            let object = kind.read_protobuf(&message);
            same(&kind, "Protobuf", &without_empty(object.clone()), &without_empty(kind.object(seed)));
            let came = kind.read_protobuf(&kind.protobuf(&object));
            same(&kind, "Protobuf twice", &came, &object);
            same(&kind, "Protobuf and JSON", &kind.read_json(&kind.json(&came)), &object);
        }
    }
}

#[test]
fn objects_come_back_from_cbor() {
    for (seeds, kind) in kinds() {
        for seed in seeds..seeds + OBJECTS {
            let object = kind.object(seed);
            let bytes = kind.cbor(&object);
            let came = kind.read_cbor(&bytes);
            same(&kind, "CBOR", &came, &object);
            assert!(kind.cbor(&came) == bytes, "{}", kind.name);
            same(&kind, "CBOR and JSON", &kind.read_json(&kind.json(&came)), &object);
        }
    }
}
