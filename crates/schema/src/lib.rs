//! The one schema of a kind, built-in or custom: which fields there are, their types, how lists and maps merge, what
//! is defaulted, and what Go and Protobuf make of them. Everything that walks an object by its type walks this.
//! Knows nothing of HTTP or storage.

pub mod base64;
mod defaults;
mod go;
mod lazy;
pub mod leaf;
mod names;
mod normalise;
mod types;

pub use defaults::static_defaults;
pub use go::bare_name;
pub use lazy::LazySchema;
pub use normalise::{Problems, normalise};
pub use types::{
    Embedded, EnumValues, Field, List, ListTopology, Map, Omit, Patch, Scalar, ScalarType, Schema, Struct, Type,
    TypeId, Types, Union, UnionKind,
};
