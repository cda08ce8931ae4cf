//! Strategic merge patch on built-in kinds: what the directives do, the order of lists, and the errors.

use pintle_patch::{PatchErrorKind, strategic};
use pintle_value::{Value, print};

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn apply(kind: &str, document: &str, patch: &str) -> Result<Value, pintle_patch::PatchError> {
    let catalog = pintle_catalog::shared();
    let group = if kind == "Deployment" { "apps" } else { "" };
    let root = catalog.kind_type(group, "v1", kind).expect(kind);
    strategic(read(document), read(patch), catalog.types(), root)
}

/// Applies a patch and prints the result or the error.
#[track_caller]
fn check(kind: &str, document: &str, patch: &str, expect: &str) {
    let found = apply(kind, document, patch).map_or_else(|e| e.to_string(), |v| print::json(&v));
    assert_eq!(found, expect, "{kind} {document} {patch}");
}

/// The same for the `spec` of a pod.
#[track_caller]
fn check_spec(document: &str, patch: &str, expect: &str) {
    let found = apply("Pod", &format!(r#"{{"spec":{document}}}"#), &format!(r#"{{"spec":{patch}}}"#))
        .map_or_else(|e| e.to_string(), |v| print::json(&v["spec"]));
    assert_eq!(found, expect, "{document} {patch}");
}

/// The same for `metadata.finalizers`, a list of scalars that merges; the patch is that of `metadata`.
#[track_caller]
fn check_finalizers(finalizers: &str, patch: &str, expect: &str) {
    let document = format!(r#"{{"metadata":{{"finalizers":{finalizers}}}}}"#);
    let found = apply("ConfigMap", &document, &format!(r#"{{"metadata":{patch}}}"#))
        .map_or_else(|e| e.to_string(), |v| print::json(&v["metadata"]["finalizers"]));
    assert_eq!(found, expect, "{finalizers} {patch}");
}

#[test]
fn objects_merge() {
    check(
        "ConfigMap",
        r#"{"data":{"a":"1","b":"2"}}"#,
        r#"{"data":{"b":null,"c":"3"}}"#,
        r#"{"data":{"a":"1","c":"3"}}"#,
    );
    check("ConfigMap", r#"{"data":{"a":"1"}}"#, "null", r#"{"data":{"a":"1"}}"#);
    check("ConfigMap", r#"{"data":{"a":"1"}}"#, r#"{"data":{"$patch":"replace","z":"1"}}"#, r#"{"data":{"z":"1"}}"#);
    check("ConfigMap", r#"{"data":{"a":"1"}}"#, r#"{"data":{"$patch":"delete"}}"#, r#"{"data":{}}"#);
    check("ConfigMap", "{}", r#"{"data":{"a":"1","b":null}}"#, r#"{"data":{"a":"1"}}"#);
    // A directive in what is not there yet takes the whole with it.
    check("ConfigMap", "{}", r#"{"data":{"$patch":"replace","a":"1"}}"#, "{}");
}

#[test]
fn lists_merge_by_key() {
    let two = r#"{"containers":[{"image":"1","name":"a"},{"image":"1","name":"b"}]}"#;
    check_spec(
        two,
        r#"{"containers":[{"name":"b","image":"2"}]}"#,
        r#"{"containers":[{"image":"1","name":"a"},{"image":"2","name":"b"}]}"#,
    );
    check_spec(
        two,
        r#"{"containers":[{"name":"c"},{"name":"a","image":null}]}"#,
        r#"{"containers":[{"name":"c"},{"name":"a"},{"image":"1","name":"b"}]}"#,
    );
    check_spec(
        two,
        r#"{"containers":[{"name":"a","$patch":"delete"}]}"#,
        r#"{"containers":[{"image":"1","name":"b"}]}"#,
    );
    check_spec(two, r#"{"containers":[{"$patch":"replace"},{"name":"z"}]}"#, r#"{"containers":[{"name":"z"}]}"#);
    // Tolerations have no strategy: they are replaced.
    check_spec(
        r#"{"tolerations":[{"key":"a"}]}"#,
        r#"{"tolerations":[{"key":"b"}]}"#,
        r#"{"tolerations":[{"key":"b"}]}"#,
    );
}

#[test]
fn lists_of_scalars_merge() {
    check_finalizers(r#"["a","b"]"#, r#"{"finalizers":["c","b"]}"#, r#"["c","a","b"]"#);
    check_finalizers(r#"["a","b","c"]"#, r#"{"$deleteFromPrimitiveList/finalizers":["b","x"]}"#, r#"["a","c"]"#);
    check_finalizers(
        r#"["a","b","c"]"#,
        r#"{"$deleteFromPrimitiveList/finalizers":["b"],"$setElementOrder/finalizers":["c","a"]}"#,
        r#"["c","a"]"#,
    );
    check_finalizers(r#"["a","b"]"#, r#"{"finalizers":null}"#, "null");
    // Nothing to add: repeated items go, and the last ones take their places.
    check_finalizers(r#"["a","a","b","c","b"]"#, r#"{"finalizers":[]}"#, r#"["a","b","c"]"#);
    check_finalizers(
        r#"["a","a","b","c"]"#,
        r#"{"finalizers":[],"$setElementOrder/finalizers":[]}"#,
        r#"["a","c","b"]"#,
    );
}

#[test]
fn the_order_of_elements_can_be_set() {
    let document = r#"{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#;
    check_spec(
        document,
        r#"{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}]}"#,
        r#"{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}"#,
    );
    check_spec(
        document,
        r#"{"$setElementOrder/containers":[{"name":"d"},{"name":"a"}],"containers":[{"name":"d"},{"name":"b","$patch":"delete"}]}"#,
        r#"{"containers":[{"name":"c"},{"name":"d"},{"name":"a"}]}"#,
    );
    check_spec(
        document,
        r#"{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"d"}]}"#,
        "The order in patch list:\n[map[name:d]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    );
}

#[test]
fn keys_can_be_retained() {
    let document = r#"{"volumes":[{"hostPath":{"path":"/"},"name":"v"}]}"#;
    check_spec(
        document,
        r#"{"volumes":[{"name":"v","emptyDir":{},"$retainKeys":["name","emptyDir"]}]}"#,
        r#"{"volumes":[{"emptyDir":{},"name":"v"}]}"#,
    );
    check_spec(
        document,
        r#"{"volumes":[{"name":"v","emptyDir":{},"$retainKeys":["name"]}]}"#,
        "invalid patch format of retainKeys",
    );
    check(
        "Deployment",
        r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1},"type":"RollingUpdate"}}}"#,
        r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
        r#"{"spec":{"strategy":{"type":"Recreate"}}}"#,
    );
}

#[test]
fn errors_say_what_upstream_says_and_with_its_code() {
    use PatchErrorKind::{Malformed, NotApplicable, Plain};
    let document = r#"{"metadata":{"finalizers":["a"]},"spec":{"containers":[{"name":"a"}],"x":{}}}"#;
    for (patch, kind, expect) in [
        ("[]", Malformed, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (
            r#"{"spec":{"containers":[{"image":"i:2"}]}}"#,
            Plain,
            "map: map[image:i:2] does not contain declared merge key: name",
        ),
        (r#"{"spec":{"$patch":"merge","a":1}}"#, Plain, "unknown patch type: merge in map: map[$patch:merge a:1]"),
        (r#"{"spec":{"$patch":5}}"#, Plain, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        (
            r#"{"spec":{"containers":[{"$patch":"merge"}]}}"#,
            Plain,
            "merging lists cannot yet be specified in the patch",
        ),
        (r#"{"spec":{"x":{}}}"#, Plain, r#"unable to find api field in struct PodSpec for the json field "x""#),
        (r#"{"spec":{"containers":[1]}}"#, Plain, "list element types are not identical: [[map[name:a]] [1]]"),
        (r#"{"metadata":{"$deleteFromPrimitiveList":[]}}"#, Malformed, "invalid patch format of primitive list"),
        (r#"{"metadata":{"$setElementOrder":[]}}"#, Malformed, "invalid patch format of setElementOrder list"),
        (
            r#"{"metadata":{"$setElementOrder/finalizers":"x"}}"#,
            Plain,
            "expected a []interface {}, but received a string",
        ),
        (r#"{"metadata":{"$retainKeys":1}}"#, Malformed, "invalid patch format of retainKeys"),
    ] {
        let error = apply("Pod", document, patch).expect_err(patch);
        assert_eq!((error.kind, error.message.as_str()), (kind, expect), "{patch}");
    }
    let lists = r#"{"metadata":{"finalizers":[["a"]]}}"#;
    let error = apply("Pod", lists, lists).expect_err("lists of lists");
    assert_eq!((error.kind, error.message.as_str()), (NotApplicable, "lists of lists are not supported"));
}

/// Neither lists nor maps may take time that grows with the product of the patch's and the object's size.
#[test]
fn large_patches_of_large_objects() {
    let count = 50_000;
    let containers =
        |from: usize| (from..from + count).map(|i| format!(r#"{{"name":"c{i}"}}"#)).collect::<Vec<_>>().join(",");
    let patch = format!(r#"{{"$setElementOrder/containers":[{0}],"containers":[{0}]}}"#, containers(count / 2));
    let spec = format!(r#"{{"containers":[{}]}}"#, containers(0));
    let merged = apply("Pod", &format!(r#"{{"spec":{spec}}}"#), &format!(r#"{{"spec":{patch}}}"#)).expect("a result");
    assert_eq!(merged.items_at(&["spec", "containers"]).len(), count + count / 2);
    let data = |from: usize, value: &str| {
        let entries = (from..from + count).map(|i| format!(r#""k{i}":{value}"#)).collect::<Vec<_>>().join(",");
        format!(r#"{{"data":{{{entries}}}}}"#)
    };
    let merged = apply("ConfigMap", &data(0, "\"x\""), &data(count / 2, "null")).expect("a result");
    assert_eq!(merged["data"].as_object().map(|o| o.len()), Some(count / 2));
}
