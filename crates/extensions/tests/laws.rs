//! What holds for every schema and every value, sensible or not: nothing panics, and doing it twice is doing it once.

mod trees;

use pintle_extensions::schema::{Schema, to_types};
use pintle_value::{Object, Value};
use proptest::prelude::*;
use trees::{schemas, values};

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
