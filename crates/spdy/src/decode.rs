//! Reads frames.

use std::fmt;

use bytes::{Buf, BytesMut};

use crate::MAX_CONTROL_BYTES;
use crate::frame::{FLAG_FIN, Frame, STREAM_MASK, SpdyError, VERSION, frame_type};
use crate::header_block::HeaderReader;

/// Reads the frames of one direction of a connection.
pub struct Decoder {
    headers: HeaderReader,
    /// The rest of a data frame.
    data: Option<DataRest>,
}

#[derive(Clone, Copy, Debug)]
struct DataRest {
    stream: u32,
    is_last: bool,
    length: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { headers: HeaderReader::new(), data: None }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Takes the next frame out of a buffer; `None` if it is not complete. The bytes of a data frame are taken as they
    /// arrive.
    ///
    /// # Errors
    /// The bytes are no frames. The connection cannot be read any further.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Frame>, SpdyError> {
        if let Some(rest) = self.data {
            return Ok(self.take_data(rest, buffer));
        }
        let Some(head) = buffer.first_chunk::<8>() else { return Ok(None) };
        let (first, second) = ([head[0], head[1], head[2], head[3]], [head[4], head[5], head[6], head[7]]);
        let (first, second) = (u32::from_be_bytes(first), u32::from_be_bytes(second));
        let flags = (second >> 24) as u8;
        // Three bytes fit.
        let length = usize::try_from(second & 0xff_ffff).unwrap_or(usize::MAX);
        let is_last = flags & FLAG_FIN != 0;
        if first & !STREAM_MASK == 0 {
            buffer.advance(8);
            let stream = first;
            if stream == 0 {
                return Err(SpdyError::NoStream);
            }
            return Ok(self.take_data(DataRest { stream, is_last, length }, buffer));
        }
        let version = (first >> 16) as u16 & 0x7fff;
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        if length > MAX_CONTROL_BYTES {
            return Err(SpdyError::TooLarge(length));
        }
        if buffer.len() < 8 + length {
            return Ok(None);
        }
        buffer.advance(8);
        let mut body = buffer.split_to(length);
        self.control((first & 0xffff) as u16, is_last, &mut body).map(Some)
    }

    /// Takes the bytes of a data frame that have arrived; `None` if there are none.
    fn take_data(&mut self, rest: DataRest, buffer: &mut BytesMut) -> Option<Frame> {
        let taken = rest.length.min(buffer.len());
        if taken == 0 && rest.length > 0 {
            self.data = Some(rest);
            return None;
        }
        let left = rest.length - taken;
        self.data = (left > 0).then_some(DataRest { length: left, ..rest });
        let bytes = buffer.split_to(taken).freeze();
        Some(Frame::Data { stream: rest.stream, is_last: rest.is_last && left == 0, bytes })
    }

    fn control(&mut self, kind: u16, is_last: bool, body: &mut BytesMut) -> Result<Frame, SpdyError> {
        let frame = match kind {
            frame_type::SYN_STREAM => {
                let stream = take_stream(body)?;
                if body.len() < 6 {
                    return Err(SpdyError::WrongLength);
                }
                body.advance(6);
                return Ok(Frame::SynStream { stream, is_last, headers: self.headers.read(body)? });
            }
            frame_type::SYN_REPLY => {
                let stream = take_stream(body)?;
                return Ok(Frame::SynReply { stream, is_last, headers: self.headers.read(body)? });
            }
            frame_type::HEADERS => {
                let stream = take_stream(body)?;
                return Ok(Frame::Headers { stream, is_last, headers: self.headers.read(body)? });
            }
            frame_type::SETTINGS => return Ok(Frame::Settings),
            frame_type::RST_STREAM => Frame::RstStream { stream: take_stream(body)?, status: take(body)? },
            frame_type::PING => Frame::Ping(take(body)?),
            frame_type::GO_AWAY => Frame::GoAway { last_stream: take(body)? & STREAM_MASK, status: take(body)? },
            frame_type::WINDOW_UPDATE => {
                Frame::WindowUpdate { stream: take(body)? & STREAM_MASK, bytes: take(body)? & STREAM_MASK }
            }
            kind => return Err(SpdyError::UnknownType(kind)),
        };
        if body.is_empty() { Ok(frame) } else { Err(SpdyError::WrongLength) }
    }
}

fn take(body: &mut BytesMut) -> Result<u32, SpdyError> {
    body.try_get_u32().map_err(|_| SpdyError::WrongLength)
}

fn take_stream(body: &mut BytesMut) -> Result<u32, SpdyError> {
    match take(body)? & STREAM_MASK {
        0 => Err(SpdyError::NoStream),
        stream => Ok(stream),
    }
}
