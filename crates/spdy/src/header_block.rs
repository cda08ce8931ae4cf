//! Header blocks, which are compressed with zlib and a dictionary (section 2.6.10). miniz_oxide knows no dictionaries,
//! so the decompressor gets the dictionary as earlier output. Written blocks are stored without compression, which any
//! decompressor reads.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use crate::MAX_HEADER_BYTES;
use crate::frame::{Headers, SpdyError};

/// The dictionary of section 2.6.10.1.
const DICTIONARY: &[u8] = include_bytes!("../data/dictionary.bin");
/// How far back compressed data refers.
const WINDOW: usize = 32 * 1024;
/// The empty stored block of deflate.
const SYNC_BLOCK: [u8; 5] = [0, 0, 0, 0xff, 0xff];
/// Maximum size of a stored block of deflate.
const MAX_STORED: usize = 0xffff;

/// Reads the header blocks of one direction.
pub(crate) struct HeaderReader {
    inflate: Box<DecompressorOxide>,
    /// The last bytes that were written; `None` before the header of zlib.
    window: Option<Vec<u8>>,
}

impl HeaderReader {
    pub(crate) fn new() -> Self {
        Self { inflate: Box::default(), window: None }
    }

    /// Reads a header block.
    pub(crate) fn read(&mut self, mut block: &[u8]) -> Result<Headers, SpdyError> {
        let window = match self.window.take() {
            Some(window) => window,
            None => {
                let (window, rest) = read_zlib_header(block)?;
                block = rest;
                window
            }
        };
        let mut out = window;
        let start = out.len();
        out.resize(start + MAX_HEADER_BYTES + 1, 0);
        let flags = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, read, written) = decompress(&mut self.inflate, block, &mut out, start, flags);
        if written > MAX_HEADER_BYTES || status == TINFLStatus::HasMoreOutput {
            return Err(SpdyError::HeadersTooLarge);
        }
        // The compressed stream never ends.
        if status != TINFLStatus::NeedsMoreInput || read != block.len() {
            return Err(SpdyError::Compression);
        }
        out.truncate(start + written);
        let headers = parse(out.get(start..).unwrap_or_default())?;
        let surplus = out.len().saturating_sub(WINDOW);
        out.drain(..surplus);
        self.window = Some(out);
        Ok(headers)
    }
}

/// Reads the header of zlib. Returns the bytes to which compressed data may refer, and the rest.
fn read_zlib_header(block: &[u8]) -> Result<(Vec<u8>, &[u8]), SpdyError> {
    let (Some([method, flags]), Some(rest)) = (block.first_chunk(), block.get(2..)) else {
        return Err(SpdyError::Compression);
    };
    if method & 0x0f != 8 || method >> 4 > 7 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
        return Err(SpdyError::Compression);
    }
    if flags & 0x20 == 0 {
        return Ok((Vec::new(), rest));
    }
    match (rest.first_chunk(), rest.get(4..)) {
        (Some(sum), Some(rest)) if u32::from_be_bytes(*sum) == adler32(DICTIONARY) => Ok((DICTIONARY.to_vec(), rest)),
        _ => Err(SpdyError::Compression),
    }
}

/// The checksum of zlib (RFC 1950, section 8).
fn adler32(bytes: &[u8]) -> u32 {
    const BASE: u32 = 65521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % BASE;
        (low, (high + low) % BASE)
    });
    high << 16 | low
}

/// Takes a length and this number of bytes.
fn take<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8], SpdyError> {
    let length = take_number(bytes)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(SpdyError::MalformedHeaders)?;
    *bytes = rest;
    Ok(taken)
}

fn take_number(bytes: &mut &[u8]) -> Result<usize, SpdyError> {
    let number = bytes.first_chunk().map(|number| u32::from_be_bytes(*number)).ok_or(SpdyError::MalformedHeaders)?;
    *bytes = bytes.get(4..).unwrap_or_default();
    usize::try_from(number).map_err(|_| SpdyError::MalformedHeaders)
}

fn parse(mut bytes: &[u8]) -> Result<Headers, SpdyError> {
    let count = take_number(&mut bytes)?;
    // A header has two lengths.
    if count > bytes.len() / 8 {
        return Err(SpdyError::MalformedHeaders);
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| SpdyError::MalformedHeaders);
    let mut headers = Headers::with_capacity(count);
    for _ in 0..count {
        let name = text(take(&mut bytes)?)?;
        headers.push((name, text(take(&mut bytes)?)?));
    }
    if bytes.is_empty() { Ok(headers) } else { Err(SpdyError::MalformedHeaders) }
}

/// Writes the header blocks of one direction.
#[derive(Debug, Default)]
pub(crate) struct HeaderWriter {
    has_begun: bool,
}

impl HeaderWriter {
    /// Writes a header block.
    pub(crate) fn write(&mut self, headers: &[(String, String)]) -> Vec<u8> {
        let mut plain = Vec::new();
        push_number(&mut plain, headers.len());
        for (name, value) in headers {
            for text in [name.to_ascii_lowercase().as_bytes(), value.as_bytes()] {
                push_number(&mut plain, text.len());
                plain.extend_from_slice(text);
            }
        }
        let mut block = Vec::with_capacity(plain.len() + 7);
        if !std::mem::replace(&mut self.has_begun, true) {
            // Deflate, without a dictionary.
            block.extend_from_slice(&[0x78, 0x01]);
        }
        for piece in plain.chunks(MAX_STORED) {
            // Pieces are short enough.
            let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
            block.push(0);
            block.extend_from_slice(&length.to_le_bytes());
            block.extend_from_slice(&(!length).to_le_bytes());
            block.extend_from_slice(piece);
        }
        // At an empty block, Go's decompressor returns the bytes that it has read. Otherwise it waits for the next
        // block.
        block.extend_from_slice(&SYNC_BLOCK);
        block
    }
}

/// Appends a number. Headers that do not fit are refused before.
fn push_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let (mut writer, mut reader) = (HeaderWriter::default(), HeaderReader::new());
        for headers in [
            vec![("streamtype".to_owned(), "error".to_owned())],
            Vec::new(),
            vec![("a".to_owned(), "x".repeat(MAX_HEADER_BYTES - 100)), ("b".to_owned(), "1\x002".to_owned())],
        ] {
            assert_eq!(reader.read(&writer.write(&headers)), Ok(headers));
        }
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let check = |block: &[u8], expect| assert_eq!(HeaderReader::new().read(block), Err(expect), "{block:?}");
        check(&[], SpdyError::Compression);
        check(&[0x78], SpdyError::Compression);
        check(&[0x78, 0x02], SpdyError::Compression);
        // Another dictionary.
        check(&[0x78, 0xf9, 0, 0, 0, 0], SpdyError::Compression);
        let stored = |plain: &[u8]| {
            let length = u16::try_from(plain.len()).expect("a short block");
            let mut block = vec![0x78, 0x01, 0];
            block.extend_from_slice(&length.to_le_bytes());
            block.extend_from_slice(&(!length).to_le_bytes());
            block.extend_from_slice(plain);
            block
        };
        check(&stored(&[0, 0, 0, 1]), SpdyError::MalformedHeaders);
        check(&stored(&[255, 255, 255, 255]), SpdyError::MalformedHeaders);
        check(&stored(&[0, 0, 0, 0, 1]), SpdyError::MalformedHeaders);
        check(&stored(&[0, 0, 0, 1, 0, 0, 0, 1, b'a', 255, 255, 255, 255]), SpdyError::MalformedHeaders);
        let large = vec![("a".to_owned(), "x".repeat(MAX_HEADER_BYTES))];
        check(&HeaderWriter::default().write(&large), SpdyError::HeadersTooLarge);
    }
}
