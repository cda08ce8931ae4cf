//! The values of an object's selectable fields, packed: most are a few letters, there are ten of a pod, and pods are many.

/// Some strings in an order, each behind its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectableValues(Box<[u8]>);

impl SelectableValues {
    /// The value at a place; empty where there is none.
    #[must_use]
    pub fn get(&self, place: usize) -> &str {
        let mut rest = &*self.0;
        for _ in 0..place {
            rest = split(rest).1;
        }
        std::str::from_utf8(split(rest).0).unwrap_or_default()
    }
}

impl<S: AsRef<str>> FromIterator<S> for SelectableValues {
    fn from_iter<I: IntoIterator<Item = S>>(values: I) -> Self {
        let mut packed = Vec::new();
        for value in values {
            let value = value.as_ref().as_bytes();
            let mut length = value.len();
            // Seven bits a byte, the lowest first.
            while length >= 0x80 {
                packed.push(length as u8 | 0x80);
                length >>= 7;
            }
            packed.push(length as u8);
            packed.extend_from_slice(value);
        }
        Self(packed.into_boxed_slice())
    }
}

/// The first value, and what follows it.
fn split(packed: &[u8]) -> (&[u8], &[u8]) {
    let mut length = 0;
    for (place, byte) in packed.iter().enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return packed[place + 1..].split_at(length);
        }
    }
    (&[], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_found() {
        let long = "x".repeat(300);
        for values in [vec![], vec![""], vec!["a", "", "b"], vec![&*long, "y", &*"z".repeat(127), &*"z".repeat(128)]] {
            let fields: SelectableValues = values.iter().collect();
            for (place, value) in values.iter().enumerate() {
                assert_eq!(fields.get(place), *value);
            }
            assert_eq!(fields.get(values.len()), "");
            assert_eq!(fields.get(values.len() + 5), "");
        }
    }
}
