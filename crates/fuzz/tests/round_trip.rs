//! Generated objects of every kind round-trip through every encoding, and through any two of them.

use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_fuzz::{Random, round_trips_in_yaml, sample};
use pintle_schema::{Problems, Type, TypeId, Types, normalise};
use pintle_value::Value;

/// The number of generated objects of each kind.
const OBJECTS_PER_KIND: u64 = 12;

struct KindCodec {
    name: String,
    types: &'static Types,
    id: TypeId,
}

impl KindCodec {
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

    /// Encodes stored JSON as Protobuf without an intermediate value. Returns whether the message is known to be
    /// decoded to the same JSON.
    fn json_as_protobuf(&self, value: &Value) -> (Vec<u8>, bool) {
        let (text, mut tape) = (self.json(value), json::Tape::default());
        let mut message = Vec::new();
        let is_exact = protobuf::encode_json_checked(&text, &mut tape, self.types, self.id, &mut message);
        let is_exact = is_exact.expect("stored objects are JSON");
        let mut out = Vec::new();
        protobuf::encode_envelope(value.api_version(), value.kind(), &mut out, |out| out.extend_from_slice(&message));
        (out, is_exact)
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

    /// Generates an object in its stored form: decoded from JSON.
    fn object(&self, seed: u64) -> Value {
        let mut value = sample(&mut Random::new(seed), self.types, self.id);
        let mut problems = Problems::default();
        normalise(self.types, self.id, &mut value, &mut problems);
        assert_eq!(problems, Problems::default(), "{}: {}", self.name, json::encode(&value).escape_ascii());
        self.read_json(&self.json(&value))
    }
}

/// All kinds, each with its own range of a thousand seeds.
fn kinds() -> impl Iterator<Item = (u64, KindCodec)> {
    let catalog = pintle_catalog::shared();
    let kinds = catalog.kinds().map(|(group, version, kind, id)| KindCodec {
        name: format!("{group}/{version} {kind}"),
        types: catalog.types(),
        id,
    });
    (0..).step_by(1_000).zip(kinds)
}

#[track_caller]
fn assert_same(kind: &KindCodec, encoding: &str, decoded: &Value, original: &Value) {
    let text = |value| String::from_utf8_lossy(&json::encode(value)).into_owned();
    assert_eq!(text(decoded), text(original), "{} through {encoding}", kind.name);
    assert_eq!(decoded, original, "{} through {encoding}", kind.name);
}

/// Replaces empty lists and maps by null.
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
fn objects_round_trip_through_json_and_yaml() {
    let mut in_yaml = 0;
    for (seeds, kind) in kinds() {
        for seed in seeds..seeds + OBJECTS_PER_KIND {
            let object = kind.object(seed);
            let text = kind.json(&object);
            assert_same(&kind, "JSON", &kind.read_json(&text), &object);
            assert_same(
                &kind,
                "pretty JSON",
                &kind.read_json(&json::encode_typed_pretty(&object, kind.types, kind.id)),
                &object,
            );
            if !round_trips_in_yaml(&object) {
                continue;
            }
            in_yaml += 1;
            let written = yaml::encode(&object);
            let read = yaml::decode(&written).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
            assert_eq!(read.strict_error, None, "{}", kind.name);
            assert_same(&kind, "YAML", &kind.read_json(&json::encode(&read.value)), &object);
            // JSON is also YAML, except for control characters that YAML does not allow unescaped.
            if String::from_utf8_lossy(&text).contains(|c| matches!(c, '\u{7f}'..='\u{9f}')) {
                continue;
            }
            let read = yaml::decode(&text).unwrap_or_else(|e| panic!("{}: {e}: {}", kind.name, text.escape_ascii()));
            assert_same(&kind, "JSON as YAML", &kind.read_json(&json::encode(&read.value)), &object);
        }
    }
    assert!(in_yaml > 1_000, "only {in_yaml} objects were tested with YAML");
}

#[test]
fn objects_round_trip_through_protobuf() {
    // Tables have no Protobuf message.
    let is_message = |kind: &KindCodec| matches!(kind.types.get(kind.id), Type::Struct(ty) if ty.message(0).len() > 0);
    let mut exact = 0;
    for (seeds, kind) in kinds().filter(|(_, kind)| is_message(kind)) {
        for seed in seeds..seeds + OBJECTS_PER_KIND {
            let message = kind.protobuf(&kind.object(seed));
            let (from_json, is_exact) = kind.json_as_protobuf(&kind.object(seed));
            assert!(from_json == message, "{}", kind.name);
            // Protobuf does not distinguish empty lists from null, so from here on empty lists are null.
            let object = kind.read_protobuf(&message);
            if is_exact {
                exact += 1;
                assert_same(&kind, "Protobuf and back", &object, &kind.object(seed));
            }
            assert_same(&kind, "Protobuf", &without_empty(object.clone()), &without_empty(kind.object(seed)));
            let decoded = kind.read_protobuf(&kind.protobuf(&object));
            assert_same(&kind, "Protobuf twice", &decoded, &object);
            assert_same(&kind, "Protobuf and JSON", &kind.read_json(&kind.json(&decoded)), &object);
            let (_, is_exact) = kind.json_as_protobuf(&object);
            assert!(is_exact, "{}: what was decoded is decoded again", kind.name);
        }
    }
    assert!(exact > 100, "{exact}");
}

#[test]
fn objects_round_trip_through_cbor() {
    for (seeds, kind) in kinds() {
        for seed in seeds..seeds + OBJECTS_PER_KIND {
            let object = kind.object(seed);
            let bytes = kind.cbor(&object);
            let decoded = kind.read_cbor(&bytes);
            assert_same(&kind, "CBOR", &decoded, &object);
            assert!(kind.cbor(&decoded) == bytes, "{}", kind.name);
            assert_same(&kind, "CBOR and JSON", &kind.read_json(&kind.json(&decoded)), &object);
        }
    }
}
