//! Tests of the rest of a strategic merge patch after its merge, as upstream prints it in errors.

use pintle_patch::remaining_patch;
use pintle_value::{Value, print};

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Checks the rest of a patch of a pod, as upstream prints it.
#[track_caller]
fn check(document: &str, patch: &str, expect: &str) {
    let catalog = pintle_catalog::shared();
    let root = catalog.kind_type("", "v1", "Pod").expect("a kind");
    assert_eq!(
        print::plain(&remaining_patch(&read(document), read(patch), catalog.types(), root)),
        expect,
        "{document} {patch}"
    );
}

#[test]
fn directives_and_new_nulls_are_removed() {
    let document = r#"{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"a","env":[{"name":"e"}]}]}}"#;
    for (patch, expect) in [
        ("{}", "map[]"),
        ("null", "<nil>"),
        (r#"{"metadata":{"labels":{"a":null,"b":"2"}}}"#, "map[metadata:map[labels:map[a:<nil> b:2]]]"),
        // These patches contain directives that are applied.
        (r#"{"metadata":{"labels":{"$patch":"replace","b":null}}}"#, "map[metadata:map[labels:map[b:<nil>]]]"),
        (
            r#"{"metadata":{"labels":{"$patch":"delete","b":null}}}"#,
            "map[metadata:map[labels:map[$patch:delete b:<nil>]]]",
        ),
        (r#"{"metadata":{"$retainKeys":["labels"],"labels":{"c":"3"}}}"#, "map[metadata:map[labels:map[c:3]]]"),
        (
            r#"{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a","image":"i"}]}}"#,
            "map[spec:map[]]",
        ),
        (r#"{"spec":{"$setElementOrder/volumes":[]}}"#, "map[spec:map[]]"),
        (
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}"#,
            "map[metadata:map[$deleteFromPrimitiveList/finalizers:[a]]]",
        ),
        // These patches contain nulls in newly set values.
        (r#"{"metadata":{"annotations":{"a":null,"b":"2"}}}"#, "map[metadata:map[annotations:map[b:2]]]"),
        (r#"{"metadata":{"labels":[{"a":null}]}}"#, "map[metadata:map[labels:[map[]]]]"),
        (
            r#"{"spec":{"volumes":[{"name":"v","x":null},{"name":"w","$patch":"delete","y":null}]}}"#,
            "map[spec:map[volumes:[map[name:v] map[$patch:delete name:w]]]]",
        ),
        (r#"{"status":{"x":{"$patch":"delete"},"y":[{"$patch":"delete"}],"z":1}}"#, "map[status:map[y:[] z:1]]"),
        // Values that `$retainKeys` removed from the object are newly set.
        (
            r#"{"spec":{"$retainKeys":["volumes"],"volumes":[{"name":"v","x":null}]}}"#,
            "map[spec:map[volumes:[map[name:v]]]]",
        ),
        // Existing items are merged, new items are unchanged.
        (
            r#"{"spec":{"containers":[{"name":"a","env":[{"name":"e","x":{"b":null}}]},{"name":"b","c":null}]}}"#,
            "map[spec:map[containers:[map[env:[map[name:e x:map[]]] name:a] map[c:<nil> name:b]]]]",
        ),
        (
            r#"{"spec":{"containers":[{"$patch":"replace"},{"name":"a","x":{"b":null}}]}}"#,
            "map[spec:map[containers:[map[$patch:replace] map[name:a x:map[b:<nil>]]]]]",
        ),
    ] {
        check(document, patch, expect);
    }
}
