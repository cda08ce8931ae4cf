//! Reads the few elements of DER that signatures consist of.

use num_bigint::BigUint;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;

/// The number in an INTEGER's content, if it is positive and has no superfluous byte.
pub(super) fn positive(content: &[u8]) -> Option<BigUint> {
    let is_minimal = !matches!(content, [0, next, ..] if next & 0x80 == 0);
    let is_positive = content.first().is_some_and(|first| first & 0x80 == 0) && content != [0];
    (is_minimal && is_positive).then(|| BigUint::from_bytes_be(content))
}

/// Reads a SEQUENCE of two positive integers, and nothing else.
pub(super) fn pair_of_positive(der: &[u8]) -> Option<[BigUint; 2]> {
    let (content, rest) = element(der, SEQUENCE)?;
    let (first, behind) = element(content, INTEGER)?;
    let (second, end) = element(behind, INTEGER)?;
    if !rest.is_empty() || !end.is_empty() {
        return None;
    }
    Some([positive(first)?, positive(second)?])
}

/// The content of the element at the start of `der`, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The longest signature is far below 256 bytes.
        0x81 => {
            let (&length, rest) = rest.split_first()?;
            (usize::from(length), rest)
        }
        _ => return None,
    };
    let is_minimal = first < 0x80 || length >= 0x80;
    is_minimal.then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_integers_are_strict() {
        let numbers = |der: &[u8]| pair_of_positive(der).map(|pair| pair.map(|number| number.to_string()));
        let (one, two) = (&[2, 1, 1][..], &[2, 2, 1, 0][..]);
        let sequence = |content: &[&[u8]]| {
            let content = content.concat();
            [&[0x30, content.len() as u8][..], &content].concat()
        };
        assert_eq!(numbers(&sequence(&[one, two])), Some(["1".to_owned(), "256".to_owned()]));
        for malformed in [
            sequence(&[one]),
            sequence(&[one, two, one]),
            sequence(&[one, &[2, 1, 0]]),
            sequence(&[one, &[2, 1, 0x80]]),
            sequence(&[one, &[2, 2, 0, 1]]),
            sequence(&[one, &[2, 0]]),
            sequence(&[one, &[2, 2, 1]]),
            sequence(&[one, &[4, 1, 1]]),
            [sequence(&[one, one]), vec![0]].concat(),
            vec![0x30, 0x81, 6, 2, 1, 1, 2, 1, 1],
            vec![0x30, 0x82, 0, 6, 2, 1, 1, 2, 1, 1],
            vec![0x31, 6, 2, 1, 1, 2, 1, 1],
            vec![0x30],
            Vec::new(),
        ] {
            assert_eq!(numbers(&malformed), None, "{malformed:02x?}");
        }
    }
}
