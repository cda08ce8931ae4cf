//! JSON, decoded untyped and into a kind.

use pintle_codec::json::{self, DecodeOptions};
use pintle_codec::protobuf;
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use super::{kinds, split_kind};
use crate::{MemoryLimit, Random, sample, with_memory_limit};

/// A value takes 24 bytes, and about four times as much while its list grows. The input may consist of only `[],`.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 200, base: 64 << 10 };

/// Decoding of stored objects, with some members kept as text.
const KEPT_AS_TEXT: DecodeOptions = DecodeOptions { kept_as_text: &["spec", "status", "a"], ..DecodeOptions::STORED };

pub(super) fn untyped(input: &[u8]) {
    let _ = with_memory_limit(input.len(), LIMIT, || json::decode_strict_untyped(input));
    let read = with_memory_limit(input.len(), LIMIT, || {
        json::decode(input, DecodeOptions { duplicates: true, ..DecodeOptions::default() })
    });
    let stored = json::decode(input, KEPT_AS_TEXT).map(|stored| stored.value);
    // The printed forms of the values are compared, so that -0 and 0 differ.
    let printed = |value: &Value| format!("{value:?}");
    assert_eq!(stored.as_ref().map(printed), read.as_ref().map(|read| printed(&read.value)));
    let Ok(read) = read else { return };
    assert_eq!(read.has_duplicates, !read.duplicates.is_empty(), "has_duplicates agrees with the list");
    let _ = json::type_meta(&read.value);
    // Encoding turns a float with an integral value into an integer, so the texts are compared and not the values.
    let rewritten = |text: &[u8]| json::decode(text, DecodeOptions::default()).map(|again| json::encode(&again.value));
    let once = json::encode(&read.value);
    let twice = rewritten(&once).expect("encoded JSON decodes");
    assert_eq!(rewritten(&json::encode_pretty(&read.value)).as_ref(), Ok(&twice));
    assert_eq!(rewritten(&twice).as_ref(), Ok(&twice));
    // Negative zero exists only as a float.
    assert!(once == twice || once.windows(2).any(|two| two == b"-0"), "{}", once.escape_ascii());
}

pub(super) fn typed(input: &[u8]) {
    let Some((catalog, type_id, text)) = split_kind(input) else { return };
    read_into(text, catalog.types(), type_id);
}

/// A request body, which contains its own apiVersion and kind.
pub(super) fn object(input: &[u8]) {
    let Ok(read) = json::decode(input, DecodeOptions::default()) else { return };
    let Ok(meta) = json::type_meta(&read.value) else { return };
    let (group, version) = meta.api_version.split_once('/').unwrap_or(("", &meta.api_version));
    let catalog = pintle_catalog::shared();
    if let Some(kind) = catalog.kind_type(group, version, &meta.kind) {
        read_into(input, catalog.types(), kind);
    }
}

fn read_into(text: &[u8], types: &Types, type_id: TypeId) {
    let _ = with_memory_limit(text.len(), LIMIT, || json::decode_strict(text, types, type_id));
    // This function is meant for stored JSON, but it must terminate for any input.
    let _ = with_memory_limit(text.len(), LIMIT, || message_of(text, types, type_id));
    let Ok(read) = with_memory_limit(text.len(), LIMIT, || json::decode_typed(text, types, type_id)) else { return };
    let write = |value: &Value| {
        let mut out = Vec::new();
        json::encode_typed(value, types, type_id, &mut out);
        out
    };
    // In untyped fields, encoding turns a float with an integral value into an integer, so the texts are compared.
    let once = write(&read.value);
    let again = json::decode_typed(&once, types, type_id).expect("encoded JSON decodes");
    let twice = write(&again.value);
    assert!(once == twice || once.windows(2).any(|two| two == b"-0"), "{}", once.escape_ascii());
    let mut message = Vec::new();
    protobuf::encode(&again.value, types, type_id, &mut message);
    let (from_json, _) = message_of(&twice, types, type_id).expect("the indexer reads encoded JSON");
    assert_eq!(from_json, message, "{}", twice.escape_ascii());
    for text in [&once, &twice] {
        let Some((message, true)) = message_of(text, types, type_id) else { continue };
        let mut decoded = protobuf::decode(&message, types, type_id).expect("an encoded message is decoded");
        for field in ["apiVersion", "kind"] {
            if let Some(value) = again.value.get(field) {
                decoded.set(field, value.clone());
            }
        }
        assert!(write(&decoded) == *text, "{}", text.escape_ascii());
    }
    let stored = json::decode(&twice, KEPT_AS_TEXT).expect("encoded JSON decodes").value;
    let mut copied = Vec::new();
    let original = json::OriginalObject { value: &stored, text: &twice };
    json::encode_typed_changed(&stored.clone(), original, types, type_id, &mut copied);
    assert_eq!(copied, write(&stored), "{}", twice.escape_ascii());
    let mut normal = again.value.clone();
    let mut problems = Problems::default();
    normalise(types, type_id, &mut normal, &mut problems);
    assert_eq!((normal, problems), (again.value, Problems::default()), "a decoded value is normalised");
}

/// Encodes JSON as a Protobuf message without an intermediate value. Returns whether the message is known to be decoded
/// to the same JSON.
fn message_of(text: &[u8], types: &Types, type_id: TypeId) -> Option<(Vec<u8>, bool)> {
    let (mut tape, mut out) = (json::Tape::default(), Vec::new());
    let is_exact = protobuf::encode_json_checked(text, &mut tape, types, type_id, &mut out)?;
    Some((out, is_exact))
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b\u00e9\ud83d\ude00"}},"spec":{"n":[1,-2.5e3,true,false,null,{}]}}"#,
        r#"[0.5,1e10,-0,"\\\"/\b\f\n\r\t",{"":""},9223372036854775807,9223372036854775808,1e-400]"#,
        "{\"a\": [ ] , \"b\"\n:\t{ } }",
        r#"{"a":1,"a":{"b":[{"c":0,"c":1}]}}"#,
        r#"{"a":{"b":{"c":"an object with more than sixty-four bytes is kept as text","d":[{"e":-1},null],"f":{"g":true}}}}"#,
        "\"é😀\"",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(super) fn typed_seeds() -> Vec<Vec<u8>> {
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(1);
    let mut seed = |(number, type_id): ([u8; 2], _)| {
        let mut seed = number.to_vec();
        json::encode_into(&sample(&mut random, types, type_id), &mut seed);
        seed
    };
    kinds().map(&mut seed).collect()
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    let catalog = pintle_catalog::shared();
    let mut random = Random::new(8);
    let body = |(group, version, kind, type_id): (&str, &str, &str, _)| {
        let mut value = sample(&mut random, catalog.types(), type_id);
        value.set("apiVersion", if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
        value.set("kind", kind);
        json::encode(&value)
    };
    catalog.kinds().map(body).collect()
}
