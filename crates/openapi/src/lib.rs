//! Builds the OpenAPI documents: v3, one per group and version, and v2, one for the whole API. They derive from the
//! registry and the catalog. `kubectl explain`, client-side validation and client generators use them. The documents of
//! aggregated API servers are merged into them. This crate does not know HTTP.
//!
//! ```
//! use pintle_registry::{GroupVersion, Registry};
//!
//! // A server without resources publishes the documents of discovery only.
//! let registry = Registry::new(Vec::new());
//! assert!(pintle_openapi::v3_paths(&registry).contains(&"apis".to_owned()));
//!
//! let document = pintle_openapi::v3(&registry, pintle_catalog::shared(), &GroupVersion::new("apps", "v1"));
//! assert!(String::from_utf8_lossy(&document).contains(r#""openapi":"3.0.0""#));
//! ```

mod convert;
mod kinds;
mod merge;
mod names;
mod operation;
mod parameters;
mod protobuf;
mod published;
mod references;
mod routes;
mod schemas;
mod spec;
mod v2;
mod v3;

pub use convert::v3_of_v2;
pub use merge::{MergeError, RemoteSpec, merge_v2};
pub use protobuf::document as protobuf_of_v2;
pub use spec::{InvalidSpec, Spec};
pub use v2::{v2, v2_document, v2_protobuf};
pub use v3::{has_v3_document, v3, v3_cache_key, v3_document, v3_paths};

use pintle_catalog::Catalog;
use pintle_registry::GroupVersionKind;
use pintle_value::{Value, object};

/// The title of the documents.
const TITLE: &str = "Kubernetes";

/// The title and the version of a document.
fn info(catalog: &Catalog) -> Value {
    object! { "title": TITLE, "version": catalog.emulation().to_string() }
}

/// The published authentication methods.
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

/// Serializes a finished document. Documents contain only string keys and finite numbers, so this cannot fail.
fn json(tree: &Value) -> Vec<u8> {
    serde_json::to_vec(tree).unwrap_or_default()
}
