//! Removes managed fields from the objects of events (upstream: `copyWithoutManagedFields`).

use pintle_codec::json::JsonCursor;

/// A part of a JSON text that may contain managed fields.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// An object, a list or a table.
    Root,
    /// An object.
    Object,
    Metadata,
    /// A row of a table.
    Row,
}

/// The compact JSON of an object, of a list, or of a table, without the managed fields of its objects. `None` if the
/// text is not a JSON object.
#[must_use]
pub fn without_managed_fields(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len());
    copy_object(&mut JsonCursor::new(json), Part::Root, &mut out)?;
    Some(out)
}

fn copy_object(from: &mut JsonCursor<'_>, part: Part, out: &mut Vec<u8>) -> Option<()> {
    from.byte(b'{')?;
    out.push(b'{');
    let mut is_first = true;
    while from.peek()? != b'}' {
        let name = from.name()?;
        if part == Part::Metadata && name == b"managedFields" {
            from.value()?;
        } else {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(name);
            out.extend_from_slice(b"\":");
            copy_member(from, part, name, out)?;
        }
        if from.peek()? == b',' {
            from.byte(b',')?;
        }
    }
    from.byte(b'}')?;
    out.push(b'}');
    Some(())
}

fn copy_member(from: &mut JsonCursor<'_>, part: Part, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match (part, name, from.peek()?) {
        (Part::Root | Part::Object, b"metadata", b'{') => copy_object(from, Part::Metadata, out),
        (Part::Row, b"object", b'{') => copy_object(from, Part::Object, out),
        (Part::Root, b"items", b'[') => copy_objects(from, Part::Object, out),
        (Part::Root, b"rows", b'[') => copy_objects(from, Part::Row, out),
        _ => {
            out.extend_from_slice(from.value()?);
            Some(())
        }
    }
}

/// Copies an array, whose elements usually are objects.
fn copy_objects(from: &mut JsonCursor<'_>, part: Part, out: &mut Vec<u8>) -> Option<()> {
    from.byte(b'[')?;
    out.push(b'[');
    while from.peek()? != b']' {
        match from.peek()? {
            b'{' => copy_object(from, part, out)?,
            _ => out.extend_from_slice(from.value()?),
        }
        if from.peek()? == b',' {
            from.byte(b',')?;
            out.push(b',');
        }
    }
    from.byte(b']')?;
    out.push(b']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_of_objects_lists_and_tables_are_removed() {
        let check = |json: &str, expect: Option<&str>| {
            let found = without_managed_fields(json.as_bytes());
            assert_eq!(found.map(|json| String::from_utf8(json).unwrap()).as_deref(), expect, "{json}");
        };
        let managed = r#""managedFields":[{"manager":"a,}\"","fieldsV1":{"f:x":{}}}]"#;
        let pod = |fields: &str| format!(r#"{{"kind":"Pod","metadata":{{{fields}}},"spec":{{{managed}}}}}"#);
        check(&pod(managed), Some(&pod("")));
        check(&pod(&format!(r#""name":"a",{managed},"uid":"b""#)), Some(&pod(r#""name":"a","uid":"b""#)));
        let list = |metadata: &str| format!(r#"{{"items":[{},1,{{}},[]],"metadata":{{}}}}"#, pod(metadata));
        check(&list(managed), Some(&list("")));
        let table = |metadata: &str| {
            format!(r#"{{"rows":[{{"cells":["a"],"object":{}}},{{"cells":[],"object":null}}]}}"#, pod(metadata))
        };
        check(&table(managed), Some(&table("")));
        for kept in ["{}", r#"{"metadata":null,"items":null}"#, r#"{"items":[],"rows":[]}"#] {
            check(kept, Some(kept));
        }
        for broken in ["", "1", "{", r#"{"metadata":{"#, r#"{"items":[{"a":1}"#] {
            check(broken, None);
        }
    }
}
