//! Paths and sets: their texts, the `fieldsV1` serialization, set operations, and shared nodes.

mod model;

use pintle_fieldpath::path::{Path, PathElement};
use pintle_fieldpath::set::FieldSet;
use pintle_value::Value;
use proptest::prelude::*;

use model::Model;

/// A set remembers the type that it fits, also for the sets that share its nodes.
#[test]
fn a_set_that_fits_one_schema_is_adapted_to_another() {
    let (granular, atomic) = (Model::new(), Model::atomic());
    let [granular, atomic] = [&granular, &atomic].map(|model| model.at("v1").expect("a type"));
    let set = FieldSet::decode(r#"{"f:labels":{"f:a":{}},"f:numeric":{}}"#).expect("a set");
    let shared = set.clone();
    for _ in 0..2 {
        assert_eq!(granular.reconcile(&set), None);
        let adapted = atomic.reconcile(&shared).expect("another set");
        assert_eq!(adapted.encode(), r#"{"f:labels":{},"f:numeric":{}}"#);
        assert_eq!(atomic.reconcile(&adapted), None);
    }
    let mut changed = atomic.reconcile(&set).expect("another set");
    assert_eq!(atomic.reconcile(&changed), None);
    changed.insert(&[PathElement::field("struct"), PathElement::field("string")]);
    let adapted = atomic.reconcile(&changed).expect("a changed set may not fit");
    assert_eq!(adapted.encode(), r#"{"f:labels":{},"f:numeric":{},"f:struct":{}}"#);
}

#[test]
fn a_small_set_and_a_large_one_have_the_same_paths_in_common_as_any_sets() {
    let set = |numbers: &mut dyn Iterator<Item = usize>| -> FieldSet {
        let path = |i| [format!("a{}", i / 100), format!("b{i:03}")].map(|name| PathElement::field(&name));
        numbers.map(path).collect()
    };
    let large = set(&mut (0..100));
    let small = set(&mut [7, 50, 120].into_iter());
    assert_eq!(large.intersection(&small), set(&mut [7, 50].into_iter()));
    assert_eq!(small.intersection(&large), set(&mut [7, 50].into_iter()));
    assert_eq!(small.difference(&large), set(&mut [120].into_iter()));
    let rest = set(&mut (0..100).filter(|i| ![7, 50].contains(i)));
    assert_eq!(large.difference(&small), rest);
    let mut subtracted = large.clone();
    subtracted.subtract(&small);
    assert_eq!(subtracted, rest);
    let single = (0..100).map(|i| set(&mut [i].into_iter()));
    assert_eq!(FieldSet::union_all(single.collect()), large);
    assert_eq!(FieldSet::union_all(Vec::new()), FieldSet::new());
}

#[test]
fn a_set_that_is_changed_leaves_its_clones_as_they_are() {
    let text = r#"{"f:a":{"f:b":{}},"f:c":{}}"#;
    let set = FieldSet::decode(text).expect("a set");
    let mut changed = set.clone();
    changed.insert(&[PathElement::field("a"), PathElement::field("d")]);
    changed.subtract(&FieldSet::decode(r#"{"f:c":{}}"#).expect("a set"));
    assert_eq!(changed.encode(), r#"{"f:a":{"f:b":{},"f:d":{}}}"#);
    changed.subtract(&changed.clone());
    assert!(changed.is_empty());
    assert_eq!((changed, set.encode()), (FieldSet::new(), text.to_owned()));
}

#[test]
fn ignored_entries_are_not_compared() {
    let model = Model::new();
    let type_ref = model.at("v1").expect("a type");
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let before = value(r#"{"labels":{"a":"1","b":"1"},"numeric":1,"recursive":{"b":{"a":{}}}}"#);
    let after = value(r#"{"labels":{"b":"2"},"recursive":{"b":{}},"set":[1]}"#);
    let ignored = FieldSet::decode(r#"{"f:labels":{"f:a":{}},"f:recursive":{"f:b":{}},"f:set":{}}"#).expect("a set");
    let compared = type_ref.compare_without(&before, &after, &ignored).expect("a comparison");
    let texts = [compared.added, compared.modified, compared.removed].map(|set| set.encode());
    assert_eq!(texts, ["{}", r#"{"f:labels":{"f:b":{}}}"#, r#"{"f:numeric":{}}"#]);
}

#[test]
fn paths_print_as_conflicts_show_them() {
    let check = |elements: Vec<PathElement>, expect: &str| assert_eq!(Path(elements).to_string(), expect);
    let key = PathElement::key([("protocol", Value::from("TCP")), ("port", Value::Int(80))]);
    check(vec![], "");
    check(
        vec![PathElement::field("spec"), PathElement::field("containers"), PathElement::key([("name", "a")])],
        r#".spec.containers[name="a"]"#,
    );
    check(vec![key, PathElement::field("name")], r#"[port=80,protocol="TCP"].name"#);
    check(vec![PathElement::Value(Value::from("a\"b"))], r#"[="a\"b"]"#);
    check(vec![PathElement::Value(Value::Float(1.5)), PathElement::Index(3)], "[=1.5][3]");
    check(vec![PathElement::Value(Value::Bool(true)), PathElement::Value(Value::Null)], "[=true][=null]");
}

/// Decodes and re-encodes a set.
#[track_caller]
fn check(fields: &str, expect: &str) {
    let written = FieldSet::decode(fields).map_or_else(|e| e.to_string(), |set| set.encode());
    assert_eq!(written, expect, "{fields}");
}

#[test]
fn canonical_fields_v1_round_trips() {
    for fields in [
        "{}",
        r#"{"v:2.0001e+27":{}}"#,
        r#"{"f:spec":{"f:replicas":{}}}"#,
        r#"{"f:spec":{".":{},"f:replicas":{}}}"#,
        r#"{"f:aaa":{},"f:aab":{},"k:{\"name\":\"first\"}":{},"k:{\"name\":\"second\"}":{},"k:{\"port\":443,\"protocol\":\"tcp\"}":{},"k:{\"port\":443,\"protocol\":\"udp\"}":{},"v:1":{},"v:2":{},"v:10":{},"v:\"aa\"":{},"v:\"ab\"":{},"v:true":{},"i:1":{},"i:2":{},"i:10":{}}"#,
        r#"{"f:a":{"k:{\"name\":\" app-💻\"}":{".":{},"f:x":{}}}}"#,
        r#"{"v:-1.5":{},"v:0":{},"v:1e+21":{}}"#,
        r#"{"k:{\"a\":\"1\"}":{},"k:{\"a\":\"1\",\"b\":\"2\"}":{},"k:{\"b\":\"1\"}":{}}"#,
        r#"{"v:\"\\u003ca\\u003e\"":{}}"#,
    ] {
        check(fields, fields);
    }
}

#[test]
fn decoding_canonicalizes_fields_v1() {
    for (fields, expect) in [
        ("null", "{}"),
        (r#"{"f:b":{},"f:a":{}}"#, r#"{"f:a":{},"f:b":{}}"#),
        (r#"{"f:a":null}"#, r#"{"f:a":{}}"#),
        (r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
        (r#"{".":{},"f:a":{}}"#, r#"{"f:a":{}}"#),
        (r#"{"f:a":{},"x:b":{"f:c":{}}}"#, r#"{"f:a":{}}"#),
        (r#"{"f:a":{"x:b":{}}}"#, r#"{"f:a":{}}"#),
        (r#"{"k:{ \"b\":1.0, \"a\":2}":{}}"#, r#"{"k:{\"a\":2,\"b\":1}":{}}"#),
        (r#"{"v: 3":{},"v:3.0":{}}"#, r#"{"v:3":{}}"#),
        (r#"{"i:+7":{}}"#, r#"{"i:7":{}}"#),
        (r#"{"f:<a>":{}}"#, r#"{"f:<a>":{}}"#),
        (r#"{"v:\"<a>\"":{}}"#, r#"{"v:\"\\u003ca\\u003e\"":{}}"#),
        (r#"{"f:":{}}"#, r#"{"f:":{}}"#),
    ] {
        check(fields, expect);
    }
}

#[test]
fn malformed_fields_v1_is_rejected() {
    for (fields, expect) in [
        (r#"{"f":{}}"#, "parsing key as path element: key must be 2 characters long:"),
        (r#"{"":{}}"#, "parsing key as path element: key must be 2 characters long:"),
        (r#"{"fa":{}}"#, "parsing key as path element: missing colon: fa"),
        (r#"{"é:":{}}"#, "parsing key as path element: missing colon: é:"),
        (r#"{"k:[]":{}}"#, "parsing key as path element: invalid path element: k:[]"),
        (r#"{"k:":{}}"#, "parsing key as path element: invalid path element: k:"),
        (r#"{"v:x":{}}"#, "parsing key as path element: invalid path element: v:x"),
        (r#"{"i:x":{}}"#, "parsing key as path element: invalid path element: i:x"),
        (r#"{"f:a":1}"#, "expect { or n, but found another value"),
        ("[]", "expect { or n, but found another value"),
    ] {
        check(fields, expect);
    }
}

#[test]
fn is_serialized_as_matches_only_its_own_serialization() {
    let set = |text: &str| FieldSet::decode(text).expect("a set");
    let written = [
        r#"{}"#,
        r#"{"f:a":{}}"#,
        r#"{"f:a":{".":{},"f:b":{},"k:{\"name\":\"x\"}":{".":{},"f:name":{}}},"f:c":{"v:1":{}}}"#,
    ];
    for (i, one) in written.iter().enumerate() {
        for (j, other) in written.iter().enumerate() {
            assert_eq!(set(one).is_serialized_as(&set(other).to_value()), i == j, "{one} {other}");
        }
    }
    assert!(!set(r#"{"f:a":{"f:b":{}}}"#).is_serialized_as(&set(r#"{"f:a":{".":{},"f:b":{}}}"#).to_value()));
    assert!(!set("{}").is_serialized_as(&Value::Null));
}

#[test]
fn differences_and_leaves() {
    let set = |fields| FieldSet::decode(fields).expect(fields);
    let all = set(r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{}}"#);
    let a = set(r#"{"f:a":{}}"#);
    assert_eq!(all.difference(&a), set(r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#));
    assert_eq!(all.recursive_difference(&a), set(r#"{"f:d":{}}"#));
    assert_eq!(all.leaves(), set(r#"{"f:a":{"f:b":{},"f:c":{}},"f:d":{}}"#));
    assert_eq!(all.with_prefix(&PathElement::field("a")), Some(&set(r#"{"f:b":{},"f:c":{}}"#)));
    assert_eq!(all.with_prefix(&PathElement::field("d")), None);
    assert_eq!(all.len(), 4);
    let in_order: Vec<String> = all.paths().iter().map(ToString::to_string).collect();
    assert_eq!(in_order, [".a", ".d", ".a.b", ".a.c"]);
    assert_eq!(all.to_string(), in_order.join("\n"));
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3_i64..3).prop_map(Value::Int),
        (-3_i64..3).prop_map(|n| Value::Float(n as f64 / 2.0)),
        "[ab<\"\\\\é\u{1}]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::Bool),
    ]
}

fn elements() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        4 => "[abc]".prop_map(|name| PathElement::field(&name)),
        1 => "[a\"<\n.]{1,2}".prop_map(|name| PathElement::field(&name)),
        1 => prop::collection::btree_map("[ab]", values(), 1..3).prop_map(PathElement::key),
        1 => values().prop_map(PathElement::Value),
        1 => (0_i64..3).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = FieldSet> {
    let paths = prop::collection::vec(prop::collection::vec(elements(), 1..4), 0..12);
    paths.prop_map(|paths| paths.into_iter().collect())
}

proptest! {
    #[test]
    fn encoding_round_trips(set in sets()) {
        let text = set.encode();
        let read = FieldSet::decode(&text).expect("a set");
        prop_assert_eq!(&read, &set, "{}", text);
        prop_assert_eq!(read.encode(), text);
        prop_assert_eq!(FieldSet::from_value(&set.to_value()).expect("a set"), set);
    }

    #[test]
    fn sets_contain_the_inserted_paths(paths in prop::collection::vec(prop::collection::vec(elements(), 1..4), 0..12)) {
        let set: FieldSet = paths.iter().collect();
        prop_assert!(paths.iter().all(|path| set.has(path)));
        prop_assert_eq!(set.paths().len(), set.len());
        prop_assert!(set.paths().iter().all(|path| paths.contains(&path.0)));
    }

    #[test]
    fn set_operations_obey_set_algebra(a in sets(), b in sets(), c in sets()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(!a.is_serialized_as(&b.to_value()) || a.to_value() == b.to_value());
        let mut left = a.clone();
        left.subtract(&b);
        prop_assert_eq!(&left, &a.difference(&b));
        prop_assert!(!a.is_unaffected_by(&b) || a.recursive_difference(&b) == a && left == a);
        prop_assert!(a.recursive_difference(&b).is_subset(&a.difference(&b)));
        prop_assert!(a.leaves().is_subset(&a));
        prop_assert!(a.intersection(&b).is_subset(&a) && a.is_subset(&a.union(&b)));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
    }

    #[test]
    fn elements_are_totally_ordered(a in elements(), b in elements(), c in elements()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        prop_assert!(!(a < b && b < c) || a < c);
    }
}
