//! What callers add: a library of their own, variables that are worked out when asked for, programs shared by threads.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cel::{
    Budget, CallEstimate, CostEstimate, Env, EvalError, Fields, Function, Library, Map, Opaque, Outcome, Overload,
    Program, Type, UnknownSizes, Value,
};

/// Someone who may or may not do things.
#[derive(Debug)]
struct Actor(&'static str);

impl Opaque for Actor {
    fn type_name(&self) -> &str {
        "test.Actor"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `actor.may('verb')`, which costs as much as asking does.
fn actors() -> Library {
    let may = Overload::member("actor_may", &[Type::object("test.Actor"), Type::String], Type::Bool)
        .run(|args| match args {
            [actor, Value::String(verb)] => {
                let actor = actor.as_opaque::<Actor>().ok_or_else(EvalError::no_overload)?;
                Ok(Value::Bool(actor.0 == "admin" || &**verb == "get"))
            }
            _ => Err(EvalError::no_overload()),
        })
        .charge(|_, _| 1_000)
        .estimate(|_| Some(CallEstimate::cost(CostEstimate::fixed(1_000))));
    Library { functions: vec![Function::new("may").overload(may)], ..Library::default() }
}

/// Compiles an expression over an actor and evaluates it.
#[track_caller]
fn check(expression: &str, actor: &'static str, wanted: &str, cost: u64) {
    let env = Env::kubernetes().library(&actors()).variable("actor", Type::object("test.Actor"));
    let program = env.compile(expression).expect(expression);
    let bindings = [Value::opaque(Actor(actor))];
    let evaluation = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
    let found = evaluation.result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
    assert_eq!((found.as_str(), evaluation.cost), (wanted, cost), "{expression}");
}

#[test]
fn libraries_come_from_outside() {
    check("actor.may('get')", "admin", "Bool(true)", 1_001);
    check("actor.may('get')", "reader", "Bool(true)", 1_001);
    check("actor.may('delete')", "reader", "Bool(false)", 1_001);
    check("actor.may('delete') || actor.may('get')", "reader", "Bool(true)", 2_002);
    check("actor == actor", "reader", "Bool(true)", 3);
    check("actor.may(dyn(1))", "reader", "no such overload: may(test.Actor, int)", 1_001);
}

#[test]
fn their_costs_are_estimated() {
    let env = Env::kubernetes().library(&actors()).variable("actor", Type::object("test.Actor"));
    let checked = env.check("actor.may('a') || actor.may('b')").expect("valid");
    assert_eq!(env.estimate(&checked, &UnknownSizes), CostEstimate { min: 1_001, max: 2_002 });
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Fields for Counted {
    fn field(&self, name: &str) -> Option<Outcome<Value<'_>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match name {
            "five" => Some(Ok(Value::Int(5))),
            "broken" => Some(Err(EvalError::new("broken"))),
            _ => None,
        }
    }
}

#[test]
fn fields_are_worked_out_when_asked_for() {
    let env = Env::kubernetes().variable("variables", Type::map(Type::String, Type::Dyn));
    let evaluate = |expression: &str| {
        let program = env.compile(expression).expect(expression);
        let counted = Counted::default();
        let bindings = [Value::Map(Map::Fields(&counted))];
        let result = program.evaluate(&bindings, Budget::limit(100)).result;
        let text = result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        (text, counted.0.load(Ordering::Relaxed))
    };
    assert_eq!(evaluate("variables.five == 5"), ("Bool(true)".to_owned(), 1));
    assert_eq!(evaluate("true || variables.five == 5"), ("Bool(true)".to_owned(), 0));
    assert_eq!(evaluate("variables.broken"), ("broken".to_owned(), 1));
    assert_eq!(evaluate("variables.broken == 1 || true"), ("Bool(true)".to_owned(), 1));
    assert_eq!(evaluate("variables.nothing"), ("no such key: nothing".to_owned(), 1));
}

#[test]
fn programs_are_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let env = Env::kubernetes().variable("x", Type::Int);
    let program: Program = env.compile("x in [1, 2, 3] && ip('::1').family() == 6").expect("valid");
    shared(&program);
    shared(&env);
    std::thread::scope(|scope| {
        for x in 0..4 {
            let program = &program;
            scope.spawn(move || {
                let bindings = [Value::Int(x)];
                let result = program.evaluate(&bindings, Budget::limit(100)).result;
                assert_eq!(result, Ok(Value::Bool(x > 0)));
            });
        }
    });
}

#[test]
fn it_shows_which_variables_are_used() {
    let env = Env::kubernetes().variable("self", Type::Dyn).variable("oldSelf", Type::Dyn);
    let uses = |expression: &str| {
        let checked = env.check(expression).expect(expression);
        (checked.uses("self"), checked.uses("oldSelf"))
    };
    assert_eq!(uses("self.a == 1"), (true, false));
    assert_eq!(uses("self.a == oldSelf.a"), (true, true));
    assert_eq!(uses("[1].all(oldSelf, oldSelf > 0)"), (false, true));
    assert_eq!(uses("true || has(oldSelf.a)"), (false, true));
}
