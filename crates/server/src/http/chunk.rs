//! A chunk of a body. Its parts are often shared with other responses, so they are sent without being joined.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Bytes to send, in one or several parts.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// One part.
    One(Bytes),
    /// Several parts, sent in order.
    Many(ChunkParts),
}

/// Parts that are sent in order.
#[derive(Clone, Debug)]
pub struct ChunkParts {
    parts: Vec<Bytes>,
    /// The index of the first part that is not completely sent. No part from here on is empty.
    next: usize,
    left: usize,
}

impl Chunk {
    /// Creates a chunk of parts.
    #[must_use]
    pub fn of(mut parts: Vec<Bytes>) -> Self {
        parts.retain(|part| !part.is_empty());
        if parts.len() > 1 {
            let left = parts.iter().map(Bytes::len).sum();
            return Self::Many(ChunkParts { parts, next: 0, left });
        }
        Self::One(parts.pop().unwrap_or_default())
    }
}

impl From<Bytes> for Chunk {
    fn from(bytes: Bytes) -> Self {
        Self::One(bytes)
    }
}

impl ChunkParts {
    fn unsent(&self) -> &[Bytes] {
        &self.parts[self.next..]
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        match self {
            Self::One(bytes) => bytes.len(),
            Self::Many(parts) => parts.left,
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::One(bytes) => bytes,
            Self::Many(parts) => parts.unsent().first().map_or(&[], |part| part),
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        match self {
            Self::One(bytes) => bytes.chunks_vectored(slices),
            Self::Many(parts) => {
                let filled = slices.iter_mut().zip(parts.unsent());
                filled.map(|(slice, part)| *slice = IoSlice::new(part)).count()
            }
        }
    }

    fn advance(&mut self, mut count: usize) {
        let parts = match self {
            Self::One(bytes) => return bytes.advance(count),
            Self::Many(parts) => parts,
        };
        assert!(count <= parts.left, "cannot advance past the end");
        parts.left -= count;
        while let Some(part) = parts.parts.get_mut(parts.next) {
            if count < part.len() {
                return part.advance(count);
            }
            count -= part.len();
            *part = Bytes::new();
            parts.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_of(parts: &[&'static str]) -> Chunk {
        Chunk::of(parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect())
    }

    #[test]
    fn parts_are_read_in_order_whatever_the_step() {
        for parts in [&[][..], &["abc"], &["ab", "c"], &["", "a", "", "bcdef", "g", ""], &["a", "b", "c", "d"]] {
            let whole = parts.concat();
            for step in 1..=whole.len().max(1) {
                let (mut data, mut text) = (chunk_of(parts), String::new());
                while data.has_remaining() {
                    assert_eq!(data.remaining(), whole.len() - text.len(), "{parts:?} by {step}");
                    let mut slices = [IoSlice::new(&[]); 3];
                    let count = data.chunks_vectored(&mut slices);
                    let available: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                    assert!(available.starts_with(data.chunk()) && !data.chunk().is_empty(), "{parts:?} by {step}");
                    let length = step.min(available.len());
                    text.push_str(&String::from_utf8_lossy(&available[..length]));
                    data.advance(length);
                }
                assert_eq!(text, whole, "{parts:?} by {step}");
                assert!(data.chunk().is_empty());
            }
        }
    }
}
