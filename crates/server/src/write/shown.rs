//! What a JSON patch or merge patch made of an object, as its errors show it. Upstream patches text and sorts the fields of
//! only those objects that the patch goes into; all others keep the order of their Go structs.

use pintle_codec::json::{encode_into, encode_typed, write_string};
use pintle_patch::JsonPatch;
use pintle_schema::{Type, TypeId, Types};
use pintle_value::Value;

/// How deep a path is followed; nothing real is deeper.
const DEEPEST: usize = 64;

/// The objects and arrays that a merge patch goes into, as a tree of objects.
pub(super) fn opened_by_merge(patch: &Value) -> Value {
    let fields = patch.entries_at(&[]).filter(|(_, value)| value.as_object().is_some());
    Value::Object(fields.map(|(key, value)| (key.to_owned(), opened_by_merge(value))).collect())
}

/// The objects and arrays that the operations of a JSON patch go into.
pub(super) fn opened_by_operations(patch: &JsonPatch) -> Value {
    let mut opened = Value::object();
    for operation in &patch.operations {
        for path in [&operation.from, &operation.path].into_iter().flatten() {
            let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
            let mut here = &mut opened;
            for part in parents.split('/').skip(1).take(DEEPEST) {
                let key = part.replace("~1", "/").replace("~0", "~");
                if here.get(&key).is_none() {
                    here.set(&key, Value::object());
                }
                let Some(next) = here.get_mut(&key) else { break };
                here = next;
            }
        }
    }
    opened
}

/// Shows what became of `live`, of which the patch opened some.
pub(super) fn shown(value: &Value, live: &Value, opened: &Value, types: &Types, root: TypeId) -> String {
    let mut out = Vec::new();
    write(value, Some(live), Some(opened), (types, Some(root)), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn write(
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
                let of_field = match shape {
                    Some(Type::Struct(fields)) => fields.field(key).map(|field| field.ty),
                    Some(Type::Map(map)) => Some(map.value),
                    _ => None,
                };
                write(value, live.and_then(|live| live.get(key)), opened.get(key), (types, of_field), out);
            }
            out.push(b'}');
        }
        (Value::Array(items), Some(opened), _) => {
            let of_item = match shape {
                Some(Type::List(list)) => Some(list.item),
                _ => None,
            };
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                let before = live.and_then(|live| live.as_array()?.get(i));
                write(item, before, opened.get(&i.to_string()), (types, of_item), out);
            }
            out.push(b']');
        }
        (value, _, Some(ty)) if live == Some(value) => encode_typed(value, types, ty, out),
        (value, _, _) => encode_into(value, out),
    }
}
