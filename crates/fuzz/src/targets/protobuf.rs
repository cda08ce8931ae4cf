//! Protobuf: messages of every kind, and the envelope around them.

use pintle_codec::protobuf;
use pintle_schema::{Problems, normalise};
use pintle_value::Value;

use super::{kinds, split_kind};
use crate::{MemoryLimit, Random, sample, with_memory_limit};

/// An empty message in a list takes two bytes of input, and its value contains all non-pointer structs of the type.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 1_000, base: 64 << 10 };

pub(super) fn message(input: &[u8]) {
    let Some((catalog, type_id, bytes)) = split_kind(input) else { return };
    let types = catalog.types();
    let Ok(value) = with_memory_limit(bytes.len(), LIMIT, || protobuf::decode(bytes, types, type_id)) else { return };
    let write = |value: &Value| {
        let mut out = Vec::new();
        protobuf::encode(value, types, type_id, &mut out);
        out
    };
    let once = write(&value);
    assert_same_message(&once, &write(&protobuf::decode(&once, types, type_id).expect("an encoded message decodes")));
}

/// Checks that decoding and encoding again gives the same message. It compares messages and not values, because a float
/// with an integral value becomes an integer in embedded JSON.
fn assert_same_message(once: &[u8], twice: &[u8]) {
    let negative_zero = once.windows(2).any(|two| two == b"-0");
    assert!(once == twice || negative_zero, "{}\n{}", once.escape_ascii(), twice.escape_ascii());
}

pub(super) fn envelope(input: &[u8]) {
    let Ok(opened) = with_memory_limit(input.len(), LIMIT, || protobuf::open_envelope(input)) else { return };
    let mut written = Vec::new();
    protobuf::encode_envelope(&opened.api_version, &opened.kind, &mut written, |out| out.extend_from_slice(opened.raw));
    let again = protobuf::open_envelope(&written).expect("an encoded message decodes");
    assert_eq!((again.api_version, again.kind, again.raw), (opened.api_version, opened.kind, opened.raw));
}

/// A request body, whose envelope contains the apiVersion and kind.
pub(super) fn object(input: &[u8]) {
    let Ok(envelope) = protobuf::open_envelope(input) else { return };
    let catalog = pintle_catalog::shared();
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", &envelope.api_version));
    let Some(kind) = catalog.kind_type(group, version, &envelope.kind) else { return };
    let types = catalog.types();
    let Ok(value) = with_memory_limit(input.len(), LIMIT, || protobuf::decode_object(&envelope, types, kind)) else {
        return;
    };
    let write = |value: &Value| {
        let mut out = Vec::new();
        protobuf::encode_object(value, types, kind, &mut out);
        out
    };
    let once = write(&value);
    let again = protobuf::open_envelope(&once).and_then(|again| protobuf::decode_object(&again, types, kind));
    assert_same_message(&once, &write(&again.expect("an encoded message decodes")));
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    let catalog = pintle_catalog::shared();
    let mut random = Random::new(4);
    let enveloped = |(group, version, kind, type_id): (&str, &str, &str, _)| {
        let mut value = sample(&mut random, catalog.types(), type_id);
        value.set("apiVersion", if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
        value.set("kind", kind);
        normalise(catalog.types(), type_id, &mut value, &mut Problems::default());
        let mut out = Vec::new();
        protobuf::encode_object(&value, catalog.types(), type_id, &mut out);
        out
    };
    catalog.kinds().map(enveloped).collect()
}

/// A message of every kind, with the bytes that select the kind.
fn messages() -> impl Iterator<Item = ([u8; 2], Vec<u8>)> {
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(3);
    kinds().map(move |(number, type_id)| {
        let mut value = sample(&mut random, types, type_id);
        normalise(types, type_id, &mut value, &mut Problems::default());
        let mut message = Vec::new();
        protobuf::encode(&value, types, type_id, &mut message);
        (number, message)
    })
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    messages().map(|(number, message)| [&number[..], &message].concat()).collect()
}

pub(super) fn envelope_seeds() -> Vec<Vec<u8>> {
    let enveloped = |(_, message): (_, Vec<u8>)| {
        let mut out = Vec::new();
        protobuf::encode_envelope("v1", "Pod", &mut out, |out| out.extend_from_slice(&message));
        out
    };
    messages().step_by(9).map(enveloped).collect()
}
