//! Encodes trees in the field order of their Go structs: schema order for declared fields, sorted keys for maps and
//! unknown fields. Every field in the tree is written; normalising has already removed the fields that `omitempty`
//! drops.

use pintle_schema::{Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Value};

use super::encode::{encode_decoded_again, encode_into, write_string};
use super::fields::encode_fields_v1;
use super::indent::indent;

/// How a field set is encoded.
type EncodeFields = fn(&Value, &mut Vec<u8>);

/// A value of the same type, and its text. This module wrote the text, and the value was decoded from it. Debug builds
/// check that it would write the same text again.
#[derive(Clone, Copy, Debug)]
pub struct OriginalObject<'o> {
    /// The value, decoded with [`super::DecodeOptions::STORED`].
    pub value: &'o Value,
    /// The text.
    pub text: &'o [u8],
}

impl<'o> OriginalObject<'o> {
    /// The original text of an object at the same path, if the object has not been changed since it was decoded.
    fn text_of(self, object: &Object) -> Option<&'o [u8]> {
        let original = self.value.as_object().filter(|original| object.shares_members(original))?;
        match original.encoded() {
            Some(kept) => Some(kept.text().as_bytes()),
            None => self.text.get(original.text_range()?),
        }
    }

    /// The member of an object, if the other object has a value there that may be an object or contain some.
    #[inline]
    fn member(self, key: &str, value: &Value) -> Option<Self> {
        matches!(value, Value::Object(_) | Value::Array(_))
            .then(|| self.value.get(key))
            .flatten()
            .map(|value| Self { value, ..self })
    }

    /// The item of a list.
    fn item(self, index: usize) -> Option<Self> {
        Some(Self { value: self.value.as_array()?.get(index)?, ..self })
    }
}

/// Appends the JSON of a value of this type.
pub fn encode_typed(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_value(value, None, types, type_id, encode_fields_v1, out);
}

/// Like [`encode_typed`], for a changed copy of an object that was decoded from text. Where both still share an object
/// at the same path, its text is copied.
pub fn encode_typed_changed(
    value: &Value,
    original: OriginalObject<'_>,
    types: &Types,
    type_id: TypeId,
    out: &mut Vec<u8>,
) {
    encode_value(value, Some(original), types, type_id, encode_fields_v1, out);
}

/// Appends the JSON of a value of this type that was made from an unstructured object. The members of its field sets
/// are sorted by their bytes, as in all maps.
pub fn encode_typed_from_unstructured(value: &Value, types: &Types, type_id: TypeId, out: &mut Vec<u8>) {
    encode_value(value, None, types, type_id, encode_into, out);
}

fn encode_value(
    value: &Value,
    original: Option<OriginalObject<'_>>,
    types: &Types,
    type_id: TypeId,
    fields: EncodeFields,
    out: &mut Vec<u8>,
) {
    match (types.get(type_id), value) {
        (Type::Struct(_) | Type::Map(_), Value::Object(object))
            if let Some(text) = original.and_then(|original| original.text_of(object)) =>
        {
            #[cfg(debug_assertions)]
            {
                let mut again = Vec::new();
                encode_value(value, None, types, type_id, fields, &mut again);
                assert_eq!(
                    String::from_utf8_lossy(&again),
                    String::from_utf8_lossy(text),
                    "the text of a stored object"
                );
            }
            out.extend_from_slice(text);
        }
        (Type::Struct(ty), Value::Object(object)) => encode_struct(object, original, types, ty, fields, out),
        (Type::Map(map), Value::Object(object)) => {
            out.push(b'{');
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                let original = original.and_then(|original| original.member(key, value));
                encode_value(value, original, types, map.value, fields, out);
            }
            out.push(b'}');
        }
        (Type::List(list), Value::Array(items)) => encode_items(items, original, types, list.item, fields, out),
        (Type::Union(union), Value::Object(_)) => encode_value(value, original, types, union.schema, fields, out),
        (Type::Union(union), Value::Array(items)) if union.kind == UnionKind::SchemaOrArray => {
            encode_items(items, original, types, union.schema, fields, out);
        }
        (Type::Scalar(ScalarType { kind: Scalar::FieldsV1, .. }), value) => fields(value, out),
        // Upstream decodes and encodes the text in a Go field of this type again with each conversion.
        (Type::Scalar(ScalarType { kind: Scalar::Json, .. }), value) => encode_decoded_again(value, out),
        _ => encode_into(value, out),
    }
}

/// Encodes a value of this type as indented JSON.
#[must_use]
pub fn encode_typed_pretty(value: &Value, types: &Types, type_id: TypeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    encode_typed(value, types, type_id, &mut out);
    indent(&out)
}

fn encode_items(
    items: &[Value],
    original: Option<OriginalObject<'_>>,
    types: &Types,
    item: TypeId,
    fields: EncodeFields,
    out: &mut Vec<u8>,
) {
    out.push(b'[');
    for (i, value) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        encode_value(value, original.and_then(|original| original.item(i)), types, item, fields, out);
    }
    out.push(b']');
}

/// Maximum number of members that are sorted on the stack. Few objects have more.
const INLINE: usize = 16;

fn encode_struct(
    object: &Object,
    original: Option<OriginalObject<'_>>,
    types: &Types,
    ty: &Struct,
    fields: EncodeFields,
    out: &mut Vec<u8>,
) {
    // An object has few of its struct's declared fields, so look up the field of each member, not the member of each
    // field. Unknown members come last.
    let mut inline = [(0u32, "", &Value::Null); INLINE];
    let mut spilled;
    let members: &mut [(u32, &str, &Value)] = if object.len() <= INLINE {
        &mut inline[..object.len()]
    } else {
        spilled = vec![(0u32, "", &Value::Null); object.len()];
        &mut spilled
    };
    for (member, (key, value)) in members.iter_mut().zip(object.iter()) {
        let index = ty.position(key).and_then(|i| u32::try_from(i).ok()).unwrap_or(u32::MAX);
        *member = (index, key, value);
    }
    members.sort_by_key(|m| m.0);
    out.push(b'{');
    for (i, (index, key, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match ty.fields.get(*index as usize) {
            Some(field) => {
                // Field names need no escapes.
                out.push(b'"');
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(b"\":");
                let original = original.and_then(|original| original.member(key, value));
                encode_value(value, original, types, field.ty, fields, out);
            }
            None => {
                write_string(key, out);
                out.push(b':');
                encode_into(value, out);
            }
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{DecodeOptions, decode};

    #[test]
    fn the_text_of_an_object_is_copied_while_it_is_as_it_was_read() {
        let text = br#"{"a":{"n":1,"o":{}},"list":[{"x":true},{"y":-0}],"twice":{"k":{"z":1,"z":2}},"empty":{}}"#;
        let value = decode(text, DecodeOptions::STORED).expect("JSON").value;
        let original = OriginalObject { value: &value, text };
        let copied = |value: &Value, original: Option<OriginalObject<'_>>| {
            let text = original?.text_of(value.as_object()?)?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(copied(&value["a"], original.member("a", &value["a"])).as_deref(), Some(r#"{"n":1,"o":{}}"#));
        let list = original.member("list", &value["list"]).expect("a list");
        assert_eq!(copied(&value["list"][0], list.item(0)).as_deref(), Some(r#"{"x":true}"#));
        assert_eq!(copied(&value["list"][0], list.item(1)), None, "at another place");
        assert_eq!(copied(&value["list"][1], list.item(1)), None, "-0 is written as 0");
        assert_eq!(
            copied(&value["twice"], original.member("twice", &value["twice"])),
            None,
            "a key that is there twice"
        );
        assert_eq!(copied(&value, Some(original)), None, "something in it has no text to copy");
        let mut changed = value.clone();
        changed.set_at(&["a", "n"], 2);
        assert_eq!(copied(&changed["a"], original.member("a", &value["a"])), None);
        let again = decode(text, DecodeOptions::STORED).expect("JSON").value;
        assert_eq!(copied(&again["a"], original.member("a", &value["a"])), None, "of another text");
    }
}
