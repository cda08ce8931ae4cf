//! Tests that fields of features that are alpha upstream are disabled here too: no new object of a served kind keeps a
//! field of a disabled feature.

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::StrategyContext;
use pintle_schema::{Scalar, Type, TypeId, Types};
use pintle_value::Value;
use pintle_value::time::Time;

/// The maximum depth of the tested fields.
const DEPTH: usize = 14;

/// A step into an object: a field, a list item or a map value.
#[derive(Clone)]
enum Step {
    Field(String),
    Item,
    Key,
}

/// Returns the paths from a type to its fields with disabled feature gates. Recursive types are entered once.
fn ways(
    types: &Types,
    id: TypeId,
    disabled: &[(TypeId, &str)],
    way: &mut Vec<Step>,
    inside: &mut Vec<TypeId>,
    found: &mut Vec<(Vec<Step>, Value)>,
) {
    if inside.contains(&id) || way.len() > DEPTH {
        return;
    }
    inside.push(id);
    match types.get(id) {
        Type::Struct(ty) => {
            for field in &ty.fields {
                way.push(Step::Field(field.name.to_string()));
                if disabled.contains(&(id, field.name.as_str())) {
                    found.push((way.clone(), example(types.get(field.ty))));
                } else {
                    ways(types, field.ty, disabled, way, inside, found);
                }
                way.pop();
            }
        }
        Type::List(list) => {
            way.push(Step::Item);
            ways(types, list.item, disabled, way, inside, found);
            way.pop();
        }
        Type::Map(map) => {
            way.push(Step::Key);
            ways(types, map.value, disabled, way, inside, found);
            way.pop();
        }
        Type::Scalar(_) | Type::Union(_) | Type::Any => {}
    }
    inside.pop();
}

/// Returns an example value of a type.
fn example(ty: &Type) -> Value {
    match ty {
        Type::Scalar(scalar) if scalar.kind == Scalar::Bool => Value::Bool(true),
        Type::Scalar(scalar) if scalar.kind.range().is_some() => Value::from(1),
        Type::Scalar(_) => Value::from("x"),
        Type::List(_) => Value::Array(vec![Value::object()]),
        Type::Struct(_) | Type::Map(_) | Type::Union(_) | Type::Any => Value::object(),
    }
}

/// Returns an object with a value at the end of a path.
fn with(way: &[Step], leaf: Value) -> Value {
    way.iter().rev().fold(leaf, |inside, step| {
        let mut value = Value::object();
        match step {
            Step::Field(name) => value.set(name, inside),
            Step::Key => value.set("key", inside),
            Step::Item => return Value::Array(vec![inside]),
        }
        value
    })
}

fn at<'a>(value: &'a Value, way: &[Step]) -> Option<&'a Value> {
    way.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Key => value.get("key"),
        Step::Item => value.as_array()?.first(),
    })
}

fn shown(way: &[Step]) -> String {
    let steps = way.iter().map(|step| match step {
        Step::Field(name) => format!(".{name}"),
        Step::Item => "[]".to_owned(),
        Step::Key => "{}".to_owned(),
    });
    steps.collect()
}

#[test]
fn no_new_object_has_a_field_of_a_feature_that_is_off() {
    let catalog = pintle_catalog::shared();
    let gates = Arc::new(Gates::default());
    let off = catalog.gated_fields().iter().filter(|field| field.is_disabled(&gates));
    let disabled: Vec<(TypeId, &str)> = off.map(|field| (field.owner, field.field)).collect();
    let context = StrategyContext {
        now: Time::default(),
        user: "u".into(),
        uid: "".into(),
        groups: Vec::new(),
        extra: Vec::new(),
        dry_run: false,
        gates,
    };
    let mut kept = Vec::new();
    let mut looked = 0;
    for resource in pintle_kinds::resources(catalog).iter().filter(|resource| resource.is_hub()) {
        let mut found = Vec::new();
        let schema = &resource.schema;
        ways(&schema.types, schema.root, &disabled, &mut Vec::new(), &mut Vec::new(), &mut found);
        // Claims in other objects are not tested, because it is unknown whether upstream drops their fields.
        let whole = |way: &[Step]| !shown(way).contains("volumeClaimTemplate");
        for (way, leaf) in found.into_iter().filter(|(way, _)| whole(way)) {
            looked += 1;
            let mut object = with(&way, leaf);
            resource.strategy.prepare_for_create(&context, &mut object);
            if at(&object, &way).is_some() {
                kept.push(format!("{}: {}", resource.kind, shown(&way)));
            }
        }
    }
    assert!(looked >= 70, "only {looked} fields found");
    assert_eq!(kept, Vec::<String>::new());
}
