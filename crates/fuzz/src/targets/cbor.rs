//! CBOR, decoded untyped and into a kind.

use pintle_codec::cbor::{self, Limits};
use pintle_codec::json;
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;

use super::{kinds, split_kind};
use crate::{MemoryLimit, Random, sample, with_memory_limit};

/// Each empty array in an array is one byte of input. As a value it takes 24 bytes, and up to four times as much while
/// the outer array grows.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 300, base: 64 << 10 };

pub(super) fn untyped(input: &[u8]) {
    let limits = Limits::default();
    let _ = with_memory_limit(input.len(), LIMIT, || cbor::type_meta(input, limits));
    let _ = with_memory_limit(input.len(), LIMIT, || cbor::diagnostic(input));
    let _ = with_memory_limit(input.len(), LIMIT, || cbor::decode_object(input, limits));
    let Ok(value) = with_memory_limit(input.len(), LIMIT, || cbor::decode(input, limits)) else { return };
    let written = cbor::encode(&value);
    let again = cbor::decode(&written, limits).unwrap_or_else(|e| panic!("{e}: {}", written.escape_ascii()));
    assert_eq!(again, value, "{}", written.escape_ascii());
    assert_eq!(cbor::encode(&again), written);
    let as_json = json::encode(&value);
    assert!(json::decode(&as_json, json::DecodeOptions::default()).is_ok(), "{}", as_json.escape_ascii());
}

pub(super) fn typed(input: &[u8]) {
    let Some((catalog, type_id, bytes)) = split_kind(input) else { return };
    let types = catalog.types();
    let Some(value) = with_memory_limit(bytes.len(), LIMIT, || read(bytes, types, type_id)) else { return };
    let mut once = cbor::SELF_DESCRIBED.to_vec();
    cbor::encode_typed(&value, types, type_id, &mut once);
    let again = read(&once, types, type_id).unwrap_or_else(|| panic!("does not decode again: {}", once.escape_ascii()));
    assert_eq!(again, value, "{}", once.escape_ascii());
}

/// Decodes and normalises a value.
fn read(bytes: &[u8], types: &Types, type_id: TypeId) -> Option<Value> {
    let mut value = cbor::decode_typed(bytes, types, type_id, Limits::default()).ok()?.value;
    let mut problems = Problems::default();
    normalise(types, type_id, &mut value, &mut problems);
    problems.errors.is_empty().then_some(value)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let written: [&[u8]; 6] = [
        b"\xd9\xd9\xf7\xa2\x44kind\x43Pod\x4aapiVersion\x42v1",
        b"\x9f\x01\x20\x18\xff\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\xf9\x3c\x00\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a\xff",
        b"\xbf\x61a\xf6\x61b\xf5\xff",
        b"\x5f\x41a\x42bc\xff",
        b"\xd6\x43abc",
        b"\xc0\x74\x32\x30\x30\x31-01-01T00:00:00Z",
    ];
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(5);
    let made = kinds().step_by(7).map(|(_, type_id)| cbor::encode(&sample(&mut random, types, type_id)));
    written.into_iter().map(<[u8]>::to_vec).chain(made).collect()
}

pub(super) fn typed_seeds() -> Vec<Vec<u8>> {
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(6);
    let mut seed = |(number, type_id): ([u8; 2], _)| {
        let mut seed = [&number[..], &cbor::SELF_DESCRIBED].concat();
        let mut value = sample(&mut random, types, type_id);
        normalise(types, type_id, &mut value, &mut Problems::default());
        cbor::encode_typed(&value, types, type_id, &mut seed);
        seed
    };
    kinds().map(&mut seed).collect()
}
