//! Properties of all applies: applying twice equals applying once, disjoint configurations commute, and comparisons are
//! consistent.

mod model;

use model::Model;
use pintle_apply::merge::{ManagedFields, Updater};
use pintle_apply::typed::Duplicates;
use pintle_value::{Object, Value};
use proptest::prelude::*;

fn numbers() -> impl Strategy<Value = Value> {
    (0_i64..3).prop_map(Value::Int)
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::weighted(0.5, value).prop_map(move |value| value.map(|v| (name, v))))
        .collect();
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Object>())).boxed()
}

fn map() -> BoxedStrategy<Value> {
    prop::collection::btree_map("[abc]", "[xy]", 0..3)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Object>()))
        .boxed()
}

fn set() -> BoxedStrategy<Value> {
    prop::sample::subsequence(vec!["a", "b", "c"], 0..4).prop_shuffle().prop_map(Value::from).boxed()
}

fn items() -> BoxedStrategy<Value> {
    let rest = object(vec![("value", numbers().boxed()), ("more", numbers().boxed()), ("set", set())]);
    let names = prop::sample::subsequence(vec!["a", "b", "c"], 0..4).prop_shuffle();
    (names, prop::collection::vec(rest, 3))
        .prop_map(|(names, rests)| {
            let item = |(name, mut item): (&str, Value)| {
                item.set("name", name);
                item
            };
            Value::Array(names.into_iter().zip(rests).map(item).collect())
        })
        .boxed()
}

fn configurations() -> impl Strategy<Value = Value> {
    let inner = || object(vec![("a", numbers().boxed()), ("b", numbers().boxed())]);
    object(vec![
        ("numeric", numbers().boxed()),
        ("string", "[xy]".prop_map(Value::from).boxed()),
        ("list", items()),
        ("atomicList", items()),
        ("set", set()),
        ("labels", map()),
        ("atomicMap", map()),
        ("struct", object(vec![("numeric", numbers().boxed()), ("inner", inner())])),
        ("whole", inner()),
        ("any", map()),
    ])
}

type Owners = ManagedFields<&'static str>;

/// Applies with force.
fn apply(model: &Model, live: &Value, managers: &Owners, who: &'static str, config: &Value) -> (Value, Owners) {
    let updater = Updater { converter: model };
    let (object, managers) = updater.apply(live, config, "v1", managers.clone(), &who, true).expect("an apply");
    (object.unwrap_or_else(|| live.clone()), managers)
}

/// Keeps only the fields of a configuration that are, or are not, among these.
fn select_fields(config: &Value, fields: &[&str], selected: bool) -> Value {
    let mut object = config.as_object().cloned().unwrap_or_default();
    object.retain(|key, _| fields.contains(&key) == selected);
    Value::Object(object)
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(before in configurations(), config in configurations()) {
        let model = Model::new();
        let (live, managers) = apply(&model, &Value::object(), &Owners::new(), "before", &before);
        let (once, owners) = apply(&model, &live, &managers, "me", &config);
        let (twice, same_owners) = apply(&model, &once, &owners, "me", &config);
        prop_assert_eq!(twice, once);
        prop_assert_eq!(same_owners, owners);
    }

    #[test]
    fn disjoint_applies_commute(a in configurations(), b in configurations()) {
        let model = Model::new();
        let fields = ["numeric", "list", "labels", "struct", "atomicList"];
        let (a, b) = (select_fields(&a, &fields, true), select_fields(&b, &fields, false));
        let (live, owners) = apply(&model, &Value::object(), &Owners::new(), "a", &a);
        let one = apply(&model, &live, &owners, "b", &b);
        let (live, owners) = apply(&model, &Value::object(), &Owners::new(), "b", &b);
        let other = apply(&model, &live, &owners, "a", &a);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn applied_fields_are_present_and_owned(before in configurations(), config in configurations()) {
        let model = Model::new();
        let type_ref = model.at("v1").expect("a type");
        let (live, managers) = apply(&model, &Value::object(), &Owners::new(), "before", &before);
        let (live, owners) = apply(&model, &live, &managers, "me", &config);
        let set = type_ref.field_set(&config);
        let again = type_ref.merge(&live, &config).expect("a merge");
        prop_assert!(type_ref.compare(&live, &again).expect("a comparison").is_same());
        prop_assert_eq!(owners.get("me").map(|o| o.set.clone()).unwrap_or_default(), set);
    }

    #[test]
    fn comparison_is_symmetric_and_disjoint(a in configurations(), b in configurations()) {
        let model = Model::new();
        let type_ref = model.at("v1").expect("a type");
        prop_assert_eq!(type_ref.validate(&a, Duplicates::Forbidden), Ok(()));
        prop_assert!(type_ref.compare(&a, &a).expect("a comparison").is_same());
        let (there, back) = (type_ref.compare(&a, &b).expect("there"), type_ref.compare(&b, &a).expect("back"));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert!(there.added.intersection(&there.removed).is_empty());
        prop_assert!(there.added.intersection(&there.modified).is_empty());
    }

    #[test]
    fn extracting_the_field_set_returns_the_applied_fields(config in configurations()) {
        let model = Model::new();
        let type_ref = model.at("v1").expect("a type");
        let set = type_ref.field_set(&config);
        let extracted = type_ref.extract(&config, &type_ref.ensure_named_fields_are_members(&set));
        prop_assert_eq!(type_ref.field_set(&extracted), set);
    }
}
