//! The values of an object's selectable fields, packed into one allocation. Most values are a few bytes long, a pod has
//! ten of them, and there are many pods.

/// An ordered list of strings, each prefixed with its length. Most kinds have no selectable fields, so an empty list is
/// only a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectableValues(Option<Box<PackedValues>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedValues {
    bytes: Box<[u8]>,
}

impl SelectableValues {
    /// The value at an index; empty if there is no value.
    #[must_use]
    pub fn get(&self, index: usize) -> &str {
        value_at(self.packed(), index)
    }

    /// All values as one byte string.
    pub(crate) fn packed(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |values| &values.bytes)
    }

    /// The values from the bytes that [`packed`](Self::packed) has returned.
    pub(crate) fn from_packed(packed: &[u8]) -> Self {
        Self((!packed.is_empty()).then(|| Box::new(PackedValues { bytes: packed.into() })))
    }
}

impl<S: AsRef<str>> FromIterator<S> for SelectableValues {
    fn from_iter<I: IntoIterator<Item = S>>(values: I) -> Self {
        let mut packed = Vec::new();
        for value in values {
            let value = value.as_ref().as_bytes();
            let mut length = value.len();
            // A varint: seven bits per byte, the lowest first.
            while length >= 0x80 {
                packed.push(length as u8 | 0x80);
                length >>= 7;
            }
            packed.push(length as u8);
            packed.extend_from_slice(value);
        }
        Self::from_packed(&packed)
    }
}

/// The values in the bytes that [`packed`](SelectableValues::packed) has returned.
pub(crate) fn values_of(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packed;
    std::iter::from_fn(move || {
        let (value, others) = (!rest.is_empty()).then(|| split(rest))?;
        rest = others;
        Some(value)
    })
}

/// The value at an index in the bytes that [`packed`](SelectableValues::packed) has returned; empty if there is no
/// value.
pub(crate) fn value_at(packed: &[u8], index: usize) -> &str {
    let mut rest = packed;
    for _ in 0..index {
        rest = split(rest).1;
    }
    std::str::from_utf8(split(rest).0).unwrap_or_default()
}

/// Splits off the first value.
fn split(packed: &[u8]) -> (&[u8], &[u8]) {
    let mut length = 0;
    for (index, byte) in packed.iter().enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return packed[index + 1..].split_at(length);
        }
    }
    (&[], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_are_read_by_index() {
        let long = "x".repeat(300);
        for values in [vec![], vec![""], vec!["a", "", "b"], vec![&*long, "y", &*"z".repeat(127), &*"z".repeat(128)]] {
            let fields: SelectableValues = values.iter().collect();
            for (index, value) in values.iter().enumerate() {
                assert_eq!(fields.get(index), *value);
            }
            assert!(values_of(fields.packed()).eq(values.iter().map(|value| value.as_bytes())));
            assert_eq!(fields.get(values.len()), "");
            assert_eq!(fields.get(values.len() + 5), "");
        }
    }
}
