//! The schema of built-in and custom kinds: fields, types, merge behavior of lists and maps, defaults, and the Go and
//! Protobuf representation. All code that walks objects by type uses it. This crate does not know about HTTP or
//! storage.
//!
//! ```
//! use pintle_schema::{Problems, Scalar, ScalarType, Schema, Type, Types, normalise};
//! use pintle_value::Value;
//!
//! let mut types = Types::default();
//! let root = types.add(Type::Scalar(ScalarType { kind: Scalar::Int32, name: "".into(), values: None }));
//! let schema = Schema { types: types.into(), root };
//!
//! let mut problems = Problems::default();
//! let mut value = Value::from("three");
//! normalise(&schema.types, schema.root, &mut value, &mut problems);
//! assert_eq!(problems.errors.len(), 1);
//! ```

pub mod base64;
mod defaults;
mod field_index;
mod go;
mod lazy;
mod normalise;
pub mod scalar;
mod types;

pub use defaults::{static_defaults, static_defaults_of_changed};
pub use go::bare_name;
pub use lazy::LazySchema;
pub use normalise::{Problems, normalise, normalise_changed};
pub use types::{
    Embedded, EnumValues, Field, List, ListTopology, Map, Omit, PatchMeta, Scalar, ScalarType, Schema, Struct, Type,
    TypeId, Types, Union, UnionKind,
};
