//! The frames of SPDY/3.1, which kubelets speak for exec, attach and port forwarding (the SPDY Protocol, draft 3.1; Go:
//! `github.com/moby/spdystream/spdy`). An [`Encoder`] writes frames, a [`Decoder`] reads them. Each belongs to one
//! direction of a connection, because header blocks of a direction are one compressed stream.
//!
//! **Invariant:** no I/O; no panic on any input; memory is bounded by [`MAX_CONTROL_BYTES`] and [`MAX_HEADER_BYTES`].
//!
//! ```
//! use bytes::BytesMut;
//! use pintle_spdy::{Decoder, Encoder, Frame};
//!
//! let frame = Frame::SynStream {
//!     stream: 1,
//!     is_last: false,
//!     headers: vec![("streamtype".to_owned(), "stdout".to_owned())],
//! };
//! let mut buffer = BytesMut::new();
//! Encoder::default().encode(&frame, &mut buffer).expect("small headers");
//! let decoded = Decoder::default().decode(&mut buffer).expect("a valid frame");
//! assert_eq!(decoded, Some(frame));
//! assert!(buffer.is_empty());
//! ```

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
