//! Protobuf as gogo's generated code for the Kubernetes types reads and writes it. It is driven by the field numbers of
//! the schema; no message types are compiled in. Every object is in an envelope, a `runtime.Unknown` after four magic
//! bytes.

mod decode;
mod encode;
mod envelope;
mod source;
mod wire;

pub use decode::{decode, decode_object};
pub use encode::{encode, encode_checked, encode_json, encode_json_checked, encode_object};
pub use envelope::{
    ENVELOPE_TAIL, Envelope, PREFIX, encode_envelope, first_field, framed_len, list_head, open_envelope, watch_frame,
    write_item,
};
pub use wire::DecodeError;
