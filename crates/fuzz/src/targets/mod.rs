//! The decoders and what must hold of them: no input makes them panic, or take more memory than its length allows, and
//! what they accept is written and read back as the same.

mod apply;
mod cbor;
mod json;
mod patch;
mod protobuf;
mod selector;
mod yaml;

use pintle_catalog::Catalog;
use pintle_schema::TypeId;
use pintle_value::Value;

/// False for a tree that goyaml writes as YAML of something else.
#[must_use]
pub fn survives_yaml(value: &Value) -> bool {
    yaml::comes_back(value)
}

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Panics if something does not hold for the input.
    pub run: fn(&[u8]),
    /// Good inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "json", run: json::untyped, seeds: json::seeds },
    Target { name: "json_typed", run: json::typed, seeds: json::typed_seeds },
    Target { name: "json_object", run: json::object, seeds: json::object_seeds },
    Target { name: "yaml", run: yaml::decoded, seeds: yaml::seeds },
    Target { name: "protobuf", run: protobuf::message, seeds: protobuf::seeds },
    Target { name: "object", run: protobuf::object, seeds: protobuf::object_seeds },
    Target { name: "envelope", run: protobuf::envelope, seeds: protobuf::envelope_seeds },
    Target { name: "cbor", run: cbor::untyped, seeds: cbor::seeds },
    Target { name: "cbor_typed", run: cbor::typed, seeds: cbor::typed_seeds },
    Target { name: "selector", run: selector::parsed, seeds: selector::seeds },
    Target { name: "json_patch", run: patch::json_patch, seeds: patch::json_patch_seeds },
    Target { name: "merge_patch", run: patch::merge_patch, seeds: patch::patch_seeds },
    Target { name: "strategic", run: patch::strategic, seeds: patch::patch_seeds },
    Target { name: "fields", run: apply::fields, seeds: apply::seeds },
];

/// The kind that the first two bytes of an input choose, and the rest of the input.
fn kind_of(input: &[u8]) -> Option<(&'static Catalog, TypeId, &[u8])> {
    let catalog = pintle_catalog::shared();
    let (chosen, rest) = input.split_first_chunk::<2>()?;
    let at = usize::from(u16::from_le_bytes(*chosen)) % catalog.kinds().len();
    Some((catalog, catalog.kinds().nth(at)?.3, rest))
}

/// The number of a kind, as an input begins with it, and its type.
fn kinds() -> impl Iterator<Item = ([u8; 2], TypeId)> {
    let kinds = pintle_catalog::shared().kinds();
    kinds.enumerate().map(|(i, kind)| (u16::try_from(i).unwrap_or_default().to_le_bytes(), kind.3))
}
