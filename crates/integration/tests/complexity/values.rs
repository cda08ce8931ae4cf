//! Values of any type, numbered so that no two are equal.

use pintle_schema::{Field, List, ListTopology, Scalar, Type, TypeId, Types};
use pintle_value::{Object, Str, Value};

/// A struct with more structs, lists and maps than this counts as a union, and its value has scalars only. The other
/// members would make each item so large that they dominate the measurement.
const MAX_NESTED: usize = 6;

/// The value with a number.
pub(crate) fn value(types: &Types, id: TypeId, number: usize) -> Value {
    generate(types, id, number, 0)
}

fn generate(types: &Types, id: TypeId, number: usize, depth: usize) -> Value {
    match types.get(id) {
        Type::Scalar(scalar) => match (scalar.kind, &scalar.values) {
            (_, Some(known)) if !known.values.is_empty() => known.values[number % known.values.len()].as_str().into(),
            (Scalar::Bool, _) => true.into(),
            (Scalar::Quantity, _) => format!("{number}").into(),
            (Scalar::Time | Scalar::MicroTime, _) => "2024-05-01T10:00:00Z".into(),
            (Scalar::Duration, _) => "1s".into(),
            (Scalar::Bytes, _) => "YQ==".into(),
            (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, _) => Value::object(),
            (Scalar::String, _) => format!("v{number}").into(),
            (Scalar::IntOrString | Scalar::Float64, _) => (number as i64 + 1).into(),
            (kind, _) => {
                let largest = kind.range().map_or(i64::MAX, |(_, largest)| largest);
                (number as i64 + 1).min(largest).into()
            }
        },
        Type::Struct(ty) => {
            let is_scalar = |field: &Field| matches!(types.get(field.ty), Type::Scalar(_));
            let nested = ty.fields.iter().filter(|field| !is_scalar(field)).count();
            let has_nested = depth == 0 && nested <= MAX_NESTED || depth == 1 && nested <= 2;
            let fields = ty.fields.iter().filter(|field| has_nested || is_scalar(field));
            let fields = fields.map(|field| (field.name.clone(), generate(types, field.ty, number, depth + 1)));
            Value::Object(Object::from_entries(fields.collect()))
        }
        Type::Map(map) => {
            let entry = (Str::from(format!("k{number}")), generate(types, map.value, number, depth + 1));
            Value::Object(Object::from_entries(vec![entry]))
        }
        Type::List(list) => Value::Array(vec![generate(types, list.item, number, depth + 1)]),
        Type::Union(union) => generate(types, union.schema, number, depth + 1),
        Type::Any => format!("v{number}").into(),
    }
}

/// The item with a number of a list whose sample has this first item.
pub(crate) fn item(types: &Types, list: &List, merge_key: &str, sample: Option<&Value>, number: usize) -> Value {
    let (Some(Value::Object(sample)), Type::Struct(ty)) = (sample, types.get(list.item)) else {
        return value(types, list.item, number);
    };
    let mut object = sample.clone();
    let keys: &[Str] = if let ListTopology::Map(keys) = &list.topology { keys } else { &[] };
    let is_key = |name: &str| keys.iter().any(|key| key == name) || name == merge_key;
    let has_key = ty.fields.iter().any(|field| is_key(&field.name));
    for field in &ty.fields {
        let is_text = matches!(types.get(field.ty), Type::Scalar(scalar) if scalar.values.is_none());
        if is_key(&field.name) || (!has_key && is_text && object.contains_key(&field.name)) {
            object.insert(field.name.clone(), value(types, field.ty, number));
        }
    }
    Value::Object(object)
}
