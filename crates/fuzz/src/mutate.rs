//! Mutates valid inputs. Most inputs that break a decoder are one small change away from a valid input.

use crate::Random;

/// The dictionary: tokens with a meaning in one of the formats.
const DICTIONARY: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b"9223372036854775808",
    b"\\ud800",
    b"\\u0000",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\0",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"\n\n",
    b"\n  ",
    b"- ",
    b": ",
    b"? ",
    b"# ",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!int ",
    b"!!binary ",
    b"!",
    b"!<x>",
    b"|",
    b">",
    b"|+",
    b">-",
    b"|2",
    b"'",
    b"''",
    b"---\n",
    b"...\n",
    b"%YAML 1.1\n",
    b"%TAG ! x\n",
    b"~",
    b"yes",
    b"0x1f",
    b"0o7",
    b".inf",
    b".nan",
    b"2001-01-01",
    b"k8s\0",
    b"\x0a\x00",
    b"\x12\x00",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x0b",
    b"\x0c",
    b"\xd9\xd9\xf7",
    b"\xbf",
    b"\x9f",
    b"\xf6",
    b"\xfb",
    b"in (",
    b"!=",
    b"==",
    b"$patch",
    b"$setElementOrder/a",
    b"$retainKeys",
    b"/-",
    b"~1",
    b"f:a",
    b"k:{}",
    b"v:1",
    b"i:0",
];

/// The maximum length of an input that repeats a piece very often.
const MAX_REPEATED: usize = 64 << 10;

/// Returns a mutation of `seed`, which may contain parts of `other`.
#[must_use]
pub fn mutate(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below((bytes.len() - at).min(32) + 1);
        match random.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, random.pick(DICTIONARY).iter().copied())),
            3 => drop(bytes.splice(at..end, random.pick(DICTIONARY).iter().copied())),
            4 => {
                let piece = bytes[at..end].to_vec();
                let times = 1 + random.below(3);
                drop(bytes.splice(at..at, piece.repeat(times)));
            }
            5 => {
                let from = random.below(other.len() + 1);
                let to = from + random.below((other.len() - from).min(64) + 1);
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            6 => {
                let byte = random.number().to_le_bytes()[0];
                bytes.insert(at, byte);
            }
            _ => {
                let bit = 1 << random.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
        }
    }
    // Only long inputs reveal recursion, and work that grows faster than the input.
    if random.once_in(2_000) {
        let at = random.below(bytes.len() + 1);
        let end = at + random.below((bytes.len() - at).min(32) + 1);
        let piece = bytes[at..end].to_vec();
        let times = random.below(MAX_REPEATED / piece.len().max(1));
        drop(bytes.splice(at..at, piece.repeat(times)));
    }
    bytes
}
