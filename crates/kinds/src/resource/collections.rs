//! Lists, sets and maps of a limited size. Where there are too many items, only their number is reported, so that a
//! request costs little (upstream: `validateSlice`, `validateSet` and `validateMap`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use pintle_value::{Errors, FieldError, FieldPath, Value};

/// The length to which a key is shortened in paths, at least.
const MIN_KEY_LENGTH: usize = 16;

/// Validates the items of a list.
pub(super) fn validate_list(
    errors: &mut Errors,
    items: &[Value],
    max: usize,
    path: &FieldPath<'_>,
    mut validate: impl FnMut(&mut Errors, &Value, &FieldPath<'_>),
) -> bool {
    if items.len() > max {
        errors.push(FieldError::too_many(path, items.len(), max));
        return false;
    }
    for (i, item) in items.iter().enumerate() {
        validate(errors, item, &path.index(i));
    }
    true
}

/// Validates the items of a set. `key` returns the key of an item as errors print it.
pub(super) fn validate_set(
    errors: &mut Errors,
    items: &[Value],
    max: usize,
    path: &FieldPath<'_>,
    validate: impl FnMut(&mut Errors, &Value, &FieldPath<'_>),
    key: impl Fn(&Value) -> String,
) {
    if !validate_list(errors, items, max, path, validate) {
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let key = key(item);
        if seen.contains(&key) {
            errors.push(FieldError::duplicate(&path.index(i), Value::Null).showing(key));
        } else {
            seen.insert(key);
        }
    }
}

/// Validates the keys and values of a map. Keys that are longer than `key_length` are shortened in paths.
pub(super) fn validate_map(
    errors: &mut Errors,
    map: &Value,
    max: usize,
    key_length: usize,
    path: &FieldPath<'_>,
    validate_key: impl Fn(&mut Errors, &str, &FieldPath<'_>),
    validate_value: impl Fn(&mut Errors, &Value, &FieldPath<'_>),
) {
    let length = map.as_object().map_or(0, pintle_value::Object::len);
    if length > max {
        errors.push(FieldError::too_many(path, length, max));
        return;
    }
    for (key, value) in map.entries_at(&[]) {
        validate_key(errors, key, path);
        validate_value(errors, value, &path.key(&shorten(key, key_length)));
    }
}

/// Cuts the middle out of a text that is too long.
fn shorten(text: &str, max: usize) -> Cow<'_, str> {
    let max = max.max(MIN_KEY_LENGTH);
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    const ELLIPSIS: &str = "...";
    let kept = max - ELLIPSIS.len();
    let bytes = text.as_bytes();
    let (start, end) = (&bytes[..kept.div_ceil(2)], &bytes[bytes.len() - kept / 2..]);
    Cow::Owned(format!("{}{ELLIPSIS}{}", String::from_utf8_lossy(start), String::from_utf8_lossy(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_shortened_in_the_middle() {
        let check = |text: &str, max: usize, expect: &str| assert_eq!(shorten(text, max), expect);
        check("abc", 16, "abc");
        check("0123456789abcdef", 3, "0123456789abcdef");
        check("0123456789abcdefg", 3, "0123456...bcdefg");
        check("0123456789abcdefghijk", 17, "0123456...efghijk");
    }
}
