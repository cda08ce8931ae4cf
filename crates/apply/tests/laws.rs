//! What holds whatever is applied: twice is once, configurations that have nothing in common come in any order, and what
//! is compared adds up.

mod model;

use model::Model;
use pintle_apply::managers::{Managers, Updater};
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

type Owners = Managers<&'static str>;

/// Applies by force.
fn apply(model: &Model, live: &Value, managers: &Owners, who: &'static str, config: &Value) -> (Value, Owners) {
    let updater = Updater { versions: model };
    let (object, managers) = updater.apply(live, config, "v1", managers.clone(), &who, true).expect("an apply");
    (object.unwrap_or_else(|| live.clone()), managers)
}

/// A part of a configuration: the fields that are, or are not, among those.
fn part(config: &Value, fields: &[&str], among: bool) -> Value {
    let mut object = config.as_object().cloned().unwrap_or_default();
    object.retain(|key, _| fields.contains(&key) == among);
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
        let (a, b) = (part(&a, &fields, true), part(&b, &fields, false));
        let (live, owners) = apply(&model, &Value::object(), &Owners::new(), "a", &a);
        let one = apply(&model, &live, &owners, "b", &b);
        let (live, owners) = apply(&model, &Value::object(), &Owners::new(), "b", &b);
        let other = apply(&model, &live, &owners, "a", &a);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(before in configurations(), config in configurations()) {
        let model = Model::new();
        let place = model.at("v1").expect("a type");
        let (live, managers) = apply(&model, &Value::object(), &Owners::new(), "before", &before);
        let (live, owners) = apply(&model, &live, &managers, "me", &config);
        let set = place.field_set(&config);
        let again = place.merge(&live, &config).expect("a merge");
        prop_assert!(place.compare(&live, &again).expect("a comparison").is_same());
        prop_assert_eq!(owners.get("me").map(|o| o.set.clone()).unwrap_or_default(), set);
    }

    #[test]
    fn comparing_adds_up(a in configurations(), b in configurations()) {
        let model = Model::new();
        let place = model.at("v1").expect("a type");
        prop_assert_eq!(place.validate(&a, Duplicates::Forbidden), Ok(()));
        prop_assert!(place.compare(&a, &a).expect("a comparison").is_same());
        let (there, back) = (place.compare(&a, &b).expect("there"), place.compare(&b, &a).expect("back"));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert!(there.added.intersection(&there.removed).is_empty());
        prop_assert!(there.added.intersection(&there.modified).is_empty());
    }

    #[test]
    fn what_is_extracted_is_what_was_applied(config in configurations()) {
        let place_of = Model::new();
        let place = place_of.at("v1").expect("a type");
        let set = place.field_set(&config);
        let extracted = place.extract(&config, &place.with_named_fields(&set));
        prop_assert_eq!(place.field_set(&extracted), set);
    }
}
