//! Tests of JSON Merge Patch: the RFC's cases, upstream's deviations, and properties of diffs. The table has three
//! lines per case: the document, `+` the patch, and `=` the result or `!` the error.

use pintle_patch::{PatchErrorKind, check_merge_patch, merge_patch};
use pintle_value::{Object, Str, Value, print};
use proptest::prelude::*;

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

#[test]
fn patches_give_the_expected_results() {
    pintle_scenarios::check(include_str!("cases.txt"), &['=', '!'], |lines| {
        let [document, patch] = *lines else { panic!("an incomplete scenario: {lines:?}") };
        vec![match merge_patch(read(document), read(patch.trim_start_matches("+ "))) {
            Ok(value) => format!("= {}", print::json(&value)),
            Err(error) => format!("! {error}"),
        }]
    });
}

#[test]
fn patches_that_are_not_objects_are_rejected() {
    for (patch, shape) in [("[]", "array"), ("1", "number"), (r#""x""#, "string"), ("false", "bool")] {
        let error = check_merge_patch(&read(patch)).expect_err(patch);
        let expect = format!(
            "error decoding patch: json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}"
        );
        assert_eq!((error.kind, error.message), (PatchErrorKind::Malformed, expect), "{patch}");
    }
    // Null is rejected only when the patch is applied.
    assert_eq!(check_merge_patch(&Value::Null), Ok(()));
}

/// The patch that turns one object into another.
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
    fn patch_of_a_diff_gives_the_target(from in objects(), to in objects()) {
        let patch = Value::Object(diff(&from, &to));
        prop_assert_eq!(merge_patch(Value::Object(from), patch).expect("a result"), Value::Object(to));
    }

    #[test]
    fn applying_twice_gives_the_same_result(from in objects(), patch in objects()) {
        let once = merge_patch(Value::Object(from), Value::Object(patch.clone())).expect("a result");
        let twice = merge_patch(once.clone(), Value::Object(patch)).expect("a result");
        prop_assert_eq!(once, twice);
    }
}

/// The time for adding and removing many fields of a large object must not be proportional to the product of their
/// sizes.
#[test]
fn large_patches_of_large_objects_are_merged_in_linear_time() {
    let fields = |from: usize, value: &Value| -> Value {
        Value::Object((from..from + 100_000).map(|i| (format!("k{i:07}"), value.clone())).collect())
    };
    let document = fields(100_000, &Value::Int(1));
    let both = merge_patch(document.clone(), fields(0, &Value::Int(2))).expect("a result");
    assert_eq!(both.as_object().map(Object::len), Some(200_000));
    let none = merge_patch(document, fields(100_000, &Value::Null)).expect("a result");
    assert_eq!(none, Value::object());
}
