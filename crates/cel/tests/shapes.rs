//! JSON that is read through shapes: names that differ, strings that are times, lists that are sets or maps.

use std::borrow::Cow;

use pintle_cel::{Budget, Env, EvalError, List, Map, Shape, Timestamp, Topology, Type, Untyped, Value};
use pintle_value::{Object, Str, Value as Json};

/// The shape of the objects in these tests.
#[derive(Debug)]
struct Root;

/// A string that is a time.
#[derive(Debug)]
struct Time;

/// A list with a topology.
#[derive(Debug)]
struct Listed(Vec<Str>);

static UNTYPED: Untyped = Untyped;
static TIME: Time = Time;

impl Shape for Root {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Object(object) => Value::Map(Map::Json { object, shape: self }),
            other => UNTYPED.read(other),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        let key = if name == "a__dash__b" { "a-b" } else { name };
        let json = object.get(key).filter(|_| key != "unseen")?;
        Some(if name == "when" || name == "never" { TIME.read(json) } else { UNTYPED.read(json) })
    }

    fn name_of<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
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

impl Shape for Time {
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

impl Shape for Listed {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match json {
            Json::Array(items) => Value::List(List::Json { items, shape: self }),
            other => UNTYPED.read(other),
        }
    }

    fn field<'a>(&'a self, _: &'a Object, _: &str) -> Option<Value<'a>> {
        None
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        items.get(index).map(|item| UNTYPED.read(item))
    }

    fn topology(&self) -> Topology<'_> {
        if self.0.is_empty() { Topology::Set } else { Topology::Map(&self.0) }
    }
}

fn item(key: &str, value: i64) -> Json {
    Json::Object(Object::from_iter([("key", Json::from(key)), ("value", Json::Int(value))]))
}

#[track_caller]
fn check(expression: &str, wanted: bool) {
    evaluate(expression, |result| assert_eq!(*result, Ok(Value::Bool(wanted)), "{expression}"));
}

#[track_caller]
fn fails(expression: &str) {
    evaluate(expression, |result| assert_eq!(*result, Err(EvalError::new("no time")), "{expression}"));
}

/// Evaluates over an object, two sets and two maps of items.
#[track_caller]
fn evaluate(expression: &str, judge: impl FnOnce(&Result<Value<'_>, EvalError>)) {
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
    let (as_set, as_map) = (Listed(Vec::new()), Listed(vec!["key".into()]));
    let names = ["self", "set", "otherSet", "map", "otherMap"];
    let env = names.iter().fold(Env::kubernetes(), |env, name| env.variable(name, Type::Dyn));
    let bindings =
        [Root.read(&this), as_set.read(&set), as_set.read(&other_set), as_map.read(&map), as_map.read(&other_map)];
    let program = env.compile(expression).expect(expression);
    judge(&program.evaluate(&bindings, Budget::limit(Budget::PER_CALL)).result);
}

#[test]
fn names_and_types_come_from_the_shape() {
    check("self.a__dash__b == 1", true);
    check("has(self.a__dash__b)", true);
    check("has(self.ab)", false);
    check("self.when.getDayOfYear() == 59", true);
    check("self.when + duration('24h') == timestamp('2024-03-01T12:00:00Z')", true);
    check("has(self.nothing) && self.nothing == null", true);
}

#[test]
fn sets_compare_without_order_and_add_what_is_new() {
    check("set == otherSet", true);
    check("set == [1, 2]", false);
    check("[1, 2, 3] == otherSet", false);
    check("set + [3, 4] == [4, 3, 2, 1]", true);
    check("(set + [3, 4]).size() == 4", true);
    check("(set + otherSet).map(x, x) == [1, 2, 3]", true);
}

#[test]
fn maps_of_items_compare_by_key_and_replace() {
    check("map == otherMap", true);
    check("(map + [{'key': 'a'}, {'key': 'c'}]).size() == 3", true);
    check("(map + otherMap).size() == 2", true);
    check("(map + otherMap)[0].key == 'a'", true);
    check("map + otherMap == otherMap", true);
}

#[test]
fn what_cannot_be_read_is_an_error_where_it_is_used() {
    check("has(self.never) || true", true);
    check("self != {} && dyn(self).all(k, k != 'never' || self.never == self.when) || true", true);
    fails("has(self.never)");
    fails("self.never == self.when");
    fails("self == self");
    check("self != self", true);
    check("self.never == timestamp('2024-03-01T12:00:00Z') || true", true);
    check("self.map(k, k).size() == 4", true);
    check("'a__dash__b' in self && !('unseen' in self)", true);
}
