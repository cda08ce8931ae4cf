//! CBOR (RFC 8949) as kube-apiserver reads and writes it (KEP-4222), with the messages and behaviour of
//! `fxamacker/cbor` as apimachinery configures it. Strings are byte strings, `[]byte` is a byte string with the tag for
//! expected base64 encoding, and items without a JSON equivalent are rejected. The whole input is checked for
//! well-formedness before it is decoded, so no length in it has to be trusted.

mod check;
mod diagnostic;
mod encode;
mod error;
mod float;
mod reader;
mod typed;
mod untyped;

pub use check::Limits;
pub use diagnostic::diagnostic;
pub use encode::{
    BREAK, INDEFINITE_ARRAY_HEAD, SELF_DESCRIBED, encode, encode_into, encode_typed, write_array_head, write_map_head,
    write_string,
};
pub use error::DecodeError;
pub use typed::{DecodedObject, decode_typed, type_meta};
pub use untyped::{decode, decode_object};
