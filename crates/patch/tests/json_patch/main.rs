//! Tests of JSON Patch operations and their errors. The table has three lines per case: the document, `+` the patch,
//! and `=` the result or `!` the error.

use pintle_patch::{JsonPatch, MAX_OPERATIONS, PatchError, PatchErrorKind};
use pintle_value::{Object, Value, print};
use proptest::prelude::*;

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn apply(document: Value, patch: &Value) -> Result<Value, PatchError> {
    JsonPatch::decode(patch, true).and_then(|patch| patch.apply(document))
}

#[test]
fn operations_give_the_expected_results() {
    pintle_scenarios::check(include_str!("operations.txt"), &['=', '!'], |lines| {
        let [document, patch] = *lines else { panic!("an incomplete scenario: {lines:?}") };
        vec![match apply(read(document), &read(patch.trim_start_matches("+ "))) {
            Ok(value) => format!("= {}", print::json(&value)),
            Err(error) => {
                let message = error.to_string();
                let is_test = message.ends_with("test failed");
                let kind = if is_test { PatchErrorKind::TestFailed } else { PatchErrorKind::NotApplicable };
                assert_eq!(error.kind, kind, "{patch}");
                format!("! {message}")
            }
        }]
    });
}

#[test]
fn malformed_patches_are_rejected() {
    for (patch, typed, untyped) in [
        (
            r#"{"op":"remove"}"#,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
        (
            r#"[{"op":true}]"#,
            "error decoding patch: json: cannot unmarshal bool into Go struct field jsonPatchOp.op of type string",
            "",
        ),
    ] {
        for (expect, is_typed) in [(typed, true), (untyped, false)] {
            match JsonPatch::decode(&read(patch), is_typed) {
                Err(e) => assert_eq!((e.message.as_str(), e.kind), (expect, PatchErrorKind::Malformed)),
                Ok(_) => assert_eq!(expect, ""),
            }
        }
    }
    let unknown_fields =
        JsonPatch::decode(&read(r#"[{"op":"add","Path":"/a","x":1}]"#), true).expect("a patch").unknown_fields;
    assert_eq!(unknown_fields, [r#"json patch unknown field "[0].Path""#, r#"json patch unknown field "[0].x""#]);
    let many = Value::Array(vec![Value::object(); MAX_OPERATIONS + 1]);
    let error = JsonPatch::decode(&many, true).expect_err("too many");
    assert_eq!(error.kind, PatchErrorKind::TooLarge);
    assert_eq!(error.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn size_and_depth_of_copies_are_limited() {
    let bomb = |op: &str| format!("[{}]", vec![op; 30].join(","));
    // Each operation copies the object into itself, which doubles its size.
    let error = |document: &str, patch: &str| {
        JsonPatch::decode(&read(patch), true).and_then(|p| p.apply(read(document))).expect_err("an error").message
    };
    let wide = bomb(r#"{"op":"copy","from":"/a","path":"/a/-"}"#);
    assert!(error(r#"{"a":["0123456789"]}"#, &wide).starts_with("Unable to complete the copy"));
    // Repeatedly copying to the same path does not increase the depth.
    let flat = bomb(r#"{"op":"copy","from":"/a","path":"/b"}"#);
    assert!(JsonPatch::decode(&read(&flat), true).and_then(|p| p.apply(read(r#"{"a":{"b":1}}"#))).is_ok());
    // Each pair puts the whole object at its own deepest path.
    let deep: Vec<String> = (0..12)
        .map(|i| {
            let path = "/a".repeat(1 << i);
            format!(r#"{{"op":"add","path":"{path}","value":{{}}}},{{"op":"copy","from":"/a","path":"{path}/a"}}"#)
        })
        .collect();
    assert_eq!(error(r#"{"a":{}}"#, &format!("[{}]", deep.join(","))), "exceeded max depth");
}

/// Small values with the keys of the paths below.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), Just(Value::Int(1)), Just(Value::from("x")), Just(Value::Float(1.5))];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec(("[ab01~/-]{0,2}", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Object>())),
        ]
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let path = || "(/(a|b|0|1|-|-1|~0|~1|aa|01|x)?){0,4}";
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "other"]);
    (op, path(), path(), prop::option::of(values())).prop_map(|(op, path, from, value)| {
        let mut operation = pintle_value::object! {"op": op, "path": path, "from": from};
        if let Some(value) = value {
            operation.set("value", value);
        }
        operation
    })
}

proptest! {
    #[test]
    fn random_patches_never_panic(document in values(), operations in prop::collection::vec(operation(), 0..8)) {
        let _ = apply(document, &Value::Array(operations));
    }

    #[test]
    fn malformed_patches_never_panic(document in values(), patch in values()) {
        for typed in [true, false] {
            let _ = JsonPatch::decode(&patch, typed).and_then(|patch| patch.apply(document.clone()));
        }
    }

    #[test]
    fn operations_are_applied_in_order(
        document in values(),
        operations in prop::collection::vec(operation(), 0..6),
    ) {
        let one_by_one = operations
            .iter()
            .try_fold(document.clone(), |document, operation| apply(document, &Value::Array(vec![operation.clone()])));
        prop_assert_eq!(apply(document, &Value::Array(operations)), one_by_one);
    }

    #[test]
    fn added_values_can_be_tested_and_removed(document in values(), value in values()) {
        prop_assume!(document.as_object().is_some_and(|object| !object.contains_key("new")));
        let place = |op: &str| pintle_value::object! {"op": op, "path": "/new", "value": value.clone()};
        let patch = Value::Array(["add", "test", "replace", "test", "remove"].map(place).to_vec());
        prop_assert_eq!(apply(document.clone(), &patch), Ok(document));
    }
}
