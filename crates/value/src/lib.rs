//! The tree that represents every object, and basic types for it: field paths and field errors, quantities, times,
//! names, URLs. Pure data: no I/O, no clock, no knowledge of kinds or schemas.

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
