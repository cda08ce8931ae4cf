//! Tests that the defaulted and prepared object of every built-in kind equals Go's encoding. For example, it has no
//! zero in a field that Go omits when it is empty. Both happen after an object was normalised, so nothing removes such
//! a field later.

use pintle_registry::StrategyContext;
use pintle_schema::{Problems, Schema, Type, TypeId, Types, normalise, static_defaults};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

/// An object with all structs that a type can contain, lists and maps with one item, and no scalars.
fn skeleton(types: &Types, id: TypeId, enclosing: &mut Vec<TypeId>) -> Option<Value> {
    match types.get(id) {
        Type::Struct(_) if enclosing.contains(&id) => Some(Value::object()),
        Type::Struct(ty) => {
            enclosing.push(id);
            let fields =
                ty.fields.iter().filter_map(|field| Some((field.name.clone(), skeleton(types, field.ty, enclosing)?)));
            let object: Object = fields.collect();
            enclosing.pop();
            Some(Value::Object(object))
        }
        Type::List(list) => Some(vec![skeleton(types, list.item, enclosing)?].into()),
        Type::Map(map) => Some(Value::Object([("a", skeleton(types, map.value, enclosing)?)].into_iter().collect())),
        Type::Scalar(_) | Type::Union(_) | Type::Any => None,
    }
}

fn normalised(schema: &Schema, mut value: Value) -> Value {
    normalise(&schema.types, schema.root, &mut value, &mut Problems::default());
    value
}

fn context() -> StrategyContext {
    StrategyContext {
        now: Time { seconds: 1_700_000_000, nanos: 0 },
        user: "admin".into(),
        uid: "".into(),
        groups: vec!["system:masters".into()],
        extra: Vec::new(),
        dry_run: false,
        gates: Default::default(),
        allow_privileged: true,
    }
}

#[test]
fn defaulted_objects_are_in_normal_form() {
    let mut failures = Vec::new();
    for resource in pintle_kinds::all_resources(pintle_catalog::complete()) {
        let schema: &Schema = &resource.schema;
        let full = skeleton(&schema.types, schema.root, &mut Vec::new()).expect("a struct");
        for sent in [Value::object(), full] {
            let mut check = |object: &Value| {
                let expect = normalised(schema, object.clone());
                if *object != expect {
                    failures.push(format!("{resource:?}\n  {}\n  {}", to_text(object), to_text(&expect)));
                }
            };
            let mut object = normalised(schema, sent);
            static_defaults(&schema.types, schema.root, &mut object);
            resource.strategy.defaults(&mut object);
            if resource.is_hub() {
                let sent = object.clone();
                object.set_at(&["metadata", "uid"], "5f0b9e1c-6a75-4d0c-9e5d-3c0d1f6b8a11");
                resource.strategy.prepare_for_create(&context(), &mut object);
                // An update of the object, with other content, is checked after its preparation.
                let mut updated = sent;
                resource.strategy.prepare_for_update(&context(), &mut updated, &object);
                check(&updated);
            }
            check(&object);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn to_text(value: &Value) -> String {
    serde_json::to_string(value).expect("a tree")
}
