//! Differences between two similar texts, such as successive versions of an object. Making and applying a difference
//! must be fast; the difference need not be the smallest.
//!
//! A difference is a list of steps. Each step has four parts: the number of new bytes, these bytes, the number of
//! skipped base bytes, and the number of copied base bytes. Numbers are varints: seven bits per byte, the lowest first.

/// The length of the text that must be found in the base to continue there. Shorter texts would be found by chance.
const ANCHOR: usize = 16;
/// How many bytes are compared at the same offset in the base before the text is searched elsewhere.
const NEARBY: usize = 64;
/// How far ahead in the base a part of the text is searched.
const WINDOW: usize = 16 * 1024;

/// Appends a number.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front.
pub(crate) fn take_number(bytes: &mut &[u8]) -> usize {
    let mut number = 0;
    let mut shift = 0;
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Takes bytes from the front.
pub(crate) fn take_bytes<'b>(bytes: &mut &'b [u8], length: usize) -> &'b [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// Appends the difference that makes `text` from `base`. Returns false if it would be longer than `max` bytes; then it
/// is not complete.
///
/// The time is proportional to the length of the texts: at most twice their length is searched.
pub(crate) fn push_difference(out: &mut Vec<u8>, mut text: &[u8], mut base: &[u8], max: usize) -> bool {
    let max = out.len() + max;
    let mut budget = 2 * (text.len() + base.len());
    // The last step copies the common end of both texts.
    let end = common_suffix(text, base);
    while !text.is_empty() {
        let (middle, base_middle) = (&text[..text.len() - end], &base[..base.len() - end]);
        let (new, mut passed) = next_anchor(middle, base_middle, &mut budget);
        let mut copied = common_prefix(&middle[new..], &base_middle[passed..]);
        if new + copied == middle.len() && (copied == 0 || passed + copied == base_middle.len()) {
            passed = base_middle.len() - copied;
            copied += end;
        }
        push_number(out, new);
        if out.len() + new > max {
            return false;
        }
        out.extend_from_slice(&text[..new]);
        push_number(out, passed);
        push_number(out, copied);
        (text, base) = (&text[new + copied..], &base[passed + copied..]);
    }
    out.len() <= max
}

/// Makes a text from a difference and its base.
pub(crate) fn apply_difference(mut difference: &[u8], mut base: &[u8], out: &mut Vec<u8>) {
    while !difference.is_empty() {
        let new = take_number(&mut difference);
        out.extend_from_slice(take_bytes(&mut difference, new));
        let passed = take_number(&mut difference);
        let copied = take_number(&mut difference);
        base = &base[passed..];
        out.extend_from_slice(take_bytes(&mut base, copied));
    }
}

/// The offsets in the text and in the base where the texts are equal again, or their ends. `budget` is the number of
/// bytes that may still be searched.
fn next_anchor(text: &[u8], base: &[u8], budget: &mut usize) -> (usize, usize) {
    // Most changes, such as times and numbers, keep the length.
    let mut equal = 0;
    for at in 0..text.len().min(base.len()).min(NEARBY) {
        equal = if text[at] == base[at] { equal + 1 } else { 0 };
        if equal == ANCHOR / 2 {
            return (at + 1 - equal, at + 1 - equal);
        }
    }
    // Otherwise parts of the text are searched at growing distances, so that few searches are made if nothing is found.
    let window = &base[..base.len().min(WINDOW)];
    let mut at = 0;
    while let Some(anchor) = text.get(at..at + ANCHOR) {
        let Some(left) = budget.checked_sub(window.len()) else { break };
        *budget = left;
        if let Some(found) = memchr::memmem::find(window, anchor) {
            let back = common_suffix(&text[..at], &base[..found]);
            return (at - back, found - back);
        }
        at += 1 + at / 4;
    }
    (text.len(), base.len())
}

/// The number of bytes that are compared at once.
const BLOCK: usize = 32;

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.as_chunks::<BLOCK>().0.iter().zip(other.as_chunks::<BLOCK>().0);
    let equal = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    equal + one[equal..].iter().zip(&other[equal..]).take_while(|(one, other)| one == other).count()
}

fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    let blocks = one.as_rchunks::<BLOCK>().1.iter().rev().zip(other.as_rchunks::<BLOCK>().1.iter().rev());
    let equal = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - equal], &other[..other.len() - equal]);
    equal + one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the difference. Also checks that the difference makes the text.
    fn difference(text: &[u8], base: &[u8]) -> usize {
        let mut difference = Vec::new();
        assert!(push_difference(&mut difference, text, base, usize::MAX / 2));
        let mut made = Vec::new();
        apply_difference(&difference, base, &mut made);
        assert_eq!(String::from_utf8_lossy(&made), String::from_utf8_lossy(text), "base {base:?}");
        difference.len()
    }

    fn lease(renewed: &str, transitions: u64) -> String {
        let holder = "x".repeat(200);
        format!(
            r#"{{"kind":"Lease","metadata":{{"name":"node","managedFields":[{{"time":"{renewed}","fields":"{holder}"}}]}},"spec":{{"holderIdentity":"{holder}","leaseTransitions":{transitions},"renewTime":"{renewed}"}}}}"#
        )
    }

    #[test]
    fn small_changes_make_small_differences() {
        let base = lease("2026-01-01T00:00:00.000000Z", 9);
        for (text, at_most) in [
            (base.clone(), 5),
            (lease("2026-01-01T00:00:10.123456Z", 9), 40),
            // These lengths differ.
            (lease("2026-01-01T00:00:10.123456Z", 10), 50),
            (lease("", 9), 60),
        ] {
            let length = difference(text.as_bytes(), base.as_bytes());
            assert!(length <= at_most, "{length} bytes for {text}");
        }
        // A text may also have more in its middle than the base.
        difference(base.as_bytes(), lease("", 100).as_bytes());
    }

    #[test]
    fn any_text_is_made_of_any_base() {
        let texts =
            ["", "a", "ab", "abababab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"];
        for text in texts {
            for base in texts {
                difference(text.as_bytes(), base.as_bytes());
            }
        }
        // Pieces of one text, in random order and number, from a simple generator.
        let mut state = 12345_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let pieces: Vec<String> = (0..20).map(|n| format!("{n}:{}", "piece".repeat(n % 7))).collect();
        for _ in 0..5000 {
            let mut text = || (0..random(12)).map(|_| &*pieces[random(20)]).collect::<String>();
            let (text, base) = (text(), text());
            difference(text.as_bytes(), base.as_bytes());
        }
    }

    /// Changing every entry is the most expensive case: each entry is searched for.
    #[test]
    fn it_takes_time_in_proportion_to_the_texts() {
        let entries = |salt: u64, count: u64| {
            let entry = |number: u64| {
                let value = (number + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                format!("\"host-{number:06}.example.com\":\"{}\",", format!("{value:016x}").repeat(4))
            };
            (0..count).map(entry).collect::<String>()
        };
        for count in [100, 1000, 10_000] {
            let (text, base) = (entries(1, count), entries(2_000_000, count));
            let mut budget = 2 * (text.len() + base.len());
            let (mut rest, mut base_rest, mut steps) = (text.as_bytes(), base.as_bytes(), 0);
            while !rest.is_empty() {
                let (new, passed) = next_anchor(rest, base_rest, &mut budget);
                let copied = common_prefix(&rest[new..], &base_rest[passed..]);
                (rest, base_rest) = (&rest[new + copied..], &base_rest[passed + copied..]);
                steps += 1;
            }
            assert!(steps <= count + 1, "{steps} steps for {count} entries");
            assert!(!push_difference(&mut Vec::new(), text.as_bytes(), base.as_bytes(), text.len() / 2));
            difference(text.as_bytes(), base.as_bytes());
        }
    }

    #[test]
    fn numbers_of_any_size_are_read_as_they_were_written() {
        let numbers = [0, 1, 127, 128, 16_383, 16_384, usize::MAX >> 1];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| push_number(&mut bytes, *number));
        let mut rest = &bytes[..];
        assert_eq!(numbers.map(|_| take_number(&mut rest)), numbers);
        assert!(rest.is_empty());
    }
}
