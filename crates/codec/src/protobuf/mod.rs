//! Protobuf as gogo's generated code for the Kubernetes types reads and writes it, driven by the field numbers of the
//! schema: no message is compiled in. Around every object is an envelope, `runtime.Unknown` behind four magic bytes.

mod decode;
mod encode;
mod envelope;
mod source;
mod wire;

pub use decode::{decode, decode_object};
pub use encode::{encode, encode_json, encode_object};
pub use envelope::{
    Envelope, LIST_TAIL, PREFIX, encode_envelope, first_field, framed_len, list_head, open_envelope, watch_frame,
    write_item,
};
pub use wire::DecodeError;
