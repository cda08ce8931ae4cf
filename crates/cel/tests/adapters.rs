//! JSON that is converted by type adapters: escaped names, strings that are timestamps, lists that are sets or maps.

use std::borrow::Cow;

use pintle_cel::{
    Env, EvalError, List, ListTopology, Map, PER_CALL_COST_LIMIT, Timestamp, Type, TypeAdapter, Untyped, Value,
};
use pintle_value::{Object, Str, Value as Json};

/// The adapter of the objects in these tests.
#[derive(Debug)]
struct ObjectAdapter;

/// The adapter of a string that is a timestamp.
#[derive(Debug)]
struct TimestampAdapter;

/// The adapter of a list that is a set, or a map with the given keys.
#[derive(Debug)]
struct ListAdapter(Vec<Str>);

static UNTYPED: Untyped = Untyped;
static TIMESTAMP_ADAPTER: TimestampAdapter = TimestampAdapter;

impl TypeAdapter for ObjectAdapter {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Object(object) => Value::Map(Map::Json { object, adapter: self }),
            other => UNTYPED.read(other),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        let key = if name == "a__dash__b" { "a-b" } else { name };
        let json = object.get(key).filter(|_| key != "unseen")?;
        Some(if name == "when" || name == "never" { TIMESTAMP_ADAPTER.read(json) } else { UNTYPED.read(json) })
    }

    fn field_name<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        match key {
            "a-b" => Some("a__dash__b".into()),
            "unseen" => None,
            key => Some(key.into()),
        }
    }

    fn element<'a>(&'a self, _: &'a [Json], _: usize) -> Option<Value<'a>> {
        None
    }
}

impl TypeAdapter for TimestampAdapter {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json.as_str().and_then(Timestamp::parse) {
            Some(Ok(time)) => Value::Timestamp(time),
            _ => Value::Invalid(EvalError::new("no time")),
        }
    }

    fn field<'a>(&'a self, _: &'a Object, _: &str) -> Option<Value<'a>> {
        None
    }

    fn element<'a>(&'a self, _: &'a [Json], _: usize) -> Option<Value<'a>> {
        None
    }
}

impl TypeAdapter for ListAdapter {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Array(items) => Value::List(List::Json { items, adapter: self }),
            other => UNTYPED.read(other),
        }
    }

    fn field<'a>(&'a self, _: &'a Object, _: &str) -> Option<Value<'a>> {
        None
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        items.get(index).map(|item| UNTYPED.read(item))
    }

    fn topology(&self) -> ListTopology<'_> {
        if self.0.is_empty() { ListTopology::Set } else { ListTopology::Map(&self.0) }
    }
}

fn item(key: &str, value: i64) -> Json {
    Json::Object(Object::from_iter([("key", Json::from(key)), ("value", Json::Int(value))]))
}

#[track_caller]
fn check(expression: &str, expected: bool) {
    evaluate(expression, |result| assert_eq!(*result, Ok(Value::Bool(expected)), "{expression}"));
}

#[track_caller]
fn check_invalid(expression: &str) {
    evaluate(expression, |result| assert_eq!(*result, Err(EvalError::new("no time")), "{expression}"));
}

/// Evaluates an expression over an object, two sets and two list maps.
#[track_caller]
fn evaluate(expression: &str, assert: impl FnOnce(&Result<Value<'_>, EvalError>)) {
    let this = Json::Object(Object::from_iter([
        ("a-b", Json::Int(1)),
        ("when", Json::from("2024-02-29T12:00:00Z")),
        ("nothing", Json::Null),
        ("never", "yesterday".into()),
        ("unseen", Json::Int(2)),
    ]));
    let ints = |ints: &[i64]| Json::Array(ints.iter().copied().map(Json::Int).collect());
    let (set, other_set) = (ints(&[1, 2, 3]), ints(&[3, 1, 2]));
    let (map, other_map) =
        (Json::Array(vec![item("a", 1), item("b", 2)]), Json::Array(vec![item("b", 2), item("a", 1)]));
    let (as_set, as_map) = (ListAdapter(Vec::new()), ListAdapter(vec!["key".into()]));
    let names = ["self", "set", "otherSet", "map", "otherMap"];
    let env = names.iter().fold(Env::kubernetes(), |env, name| env.variable(name, Type::Dyn));
    let bindings = [
        ObjectAdapter.read(&this),
        as_set.read(&set),
        as_set.read(&other_set),
        as_map.read(&map),
        as_map.read(&other_map),
    ];
    let program = env.compile(expression).expect(expression);
    assert(&program.evaluate(&bindings, PER_CALL_COST_LIMIT).result);
}

#[test]
fn fields_are_converted_by_the_adapter() {
    check("self.a__dash__b == 1", true);
    check("has(self.a__dash__b)", true);
    check("has(self.ab)", false);
    check("self.when.getDayOfYear() == 59", true);
    check("self.when + duration('24h') == timestamp('2024-03-01T12:00:00Z')", true);
    check("has(self.nothing) && self.nothing == null", true);
}

#[test]
fn sets_ignore_order_and_add_missing_elements() {
    check("set == otherSet", true);
    check("set == [1, 2]", false);
    check("[1, 2, 3] == otherSet", false);
    check("set + [3, 4] == [4, 3, 2, 1]", true);
    check("(set + [3, 4]).size() == 4", true);
    check("(set + otherSet).map(x, x) == [1, 2, 3]", true);
}

#[test]
fn list_maps_compare_by_key_and_replace_elements() {
    check("map == otherMap", true);
    check("(map + [{'key': 'a'}, {'key': 'c'}]).size() == 3", true);
    check("(map + otherMap).size() == 2", true);
    check("(map + otherMap)[0].key == 'a'", true);
    check("map + otherMap == otherMap", true);
}

#[test]
fn invalid_values_fail_where_they_are_used() {
    check("has(self.never) || true", true);
    check("self != {} && dyn(self).all(k, k != 'never' || self.never == self.when) || true", true);
    check_invalid("has(self.never)");
    check_invalid("self.never == self.when");
    check_invalid("self == self");
    check("self != self", true);
    check("self.never == timestamp('2024-03-01T12:00:00Z') || true", true);
    check("self.map(k, k).size() == 4", true);
    check("'a__dash__b' in self && !('unseen' in self)", true);
}
