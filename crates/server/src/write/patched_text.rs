//! The JSON text of a patched object in error messages of JSON patch and merge patch. Upstream patches text. It sorts
//! the fields only of objects that the patch opens. All other objects keep the order of their Go structs.

use pintle_codec::json::{encode_into, encode_typed, write_string};
use pintle_patch::JsonPatch;
use pintle_schema::{Type, TypeId, Types};
use pintle_value::Value;

/// Maximum number of path segments that are followed, to limit recursion. Real objects are less deep.
const MAX_PATH_DEPTH: usize = 64;

/// The objects and arrays that a merge patch opens, as a tree of empty objects.
pub(super) fn fields_opened_by_merge_patch(patch: &Value) -> Value {
    let fields = patch.entries_at(&[]).filter(|(_, value)| value.as_object().is_some());
    Value::Object(fields.map(|(key, value)| (key.to_owned(), fields_opened_by_merge_patch(value))).collect())
}

/// The objects and arrays that the operations of a JSON patch open, as a tree of empty objects.
pub(super) fn fields_opened_by_json_patch(patch: &JsonPatch) -> Value {
    let mut opened = Value::object();
    for operation in &patch.operations {
        for path in [&operation.from, &operation.path].into_iter().flatten() {
            let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
            let mut node = &mut opened;
            for segment in parents.split('/').skip(1).take(MAX_PATH_DEPTH) {
                let key = segment.replace("~1", "/").replace("~0", "~");
                if node.get(&key).is_none() {
                    node.set(&key, Value::object());
                }
                let Some(child) = node.get_mut(&key) else { break };
                node = child;
            }
        }
    }
    opened
}

/// The text of `value`, the result of a patch to `live`. `opened` are the objects and arrays that the patch opened.
pub(super) fn patched_text(value: &Value, live: &Value, opened: &Value, types: &Types, root: TypeId) -> String {
    let mut out = Vec::new();
    write_value(value, Some(live), Some(opened), (types, Some(root)), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_value(
    value: &Value,
    live: Option<&Value>,
    opened: Option<&Value>,
    (types, ty): (&Types, Option<TypeId>),
    out: &mut Vec<u8>,
) {
    let shape = ty.map(|ty| types.get(ty));
    match (value, opened, ty) {
        (Value::Object(object), Some(opened), _) => {
            out.push(b'{');
            for (i, (key, value)) in object.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                let field_type = match shape {
                    Some(Type::Struct(fields)) => fields.field(key).map(|field| field.ty),
                    Some(Type::Map(map)) => Some(map.value),
                    _ => None,
                };
                write_value(value, live.and_then(|live| live.get(key)), opened.get(key), (types, field_type), out);
            }
            out.push(b'}');
        }
        (Value::Array(items), Some(opened), _) => {
            let item_type = match shape {
                Some(Type::List(list)) => Some(list.item),
                _ => None,
            };
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                let before = live.and_then(|live| live.as_array()?.get(i));
                write_value(item, before, opened.get(&i.to_string()), (types, item_type), out);
            }
            out.push(b']');
        }
        (value, _, Some(ty)) if live == Some(value) => encode_typed(value, types, ty, out),
        (value, _, _) => encode_into(value, out),
    }
}
