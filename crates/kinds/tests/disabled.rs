//! Tests that features that are alpha upstream are disabled here too: no new object of a served kind keeps a field of a
//! disabled feature.

use std::sync::Arc;

use pintle_gates::{EffectKind, Gates, all_effects};
use pintle_registry::StrategyContext;
use pintle_schema::{Scalar, Type, TypeId, Types};
use pintle_value::Value;
use pintle_value::time::Time;
use pintle_versions::{EffectiveVersion, Minor};

/// The maximum depth of the tested fields.
const MAX_DEPTH: usize = 14;

/// A step into an object: a field, a list item or a map value.
#[derive(Clone)]
enum PathStep {
    Field(String),
    Item,
    Key,
}

/// Returns the paths from a type to its fields with disabled feature gates. Recursive types are entered once.
fn collect_disabled_paths(
    types: &Types,
    id: TypeId,
    disabled: &[(TypeId, &str)],
    path: &mut Vec<PathStep>,
    entered: &mut Vec<TypeId>,
    found: &mut Vec<(Vec<PathStep>, Value)>,
) {
    if entered.contains(&id) || path.len() > MAX_DEPTH {
        return;
    }
    entered.push(id);
    match types.get(id) {
        Type::Struct(ty) => {
            for field in &ty.fields {
                path.push(PathStep::Field(field.name.to_string()));
                if disabled.contains(&(id, field.name.as_str())) {
                    found.push((path.clone(), example_value(types.get(field.ty))));
                } else {
                    collect_disabled_paths(types, field.ty, disabled, path, entered, found);
                }
                path.pop();
            }
        }
        Type::List(list) => {
            path.push(PathStep::Item);
            collect_disabled_paths(types, list.item, disabled, path, entered, found);
            path.pop();
        }
        Type::Map(map) => {
            path.push(PathStep::Key);
            collect_disabled_paths(types, map.value, disabled, path, entered, found);
            path.pop();
        }
        Type::Scalar(_) | Type::Union(_) | Type::Any => {}
    }
    entered.pop();
}

/// Returns an example value of a type.
fn example_value(ty: &Type) -> Value {
    match ty {
        Type::Scalar(scalar) if scalar.kind == Scalar::Bool => Value::Bool(true),
        Type::Scalar(scalar) if scalar.kind.range().is_some() => Value::from(1),
        Type::Scalar(_) => Value::from("x"),
        Type::List(_) => Value::Array(vec![Value::object()]),
        Type::Struct(_) | Type::Map(_) | Type::Union(_) | Type::Any => Value::object(),
    }
}

/// Returns an object with a value at the end of a path.
fn object_with(path: &[PathStep], leaf: Value) -> Value {
    path.iter().rev().fold(leaf, |inner, step| {
        let mut value = Value::object();
        match step {
            PathStep::Field(name) => value.set(name, inner),
            PathStep::Key => value.set("key", inner),
            PathStep::Item => return Value::Array(vec![inner]),
        }
        value
    })
}

fn value_at<'a>(value: &'a Value, path: &[PathStep]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        PathStep::Field(name) => value.get(name),
        PathStep::Key => value.get("key"),
        PathStep::Item => value.as_array()?.first(),
    })
}

fn path_text(path: &[PathStep]) -> String {
    let steps = path.iter().map(|step| match step {
        PathStep::Field(name) => format!(".{name}"),
        PathStep::Item => "[]".to_owned(),
        PathStep::Key => "{}".to_owned(),
    });
    steps.collect()
}

/// Checks that no new object of a built-in kind keeps a field of a feature that is off, and returns how many fields
/// there are.
fn check_new_objects(gates: Gates) -> usize {
    let catalog = pintle_catalog::complete_of(gates.version().binary());
    let gates = Arc::new(gates);
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
        allow_privileged: true,
    };
    let mut kept_fields = Vec::new();
    let mut checked = 0;
    let resources = pintle_kinds::all_resources_with(catalog, &context.gates);
    for resource in resources.iter().filter(|resource| resource.is_hub()) {
        let mut found = Vec::new();
        let schema = &resource.schema;
        collect_disabled_paths(&schema.types, schema.root, &disabled, &mut Vec::new(), &mut Vec::new(), &mut found);
        // Upstream drops no fields of claims in other objects, and declarative validation refuses one field.
        let is_own_field = |path: &[PathStep]| {
            let path = path_text(path);
            !path.contains("volumeClaimTemplate") && path != ".spec.defaultPartitionTypeAttribute"
        };
        for (path, leaf) in found.into_iter().filter(|(path, _)| is_own_field(path)) {
            checked += 1;
            let mut object = object_with(&path, leaf);
            resource.strategy.prepare_for_create(&context, &mut object);
            if value_at(&object, &path).is_some() {
                kept_fields.push(format!("{}: {}", resource.kind, path_text(&path)));
            }
        }
    }
    assert_eq!(kept_fields, Vec::<String>::new());
    checked
}

#[test]
fn new_objects_have_no_fields_of_disabled_features() {
    for (minor, by_default, all_off) in [(36, 70, 170), (37, 100, 200)] {
        let defaults = Gates::of(EffectiveVersion::of(Minor::new(minor)));
        let unlocked = defaults.states().filter(|(gate, _)| !gate.locked);
        let overrides = unlocked.map(|(gate, _)| (gate.name.to_owned(), false)).collect();
        let (off, _) = defaults.overridden(&overrides).expect("gates that can be disabled");
        let checked = check_new_objects(defaults);
        assert!(checked >= by_default, "only {checked} fields found in 1.{minor}");
        let checked = check_new_objects(off);
        assert!(checked >= all_off, "only {checked} fields found in 1.{minor}");
    }
}

#[test]
fn gates_have_fields_if_their_effect_says_so() {
    let locked = |name: &str| !Gates::default().states().any(|(gate, _)| gate.name == name && !gate.locked);
    let catalog = pintle_catalog::complete();
    let mut with_fields: Vec<&str> = catalog.gated_fields().iter().flat_map(|field| field.gates.clone()).collect();
    with_fields.extend(pintle_kinds::gates_of_fields());
    for effect in all_effects().iter().filter(|effect| !locked(effect.gate)) {
        let says_so = effect.kind == EffectKind::Fields;
        if says_so {
            assert!(with_fields.contains(&effect.gate), "{} has no fields", effect.gate);
        } else if pintle_kinds::gates_of_fields().any(|gate| gate == effect.gate) {
            panic!("{} has fields, but its effect is another", effect.gate);
        }
    }
}
