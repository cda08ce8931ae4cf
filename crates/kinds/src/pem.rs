//! Decodes PEM like Go's `encoding/pem`: skips malformed blocks and everything outside of blocks.

use pintle_schema::base64;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "\n-----END ";
const DASHES: &str = "-----";

/// A PEM block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PemBlock<'a> {
    /// The type: `CERTIFICATE`.
    pub(crate) kind: &'a str,
    /// True if the block has headers (`Name: value`).
    pub(crate) headers: bool,
    /// The decoded content.
    pub(crate) bytes: Vec<u8>,
}

/// Iterates over the blocks of a text.
pub(crate) fn blocks(text: &str) -> PemBlocks<'_> {
    PemBlocks(text)
}

/// Iterates over the blocks in the rest of a text.
pub(crate) struct PemBlocks<'a>(&'a str);

impl PemBlocks<'_> {
    /// Returns true if no text is left, not even text outside of blocks.
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for PemBlocks<'a> {
    type Item = PemBlock<'a>;

    fn next(&mut self) -> Option<PemBlock<'a>> {
        loop {
            let (before, after) = self.0.split_once(END)?;
            self.0 = after;
            if let Some(block) = parse_block(before, after) {
                self.0 = split_line(after).1;
                return Some(block);
            }
        }
    }
}

/// Returns the block between the last begin line in `before` and the end line between `before` and `after`.
fn parse_block<'a>(before: &'a str, after: &str) -> Option<PemBlock<'a>> {
    let begin = before.rfind(BEGIN)?;
    if begin > 0 && !before[..begin].ends_with('\n') {
        return None;
    }
    let (first, mut body) = split_line(&before[begin + BEGIN.len()..]);
    let kind = first.strip_suffix(DASHES)?;
    let (rest, _) = split_line(after.strip_prefix(kind)?.strip_prefix(DASHES)?);
    if !rest.is_empty() {
        return None;
    }
    let mut headers = false;
    while let (header, next) = split_line(body)
        && header.contains(':')
    {
        // There must be a line break between the headers and the end line.
        if !body.contains('\n') {
            return None;
        }
        (headers, body) = (true, next);
    }
    let symbols: Vec<u8> = body.bytes().filter(|b| !matches!(b, b' ' | b'\t')).collect();
    Some(PemBlock { kind, headers, bytes: base64::decode(&symbols).ok()? })
}

/// Returns the first line without trailing white space, and the rest.
fn split_line(text: &str) -> (&str, &str) {
    let (first, rest) = match text.split_once('\n') {
        Some((first, rest)) => (first.strip_suffix('\r').unwrap_or(first), rest),
        None => (text, ""),
    };
    (first.trim_end_matches([' ', '\t']), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the blocks of a text: types, contents, and `+` if there are headers.
    fn check(text: &str, expect: &[&str]) {
        let found: Vec<String> = blocks(text)
            .map(|b| format!("{}{}={}", b.kind, if b.headers { "+" } else { "" }, String::from_utf8_lossy(&b.bytes)))
            .collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn pem_blocks_match_encoding_pem() {
        check("", &[]);
        check("-----BEGIN A-----\nMQ==\n-----END A-----", &["A=1"]);
        check("-----BEGIN A-----\r\nM Q\t==\r\n-----END A-----  \r\n", &["A=1"]);
        check("-----BEGIN A-----\n-----END A-----\n", &["A="]);
        check("x\n-----BEGIN A B-----\nK: v\n\nMQ==\n-----END A B-----\ny\n", &["A B+=1"]);
        check("-----BEGIN A-----\nMQ==\n-----END A-----\n-----BEGIN B-----\nMg==\n-----END B-----\n", &["A=1", "B=2"]);
        // Malformed blocks are skipped.
        check("-----BEGIN A-----\nM\n-----END A-----\n-----BEGIN B-----\nMg==\n-----END B-----\n", &["B=2"]);
        check("-----BEGIN A-----\n-----BEGIN B-----\nMg==\n-----END B-----\n", &["B=2"]);
        check("-----BEGIN A-----\nMQ==\n-----END B-----\n", &[]);
        check(" -----BEGIN A-----\nMQ==\n-----END A-----\n", &[]);
        check("-----BEGIN A-----\nMQ==\n-----END A----- x\n", &[]);
        check("-----BEGIN A-----\nK: v\n-----END A-----\n", &[]);
        check("-----BEGIN A\nMQ==\n-----END A-----\n", &[]);
    }
}
