//! Patches. An input is a document and a patch, separated by a zero byte.

use pintle_codec::json::{self, DecodeOptions};
use pintle_patch::{JsonPatch, check_merge_patch, validate_strategic_merge_patch};
use pintle_value::Value;

fn document_and_patch(input: &[u8]) -> Option<(Value, Value)> {
    let zero = input.iter().position(|byte| *byte == 0)?;
    let read = |text| json::decode(text, DecodeOptions::default()).ok().map(|read| read.value);
    Some((read(&input[..zero])?, read(&input[zero + 1..])?))
}

/// Checks that the result is valid JSON. It must be, because both inputs are valid JSON.
fn assert_valid_json(value: &Value) {
    let written = json::encode(value);
    let again = json::decode(&written, DecodeOptions::default()).expect("encoded JSON decodes");
    assert_eq!(again.value, *value, "{}", written.escape_ascii());
}

pub(super) fn json_patch(input: &[u8]) {
    let Some((document, patch)) = document_and_patch(input) else { return };
    for typed in [false, true] {
        let Ok(patch) = JsonPatch::decode(&patch, typed) else { continue };
        if let Ok(patched) = patch.apply(document.clone()) {
            assert_valid_json(&patched);
        }
    }
}

pub(super) fn merge_patch(input: &[u8]) {
    let Some((document, patch)) = document_and_patch(input) else { return };
    if check_merge_patch(&patch).is_err() {
        return;
    }
    let Ok(once) = pintle_patch::merge_patch(document, patch.clone()) else { return };
    assert_valid_json(&once);
    let twice = pintle_patch::merge_patch(once.clone(), patch);
    assert_eq!(twice, Ok(once), "a merge patch is idempotent");
}

pub(super) fn strategic(input: &[u8]) {
    let Some((document, patch)) = document_and_patch(input) else { return };
    if validate_strategic_merge_patch(&patch).is_err() {
        return;
    }
    let catalog = pintle_catalog::shared();
    let Some(pod) = catalog.kind_type("", "v1", "Pod") else { return };
    if let Ok(patched) = pintle_patch::strategic_merge_patch(document, patch, catalog.types(), pod) {
        assert_valid_json(&patched);
    }
}

pub(super) fn json_patch_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"a":[1,2,{"b":3}]}|[{"op":"add","path":"/a/-","value":4},{"op":"remove","path":"/a/0"},{"op":"test","path":"/a/0","value":2}]"#,
        r#"{"a":{"b~/":1}}|[{"op":"move","from":"/a/b~0~1","path":"/c"},{"op":"copy","from":"/a","path":"/d"},{"op":"replace","path":"","value":[]}]"#,
        r#"[[],{}]|[{"op":"add","path":"/-1","value":null},{"op":"add","path":"/1/x","value":{"a":[]}}]"#,
    ]
    .map(with_zero_separator)
    .to_vec()
}

pub(super) fn patch_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}}|{"metadata":{"labels":{"a":null,"c":"d"}},"spec":{"containers":[{"name":"b"},{"$patch":"delete","name":"a"}]}}"#,
        r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}],"volumes":[{"name":"v","emptyDir":{}}]}}|{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"b","image":"i"}],"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/"}}]}}"#,
        r#"{"metadata":{"finalizers":["a","b"]},"spec":{"tolerations":[{"key":"k"}]}}|{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]},"spec":{"$patch":"replace","tolerations":null}}"#,
    ]
    .map(with_zero_separator)
    .to_vec()
}

/// Replaces the readable separator `|` by the zero byte.
fn with_zero_separator(text: &str) -> Vec<u8> {
    text.replace('|', "\0").into_bytes()
}
