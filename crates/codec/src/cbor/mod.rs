//! CBOR (RFC 8949) as kube-apiserver reads and writes it (KEP-4222): the words and oddities of `fxamacker/cbor` as
//! apimachinery sets it up. Strings are byte strings, `[]byte` is a byte string that says that it wants to be base64, and
//! whatever has no JSON is refused. Text is checked whole for its form before anything is made of it, so that nothing
//! that a length claims is believed.

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
    ARRAY_UNTIL_BREAK, BREAK, SELF_DESCRIBED, encode, encode_into, encode_typed, write_array_head, write_map_head,
    write_string,
};
pub use error::Error;
pub use typed::{Typed, decode_typed, type_meta};
pub use untyped::{decode, decode_object};
