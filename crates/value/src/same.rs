//! Whether two values mean the same to Go (`apiequality.Semantic.DeepEqual` of apimachinery), whatever stands for nothing:
//! null, an empty array and absence are one.

use crate::{Object, Value};

/// True if two values mean the same. Absence is `None`.
#[must_use]
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => same_object(a, b),
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (a, b) if is_nothing(a) || is_nothing(b) => is_nothing(a) && is_nothing(b),
        (a, b) => a == b,
    }
}

fn is_nothing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn same_object(a: &Object, b: &Object) -> bool {
    // Mostly the keys are the same, and then nothing has to be searched.
    if a.len() == b.len() && a.keys().eq(b.keys()) {
        return a.values().zip(b.values()).all(|(a, b)| same(Some(a), Some(b)));
    }
    a.iter().all(|(key, value)| same(Some(value), b.get(key)))
        && b.iter().all(|(key, value)| a.contains_key(key) || is_nothing(Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn null_and_empty_arrays_are_absence() {
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
