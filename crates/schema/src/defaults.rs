//! Static defaults: the values that Go's generated defaulting functions set from `+default` markers.

use pintle_budget as budget;
use pintle_value::Value;

use crate::{Field, Type, TypeId, Types, UnionKind};

/// Sets the declared defaults of fields that are absent (pointers) or zero (other fields), in this value and all values
/// below it. Structs behind nil pointers stay absent.
pub fn static_defaults(types: &Types, type_id: TypeId, value: &mut Value) {
    static_defaults_of_changed(types, type_id, value, None);
}

/// Like [`static_defaults`], for a value that was made by changing `live`. `live` already has its defaults, so parts
/// that both share need none.
pub fn static_defaults_of_changed(types: &Types, type_id: TypeId, value: &mut Value, live: Option<&Value>) {
    if !types.has_defaults(type_id) || live.is_some_and(|live| value.shares_members(live)) {
        return;
    }
    match (types.get(type_id), value) {
        (Type::Struct(ty), Value::Object(object)) => {
            for field in ty.fields.iter().filter(|field| field.default.is_some() || types.has_defaults(field.ty)) {
                let value = object.get(&field.name);
                if let Some(default) = &field.default
                    && value.is_none_or(|value| is_unset(types, field, value))
                {
                    // The default may itself be a struct with defaults, often the empty struct.
                    let mut default = default.clone();
                    static_defaults(types, field.ty, &mut default);
                    // A default that is the zero value changes nothing in Go.
                    if types.is_encoded(field, &default) && budget::charge(default.held_bytes()).is_ok() {
                        object.insert(field.name.clone(), default);
                    }
                } else if value.is_some_and(|value| !value.is_null()) {
                    if types.has_defaults(field.ty) {
                        let live = live.and_then(|live| live.get(&field.name));
                        let set = &mut |value: &mut Value| static_defaults_of_changed(types, field.ty, value, live);
                        object.change(&field.name, set);
                    }
                } else if !field.pointer && matches!(types.get(field.ty), Type::Struct(_)) {
                    // In Go a struct that is not a pointer always exists, even if the JSON lacks it.
                    let mut value = Value::object();
                    static_defaults(types, field.ty, &mut value);
                    if !value.is_empty() {
                        object.insert(field.name.clone(), value);
                    }
                }
            }
        }
        (Type::Map(map), Value::Object(object)) => {
            for (_, value, live) in object.iter_mut_beside(live.and_then(Value::as_object)) {
                static_defaults_of_changed(types, map.value, value, live);
            }
        }
        (Type::List(list), Value::Array(items)) => {
            let live = live.map_or(&[][..], |live| live.items_at(&[]));
            for (i, item) in items.iter_mut().enumerate() {
                static_defaults_of_changed(types, list.item, item, live.get(i));
            }
        }
        (Type::Union(union), value @ Value::Object(_)) => static_defaults(types, union.schema, value),
        (Type::Union(union), Value::Array(items)) if union.kind == UnionKind::SchemaOrArray => {
            for item in items {
                static_defaults(types, union.schema, item);
            }
        }
        _ => {}
    }
}

/// True if Go's defaulting treats a field as unset.
fn is_unset(types: &Types, field: &Field, value: &Value) -> bool {
    if field.pointer { value.is_null() } else { value.is_null() || *value == types.zero(field.ty) }
}
