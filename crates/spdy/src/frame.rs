//! The frames and their parts.

use bytes::Bytes;

/// The headers of a stream: names in small letters, and values, which a NUL separates if there are several.
pub type Headers = Vec<(String, String)>;

/// A frame. Streams of clients have odd numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream.
    SynStream {
        /// The number of the stream.
        stream: u32,
        /// True if the sender sends nothing more on it.
        is_last: bool,
        /// The headers, which say what the stream is for.
        headers: Headers,
    },
    /// Accepts a stream.
    SynReply {
        /// The number of the stream.
        stream: u32,
        /// True if the sender sends nothing more on it.
        is_last: bool,
        /// The headers of the answer.
        headers: Headers,
    },
    /// Ends a stream at once.
    RstStream {
        /// The number of the stream.
        stream: u32,
        /// The status code of the reason.
        status: u32,
    },
    /// Says how the sender configures the connection.
    Settings,
    /// Asks for the same frame as an answer.
    Ping(u32),
    /// The sender takes no more streams.
    GoAway {
        /// The last stream that it has taken.
        last_stream: u32,
        /// The status code of the reason.
        status: u32,
    },
    /// More headers of a stream.
    Headers {
        /// The number of the stream.
        stream: u32,
        /// True if the sender sends nothing more on it.
        is_last: bool,
        /// The headers.
        headers: Headers,
    },
    /// The receiver of a stream has room for more bytes.
    WindowUpdate {
        /// The number of the stream; 0 is the connection.
        stream: u32,
        /// How many bytes.
        bytes: u32,
    },
    /// Bytes of a stream. A long frame is read in pieces.
    Data {
        /// The number of the stream.
        stream: u32,
        /// True if the sender sends nothing more on it.
        is_last: bool,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Why bytes are not frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// A control frame is of another version than 3.
    #[error("unsupported SPDY version {0}")]
    Version(u16),
    /// A control frame has an unknown type.
    #[error("unknown SPDY frame type {0}")]
    UnknownType(u16),
    /// A frame is too large.
    #[error("SPDY frame of {0} bytes is too large")]
    TooLarge(usize),
    /// A frame is shorter or longer than its type requires.
    #[error("SPDY frame has a wrong length")]
    WrongLength,
    /// A frame for a stream names no stream.
    #[error("SPDY frame has no stream")]
    NoStream,
    /// A header block cannot be decompressed.
    #[error("SPDY header block is not compressed correctly")]
    Compression,
    /// A header block is too large.
    #[error("SPDY header block is too large")]
    HeadersTooLarge,
    /// A header block has other bytes than its headers.
    #[error("SPDY header block is malformed")]
    MalformedHeaders,
}

/// The types of control frames.
pub(crate) mod frame_type {
    pub(crate) const SYN_STREAM: u16 = 1;
    pub(crate) const SYN_REPLY: u16 = 2;
    pub(crate) const RST_STREAM: u16 = 3;
    pub(crate) const SETTINGS: u16 = 4;
    pub(crate) const PING: u16 = 6;
    pub(crate) const GO_AWAY: u16 = 7;
    pub(crate) const HEADERS: u16 = 8;
    pub(crate) const WINDOW_UPDATE: u16 = 9;
}

/// The flag of the last frame of a stream.
pub(crate) const FLAG_FIN: u8 = 1;
/// The version in control frames.
pub(crate) const VERSION: u16 = 3;
/// The bits of a stream's number.
pub(crate) const STREAM_MASK: u32 = 0x7fff_ffff;
