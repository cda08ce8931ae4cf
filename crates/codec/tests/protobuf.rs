//! Protobuf: compares with upstream's fixtures and recorded bytes, and decodes malformed messages.

mod recorded;
mod support;

use pintle_codec::{json, protobuf};
use pintle_schema::{TypeId, Types, base64};
use pintle_value::{Value, object};
use recorded::CodecResult;

fn type_of(kind: &str) -> (&'static Types, TypeId) {
    let catalog = pintle_catalog::complete();
    (catalog.types(), catalog.kind_type("", "v1", kind).expect("a kind"))
}

fn read(bytes: &[u8], types: &Types, type_id: TypeId) -> Result<Value, protobuf::DecodeError> {
    protobuf::decode_object(&protobuf::open_envelope(bytes)?, types, type_id)
}

#[test]
fn fixtures_decode_to_their_json_and_are_encoded_byte_for_byte() {
    for (types, fixture) in support::fixtures_of_all_versions() {
        let name = format!("{}/{} {}", fixture.group, fixture.version, fixture.kind);
        let expect = json::decode_typed(&fixture.bytes("json"), types, fixture.type_id).unwrap().value;
        let bytes = fixture.bytes("pb");
        let value = read(&bytes, types, fixture.type_id).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(value, expect, "{name}");
        let mut out = Vec::new();
        protobuf::encode_object(&value, types, fixture.type_id, &mut out);
        assert!(out == bytes, "{name}:\n{}\n{}", out.escape_ascii(), bytes.escape_ascii());
        // Stored JSON is encoded without building a tree.
        let mut stored = Vec::new();
        json::encode_typed(&value, types, fixture.type_id, &mut stored);
        let mut message = Vec::new();
        protobuf::encode_json(&stored, &mut json::Tape::default(), types, fixture.type_id, &mut message).expect(&name);
        let raw = protobuf::open_envelope(&bytes).unwrap().raw;
        assert!(message == raw, "{name}:\n{}\n{}", message.escape_ascii(), raw.escape_ascii());
    }
}

/// A Go server's response to a GET of a ConfigMap.
const CONFIG_MAP: &str = "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEuMBCtABCgFhEgAaB2RlZmF1bHQiACokYTA3Y2E3ZTYtOTg4Yy00MThmLWJiZDktMjMxMWZiOTQ1MDJhMgI3OTgAQggI2/qC2AYQAFoGCgF6EgExigF/CgZnb2xkZW4SBlVwZGF0ZRoCdjEiCAjb+oLYBhAAMghGaWVsZHNWMTpTClF7ImY6ZGF0YSI6eyIuIjp7fSwiZjprIjp7fSwiZjp4Ijp7fX0sImY6bWV0YWRhdGEiOnsiZjpsYWJlbHMiOnsiLiI6e30sImY6eiI6e319fX1CABIGCgFrEgF3EgYKAXgSAXkaACIA";

/// A frame of a Go server's watch, with a small ConfigMap in it.
const FRAME: &str = "AAAAcwoFQURERUQSagpoazhzAAoPCgJ2MRIJQ29uZmlnTWFwEk0KSwoGbm9raW5kEgAaB2RlZmF1bHQiACokYjdhNTI0YzAtOWRhMS00ZTdiLTg1NTEtOGRlMDY3ZmU4MTA5MgI3NzgAQggI2/qC2AYQABoAIgA=";

#[test]
fn recorded_objects_lists_and_watch_frames_round_trip() {
    let (types, type_id) = type_of("ConfigMap");
    let bytes = base64::decode(CONFIG_MAP.as_bytes()).unwrap();
    let value = read(&bytes, types, type_id).unwrap();
    assert_eq!((value.api_version(), value.kind(), value.name()), ("v1", "ConfigMap", "a"));
    assert_eq!(value.str_at(&["metadata", "creationTimestamp"]), "2026-11-20T21:36:27Z");
    let mut out = Vec::new();
    protobuf::encode_object(&value, types, type_id, &mut out);
    assert_eq!(out, bytes);

    let frame = base64::decode(FRAME.as_bytes()).unwrap();
    let object = &frame[frame.len() - 0x68..];
    let mut out = Vec::new();
    protobuf::watch_frame("ADDED", &mut out, |out| out.extend_from_slice(object));
    assert_eq!(out, frame);
    let mut small = Vec::new();
    protobuf::encode_object(&read(object, types, type_id).unwrap(), types, type_id, &mut small);
    assert_eq!(small, object);

    // A list that is assembled from encoded items equals the list that is encoded as one object.
    let items: Vec<&[u8]> = [&bytes[..], object].map(|b| protobuf::open_envelope(b).unwrap().raw).to_vec();
    let meta = object! { "resourceVersion": "79" };
    let len = items.iter().map(|i| protobuf::framed_len(i.len())).sum();
    let mut list = protobuf::list_head("v1", "ConfigMapList", &meta, len);
    for item in &items {
        protobuf::write_item(&mut list, |out| out.extend_from_slice(item));
    }
    list.extend_from_slice(&protobuf::ENVELOPE_TAIL);
    let (types, type_id) = type_of("ConfigMapList");
    let value = read(&list, types, type_id).unwrap();
    assert_eq!(value.str_at(&["metadata", "resourceVersion"]), "79");
    assert_eq!(value.items_at(&["items"])[1].name(), "nokind");
    let mut out = Vec::new();
    protobuf::encode_object(&value, types, type_id, &mut out);
    assert_eq!(out, list);
}

#[test]
fn unset_fields_are_encoded_as_zero_values() {
    let (types, type_id) = type_of("ConfigMap");
    let mut out = Vec::new();
    protobuf::encode(&object! { "metadata": Value::object() }, types, type_id, &mut out);
    // metadata { name "" generateName "" namespace "" selfLink "" uid "" resourceVersion "" generation 0
    // creationTimestamp {} }
    assert_eq!(out, b"\x0a\x10\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00");
    let value = protobuf::decode(b"", types, type_id).unwrap();
    assert_eq!(value, object! { "metadata": Value::object() });
}

#[track_caller]
fn assert_decode_error(bytes: &[u8], expect: &str) {
    let (types, type_id) = type_of("Pod");
    assert_eq!(read(bytes, types, type_id).expect_err("an error").to_string(), expect);
}

#[test]
fn malformed_bodies_are_rejected_with_upstreams_messages() {
    assert_decode_error(b"", "empty data");
    assert_decode_error(
        b"{}",
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    );
    assert_decode_error(b"k8s\0", "empty body");
    assert_decode_error(b"k8s\0abc", "unexpected EOF");
    assert_decode_error(b"k8s\0\x19", "proto: wrong wireType = 1 for field ContentEncoding");
    assert_decode_error(b"k8s\0\x0a\x05", "unexpected EOF");
    assert_decode_error(b"k8s\0\x00", "proto: Unknown: illegal tag 0 (wire type 0)");
    assert_decode_error(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow");
    assert_decode_error(
        b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "proto: negative length found during unmarshaling",
    );
    assert_decode_error(b"k8s\0\x12\x02\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta");
    assert_decode_error(b"k8s\0\x12\x01\x0c", "proto: Pod: wiretype end group for non-group");
    assert_decode_error(b"k8s\0\x12\x02\x7f\x00", "proto: illegal wireType 7");
    // Groups are skipped as a whole and without recursion, even deeply nested ones.
    let (types, type_id) = type_of("Pod");
    let group = [[0x7b; 1000], [0x7c; 1000]].concat();
    assert_eq!(protobuf::decode(&group, types, type_id), protobuf::decode(b"", types, type_id));
}

/// A deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn mutated_fixtures_never_panic_and_decoded_values_round_trip() {
    let types = pintle_catalog::complete().types();
    let fixtures = support::fixtures();
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..6_000 {
        let fixture = &fixtures[round % fixtures.len()];
        let mut bytes = fixture.bytes("pb");
        match random.below(4) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => bytes = (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
            _ => {
                for _ in 0..=random.below(4) {
                    let at = random.below(bytes.len());
                    bytes[at] = random.below(256) as u8;
                }
            }
        }
        let mut with_prefix = bytes.clone();
        if !with_prefix.starts_with(&protobuf::PREFIX) {
            with_prefix.splice(0..0, protobuf::PREFIX);
        }
        let Ok(value) = read(&with_prefix, types, fixture.type_id) else { continue };
        let mut once = Vec::new();
        protobuf::encode_object(&value, types, fixture.type_id, &mut once);
        let again = read(&once, types, fixture.type_id).unwrap();
        let mut twice = Vec::new();
        protobuf::encode_object(&again, types, fixture.type_id, &mut twice);
        assert!(once == twice, "{}: {}", fixture.kind, bytes.escape_ascii());
    }
}

/// The encoder knows that items with a type of their own are not decoded to the same JSON again.
#[test]
fn only_the_object_itself_has_its_type_in_the_envelope() {
    let (types, list) = type_of("ConfigMapList");
    for (of_item, expect) in [("", true), (r#""kind":"ConfigMap","#, false), (r#""apiVersion":"v1","#, false)] {
        let json = format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{}},"items":[{{{of_item}"metadata":{{"name":"a"}},"data":{{"k":"v"}}}}]}}"#
        );
        let (mut tape, mut message, mut of_tree) = (json::Tape::default(), Vec::new(), Vec::new());
        let is_exact = protobuf::encode_json_checked(json.as_bytes(), &mut tape, types, list, &mut message);
        let tree = json::decode(json.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
        assert_eq!(is_exact, Some(expect), "{json}");
        assert_eq!(protobuf::encode_checked(&tree, types, list, &mut of_tree), expect, "{json}");
        assert_eq!(message, of_tree);
    }
}

/// Unsorted entries are spread over many messages, up to the maximum size of a body. Decoding them must take time that
/// is proportional to their number.
#[test]
fn maps_with_many_unsorted_entries_are_decoded() {
    const ENTRIES: usize = 100_003;
    let (types, type_id) = type_of("ConfigMap");
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let entry = |i: usize| field(1, format!("k{:06}", i * 7919 % ENTRIES).as_bytes());
    let mut message = Vec::new();
    for i in 0..ENTRIES {
        message.extend(field(2, &entry(i)));
        message.extend(field(1, &field(12, &entry(i))));
    }
    message.extend(field(2, &[entry(0), field(2, b"last")].concat()));
    let value = protobuf::decode(&message, types, type_id).unwrap();
    assert_eq!(value.entries_at(&["data"]).count(), ENTRIES);
    assert_eq!(value.entries_at(&["metadata", "annotations"]).count(), ENTRIES);
    assert_eq!(value.str_at(&["data", "k000000"]), "last");
    assert!(value.entries_at(&["data"]).map(|(key, _)| key).is_sorted());
}

#[test]
fn decoding_matches_the_recorded_upstream_results() {
    recorded::check_all(include_str!("protobuf/rows.json"), |body| {
        let error = |error: String| CodecResult { error, ..CodecResult::default() };
        if body.strip_prefix(&protobuf::PREFIX).is_none_or(<[u8]>::is_empty) {
            return error("no envelope".to_owned());
        }
        let envelope = match protobuf::open_envelope(body) {
            Ok(envelope) => envelope,
            Err(e) => return error(e.to_string()),
        };
        let catalog = pintle_catalog::complete();
        let Some(kind) = catalog.kind_type("", &envelope.api_version, &envelope.kind) else {
            return error("no kind".to_owned());
        };
        match protobuf::decode_object(&envelope, catalog.types(), kind) {
            Ok(value) => CodecResult { json: json::encode(&value), ..CodecResult::default() },
            Err(e) => error(e.to_string()),
        }
    });
}
