//! JSON as kube-apiserver reads and writes it, with the messages, numbers, escapes and field order of Go's
//! `encoding/json` and its fork `sigs.k8s.io/json`. One fast parser reads all texts. If it finds a problem, slower,
//! exact code reads the text again to produce Go's error messages.

mod cursor;
mod decode;
mod decode_typed;
mod encode;
mod encode_typed;
mod fields;
mod indent;
mod merge;
mod plain_object;
mod project;
mod strict;
mod syntax;
mod tape;
mod word;

pub use cursor::JsonCursor;
pub use decode::{DecodeError, DecodeOptions, Decoded, MAX_DEPTH, TypeMeta, decode, type_meta};
pub use decode_typed::{DecodedObject, decode_typed};
pub use encode::{encode, encode_decoded_again, encode_into, encode_pretty, write_string};
pub use encode_typed::{
    OriginalObject, encode_typed, encode_typed_changed, encode_typed_from_unstructured, encode_typed_pretty,
};
pub(crate) use fields::encode_fields_v1;
pub use indent::{Indenter, indent};
pub use project::Projection;
pub use strict::{StrictResult, decode_strict, decode_strict_untyped};
pub use tape::{IndexedJson, Tape, ValueIndex};
