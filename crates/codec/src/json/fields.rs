//! Encodes `metav1.FieldsV1`: a field set as an object whose keys are serialized path elements, in path element order.
//! Trees sort keys by their bytes, which differs for numeric list keys and values: `k:{"port":80}` comes before
//! `k:{"port":443}`.

use pintle_fieldpath::path::PathElement;
use pintle_value::Value;

use super::encode::{encode_into, write_string};

/// Appends the JSON of a field set.
pub(crate) fn encode_fields_v1(value: &Value, out: &mut Vec<u8>) {
    let Value::Object(object) = value else { return encode_into(value, out) };
    if let Some(encoded) = object.encoded() {
        return out.extend_from_slice(encoded.text().as_bytes());
    }
    if object.is_empty() {
        // Most are.
        return out.extend_from_slice(b"{}");
    }
    let is_item = |key: &str| key.starts_with("k:") || key.starts_with("v:");
    if object.iter().filter(|(key, _)| is_item(key)).count() < 2 {
        return encode_entries(object.iter(), out);
    }
    let mut entries: Vec<(&str, &Value)> = object.iter().collect();
    // Keys that are not path elements, such as `.`, stay in front.
    entries.sort_by_cached_key(|(key, _)| PathElement::deserialize(key).ok().flatten());
    encode_entries(entries.into_iter(), out);
}

fn encode_entries<'v>(entries: impl Iterator<Item = (&'v str, &'v Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (key, child)) in entries.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        encode_fields_v1(child, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_items_are_sorted_by_their_keys() {
        let check = |fields: &str| {
            let value: Value = serde_json::from_str(fields).expect(fields);
            let mut out = Vec::new();
            encode_fields_v1(&value, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), fields);
        };
        check(
            r#"{"f:ports":{".":{},"k:{\"port\":80}":{".":{},"f:port":{}},"k:{\"port\":443}":{},"k:{\"port\":8080}":{}}}"#,
        );
        check(r#"{"v:2":{},"v:10":{},"v:\"a\"":{}}"#);
        check(r#"{"f:a":{},"f:b":{".":{},"f:c":{}}}"#);
        check(r#"{"k:no element":{},"k:{\"a\":1}":{},"k:{\"a\":1,\"b\":2}":{}}"#);
        check("null");
    }
}
