//! What holds for every schema and every value, sensible or not: nothing panics, and doing it twice is doing it once.

use pintle_extensions::schema::{Schema, to_types};
use pintle_value::{Object, Str, Value};
use proptest::prelude::*;

const NAMES: &[&str] = &["a", "b", "metadata", "kind", "apiVersion", "name", ""];

const KEYWORDS: &[&str] = &[
    "type",
    "nullable",
    "properties",
    "additionalProperties",
    "items",
    "required",
    "enum",
    "default",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxProperties",
    "uniqueItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

fn object(keys: &'static [&'static str], values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    let entry = (prop::sample::select(keys), values);
    prop::collection::vec(entry, 0..6)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
        .boxed()
}

fn scalars() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![any::<i64>(), -3_i64..12].prop_map(Value::Int),
        prop_oneof![any::<f64>().prop_filter("JSON has none", |x| x.is_finite()), Just(0.5), Just(2.0)]
            .prop_map(Value::Float),
        prop_oneof!["[a-c]{0,3}", "\\PC{0,6}", Just("2020-01-01T00:00:00Z".to_owned())].prop_map(Value::from),
    ]
    .boxed()
}

fn values() -> BoxedStrategy<Value> {
    scalars()
        .prop_recursive(4, 40, 5, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array), object(NAMES, inner)]
        })
        .boxed()
}

/// A keyword with something that may stand there.
fn keyword(schema: BoxedStrategy<Value>) -> BoxedStrategy<(Str, Value)> {
    let list = |values: BoxedStrategy<Value>| prop::collection::vec(values, 0..3).prop_map(Value::Array).boxed();
    let text = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(Value::from).boxed();
    prop::sample::select(KEYWORDS)
        .prop_flat_map(move |keyword| {
            let value = match keyword {
                "type" => text(&["object", "array", "string", "integer", "number", "boolean", "null"]),
                "properties" => object(NAMES, schema.clone()),
                "additionalProperties" => prop_oneof![schema.clone(), any::<bool>().prop_map(Value::Bool)].boxed(),
                "items" | "not" => schema.clone(),
                "anyOf" | "oneOf" | "allOf" => list(schema.clone()),
                "required" | "x-kubernetes-list-map-keys" => list(text(NAMES)),
                "enum" => list(values()),
                "format" => text(&["date", "date-time", "int32", "float", "email", "hostname", "duration", "uri"]),
                "pattern" => text(&["^a+$", "(", "\\d", ""]),
                "x-kubernetes-list-type" => text(&["set", "map", "atomic"]),
                "x-kubernetes-preserve-unknown-fields" => Just(Value::Bool(true)).boxed(),
                _ => prop_oneof![scalars(), Just(Value::Bool(true))].boxed(),
            };
            value.prop_map(move |value| (Str::from(keyword), value))
        })
        .boxed()
}

fn schemas() -> BoxedStrategy<Value> {
    let leaf = Just(Value::object()).boxed();
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..6)
            .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
    })
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(tree in prop_oneof![schemas(), values()], value in values(), old in values()) {
        if let Ok(schema) = Schema::parse(&tree) {
            let mut object = value.clone();
            let _ = schema.conform(&mut object);
            schema.default(&mut object);
            let _ = (schema.validate(&value), schema.validate_update(&value, &old));
            let _ = (schema.validate_embedded(&value), schema.validate_lists(&value));
            let _ = to_types(&schema);
        }
    }

    #[test]
    fn reading_twice_is_reading_once(tree in schemas(), value in values()) {
        if let Ok(schema) = Schema::parse(&tree) {
            let mut once = value;
            if schema.conform(&mut once).is_ok() {
                let mut twice = once.clone();
                prop_assert_eq!(schema.conform(&mut twice), Ok(Vec::new()));
                prop_assert_eq!(twice, once);
            }
        }
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(tree in schemas(), value in values()) {
        if let Ok(schema) = Schema::parse(&tree) {
            let mut once = value;
            schema.prune(&mut once);
            schema.default(&mut once);
            let mut twice = once.clone();
            schema.default(&mut twice);
            prop_assert_eq!(&twice, &once);
        }
    }

    #[test]
    fn what_has_not_changed_is_let_through(tree in schemas(), value in values()) {
        if let Ok(schema) = Schema::parse(&tree) {
            let new = schema.validate(&value);
            // Nothing is wrong with an update that would not be wrong with a new object.
            for error in schema.validate_update(&value, &value).0 {
                prop_assert!(new.0.contains(&error), "{}", error);
            }
        }
    }
}

/// As deep as bodies may nest, on the stack that the server gives its threads.
#[test]
fn depth_is_no_danger() {
    const STACK: usize = 64 << 20;
    const DEEPEST: usize = 10_000;
    let check = || {
        let object = |name: &str, value: Value| Value::Object(Object::from_iter([(name, value)]));
        // A level of a schema is two levels of its text.
        let tree = (0..DEEPEST / 2).fold(Value::object(), |tree, _| object("properties", object("a", tree)));
        let schema = Schema::parse(&tree).expect("a schema");
        let fields = (0..DEEPEST).fold(Value::Null, |value, _| object("a", value));
        let lists = object("a", (0..DEEPEST).fold(Value::Null, |value, _| Value::Array(vec![value])));
        for mut value in [fields, lists] {
            let _ = (schema.validate(&value), schema.validate_update(&value, &value));
            let _ = (schema.validate_embedded(&value), schema.validate_lists(&value));
            schema.conform(&mut value).expect("metadata is not there");
            schema.default(&mut value);
        }
        assert!(to_types(&schema).types.len() > DEEPEST / 2);
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
    thread.join().expect("nothing overflows");
}

#[test]
fn many_errors_are_found_in_time() {
    let tree = serde_json::from_str(r#"{"properties":{"l":{"type":"array","items":{"type":"string"}}}}"#);
    let schema = Schema::parse(&tree.expect("JSON")).expect("a schema");
    let items = Value::Array(vec![Value::Int(1); 100_000]);
    let errors = schema.validate(&Value::Object(Object::from_iter([("l", items)])));
    assert_eq!(errors.0.len(), 100_000);
}
