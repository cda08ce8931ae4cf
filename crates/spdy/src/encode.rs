//! Writes frames.

use bytes::{BufMut, BytesMut};

use crate::frame::{FLAG_FIN, Frame, Headers, STREAM_MASK, SpdyError, VERSION, frame_type};
use crate::header_block::HeaderWriter;
use crate::{MAX_CONTROL_BYTES, MAX_HEADER_BYTES};

/// The largest length that a frame can have.
const MAX_LENGTH: usize = 0xff_ffff;

/// Writes the frames of one direction of a connection.
#[derive(Debug, Default)]
pub struct Encoder {
    headers: HeaderWriter,
}

impl Encoder {
    /// Appends a frame to a buffer. Long data becomes several frames.
    ///
    /// # Errors
    /// The headers are too large.
    pub fn encode(&mut self, frame: &Frame, out: &mut BytesMut) -> Result<(), SpdyError> {
        match frame {
            Frame::SynStream { stream, is_last, headers } => {
                let mut body = BytesMut::new();
                body.put_u32(stream & STREAM_MASK);
                // No associated stream, the highest priority, no slot.
                body.put_bytes(0, 6);
                self.put_headers(headers, &mut body)?;
                put_control(frame_type::SYN_STREAM, fin(*is_last), &body, out);
            }
            Frame::SynReply { stream, is_last, headers } => {
                let mut body = BytesMut::new();
                body.put_u32(stream & STREAM_MASK);
                self.put_headers(headers, &mut body)?;
                put_control(frame_type::SYN_REPLY, fin(*is_last), &body, out);
            }
            Frame::Headers { stream, is_last, headers } => {
                let mut body = BytesMut::new();
                body.put_u32(stream & STREAM_MASK);
                self.put_headers(headers, &mut body)?;
                put_control(frame_type::HEADERS, fin(*is_last), &body, out);
            }
            Frame::RstStream { stream, status } => {
                put_control(frame_type::RST_STREAM, 0, &pair(stream & STREAM_MASK, *status), out);
            }
            Frame::Settings => put_control(frame_type::SETTINGS, 0, &[0; 4], out),
            Frame::Ping(id) => put_control(frame_type::PING, 0, &id.to_be_bytes(), out),
            Frame::GoAway { last_stream, status } => {
                put_control(frame_type::GO_AWAY, 0, &pair(last_stream & STREAM_MASK, *status), out);
            }
            Frame::WindowUpdate { stream, bytes } => {
                put_control(frame_type::WINDOW_UPDATE, 0, &pair(stream & STREAM_MASK, bytes & STREAM_MASK), out);
            }
            Frame::Data { stream, is_last, bytes } => {
                let mut rest = &bytes[..];
                loop {
                    let (piece, after) = rest.split_at(rest.len().min(MAX_LENGTH));
                    out.put_u32(stream & STREAM_MASK);
                    put_flags_and_length(fin(*is_last && after.is_empty()), piece.len(), out);
                    out.put_slice(piece);
                    if after.is_empty() {
                        break;
                    }
                    rest = after;
                }
            }
        }
        Ok(())
    }

    fn put_headers(&mut self, headers: &Headers, out: &mut BytesMut) -> Result<(), SpdyError> {
        let size: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        if size + 4 > MAX_HEADER_BYTES.min(MAX_CONTROL_BYTES - 64) {
            return Err(SpdyError::HeadersTooLarge);
        }
        out.put_slice(&self.headers.write(headers));
        Ok(())
    }
}

fn fin(is_last: bool) -> u8 {
    if is_last { FLAG_FIN } else { 0 }
}

fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    let (left, right) = bytes.split_at_mut(4);
    left.copy_from_slice(&first.to_be_bytes());
    right.copy_from_slice(&second.to_be_bytes());
    bytes
}

/// The length has three bytes; callers keep it below that.
fn put_flags_and_length(flags: u8, length: usize, out: &mut BytesMut) {
    let length = u32::try_from(length.min(MAX_LENGTH)).unwrap_or_default();
    out.put_u32(u32::from(flags) << 24 | length);
}

fn put_control(kind: u16, flags: u8, body: &[u8], out: &mut BytesMut) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    put_flags_and_length(flags, body.len(), out);
    out.put_slice(body);
}
