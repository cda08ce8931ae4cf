//! Properties of all schemas and values, valid or not: nothing panics, decoding and defaulting are idempotent, and
//! unchanged values add no errors.

mod generators;

use generators::{schemas, values};
use pintle_extensions::schema::{StructuralSchema, to_types};
use pintle_value::metadata::MissingFields;
use pintle_value::{Object, Value};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(tree in prop_oneof![schemas(), values()], value in values(), old in values()) {
        if let Ok(schema) = StructuralSchema::parse(&tree) {
            let mut object = value.clone();
            let _ = schema.conform(&mut object);
            schema.default(&mut object);
            let _ = (schema.validate(&value), schema.validate_update(&value, &old));
            let _ = (schema.validate_embedded(&value, MissingFields::Invalid), schema.validate_lists(&value));
            let _ = to_types(&schema);
        }
    }

    #[test]
    fn decoding_is_idempotent(tree in schemas(), value in values()) {
        if let Ok(schema) = StructuralSchema::parse(&tree) {
            let mut once = value;
            if schema.conform(&mut once).is_ok() {
                let mut twice = once.clone();
                prop_assert_eq!(schema.conform(&mut twice), Ok(Vec::new()));
                prop_assert_eq!(twice, once);
            }
        }
    }

    #[test]
    fn defaulting_is_idempotent(tree in schemas(), value in values()) {
        if let Ok(schema) = StructuralSchema::parse(&tree) {
            let mut once = value;
            schema.prune(&mut once);
            schema.default(&mut once);
            let mut twice = once.clone();
            schema.default(&mut twice);
            prop_assert_eq!(&twice, &once);
        }
    }

    #[test]
    fn unchanged_values_add_no_errors(tree in schemas(), value in values()) {
        if let Ok(schema) = StructuralSchema::parse(&tree) {
            let new = schema.validate(&value);
            // Each error of an update is an error of the same new object, too.
            for error in &schema.validate_update(&value, &value) {
                prop_assert!(new.iter().any(|other| other == error), "{}", error);
            }
        }
    }
}

/// Uses the maximum nesting of request bodies, on the stack size of the server's threads.
#[test]
fn deeply_nested_values_do_not_overflow_the_stack() {
    const STACK: usize = 64 << 20;
    const MAX_DEPTH: usize = 10_000;
    let check = || {
        let object = |name: &str, value: Value| Value::Object(Object::from_iter([(name, value)]));
        // One level of a schema is two levels of its text.
        let tree = (0..MAX_DEPTH / 2).fold(Value::object(), |tree, _| object("properties", object("a", tree)));
        let schema = StructuralSchema::parse(&tree).expect("a schema");
        let fields = (0..MAX_DEPTH).fold(Value::Null, |value, _| object("a", value));
        let lists = object("a", (0..MAX_DEPTH).fold(Value::Null, |value, _| Value::Array(vec![value])));
        for mut value in [fields, lists] {
            let _ = (schema.validate(&value), schema.validate_update(&value, &value));
            let _ = (schema.validate_embedded(&value, MissingFields::Invalid), schema.validate_lists(&value));
            schema.conform(&mut value).expect("metadata is not there");
            schema.default(&mut value);
        }
        assert!(to_types(&schema).types.len() > MAX_DEPTH / 2);
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
    thread.join().expect("nothing overflows");
}

#[test]
fn many_errors_are_collected_in_linear_time() {
    let tree = serde_json::from_str(r#"{"properties":{"l":{"type":"array","items":{"type":"string"}}}}"#);
    let schema = StructuralSchema::parse(&tree.expect("JSON")).expect("a schema");
    let items = Value::Array(vec![Value::Int(1); 100_000]);
    let errors = schema.validate(&Value::Object(Object::from_iter([("l", items)])));
    assert_eq!(errors.count(), 100_000);
}
