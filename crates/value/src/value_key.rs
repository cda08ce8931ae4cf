//! Values as keys of hash tables, so that lists of any values are searched in linear time.

use std::hash::{Hash, Hasher};

use crate::Value;

/// A value as the key of a hash table. Keys are equal if their values are equal.
#[derive(Clone, Copy, Debug)]
pub struct ValueKey<'v>(pub &'v Value);

impl PartialEq for ValueKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// JSON has no number that differs from itself.
impl Eq for ValueKey<'_> {}

impl Hash for ValueKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(value) => value.hash(state),
            Value::Int(value) => value.hash(state),
            // Zero equals negative zero.
            Value::Float(value) => (if *value == 0.0 { 0.0 } else { *value }).to_bits().hash(state),
            Value::String(text) => text.as_str().hash(state),
            Value::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| ValueKey(item).hash(state));
            }
            Value::Object(object) => {
                object.len().hash(state);
                for (key, value) in object.iter() {
                    key.hash(state);
                    ValueKey(value).hash(state);
                }
            }
        }
    }
}

/// The indexes of the items that equal an earlier item, in order.
pub fn repeated<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = usize> {
    let mut seen = std::collections::HashSet::new();
    items.into_iter().enumerate().filter_map(move |(i, item)| (!seen.insert(item)).then_some(i))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::object;

    #[test]
    fn equal_values_are_the_same_key() {
        let values = [
            Value::Null,
            Value::Bool(false),
            Value::Int(0),
            Value::Float(-0.0),
            Value::Float(0.5),
            Value::from(""),
            Value::from("0"),
            Value::Array(Vec::new()),
            vec![0].into(),
            vec![0, 0].into(),
            object! {},
            object! { "a": 0 },
            object! { "a": 0, "b": Value::Null },
        ];
        let found: HashMap<ValueKey<'_>, usize> = values.iter().map(ValueKey).zip(0..).collect();
        assert_eq!(found.len(), values.len());
        for (i, value) in values.iter().cloned().enumerate() {
            assert_eq!(found.get(&ValueKey(&value)), Some(&i), "{value:?}");
        }
        assert_eq!(found.get(&ValueKey(&Value::Float(0.0))), Some(&3));
    }

    #[test]
    fn items_are_repeated_from_the_second_on() {
        let check = |items: &[&str], expect: &[usize]| assert_eq!(repeated(items).collect::<Vec<_>>(), expect);
        check(&[], &[]);
        check(&["a", "b"], &[]);
        check(&["a", "b", "a", "b", "a"], &[2, 3, 4]);
    }
}
