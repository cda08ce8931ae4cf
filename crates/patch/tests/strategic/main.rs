//! Tests of strategic merge patch on built-in kinds: directives, the order of lists, and errors. The tables in the text
//! files have four lines per case. The first line is a kind and a path in it. The second is the current value at the
//! path (`-` for none). Then follow `+` with its patch, and `=` with the result or `!` with the error.

use pintle_patch::{PatchErrorKind, from_unstructured, merge_patch, strategic_merge_patch};
use pintle_schema::{Problems, normalise_changed};
use pintle_value::{EncodedObject, Object, Value, print};
use proptest::prelude::*;

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn apply(kind: &str, document: &str, patch: &str) -> Result<Value, pintle_patch::PatchError> {
    let catalog = pintle_catalog::shared();
    let group = match kind {
        "Deployment" => "apps",
        "PodDisruptionBudget" => "policy",
        _ => "",
    };
    let root = catalog.kind_type(group, "v1", kind).expect(kind);
    strategic_merge_patch(read(document), read(patch), catalog.types(), root)
}

/// A document with the given JSON at a path, or without the last path segment if the JSON is `-`.
fn nest_at(path: &[&str], text: &str) -> String {
    match path {
        [] | [_] if text == "-" => "{}".to_owned(),
        [] => text.to_owned(),
        [first, rest @ ..] => format!(r#"{{"{first}":{}}}"#, nest_at(rest, text)),
    }
}

/// Applies a patch and returns the value at the path, or the error.
fn apply_at(kind: &str, path: &[&str], document: &str, patch: &str) -> String {
    match apply(kind, &nest_at(path, document), &nest_at(path, patch)) {
        Ok(object) => format!("= {}", object.at(path).map_or_else(|| "-".to_owned(), print::json)),
        Err(error) => format!("! {}", error.message.replace('\n', "\\n")),
    }
}

/// Checks all cases of a table.
#[track_caller]
fn check(table: &str) {
    pintle_scenarios::check(table, &['=', '!'], |lines| {
        let [subject, document, patch] = *lines else { panic!("an incomplete scenario: {lines:?}") };
        let (kind, path) = subject.split_once(' ').expect(subject);
        let path: Vec<&str> = path.split('.').filter(|step| *step != "-").collect();
        vec![apply_at(kind, &path, document.trim(), patch.strip_prefix("+ ").expect(patch))]
    });
}

/// A value whose objects share their members with copies of them.
fn shared(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let members: Object = object.into_iter().map(|(key, value)| (key, shared(value))).collect();
            Value::Object(members.into_shared(0..0))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(shared).collect()),
        other => other,
    }
}

#[test]
fn objects_of_scalars_that_a_patch_repeats_stay_shared() {
    let catalog = pintle_catalog::shared();
    let root = catalog.kind_type("", "v1", "Pod").expect("pods");
    let live = shared(read(
        r#"{"spec":{"securityContext":{"runAsUser":1,"runAsNonRoot":true}},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}"#,
    ));
    for (patch, is_same) in [
        (r#"{"spec":{"securityContext":{"runAsUser":1}},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}"#, true),
        (r#"{"spec":{"securityContext":{"runAsUser":2}},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}"#, false),
        (r#"{"spec":{"securityContext":{"runAsUser":1.0}},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}"#, false),
        (r#"{"spec":{"securityContext":{"runAsUser":null}},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}"#, false),
    ] {
        let merged = strategic_merge_patch(live.clone(), read(patch), catalog.types(), root).expect(patch);
        let context = |pod: &Value| pod["spec"]["securityContext"].clone();
        let found = context(&merged).shares_members(&context(&live));
        assert_eq!(found, is_same, "{patch}");
        let addresses = [&merged, &live].map(|pod| &pod.items_at(&["status", "podIPs"])[0]);
        assert!(addresses[0].shares_members(addresses[1]), "{patch}");
    }
}

#[test]
fn what_a_patch_does_not_name_is_not_decoded() {
    let catalog = pintle_catalog::shared();
    let (types, root) = (catalog.types(), catalog.kind_type("", "v1", "Pod").expect("pods"));
    // A use of the members would find that they cannot be decoded.
    let container = Value::Object(EncodedObject::new("unused").into());
    let spec = Object::from_iter([("containers", vec![container])]);
    let mut live = read(r#"{"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"}]}}"#);
    live.set("spec", Value::Object(spec.into_shared(0..0)));
    let patch = read(r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#);
    let merged = [
        strategic_merge_patch(live.clone(), patch.clone(), types, root).expect("a patch"),
        merge_patch(live.clone(), patch).expect("a patch"),
    ];
    for mut merged in merged {
        assert_eq!(from_unstructured(&mut merged, Some(&live), types, root), Ok(()));
        let mut problems = Problems::default();
        normalise_changed(types, root, &mut merged, Some(&live), &mut problems);
        assert!(!merged.share_with(&live));
        assert_eq!((merged.str_at(&["status", "phase"]), problems), ("Running", Problems::default()));
        assert!(merged["spec"].shares_members(&live["spec"]));
    }
}

#[test]
fn objects_are_merged() {
    check(include_str!("objects.txt"));
}

#[test]
fn lists_are_merged_by_key() {
    check(include_str!("lists.txt"));
}

#[test]
fn lists_of_scalars_are_merged() {
    check(include_str!("scalars.txt"));
}

#[test]
fn lists_are_ordered_as_by_upstream() {
    check(include_str!("order.txt"));
}

#[test]
fn retain_keys_removes_other_fields() {
    check(include_str!("retain.txt"));
}

#[test]
fn invalid_patches_return_upstreams_errors() {
    check(include_str!("errors.txt"));
}

#[test]
fn patches_that_are_not_objects_are_rejected() {
    let document = r#"{"data":{"a":"1"}}"#;
    assert_eq!(apply("ConfigMap", document, "null").map(|v| print::json(&v)).as_deref(), Ok(document));
    for (patch, shape) in [("[]", "array"), ("1", "number"), (r#""x""#, "string"), ("true", "bool")] {
        let error = apply("ConfigMap", document, patch).expect_err(patch);
        let expect = format!("json: cannot unmarshal {shape} into Go value of type map[string]interface {{}}");
        assert_eq!((error.kind, error.message), (PatchErrorKind::Malformed, expect), "{patch}");
    }
}

#[test]
fn error_kinds_match_upstream() {
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

/// The time for merging lists and maps must not be proportional to the product of the sizes of patch and object.
#[test]
fn large_patches_of_large_objects_are_merged_in_linear_time() {
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

/// Pod specs and their patches. They consist of real fields and directives with valid and invalid values.
fn specs(directives: bool) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(Value::Int(80)),
        Just(Value::Float(1.5)),
        Just(Value::Bool(true)),
        prop::sample::select(vec!["a", "b", "delete", "replace", "merge"]).prop_map(Value::from),
    ];
    let fields = ["name", "containers", "ports", "containerPort", "env", "volumes", "args", "nodeSelector", "x"];
    let marks = [
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/ports",
        "$setElementOrder/args",
        "$deleteFromPrimitiveList/args",
        "$deleteFromPrimitiveList/env",
        "$setElementOrder",
    ];
    let keys: Vec<&str> = if directives { [&fields[..], &marks[..]].concat() } else { fields.to_vec() };
    leaf.prop_recursive(5, 48, 5, move |inner| {
        let keys = keys.clone();
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            3 => prop::collection::vec((prop::sample::select(keys), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Object>())),
        ]
    })
}

fn in_pod(spec: Value) -> Value {
    let mut pod = Value::object();
    pod.set("spec", spec);
    pod
}

proptest! {
    #[test]
    fn random_patches_never_panic(spec in specs(true), patch in specs(true)) {
        let catalog = pintle_catalog::shared();
        let root = catalog.kind_type("", "v1", "Pod").expect("a kind");
        let (document, patch) = (in_pod(spec), in_pod(patch));
        if let Ok(mut merged) = strategic_merge_patch(document.clone(), patch.clone(), catalog.types(), root) {
            let _ = pintle_patch::from_unstructured(&mut merged, None, catalog.types(), root);
        }
        let _ = pintle_patch::remaining_patch(&document, patch, catalog.types(), root);
    }

    #[test]
    fn empty_patch_changes_nothing(spec in specs(false)) {
        let catalog = pintle_catalog::shared();
        let root = catalog.kind_type("", "v1", "Pod").expect("a kind");
        let document = in_pod(spec);
        prop_assert_eq!(strategic_merge_patch(document.clone(), Value::object(), catalog.types(), root), Ok(document));
    }

    #[test]
    fn replace_directive_makes_the_patch_the_object(spec in specs(false), new in specs(false)) {
        prop_assume!(spec.as_object().is_some() && new.as_object().is_some());
        let catalog = pintle_catalog::shared();
        let root = catalog.kind_type("", "v1", "Pod").expect("a kind");
        let mut patch = new.clone();
        patch.set("$patch", "replace");
        prop_assert_eq!(strategic_merge_patch(in_pod(spec), in_pod(patch), catalog.types(), root), Ok(in_pod(new)));
    }
}
