//! Checks the structures that SQLite trusts when it writes to a store file: the list of free pages and the free bytes
//! of each page. If they were wrong, SQLite would overwrite pages or bytes that are in use. (Upstream:
//! <https://www.sqlite.org/fileformat2.html>, "B-tree Pages", "The Freelist" and "Pointer Map or Ptrmap Pages".) SQLite
//! checks all of this with `PRAGMA quick_check`, which takes several times as long as reading the log.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::file::{FileError, PAGE_BYTES};

/// The types of pages in the pointer map.
const ROOT: u8 = 1;
const FREE: u8 = 2;
const FIRST_OVERFLOW: u8 = 3;
const OVERFLOW: u8 = 4;
const TREE: u8 = 5;

/// The size of an entry in the pointer map: a type and the number of a page.
const ENTRY_BYTES: usize = 5;

/// A page of the pointer map is followed by the pages that it describes.
const PAGES_PER_MAP: u32 = (PAGE_BYTES / ENTRY_BYTES) as u32;

/// The first page of the pointer map.
const FIRST_MAP: u32 = 2;

/// The page on which SQLite has its locks. It has no content.
const LOCK_PAGE: u32 = 0x4000_0000 / PAGE_BYTES as u32 + 1;

const BUFFER_BYTES: usize = 1 << 18;

/// The types of pages in the tree of a table.
const TABLE_INNER: u8 = 0x05;
pub(super) const TABLE_LEAF: u8 = 0x0d;

/// The size of the smallest cell, and of the smallest free block.
const MIN_CELL_BYTES: usize = 4;

/// The limits of the bytes of a row in its leaf. A row up to the maximum is in its leaf as a whole. A larger row has at
/// least the minimum there, and the rest on other pages.
const MIN_LOCAL_BYTES: usize = (PAGE_BYTES - 12) * 32 / 255 - 23;
const MAX_LOCAL_BYTES: usize = PAGE_BYTES - 35;

/// Checks a file whose write-ahead log has been copied to it.
pub(super) fn check(path: &Path) -> Result<(), FileError> {
    let mut file = PagedFile::open(path)?;
    let mut content = [0; PAGE_BYTES];
    file.read(1, &mut content)?;
    let (pages, first, count) = (word(&content, 28), word(&content, 32), word(&content, 36));
    let free = file.free_pages(pages, first)?;
    if free.len() != count as usize {
        return Err(damaged(first, format!("the list of free pages has {} instead of {count}", free.len())));
    }
    file.seek(FIRST_MAP)?;
    let (mut map, mut map_page) = ([0; PAGE_BYTES], 0);
    let mut parts = Vec::new();
    for page in FIRST_MAP..=pages {
        file.read_next(page, &mut content)?;
        if is_map(page) {
            (map, map_page) = (content, page);
        } else if page != LOCK_PAGE {
            let kind = map[(page - map_page - 1) as usize * ENTRY_BYTES];
            if !(ROOT..=TREE).contains(&kind) || (kind == FREE) != free.contains(&page) {
                return Err(damaged(page, "the pointer map and the list of free pages contradict each other"));
            }
            let is_tree = !matches!(kind, FREE | FIRST_OVERFLOW | OVERFLOW);
            if is_tree && !is_laid_out(&content, &mut parts).unwrap_or(false) {
                return Err(damaged(page, "its parts overlap"));
            }
        }
    }
    Ok(())
}

/// True for the pages of the pointer map.
fn is_map(page: u32) -> bool {
    let first = page - (page - FIRST_MAP) % (PAGES_PER_MAP + 1);
    page == if first == LOCK_PAGE { first + 1 } else { first }
}

struct PagedFile(BufReader<File>);

impl PagedFile {
    fn open(path: &Path) -> Result<PagedFile, FileError> {
        let file = File::open(path).map_err(FileError::Io)?;
        Ok(PagedFile(BufReader::with_capacity(BUFFER_BYTES, file)))
    }

    fn seek(&mut self, page: u32) -> Result<(), FileError> {
        let offset = (u64::from(page) - 1) * PAGE_BYTES as u64;
        self.0.seek(SeekFrom::Start(offset)).map(drop).map_err(FileError::Io)
    }

    fn read(&mut self, page: u32, content: &mut [u8]) -> Result<(), FileError> {
        self.seek(page)?;
        self.read_next(page, content)
    }

    /// Reads the page after the previously read page.
    fn read_next(&mut self, page: u32, content: &mut [u8]) -> Result<(), FileError> {
        match self.0.read_exact(content) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(damaged(page, "it is missing")),
            result => result.map_err(FileError::Io),
        }
    }

    /// The pages of the free list that begins at page `first`; the list is empty if `first` is 0. Each page of the list
    /// names the next one, and free pages without content.
    fn free_pages(&mut self, pages: u32, first: u32) -> Result<HashSet<u32>, FileError> {
        let mut free = HashSet::new();
        let mut add = |page: u32| {
            let is_new = page > 1 && page <= pages && free.insert(page);
            if is_new { Ok(()) } else { Err(damaged(page, "the list of free pages must not have it")) }
        };
        let mut next = first;
        let mut content = [0; PAGE_BYTES];
        while next != 0 {
            add(next)?;
            self.read(next, &mut content)?;
            let (named, rest) = (word(&content, 4) as usize, &content[8..]);
            if named > rest.len() / 4 {
                return Err(damaged(next, "the list of free pages does not end"));
            }
            (0..named).try_for_each(|index| add(word(rest, 4 * index)))?;
            next = word(&content, 0);
        }
        Ok(free)
    }
}

/// Returns true if the cells and free blocks of a tree's page do not overlap. They must also leave as many bytes
/// between them as the page says. Returns `None` if they exceed the page. `parts` is memory to use again.
fn is_laid_out(page: &[u8], parts: &mut Vec<(usize, usize)>) -> Option<bool> {
    let header = match *page.first()? {
        TABLE_LEAF => 8,
        TABLE_INNER => 12,
        _ => return None,
    };
    let (cells, start) = (short(page, 3)?, short(page, 5)?);
    parts.clear();
    for index in 0..cells {
        let cell = short(page, header + 2 * index)?;
        parts.push((cell, cell_bytes(page.get(cell..)?, header == 8)?));
    }
    let mut block = short(page, 1)?;
    while block != 0 {
        let (next, size) = (short(page, block)?, short(page, block + 2)?);
        if size < MIN_CELL_BYTES || (next != 0 && next <= block) {
            return None;
        }
        parts.push((block, size));
        block = next;
    }
    parts.sort_unstable();
    let (mut end, mut between) = (start, 0);
    for (part, size) in parts.iter().copied() {
        between += part.checked_sub(end)?;
        end = part + size;
    }
    Some(header + 2 * cells <= start && between + PAGE_BYTES.checked_sub(end)? == usize::from(*page.get(7)?))
}

/// The size of a cell in its page.
fn cell_bytes(cell: &[u8], is_leaf: bool) -> Option<usize> {
    if !is_leaf {
        return Some(4 + varint(cell.get(4..)?)?.1);
    }
    let (row, row_length) = varint(cell)?;
    let key_length = varint(cell.get(row_length..)?)?.1;
    let row = usize::try_from(row).ok()?;
    let local = if row <= MAX_LOCAL_BYTES {
        row
    } else {
        let rest = MIN_LOCAL_BYTES + (row - MIN_LOCAL_BYTES) % (PAGE_BYTES - 4);
        4 + if rest <= MAX_LOCAL_BYTES { rest } else { MIN_LOCAL_BYTES }
    };
    Some((row_length + key_length + local).max(MIN_CELL_BYTES))
}

/// Reads a variable-length integer and returns it with its length. Each byte has seven bits, the most significant
/// first; the ninth byte has eight bits.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Some((number << 8 | u64::from(*byte), 9));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, index + 1));
        }
    }
    None
}

/// Reads two bytes of a page.
pub(super) fn short(page: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*page.get(at)?) << 8 | usize::from(*page.get(at + 1)?))
}

/// Reads four bytes, which must exist.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn damaged(page: u32, detail: impl std::fmt::Display) -> FileError {
    FileError::Corrupted(format!("its page {page} is damaged: {detail}"))
}
