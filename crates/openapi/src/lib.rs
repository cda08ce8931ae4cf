//! The API described for machines: OpenAPI documents (v3, one per group and version, and v2, one for all), derived from
//! the registry and the catalog alone. kubectl's `explain` and its validation read them, and client libraries are made
//! from them. Knows nothing of HTTP.

mod kinds;
mod names;
mod operation;
mod parameters;
mod protobuf;
mod published;
mod routes;
mod schemas;
mod v2;
mod v3;

pub use v2::{v2, v2_protobuf};
pub use v3::{has_v3_document, v3, v3_document, v3_mark, v3_paths};

use pintle_registry::GroupVersionKind;
use pintle_value::{Value, object};

/// What the documents are about.
const TITLE: &str = "Kubernetes";

/// The version of the API that is described.
const VERSION: &str = "1.36";

/// The ways to authenticate that are published.
fn security() -> Value {
    object! {
        "BearerToken": object! {
            "description": "Bearer Token authentication",
            "in": "header",
            "name": "authorization",
            "type": "apiKey",
        },
    }
}

fn kind_value(kind: &GroupVersionKind) -> Value {
    object! { "group": &kind.group, "kind": &kind.kind, "version": &kind.version }
}

/// A finished tree as text. Trees have string keys and finite numbers only, so that this cannot fail.
fn json(tree: &Value) -> Vec<u8> {
    serde_json::to_vec(tree).unwrap_or_default()
}
