//! Compression in blocks that are used again. Clients list the same collections many times, and most objects have not
//! changed between two lists. A stream is cut where its content says so ([`end_of_block`]). So an inserted or longer
//! object changes the block that contains it, and the blocks behind it stay the same. Each block is compressed without
//! the text before it (RFC 1951), and its compressed form is kept from the second time on.

use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::{Compress, Compression, Crc, FlushCompress};
use hashbrown::{DefaultHashBuilder, HashMap};
use pintle_locks::Mutex;

/// The minimum size of a block, in bytes. Only the last block of a stream may be smaller.
const MIN_BLOCK: usize = 32 << 10;
/// The maximum size of a block, in bytes.
const MAX_BLOCK: usize = 128 << 10;
/// The number of upper bits of the product in [`end_of_block`] that are zero at an end. On average one of 8,192 positions is
/// an end.
const END_BITS: u32 = 13;
/// The maximum size of all kept blocks, in bytes: their text and their compressed form.
const MAX_BYTES: usize = 32 << 20;
/// How many blocks are remembered by their hashes.
const REMEMBERED: usize = 4096;
/// The number of ticks after which a block that was not used is removed.
const TICKS_PER_ROUND: u32 = 60;

/// The header of a gzip stream, as Go's `compress/gzip` writes it at its fastest level (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// The last block of a stream: without content.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A part of a stream, compressed.
#[derive(Debug)]
struct Block {
    text: Box<[u8]>,
    deflated: Box<[u8]>,
    crc: Crc,
    /// True if the block was used in this round.
    is_used: AtomicBool,
}

impl Block {
    fn new(text: &[u8], deflated: &[u8], crc: Crc) -> Self {
        Self { text: text.into(), deflated: deflated.into(), crc, is_used: AtomicBool::new(true) }
    }

    fn size(&self) -> usize {
        self.text.len() + self.deflated.len()
    }
}

/// The compressed blocks of all responses, up to a size. A block that is not used for some minutes is removed.
#[derive(Debug, Default)]
pub struct CompressedBlocks {
    hasher: DefaultHashBuilder,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_hash: HashMap<u64, Arc<Block>>,
    /// The keys of `by_hash`.
    hashes: Vec<u64>,
    bytes: usize,
    /// The hashes of the latest blocks. A block is kept when its hash is found here, so that text that is sent once
    /// takes no memory.
    remembered: Vec<u64>,
    ticks: u32,
    /// True while memory is short: nothing is kept.
    is_disabled: bool,
}

impl Kept {
    /// Remembers the hash of a block. Returns true if it was remembered before.
    fn remember(&mut self, hash: u64) -> bool {
        if self.remembered.is_empty() {
            self.remembered = vec![0; REMEMBERED];
        }
        let place = hash as usize % REMEMBERED;
        std::mem::replace(&mut self.remembered[place], hash) == hash
    }

    /// Keeps a block. If there is no room, any other blocks are removed. A list may be larger than the room: if its
    /// oldest block were removed, the next list would need just this block.
    fn insert(&mut self, hash: u64, block: Block) {
        if self.is_disabled {
            return;
        }
        self.remove(hash);
        self.bytes += block.size();
        while self.bytes > MAX_BYTES
            && let Some(other) = self.hashes.get(hash as usize % self.hashes.len().max(1)).copied()
        {
            self.remove(other);
        }
        self.by_hash.insert(hash, Arc::new(block));
        self.hashes.push(hash);
    }

    fn remove(&mut self, hash: u64) {
        if let Some(block) = self.by_hash.remove(&hash) {
            self.bytes -= block.size();
            self.hashes.retain(|other| *other != hash);
        }
    }
}

impl CompressedBlocks {
    /// The size of all kept blocks, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.kept.lock().bytes
    }

    /// Removes the blocks that have not been used for a round. Called every few seconds.
    pub(crate) fn tick(&self) {
        let mut kept = self.kept.lock();
        kept.ticks = kept.ticks.wrapping_add(1);
        if kept.ticks.is_multiple_of(TICKS_PER_ROUND) {
            let unused = kept.by_hash.iter().filter(|(_, block)| !block.is_used.swap(false, Ordering::Relaxed));
            let unused: Vec<u64> = unused.map(|(hash, _)| *hash).collect();
            unused.into_iter().for_each(|hash| kept.remove(hash));
        }
    }

    /// Keeps blocks from now on, or removes all of them and keeps no more.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        let mut kept = self.kept.lock();
        if kept.is_disabled == enabled {
            *kept = Kept { is_disabled: !enabled, ..Kept::default() };
        }
    }

    fn find(&self, hash: u64, text: &[u8]) -> Option<Arc<Block>> {
        let block = self.kept.lock().by_hash.get(&hash).cloned();
        let block = block.filter(|block| *block.text == *text)?;
        block.is_used.store(true, Ordering::Relaxed);
        Some(block)
    }
}

/// A gzip stream in progress (RFC 1952).
#[derive(Debug)]
pub struct GzipStream {
    blocks: Arc<CompressedBlocks>,
    /// The end of the text, which is not yet a block.
    rest: Vec<u8>,
    /// The checksum and the length of the text before `rest`.
    crc: Crc,
    compressor: Option<Compress>,
    has_header: bool,
}

impl GzipStream {
    /// A stream that uses these blocks.
    #[must_use]
    pub fn new(blocks: Arc<CompressedBlocks>) -> Self {
        Self { blocks, rest: Vec::new(), crc: Crc::new(), compressor: None, has_header: false }
    }

    /// Compresses text and appends the stream's next bytes, if there are any yet.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn write(&mut self, mut text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if !self.rest.is_empty() {
            let before = self.rest.len();
            self.rest.extend_from_slice(&text[..text.len().min(MAX_BLOCK - before)]);
            // The text that came before has no end, so the end is behind it.
            let Some(end) = end_of_block(&self.rest) else { return Ok(()) };
            let rest = std::mem::take(&mut self.rest);
            self.write_block(&rest[..end], out)?;
            text = &text[end - before..];
        }
        while let Some(end) = end_of_block(text) {
            self.write_block(&text[..end], out)?;
            text = &text[end..];
        }
        self.rest.extend_from_slice(text);
        Ok(())
    }

    /// Appends the end of the stream.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn finish(mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.write_block(&rest, out)?;
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.crc.amount().to_le_bytes());
        Ok(())
    }

    fn write_block(&mut self, text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_header, true) {
            out.extend_from_slice(&HEADER);
        }
        let hash = self.blocks.hasher.hash_one(text);
        if let Some(block) = self.blocks.find(hash, text) {
            self.crc.combine(&block.crc);
            out.extend_from_slice(&block.deflated);
            return Ok(());
        }
        let start = out.len();
        deflate(self.compressor.get_or_insert_with(|| Compress::new(Compression::fast(), false)), text, out)?;
        let mut crc = Crc::new();
        crc.update(text);
        self.crc.combine(&crc);
        let is_repeated = self.blocks.kept.lock().remember(hash);
        if is_repeated {
            let block = Block::new(text, &out[start..], crc);
            self.blocks.kept.lock().insert(hash, block);
        }
        Ok(())
    }
}

/// Compresses a block, which ends at the end of a byte.
fn deflate(compressor: &mut Compress, text: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    compressor.reset();
    loop {
        out.reserve(text.len() / 2 + 64);
        let read = usize::try_from(compressor.total_in()).unwrap_or(usize::MAX);
        let rest = text.get(read..).unwrap_or_default();
        compressor.compress_vec(rest, out, FlushCompress::Sync)?;
        // A full buffer means that there may be more.
        if out.len() < out.capacity() {
            return Ok(());
        }
    }
}

/// The end of the first block of a text: behind the first eight bytes that look like an end, which depends on these
/// bytes alone. `None` if the text is too short to know.
fn end_of_block(text: &[u8]) -> Option<usize> {
    let is_end = |bytes: &[u8]| {
        let number = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // Multiplicative hashing: the upper bits of the product depend on all bits of the number.
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - END_BITS) == 0
    };
    let candidates = text.get(MIN_BLOCK - 8..text.len().min(MAX_BLOCK))?;
    let found = candidates.windows(8).position(is_end).map(|position| MIN_BLOCK + position);
    found.or_else(|| (text.len() >= MAX_BLOCK).then_some(MAX_BLOCK))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Read as _;

    use super::*;

    /// The text of objects with different values.
    fn objects(numbers: impl IntoIterator<Item = u64>) -> String {
        let mut text = String::new();
        for number in numbers {
            let value = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
            write!(text, r#"{{"name":"object-{number}","uid":"{value:x}","data":"{}"}},"#, "0123".repeat(60)).unwrap();
        }
        text
    }

    /// Compresses a text that arrives in pieces. Returns the stream.
    fn compress(blocks: &Arc<CompressedBlocks>, text: &[u8], piece: usize) -> Vec<u8> {
        let (mut stream, mut out) = (GzipStream::new(blocks.clone()), Vec::new());
        text.chunks(piece).for_each(|piece| stream.write(piece, &mut out).unwrap());
        stream.finish(&mut out).unwrap();
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut read).expect("a gzip stream");
        assert!(read == text, "{} bytes are read as {}", text.len(), read.len());
        out
    }

    /// The blocks that are kept.
    fn kept(blocks: &CompressedBlocks) -> usize {
        let kept = blocks.kept.lock();
        assert_eq!(kept.hashes.len(), kept.by_hash.len());
        assert_eq!(kept.bytes, kept.by_hash.values().map(|block| block.size()).sum::<usize>());
        assert!(kept.bytes <= MAX_BYTES, "{}", kept.bytes);
        kept.hashes.len()
    }

    #[test]
    fn streams_are_read_as_they_were_written() {
        let blocks = Arc::default();
        let text = objects(0..3_000);
        for length in [0, 1, MIN_BLOCK - 1, MIN_BLOCK, MIN_BLOCK + 7, MAX_BLOCK, MAX_BLOCK + 1, text.len()] {
            for piece in [4_096, MAX_BLOCK, usize::MAX] {
                let text = &text.as_bytes()[..length];
                assert_eq!(compress(&blocks, text, piece), compress(&blocks, text, piece), "{length} {piece}");
            }
        }
        // Text without an end, text of which each position is an end, and text that hardly repeats.
        let endless = vec![b'x'; 3 * MAX_BLOCK];
        assert_eq!(end_of_block(&endless), Some(MAX_BLOCK));
        assert_eq!(end_of_block(&endless[..MAX_BLOCK - 1]), None);
        assert_eq!(end_of_block(&vec![0; MAX_BLOCK]), Some(MIN_BLOCK));
        for text in [endless, vec![0; 3 * MAX_BLOCK], objects(0..9_000).bytes().step_by(7).collect()] {
            compress(&blocks, &text, 10_000);
        }
    }

    #[test]
    fn text_that_is_sent_again_is_kept_from_the_second_time_on() {
        let blocks = Arc::default();
        let text = objects(0..3_000);
        compress(&blocks, text.as_bytes(), MAX_BLOCK);
        assert_eq!(kept(&blocks), 0);
        compress(&blocks, text.as_bytes(), MAX_BLOCK);
        let all = kept(&blocks);
        assert!((text.len() / MAX_BLOCK..=text.len() / MIN_BLOCK + 1).contains(&all), "{all} of {}", text.len());
        compress(&blocks, text.as_bytes(), MAX_BLOCK);
        assert_eq!(kept(&blocks), all);
        // An object in the middle and another head: at most a few blocks differ.
        let changed = [r#"{"revision":7,"#.to_owned(), objects(0..1_500), "other".to_owned(), objects(1_500..3_000)];
        let changed = changed.concat();
        (0..2).for_each(|_| drop(compress(&blocks, changed.as_bytes(), MAX_BLOCK)));
        assert!((1..8).contains(&(kept(&blocks) - all)), "{} after {all}", kept(&blocks));
    }

    #[test]
    fn a_block_with_the_hash_of_another_is_not_mistaken_for_it() {
        let blocks = CompressedBlocks::default();
        let block = |text: &[u8]| Block::new(text, b"", Crc::new());
        blocks.kept.lock().insert(7, block(b"one"));
        assert!(blocks.find(7, b"one").is_some());
        assert!(blocks.find(7, b"two").is_none());
        blocks.kept.lock().insert(7, block(b"two"));
        assert!(blocks.find(7, b"two").is_some());
        assert_eq!(kept(&blocks), 1);
    }

    #[test]
    fn the_memory_of_blocks_is_limited() {
        let blocks = CompressedBlocks::default();
        for hash in 0..1_000 {
            blocks.kept.lock().insert(hash, Block::new(&[0; 100_000], &[0; 30_000], Crc::new()));
        }
        assert!(kept(&blocks) > 200);
    }

    #[test]
    fn unused_blocks_are_removed_by_ticks() {
        let blocks = CompressedBlocks::default();
        for hash in [1, 2] {
            blocks.kept.lock().insert(hash, Block::new(b"text", b"", Crc::new()));
        }
        let round = || (0..TICKS_PER_ROUND).for_each(|_| blocks.tick());
        round();
        assert_eq!(kept(&blocks), 2, "both were new in this round");
        assert!(blocks.find(2, b"text").is_some());
        round();
        assert!(blocks.find(1, b"text").is_none());
        assert!(blocks.find(2, b"text").is_some());
    }

    #[test]
    fn nothing_is_kept_while_blocks_are_disabled() {
        let blocks = CompressedBlocks::default();
        let insert = |hash| blocks.kept.lock().insert(hash, Block::new(b"text", b"", Crc::new()));
        insert(1);
        blocks.set_enabled(true);
        assert_eq!(kept(&blocks), 1);
        blocks.set_enabled(false);
        insert(2);
        assert_eq!(kept(&blocks), 0);
        blocks.set_enabled(true);
        insert(3);
        assert_eq!(kept(&blocks), 1);
    }
}
