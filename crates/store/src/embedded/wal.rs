//! Reads a write-ahead log as SQLite does, and beyond the frame at which SQLite stops (upstream:
//! <https://www.sqlite.org/fileformat2.html>, "The WAL File").
//!
//! SQLite takes the first frame with a wrong checksum for the end of the log. A power loss leaves such a frame in an
//! incomplete transaction. But a transaction is written only after the transaction before it is synced. So the log is
//! damaged if, after this frame, a transaction follows another transaction that SQLite does not reach. A frame follows
//! another frame if its checksum continues the other's. Parts of transactions that were reported as failed and
//! overwritten since do not follow it.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::file::PAGE_BYTES;
use super::structure::{TABLE_LEAF, short, varint, word};
use crate::Revision;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const FRAME_BYTES: usize = FRAME_HEADER_BYTES + PAGE_BYTES;

/// The magic number without its lowest bit, which says that the words of a checksum are big-endian.
const MAGIC: u32 = 0x377f_0682;

/// The size of a leaf page's header, which precedes the offsets of its cells.
const LEAF_HEADER_BYTES: usize = 8;

const BUFFER_BYTES: usize = 1 << 20;

/// The result of checking a write-ahead log beyond the frames that SQLite reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WalCheck {
    /// The log has no transaction, or does not exist.
    pub(super) is_empty: bool,
    /// The offset of the frame at which SQLite stops, if the log goes on after it.
    pub(super) damaged_at: Option<u64>,
    /// The header does not match its checksum, so SQLite ignores the log. A power loss can cause that too, but then the
    /// store file has everything.
    pub(super) is_header_damaged: bool,
    /// The newest revision in the synced transactions that SQLite does not read.
    pub(super) newest: Option<Revision>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Checksum(u32, u32);

impl Checksum {
    /// The checksum of these bytes, continued from this one.
    fn extend(self, bytes: &[u8], is_big_endian: bool) -> Checksum {
        let word = |bytes: [u8; 4]| if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        bytes.as_chunks().0.iter().fold(self, |Checksum(one, other), &[a, b, c, d, e, f, g, h]| {
            let one = one.wrapping_add(word([a, b, c, d])).wrapping_add(other);
            let other = other.wrapping_add(word([e, f, g, h])).wrapping_add(one);
            Checksum(one, other)
        })
    }
}

/// A frame that was read.
struct Frame {
    /// True if this is the last frame of a transaction.
    is_commit: bool,
    /// True if the frame continues the frame before it.
    is_continued: bool,
    checksum: Checksum,
}

/// Reads a log, which need not exist.
pub(super) fn check(path: &Path) -> std::io::Result<WalCheck> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(WalCheck { is_empty: true, ..WalCheck::default() });
        }
        file => file?,
    };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut header = [0; HEADER_BYTES];
    let mut content = vec![0; FRAME_BYTES];
    if !read_full(&mut reader, &mut header)? || !read_full(&mut reader, &mut content)? {
        return Ok(WalCheck { is_empty: true, ..WalCheck::default() });
    }
    let mut scan = WalScan::new(&header, &content);
    let mut offset = HEADER_BYTES;
    loop {
        scan.read_frame(offset, &content);
        offset += FRAME_BYTES;
        if !read_full(&mut reader, &mut content)? {
            return Ok(scan.finish());
        }
    }
}

/// Fills the buffer, or returns false at the end of the file.
fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match reader.read_exact(buffer) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

struct WalScan {
    is_big_endian: bool,
    /// The salts of this log's frames. Frames with other salts belong to an overwritten log.
    salts: [u8; 8],
    is_header_valid: bool,
    /// The offset at which SQLite stops.
    end: Option<usize>,
    /// The frame before the current one, if it belongs to this log.
    before: Option<Frame>,
    /// The newest revision in the frames after the end.
    newest_read: Option<Revision>,
    /// The newest revision in the synced frames after the end.
    newest_synced: Option<Revision>,
    /// True if a transaction after the end is synced.
    goes_on: bool,
}

impl WalScan {
    fn new(header: &[u8; HEADER_BYTES], first_frame: &[u8]) -> WalScan {
        let magic = word(header, 0);
        let is_valid = |is_big_endian| {
            Checksum(0, 0).extend(&header[..24], is_big_endian) == Checksum(word(header, 24), word(header, 28))
        };
        let is_header_valid = magic & !1 == MAGIC && word(header, 8) as usize == PAGE_BYTES && is_valid(magic & 1 == 1);
        if !is_header_valid {
            let (is_big_endian, salts) = (cfg!(target_endian = "big"), salts(first_frame, 8));
            let (before, end) = (None, Some(0));
            return WalScan { is_header_valid, is_big_endian, salts, end, before, ..WalScan::empty() };
        }
        let (is_big_endian, salts) = (magic & 1 == 1, salts(header, 16));
        let checksum = Checksum(word(header, 24), word(header, 28));
        let before = Some(Frame { is_commit: false, is_continued: true, checksum });
        WalScan { is_header_valid, is_big_endian, salts, before, ..WalScan::empty() }
    }

    fn empty() -> WalScan {
        WalScan {
            is_big_endian: false,
            salts: [0; 8],
            is_header_valid: false,
            end: None,
            before: None,
            newest_read: None,
            newest_synced: None,
            goes_on: false,
        }
    }

    fn read_frame(&mut self, offset: usize, content: &[u8]) {
        let (header, page) = content.split_at(FRAME_HEADER_BYTES);
        let salts = salts(header, 8);
        if salts != self.salts {
            self.end.get_or_insert(offset);
            self.before = None;
            return;
        }
        let checksum = Checksum(word(header, 16), word(header, 20));
        let is_continued = self.before.as_ref().is_some_and(|before| {
            let extended = before.checksum.extend(&header[..8], self.is_big_endian);
            extended.extend(page, self.is_big_endian) == checksum
        });
        if !is_continued {
            self.end.get_or_insert(offset);
        }
        if self.end.is_some() {
            // The frame before was the last one of a transaction, and this frame was written after that transaction was
            // synced.
            if is_continued && self.before.as_ref().is_some_and(|before| before.is_commit && before.is_continued) {
                self.goes_on = true;
                self.newest_synced = self.newest_read;
            }
            if is_continued {
                self.newest_read = self.newest_read.max(newest_revision(page));
            }
        }
        self.before = Some(Frame { is_commit: word(header, 4) != 0, is_continued, checksum });
    }

    fn finish(self) -> WalCheck {
        let damaged_at = self.end.filter(|_| self.is_header_valid && self.goes_on).map(|end| end as u64);
        WalCheck { is_empty: false, damaged_at, is_header_damaged: !self.is_header_valid, newest: self.newest_synced }
    }
}

fn salts(bytes: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|index| bytes[at + index])
}

/// The newest revision in a page of the log: the row id of the last cell of a leaf. The ids of other tables are small.
fn newest_revision(page: &[u8]) -> Option<Revision> {
    if *page.first()? != TABLE_LEAF {
        return None;
    }
    let cells = short(page, 3)?;
    let cell = page.get(short(page, LEAF_HEADER_BYTES + 2 * cells.checked_sub(1)?)?..)?;
    let (_, length) = varint(cell)?;
    let (revision, _) = varint(cell.get(length..)?)?;
    i64::try_from(revision).is_ok().then_some(Revision(revision))
}
