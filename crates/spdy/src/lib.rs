//! The frames of SPDY/3.1, which kubelets speak for exec, attach and port forwarding (the SPDY Protocol, draft 3.1; Go:
//! `github.com/moby/spdystream/spdy`). An [`Encoder`] writes frames, a [`Decoder`] reads them. Each belongs to one
//! direction of a connection, because header blocks of a direction are one compressed stream.
//!
//! **Invariant:** no I/O; no panic on any input; memory is bounded by [`MAX_CONTROL_BYTES`] and [`MAX_HEADER_BYTES`].

mod decode;
mod encode;
mod frame;
mod header_block;

pub use decode::Decoder;
pub use encode::Encoder;
pub use frame::{Frame, Headers, SpdyError};

/// Maximum size of a control frame, in bytes. The control frames of streams for containers have less than a kilobyte.
pub const MAX_CONTROL_BYTES: usize = 64 * 1024;
/// Maximum size of a header block, in bytes, after decompression.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
