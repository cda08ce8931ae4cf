//! The form of custom resources in etcd, as kube-apiserver writes it: JSON with sorted members and a line break
//! (upstream: `unstructured.UnstructuredJSONScheme`). Values of other writers are read in any spelling.

use bytes::Bytes;
use pintle_codec::json::{self, DecodeOptions};
use pintle_extensions::schema::StructuralSchema;
use pintle_store::{StoredValue, TransformedValue};
use pintle_value::Value;

use crate::cluster::custom_decode_error;
use crate::cluster::object_index::{with_kind_first, with_kind_sorted};

/// Reads a custom resource. The kind comes first in the result, because the CRD is not known here. So the stored object
/// may need defaults and pruning, see [`with_kind_first`].
///
/// # Errors
/// The message of upstream's decoder, if the value is not an object that can be served.
pub(super) fn read(stored: &[u8]) -> Result<TransformedValue, String> {
    let mut object = json::decode(stored, DecodeOptions::default()).map_err(|_| custom_decode_error(stored))?.value;
    if object.kind().is_empty() || object.api_version().is_empty() {
        return Err(custom_decode_error(stored));
    }
    StructuralSchema::repair_metadata(&mut object).map_err(|error| error.to_string())?;
    let is_sorted = |json: &[u8]| stored.strip_suffix(b"\n") == Some(json);
    // Upstream stores neither field, and sets both when an object is read.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("selfLink");
    }
    let json = Bytes::from(json::encode(&object));
    let stale = !is_sorted(&json);
    Ok(TransformedValue { value: with_kind_first(&json), stale })
}

/// The stored form of a custom resource.
pub(super) fn write(json: &Bytes) -> StoredValue {
    let mut bytes = with_kind_sorted(json);
    bytes.push(b'\n');
    StoredValue::exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: &str, expect: Result<&str, &str>, is_stale: bool) {
        let read = read(stored.as_bytes());
        if let Ok(read) = &read {
            assert_eq!(read.stale, is_stale, "{stored}");
        }
        let read = read.map(|read| String::from_utf8_lossy(&read.value).into_owned());
        assert_eq!(read.as_deref(), expect.map_err(str::to_owned).as_deref(), "{stored}");
    }

    #[test]
    fn objects_are_read_in_any_spelling() {
        let expect = r#"{"kind":"A","apiVersion":"a.b/v1","metadata":{"labels":{"a":"b"},"name":"n","uid":"u"},"spec":{"x":1,"y":"\u003c"}}"#;
        let sorted = r#"{"apiVersion":"a.b/v1","kind":"A","metadata":{"labels":{"a":"b"},"name":"n","uid":"u"},"spec":{"x":1,"y":"\u003c"}}"#;
        check(&format!("{sorted}\n"), Ok(expect), false);
        // Upstream compares the bytes to decide whether an update changes nothing.
        check(sorted, Ok(expect), true);
        for stored in [
            expect,
            r#" { "metadata" : {"uid":"\u0075","name":"n","labels":{"\u0061":"b"} } , "spec":{"y":"<","x":1},"kind":"A","apiVersion":"a.b\/v1" } "#,
            r#"{"kind":"B","kind":"A","apiVersion":"a.b/v1","metadata":{"uid":"u","name":"n","resourceVersion":"7","selfLink":"/a","labels":{"a":"b"}},"spec":{"y":"<","x":1}}"#,
            r#"{"apiVersion":"a.b/v1","kind":"A","metadata":{"labels":{"a":"b"},"name":"n","uid":"u","creationTimestamp":null,"generateName":7,"nope":1},"spec":{"x":1,"y":"<"}}"#,
        ] {
            check(stored, Ok(expect), true);
        }
    }

    #[test]
    fn what_upstream_cannot_decode_has_its_error() {
        let missing = "Object 'Kind' is missing in '{\"apiVersion\":\"a.b/v1\"}'";
        check("", Err("unexpected end of JSON input"), false);
        check(r#"{"apiVersion":"a.b/v1"}"#, Err(missing), false);
        check(r#"{"kind":"A"}"#, Err("request to convert CR from an invalid group/version: "), false);
        check(
            r#"{"kind":"A","apiVersion":"a.b/v1","spec":{]}"#,
            Err("invalid character ']' looking for beginning of object key string"),
            false,
        );
        let metadata = "invalid metadata: expected object, got []interface {}";
        check(r#"{"kind":"A","apiVersion":"a.b/v1","metadata":[]}"#, Err(metadata), false);
    }

    #[test]
    fn objects_are_stored_with_sorted_members_and_a_line_break() {
        for (json, expect) in [
            (r#"{"apiVersion":"a/v1","kind":"A","metadata":{}}"#, r#"{"apiVersion":"a/v1","kind":"A","metadata":{}}"#),
            (r#"{"kind":"A","apiVersion":"a/v1","metadata":{}}"#, r#"{"apiVersion":"a/v1","kind":"A","metadata":{}}"#),
            (r#"{"kind":"A","apiVersion":"a/v1"}"#, r#"{"apiVersion":"a/v1","kind":"A"}"#),
            (
                r#"{"kind":"A","\u003c":1,"a\u0026":{"kind":1},"\u2028":2}"#,
                r#"{"\u003c":1,"a\u0026":{"kind":1},"kind":"A","\u2028":2}"#,
            ),
            (r#"{"kind":"A"}"#, r#"{"kind":"A"}"#),
        ] {
            let stored = write(&Bytes::from_static(json.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&stored.bytes), format!("{expect}\n"));
        }
    }
}
