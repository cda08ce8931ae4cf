//! Structural schemas (`openAPIV3Schema` of a CRD): pruning, defaulting and validation of custom resources, and the
//! types for server-side apply. The behavior matches kube-apiserver 1.36 (`apiextensions-apiserver` and
//! `kube-openapi`).
//!
//! ```
//! use pintle_extensions::schema::StructuralSchema;
//! use pintle_value::object;
//!
//! let replicas = object! { "type": "integer", "maximum": 10, "default": 1 };
//! let spec = object! { "type": "object", "properties": object! { "replicas": replicas }, "default": object! {} };
//! let schema = StructuralSchema::parse(&object! { "type": "object", "properties": object! { "spec": spec } }).expect("structural");
//!
//! let mut widget = object! { "kind": "Widget", "spec": object! { "colour": "red" } };
//! assert_eq!(schema.prune(&mut widget), ["spec.colour"]);
//! schema.default(&mut widget);
//! assert_eq!(widget.int_at(&["spec", "replicas"]), Some(1));
//!
//! widget.set_at(&["spec", "replicas"], 11);
//! let errors = schema.validate(&widget);
//! assert_eq!(
//!     errors.message(),
//!     "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"
//! );
//! ```

mod defaulting;
mod embedded;
mod enums;
mod formats;
mod lists;
mod model;
mod node;
mod nulls;
mod parse;
mod prune;
mod prune_defaults;
mod schemaconv;
mod validate;
mod value_path;

pub use embedded::MalformedObject;
pub use formats::Format;
pub(crate) use formats::parse_duration;
pub use model::{RuleFeatures, StructuralSchema, Type};
pub use node::{Additional, ListType, SchemaNode};
pub use parse::ParseError;
pub use schemaconv::to_types;
pub(crate) use validate::OldValue;
