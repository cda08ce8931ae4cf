//! Objects that are kept as text until their members are used. Such an object is well-formed, and written as this
//! server writes it. The order of its members, duplicate keys, and characters that some encoders escape are not
//! checked.

use pintle_value::EncodedObject;

use super::decode::{integer, number, plain_run_end};

/// Objects with shorter texts are decoded at once, which takes less time and memory than to keep them as text.
const SHORTEST_TEXT: usize = 64;

/// Maximum nesting: the number of bits that tell objects from lists.
const MAX_DEPTH: u32 = u64::BITS;

/// The object that begins at an offset of a text, kept as text, and its length. `None` if it has to be decoded.
pub(super) fn plain_object(text: &str, start: usize) -> Option<(EncodedObject, usize)> {
    let object = text.get(start..plain_object_end(text, start)?)?;
    (object.len() >= SHORTEST_TEXT).then(|| (EncodedObject::new(object), object.len()))
}

/// The offset after the object that begins at an offset of a text. `None` if the object is malformed, if it has white
/// space, escapes, a negative zero or a fraction, or if it is nested too deeply.
fn plain_object_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut offset, mut depth) = (start, 0);
    // A bit for each open object or list, the innermost last: whether it is an object.
    let mut objects = 0u64;
    loop {
        match *bytes.get(offset)? {
            opening @ (b'{' | b'[') => {
                let is_object = opening == b'{';
                offset += 1;
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                objects = objects << 1 | u64::from(is_object);
                match bytes.get(offset)? {
                    b'}' | b']' => {}
                    _ if is_object => {
                        offset = key_end(bytes, offset)?;
                        continue;
                    }
                    _ => continue,
                }
            }
            b'"' => offset = string_end(bytes, offset)?,
            b'-' | b'0'..=b'9' => {
                let number = number(text, &mut offset).ok()?;
                integer(number).filter(|_| number != "-0")?;
            }
            _ => {
                let rest = &bytes[offset..];
                offset += ["true", "false", "null"].iter().find(|word| rest.starts_with(word.as_bytes()))?.len();
            }
        }
        // A value has ended.
        loop {
            match (*bytes.get(offset)?, objects & 1 == 1) {
                (b',', true) => {
                    offset = key_end(bytes, offset + 1)?;
                    break;
                }
                (b',', false) => {
                    offset += 1;
                    break;
                }
                (b'}', true) | (b']', false) => {
                    offset += 1;
                    depth -= 1;
                    objects >>= 1;
                    if depth == 0 {
                        return Some(offset);
                    }
                }
                _ => return None,
            }
        }
    }
}

/// The offset after a string without escapes.
fn string_end(bytes: &[u8], offset: usize) -> Option<usize> {
    let end = plain_run_end(bytes, offset + 1);
    (*bytes.get(end)? == b'"').then_some(end + 1)
}

/// The offset after a key and its colon.
fn key_end(bytes: &[u8], offset: usize) -> Option<usize> {
    let end = (*bytes.get(offset)? == b'"').then(|| string_end(bytes, offset))??;
    (*bytes.get(end)? == b':').then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_plain_objects_is_found() {
        for object in [
            "{}",
            r#"{"a":1}"#,
            r#"{"a":{},"b":[],"c":[{}],"d":[[1,-25,0],{"e":null}],"f":true,"g":false}"#,
            r#"{"a-long-key-of-an-object-with-more-than-32-bytes":"}]\u{7f}é{"}"#,
        ] {
            let object = object.replace(r"\u{7f}", "\u{7f}");
            for (before, after) in [("", ""), ("{\"x\":", ",\"y\":1}")] {
                let text = format!("{before}{object}{after}");
                assert_eq!(plain_object_end(&text, before.len()), Some(before.len() + object.len()), "{text}");
            }
            for end in 0..object.len() {
                if let Some(cut) = object.get(..end) {
                    assert_eq!(plain_object_end(cut, 0), None, "{cut}");
                }
            }
        }
        let nested = |depth: usize| "{\"a\":".repeat(depth - 1) + "{}" + &"}".repeat(depth - 1);
        assert_eq!(plain_object_end(&nested(64), 0), Some(nested(64).len()));
        assert_eq!(plain_object_end(&nested(65), 0), None);
    }

    #[test]
    fn other_objects_have_no_end() {
        for text in [
            r#"{ "a":1}"#,
            r#"{"a" :1}"#,
            r#"{"a": 1}"#,
            r#"{"a":1 }"#,
            r#"{"a":[1 ,2]}"#,
            r#"{"a":"\n"}"#,
            r#"{"\u0061":1}"#,
            "{\"a\":\"\t\"}",
            r#"{"a":-0}"#,
            r#"{"a":1.5}"#,
            r#"{"a":1e999}"#,
            r#"{"a":9223372036854775808}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":+1}"#,
            r#"{"a":nul}"#,
            r#"{"a":truefalse}"#,
            r#"{"a":[1}]"#,
            r#"{"a":[1,]}"#,
            r#"{"a":1,}"#,
            r#"{,"a":1}"#,
            r#"{"a":{]}"#,
            r#"{"a":[}}"#,
            r#"{"a"}"#,
            r#"{1:2}"#,
            r#"{"a":1"b":2}"#,
            r#"{"a":}"#,
        ] {
            assert_eq!(plain_object_end(text, 0), None, "{text}");
        }
    }
}
