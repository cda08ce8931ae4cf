//! JSON as kube-apiserver reads and writes it: Go's `encoding/json` and its fork `sigs.k8s.io/json`, whose messages,
//! numbers, escapes and field order clients see. Reading is by one fast parser; whatever it does not like is looked at a
//! second time by the slow, exact code that finds Go's words for it.

mod decode;
mod encode;
mod fields;
mod indent;
mod merge;
mod project;
mod read;
mod strict;
mod syntax;
mod tape;
mod typed;
mod walk;

pub use decode::{DecodeError, Decoded, MAX_DEPTH, Options, TypeMeta, decode, type_meta};
pub use encode::{encode, encode_into, encode_pretty, write_string};
pub(crate) use fields::encode_fields;
pub use indent::{Indent, indent};
pub use project::Projection;
pub use read::{Typed, decode_typed};
pub use strict::{Strictness, strictness, strictness_untyped};
pub use tape::{Marked, Place, Tape};
pub use typed::{encode_typed, encode_typed_pretty};
pub use walk::Walk;
