//! The tree that represents every object, and basic types for it: field paths and field errors, quantities, times,
//! names, URLs. Pure data: no I/O, no clock, no knowledge of kinds or schemas.
//!
//! ```
//! use pintle_value::{Object, Quantity, Value};
//!
//! let mut pod = Value::Object(Object::default());
//! pod.set_at(&["metadata", "name"], "web");
//! pod.set_at(&["spec", "priority"], 3);
//! assert_eq!(pod.str_at(&["metadata", "name"]), "web");
//! assert_eq!(pod.int_at(&["spec", "priority"]), Some(3));
//! // A missing field reads as empty.
//! assert_eq!(pod.str_at(&["metadata", "namespace"]), "");
//!
//! let mut memory = Quantity::parse("1.5Gi").expect("a quantity");
//! memory.add(&Quantity::parse("512Mi").expect("a quantity"));
//! assert_eq!(memory.canonical(), "2Gi");
//! ```

mod atoi;
mod decimal;
mod duration;
pub mod field;
pub mod float;
pub mod int_or_string;
pub mod ip;
pub mod meta;
pub mod metadata;
pub mod names;
pub mod netip;
mod object;
mod parse_bool;
pub mod print;
pub mod quantity;
mod same;
pub mod threads;
pub mod time;
mod tree;
pub mod url;
mod value_key;

pub use atoi::{AtoiError, atoi};
pub use compact_str::CompactString as Str;
pub use field::{ErrorKind, Errors, FieldError, FieldPath};
pub use int_or_string::IntOrString;
pub use object::{EncodedObject, MEMBER_BYTES, Member, Object, key_prefix};
pub use parse_bool::{ParseBoolError, parse_bool};
pub use quantity::Quantity;
pub use same::same;
pub use tree::Value;
pub use value_key::{ValueKey, repeated};
