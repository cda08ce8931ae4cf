//! The values of custom resources: structural schemas as `openAPIV3Schema` of a CustomResourceDefinition has them, and
//! what they do to an object. They drop what is not declared, fill in defaults, judge values, and say how
//! server-side apply merges. Behaves as kube-apiserver 1.36 does (`apiextensions-apiserver` and `kube-openapi`).
//!
//! ```
//! use pintle_extensions::schema::Schema;
//! use pintle_value::object;
//!
//! let replicas = object! { "type": "integer", "maximum": 10, "default": 1 };
//! let spec = object! { "type": "object", "properties": object! { "replicas": replicas }, "default": object! {} };
//! let schema = Schema::parse(&object! { "type": "object", "properties": object! { "spec": spec } }).expect("structural");
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
mod formats;
mod lists;
mod model;
mod nulls;
mod parse;
mod part;
mod path;
mod prune;
mod pruned_defaults;
mod types;
mod validate;

pub use embedded::Malformed;
pub use formats::Format;
pub(crate) use formats::read_duration;
pub use model::{Schema, Type};
pub use parse::ParseError;
pub use part::{Additional, ListType, Part};
pub use types::to_types;
pub(crate) use validate::Old;
