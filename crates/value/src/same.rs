//! Semantic equality of values (`apiequality.Semantic.DeepEqual` of apimachinery): null, an empty array and an absent
//! value are equal.

use crate::{Object, Value};

/// Returns whether two values are semantically equal. `None` is an absent value.
#[must_use]
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => a.shares_members(b) || equal_objects(a, b),
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) if is_absent(a) || is_absent(b) => is_absent(a) && is_absent(b),
        (a, b) => a == b,
    }
}

fn is_absent(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn equal_objects(a: &Object, b: &Object) -> bool {
    // Objects usually have the same keys, which makes lookups unnecessary.
    if a.len() == b.len() && a.keys().eq(b.keys()) {
        return a.values().zip(b.values()).all(|(a, b)| same(Some(a), Some(b)));
    }
    a.iter().all(|(key, value)| same(Some(value), b.get(key)))
        && b.iter().all(|(key, value)| a.contains_key(key) || is_absent(Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn null_and_empty_arrays_equal_absent_values() {
        let check = |a: Value, b: Value, expect: bool| {
            assert_eq!(same(Some(&a), Some(&b)), expect, "{a:?} {b:?}");
            assert_eq!(same(Some(&b), Some(&a)), expect, "{b:?} {a:?}");
        };
        let none = || Value::Array(Vec::new());
        check(object! { "a": Value::Null, "b": none() }, object! {}, true);
        check(vec![object! { "b": none() }].into(), vec![object! {}].into(), true);
        check(object! { "a": object! {} }, object! {}, false);
        check(object! { "a": 0 }, object! {}, false);
        check(vec![1, 2].into(), vec![2, 1].into(), false);
        check(none(), Value::Null, true);
        assert!(same(None, Some(&Value::Null)));
    }
}
