//! JSON Merge Patch: the RFC's cases, upstream's deviations, and the algebra of diffs.

use pintle_patch::{check_merge_patch, merge_patch};
use pintle_value::{Object, Str, Value, print};
use proptest::prelude::*;

#[track_caller]
fn check(document: &str, patch: &str, expect: &str) {
    let read = |text: &str| serde_json::from_str::<Value>(text).expect(text);
    let patch = read(patch);
    let result = check_merge_patch(&patch).and_then(|()| merge_patch(read(document), patch));
    assert_eq!(result.map_or_else(|e| e.to_string(), |v| print::json(&v)), expect);
}

#[test]
fn cases() {
    for (document, patch, expect) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1,null]}"#, r#"{"a":[1,null]}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        (r#"{"a":null}"#, r#"{"a":{"b":null,"c":1}}"#, r#"{"a":{"c":1}}"#),
        (r#"{"a":[]}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{}]}"#),
        (r#"{"a":{}}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{"b":null}]}"#),
        ("{}", "null", "Invalid JSON Patch"),
        (
            "{}",
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        check(document, patch, expect);
    }
}

/// The patch that makes one object into another.
fn diff(from: &Object, to: &Object) -> Object {
    let removed = from.keys().filter(|key| !to.contains_key(key)).map(|key| (Str::from(key), Value::Null));
    let changed = to.iter().filter_map(|(key, new)| match (from.get(key), new) {
        (Some(old), new) if old == new => None,
        (Some(Value::Object(old)), Value::Object(new)) => Some((Str::from(key), Value::Object(diff(old, new)))),
        _ => Some((Str::from(key), new.clone())),
    });
    removed.chain(changed).collect()
}

fn objects() -> impl Strategy<Value = Object> {
    let leaf = prop_oneof![Just(Value::Int(1)), Just(Value::from("x")), Just(Value::Array(vec![Value::Int(2)]))];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop::collection::vec(("[abc]", inner), 0..4)
            .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
    });
    prop::collection::vec(("[abcd]", value), 0..5).prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #[test]
    fn the_patch_of_a_diff_gives_the_target(from in objects(), to in objects()) {
        let patch = Value::Object(diff(&from, &to));
        prop_assert_eq!(merge_patch(Value::Object(from), patch).expect("a result"), Value::Object(to));
    }

    #[test]
    fn applying_twice_changes_nothing_more(from in objects(), patch in objects()) {
        let once = merge_patch(Value::Object(from), Value::Object(patch.clone())).expect("a result");
        let twice = merge_patch(once.clone(), Value::Object(patch)).expect("a result");
        prop_assert_eq!(once, twice);
    }
}

/// Neither adding nor removing many fields of a large object may take time that grows with their product.
#[test]
fn large_patches_of_large_objects() {
    let fields = |from: usize, value: &Value| -> Value {
        Value::Object((from..from + 100_000).map(|i| (format!("k{i:07}"), value.clone())).collect())
    };
    let document = fields(100_000, &Value::Int(1));
    let both = merge_patch(document.clone(), fields(0, &Value::Int(2))).expect("a result");
    assert_eq!(both.as_object().map(Object::len), Some(200_000));
    let none = merge_patch(document, fields(100_000, &Value::Null)).expect("a result");
    assert_eq!(none, Value::object());
}
