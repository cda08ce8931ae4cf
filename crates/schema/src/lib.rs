//! The schema of built-in and custom kinds: fields, types, merge behavior of lists and maps, defaults, and the Go and
//! Protobuf representation. All code that walks objects by type uses it. This crate does not know about HTTP or
//! storage.

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
