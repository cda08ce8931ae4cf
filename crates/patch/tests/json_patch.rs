//! JSON Patch: what each operation does, and what it says when it cannot.

use pintle_patch::{JsonPatch, MAX_OPERATIONS, PatchErrorKind};
use pintle_value::{Value, print};

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Applies a patch and prints the result or the error.
#[track_caller]
fn check(document: &str, patch: &str, expect: &str) {
    let result = JsonPatch::decode(&read(patch), true).and_then(|p| p.apply(read(document)));
    let found = result.map_or_else(|e| e.to_string(), |v| print::json(&v));
    assert_eq!(found, expect, "{document} {patch}");
}

#[test]
fn operations() {
    for (document, patch, expect) in [
        (r#"{"a":1}"#, "[]", r#"{"a":1}"#),
        (r#"{"a":1}"#, "null", r#"{"a":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":{"c":[]}}]"#, r#"{"a":1,"b":{"c":[]}}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b"}]"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"add","path":"/a/-1","value":3}]"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"remove","path":"/a/-2"}]"#, r#"{"a":[2]}"#),
        (r#"{"a":{"x/y~z":1}}"#, r#"[{"op":"remove","path":"/a/x~1y~0z"}]"#, r#"{"a":{}}"#),
        (r#"{"~1":1}"#, r#"[{"op":"remove","path":"/~01"}]"#, "{}"),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, r#"{"a":2}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/new","value":2}]"#, r#"{"a":1,"new":2}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"replace","path":"/a/+1","value":3}]"#, r#"{"a":[1,3]}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":2}}]"#, r#"{"b":2}"#),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a/b","path":"/c"}]"#, r#"{"a":{},"c":1}"#),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"copy","from":"/a","path":"/a/c"}]"#, r#"{"a":{"b":1,"c":{"b":1}}}"#),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/x","path":"/y"}]"#, r#"{"a":1,"y":null}"#),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/x","value":null},{"op":"test","path":"/x"}]"#, r#"{"a":1}"#),
        (r#"{"a":{"b":[1]}}"#, r#"[{"op":"test","path":"","value":{"a":{"b":[1]}}}]"#, r#"{"a":{"b":[1]}}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"ignored/b","value":2}]"#, r#"{"a":1,"b":2}"#),
    ] {
        check(document, patch, expect);
    }
}

#[test]
fn what_cannot_be_applied() {
    for (document, patch, expect) in [
        ("{}", r#"[{"op":"frob"}]"#, "Unexpected kind: frob"),
        ("{}", "[null]", "Unexpected kind: unknown"),
        ("{}", r#"[{"op":"add","value":1}]"#, "add operation failed to decode path: missing value"),
        (
            "{}",
            r#"[{"op":"add","path":"b"}]"#,
            r#"add operation does not apply: doc is missing path: "b": missing value"#,
        ),
        (
            r#"{"a":null}"#,
            r#"[{"op":"add","path":"/a/b","value":3}]"#,
            r#"add operation does not apply: doc is missing path: "/a/b": missing value"#,
        ),
        (
            r#"{"a":[]}"#,
            r#"[{"op":"add","path":"/a/x"}]"#,
            "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            r#"{"a":[]}"#,
            r#"[{"op":"add","path":"/a/1"}]"#,
            "error in add for path: '/a/1': Unable to access invalid index: 1: invalid index referenced",
        ),
        (
            "{}",
            r#"[{"op":"remove","path":"/x"}]"#,
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            r#"{"a":[1]}"#,
            r#"[{"op":"replace","path":"/a/1","value":3}]"#,
            "replace operation does not apply: doc is missing key: /a/1: missing value",
        ),
        (
            r#"{"a":{"b":1}}"#,
            r#"[{"op":"move","from":"/a","path":"/a/b"}]"#,
            "move operation does not apply: doc is missing destination path: /a/b: missing value",
        ),
        (
            "{}",
            r#"[{"op":"move","path":"/x"}]"#,
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":2}]"#, "testing value /a failed: test failed"),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":1.0}]"#, "testing value /a failed: test failed"),
        (
            r#"{"a":1}"#,
            r#"[{"op":"test","path":"/b/c","value":1}]"#,
            "test operation does not apply: is missing path: /b/c: missing value",
        ),
    ] {
        check(document, patch, expect);
        let patch = JsonPatch::decode(&read(patch), true).expect("a patch");
        assert_eq!(patch.apply(read(document)).expect_err("an error").kind, PatchErrorKind::NotApplicable);
    }
}

#[test]
fn what_is_no_patch() {
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
    let unknown = JsonPatch::decode(&read(r#"[{"op":"add","Path":"/a","x":1}]"#), true).expect("a patch").unknown;
    assert_eq!(unknown, [r#"json patch unknown field "[0].Path""#, r#"json patch unknown field "[0].x""#]);
    let many = Value::Array(vec![Value::object(); MAX_OPERATIONS + 1]);
    let error = JsonPatch::decode(&many, true).expect_err("too many");
    assert_eq!(error.kind, PatchErrorKind::TooLarge);
    assert_eq!(error.message, "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_are_bounded_in_size_and_depth() {
    let bomb = |op: &str| format!("[{}]", vec![op; 30].join(","));
    // Each copies the object into itself, so that it doubles.
    let error = |document: &str, patch: &str| {
        JsonPatch::decode(&read(patch), true).and_then(|p| p.apply(read(document))).expect_err("an error").message
    };
    let wide = bomb(r#"{"op":"copy","from":"/a","path":"/a/-"}"#);
    assert!(error(r#"{"a":["0123456789"]}"#, &wide).starts_with("Unable to complete the copy"));
    // Copying to the same place again and again does not nest.
    let flat = bomb(r#"{"op":"copy","from":"/a","path":"/b"}"#);
    assert!(JsonPatch::decode(&read(&flat), true).and_then(|p| p.apply(read(r#"{"a":{"b":1}}"#))).is_ok());
    // Each of these puts the whole object at its own deepest place.
    let deep: Vec<String> = (0..12)
        .map(|i| {
            let path = "/a".repeat(1 << i);
            format!(r#"{{"op":"add","path":"{path}","value":{{}}}},{{"op":"copy","from":"/a","path":"{path}/a"}}"#)
        })
        .collect();
    assert_eq!(error(r#"{"a":{}}"#, &format!("[{}]", deep.join(","))), "exceeded max depth");
}
