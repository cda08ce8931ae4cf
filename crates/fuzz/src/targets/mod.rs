//! The fuzz targets, with the properties that hold for every input. A decoder neither panics nor allocates more than
//! the input's length allows. Each accepted input round-trips through encoding.

mod admission_webhook;
mod apply;
mod authentication;
mod authorization;
mod cbor;
mod cel;
mod certificate;
mod credentials;
mod encryption;
mod json;
mod mutating_policy;
mod patch;
mod plugin_write;
mod protobuf;
mod quota;
mod request;
mod scalar;
mod schema;
mod selector;
mod spdy;
mod stored;
mod token;
mod webhook;
mod yaml;

use pintle_catalog::Catalog;
use pintle_schema::TypeId;
use pintle_value::Value;

/// False for a value that goyaml encodes as YAML of a different value.
#[must_use]
pub fn round_trips_in_yaml(value: &Value) -> bool {
    yaml::round_trips(value)
}

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name on the command line.
    pub name: &'static str,
    /// The function of the target. It panics if a property does not hold for the input. Callers use
    /// [`FuzzTarget::run`].
    pub(crate) target: fn(&[u8]),
    /// The seed inputs, all valid.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All fuzz targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "json", target: json::untyped, seeds: json::seeds },
    FuzzTarget { name: "json_typed", target: json::typed, seeds: json::typed_seeds },
    FuzzTarget { name: "json_object", target: json::object, seeds: json::object_seeds },
    FuzzTarget { name: "yaml", target: yaml::decoded, seeds: yaml::seeds },
    FuzzTarget { name: "protobuf_message", target: protobuf::message, seeds: protobuf::seeds },
    FuzzTarget { name: "protobuf_object", target: protobuf::object, seeds: protobuf::object_seeds },
    FuzzTarget { name: "protobuf_envelope", target: protobuf::envelope, seeds: protobuf::envelope_seeds },
    FuzzTarget { name: "cbor", target: cbor::untyped, seeds: cbor::seeds },
    FuzzTarget { name: "cbor_typed", target: cbor::typed, seeds: cbor::typed_seeds },
    FuzzTarget { name: "selector", target: selector::parsed, seeds: selector::seeds },
    FuzzTarget { name: "spdy", target: spdy::decoded, seeds: spdy::seeds },
    FuzzTarget { name: "json_patch", target: patch::json_patch, seeds: patch::json_patch_seeds },
    FuzzTarget { name: "merge_patch", target: patch::merge_patch, seeds: patch::patch_seeds },
    FuzzTarget { name: "strategic_merge_patch", target: patch::strategic, seeds: patch::patch_seeds },
    FuzzTarget { name: "fields_v1", target: apply::fields_v1, seeds: apply::seeds },
    FuzzTarget { name: "apply", target: apply::apply, seeds: apply::apply_seeds },
    FuzzTarget { name: "cel", target: cel::expression, seeds: cel::expression_seeds },
    FuzzTarget { name: "pattern", target: cel::pattern, seeds: cel::pattern_seeds },
    FuzzTarget { name: "structural_schema", target: schema::schema, seeds: schema::schema_seeds },
    FuzzTarget { name: "crd", target: schema::crd, seeds: schema::crd_seeds },
    FuzzTarget { name: "request_head", target: request::request_head, seeds: request::seeds },
    FuzzTarget { name: "quantity", target: scalar::quantity, seeds: scalar::quantity_seeds },
    FuzzTarget { name: "time", target: scalar::time, seeds: scalar::time_seeds },
    FuzzTarget { name: "name", target: scalar::name, seeds: scalar::name_seeds },
    FuzzTarget { name: "json_path", target: scalar::json_path, seeds: scalar::json_path_seeds },
    FuzzTarget { name: "token", target: token::token, seeds: token::token_seeds },
    FuzzTarget { name: "client_certificate", target: certificate::client, seeds: certificate::client_seeds },
    FuzzTarget { name: "key_set", target: token::key_set, seeds: token::key_set_seeds },
    FuzzTarget { name: "key_file", target: token::key_file, seeds: token::key_file_seeds },
    FuzzTarget { name: "node_object", target: authorization::node_object, seeds: authorization::node_object_seeds },
    FuzzTarget {
        name: "authorization_config",
        target: authorization::authorization_config,
        seeds: authorization::authorization_config_seeds,
    },
    FuzzTarget { name: "policy_file", target: authorization::policy_file, seeds: authorization::policy_file_seeds },
    FuzzTarget {
        name: "subject_access_review",
        target: webhook::subject_access_review,
        seeds: webhook::subject_access_review_seeds,
    },
    FuzzTarget { name: "token_review", target: webhook::token_review, seeds: webhook::token_review_seeds },
    FuzzTarget { name: "kubeconfig", target: webhook::kubeconfig, seeds: webhook::kubeconfig_seeds },
    FuzzTarget {
        name: "authentication_config",
        target: authentication::authentication_config,
        seeds: authentication::authentication_config_seeds,
    },
    FuzzTarget {
        name: "token_claims",
        target: authentication::token_claims,
        seeds: authentication::token_claims_seeds,
    },
    FuzzTarget {
        name: "discovery_document",
        target: authentication::discovery_document,
        seeds: authentication::discovery_document_seeds,
    },
    FuzzTarget { name: "issuer_keys", target: authentication::issuer_keys, seeds: authentication::issuer_keys_seeds },
    FuzzTarget { name: "token_file", target: credentials::token_file, seeds: credentials::token_file_seeds },
    FuzzTarget {
        name: "websocket_protocols",
        target: credentials::websocket_protocols,
        seeds: credentials::websocket_protocols_seeds,
    },
    FuzzTarget {
        name: "front_proxy_headers",
        target: credentials::front_proxy_headers,
        seeds: credentials::front_proxy_headers_seeds,
    },
    FuzzTarget {
        name: "impersonation_headers",
        target: credentials::impersonation_headers,
        seeds: credentials::impersonation_headers_seeds,
    },
    FuzzTarget {
        name: "admission_review",
        target: admission_webhook::admission_review,
        seeds: admission_webhook::admission_review_seeds,
    },
    FuzzTarget { name: "mutation", target: mutating_policy::mutation, seeds: mutating_policy::mutation_seeds },
    FuzzTarget { name: "stored_object", target: stored::object, seeds: stored::object_seeds },
    FuzzTarget { name: "stored_spelling", target: stored::spelling, seeds: stored::spelling_seeds },
    FuzzTarget { name: "encryption_config", target: encryption::configuration, seeds: encryption::configuration_seeds },
    FuzzTarget { name: "encrypted_value", target: encryption::value, seeds: encryption::value_seeds },
    FuzzTarget { name: "encrypted_object", target: encryption::object, seeds: encryption::object_seeds },
    FuzzTarget { name: "quota_writes", target: quota::writes, seeds: quota::writes_seeds },
];

/// Splits an input into the kind that its first two bytes select, and the rest.
fn split_kind(input: &[u8]) -> Option<(&'static Catalog, TypeId, &[u8])> {
    let catalog = pintle_catalog::shared();
    let (chosen, rest) = input.split_first_chunk::<2>()?;
    let at = usize::from(u16::from_le_bytes(*chosen)) % catalog.kinds().len();
    Some((catalog, catalog.kinds().nth(at)?.3, rest))
}

/// All kinds: the two bytes that select the kind in an input, and its type.
fn kinds() -> impl Iterator<Item = ([u8; 2], TypeId)> {
    let kinds = pintle_catalog::shared().kinds();
    kinds.enumerate().map(|(i, kind)| (u16::try_from(i).unwrap_or_default().to_le_bytes(), kind.3))
}
