//! Tests of the conversion of patched trees to structs: values that upstream's converter accepts and its JSON decoder
//! rejects, and its error messages.

use pintle_patch::from_unstructured;
use pintle_value::{Value, object, print};

/// Converts an object of a kind and prints the result or the error.
#[track_caller]
fn check(kind: &str, object: &str, expect: &str) {
    let catalog = pintle_catalog::shared();
    let group = if kind == "Deployment" { "apps" } else { "" };
    let root = catalog.kind_type(group, "v1", kind).expect(kind);
    let mut value: Value = serde_json::from_str(object).expect(object);
    let actual =
        from_unstructured(&mut value, None, catalog.types(), root).map_or_else(|e| e, |()| print::json(&value));
    assert_eq!(actual, expect, "{kind} {object}");
}

#[test]
fn numbers_are_converted_to_their_types() {
    for (kind, object, expect) in [
        ("Deployment", r#"{"spec":{"replicas":3.0}}"#, r#"{"spec":{"replicas":3}}"#),
        ("Deployment", r#"{"spec":{"replicas":4294967297}}"#, r#"{"spec":{"replicas":1}}"#),
        ("Deployment", r#"{"spec":{"replicas":2147483648}}"#, r#"{"spec":{"replicas":-2147483648}}"#),
        ("Deployment", r#"{"spec":{"replicas":1e300}}"#, r#"{"spec":{"replicas":0}}"#),
        ("Pod", r#"{"metadata":{"generation":1e300}}"#, r#"{"metadata":{"generation":-9223372036854775808}}"#),
        ("Pod", r#"{"metadata":{"generation":9007199254740993}}"#, r#"{"metadata":{"generation":9007199254740993}}"#),
        ("Service", r#"{"spec":{"ports":[{"targetPort":3.0}]}}"#, r#"{"spec":{"ports":[{"targetPort":3}]}}"#),
        ("Secret", r#"{"data":{"a":[104,361]}}"#, r#"{"data":{"a":[104,105]}}"#),
        ("ConfigMap", r#"{"data":null,"unknown":[true]}"#, r#"{"data":null,"unknown":[true]}"#),
    ] {
        check(kind, object, expect);
    }
}

#[test]
fn values_of_wrong_types_are_rejected() {
    for (kind, object, expect) in [
        ("ConfigMap", r#"{"data":{"a":1}}"#, "cannot convert int64 to string"),
        ("ConfigMap", r#"{"data":{"a":1.5}}"#, "unrecognized type: string"),
        ("ConfigMap", r#"{"data":{"a":true}}"#, "unrecognized type: string"),
        ("ConfigMap", r#"{"data":{"a":{}}}"#, "unrecognized type: string"),
        ("ConfigMap", r#"{"data":[]}"#, "cannot restore map from slice"),
        ("ConfigMap", r#"{"immutable":1}"#, "unrecognized type: bool"),
        ("ConfigMap", r#"{"binaryData":{"a":"!"}}"#, "error decoding from json: illegal base64 data at input byte 0"),
        ("ConfigMap", r#"{"binaryData":{"a":{}}}"#, "cannot restore slice from map"),
        ("ConfigMap", r#"{"binaryData":{"a":["x"]}}"#, "unrecognized type: uint8"),
        ("ConfigMap", r#"{"binaryData":{"a":[1.5]}}"#, "cannot convert float64 to uint8"),
        ("ConfigMap", r#"{"metadata":"x"}"#, "cannot restore struct from: string"),
        ("ConfigMap", r#"{"metadata":{"uid":1}}"#, "cannot convert int64 to types.UID"),
        ("Pod", r#"{"spec":{"containers":{}}}"#, "cannot restore slice from map"),
        ("Pod", r#"{"spec":{"containers":[[]]}}"#, "cannot restore struct from: slice"),
        ("Pod", r#"{"spec":{"containers":[{"ports":[{"containerPort":"80"}]}]}}"#, "unrecognized type: int32"),
        ("Pod", r#"{"spec":{"containers":[{"ports":[{"protocol":6}]}]}}"#, "cannot convert int64 to v1.Protocol"),
        ("Deployment", r#"{"spec":{"replicas":1.5}}"#, "cannot convert float64 to int32"),
        // Types with their own `UnmarshalJSON` return its errors.
        (
            "Service",
            r#"{"spec":{"ports":[{"targetPort":true}]}}"#,
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":1}}"#,
            "json: cannot unmarshal number into Go value of type string",
        ),
        (
            "Pod",
            r#"{"metadata":{"creationTimestamp":"noon"}}"#,
            r#"parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006""#,
        ),
        // The first field in declaration order is reported, independently of the order of keys.
        (
            "Deployment",
            r#"{"metadata":{"labels":[]},"spec":{"minReadySeconds":"x","replicas":{}}}"#,
            "cannot restore map from slice",
        ),
        ("Deployment", r#"{"spec":{"minReadySeconds":1.5,"replicas":{}}}"#, "unrecognized type: int32"),
    ] {
        check(kind, object, expect);
    }
}

#[test]
fn what_a_tree_shares_with_a_converted_one_is_not_converted() {
    let catalog = pintle_catalog::shared();
    let root = catalog.kind_type("apps", "v1", "Deployment").expect("a kind");
    let convert = |value: &mut Value, live: &Value| from_unstructured(value, Some(live), catalog.types(), root);
    let object = |text: &str| match serde_json::from_str(text).expect("JSON") {
        Value::Object(object) => Value::Object(object.into_shared(0..0)),
        other => other,
    };
    // These replicas are floats, so the result shows whether they are converted.
    let live = object! {"spec": object(r#"{"replicas": 1.0}"#), "status": object(r#"{"replicas": 1.0}"#)};
    let mut changed = live.clone();
    changed.set_at(&["status", "readyReplicas"], 2.0);
    assert_eq!(convert(&mut changed, &live), Ok(()));
    assert_eq!(print::json(&changed), r#"{"spec":{"replicas":1},"status":{"readyReplicas":2,"replicas":1}}"#);
    assert_eq!(changed.at(&["spec", "replicas"]), Some(&Value::Float(1.0)));
    assert_eq!(changed.int_at(&["status", "replicas"]), Some(1));
    // At another path, the object is converted.
    let mut moved = object! {"status": live["spec"].clone()};
    assert_eq!(convert(&mut moved, &live), Ok(()));
    assert_eq!(moved.int_at(&["status", "replicas"]), Some(1));
}
