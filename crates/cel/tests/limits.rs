//! Bounds: on the text, its depth, what an evaluation costs, and interruptions.

mod world;

use std::cell::Cell;

use pintle_cel::{Budget, Env, EvalError, Failure, Type, Value};
use world::World;

/// Every expression of a table that evaluates: with a budget that is one short it is cut off, with the exact one not.
#[track_caller]
fn check_budget(table: &str) {
    let world = World::kubernetes();
    let bindings = world.bindings();
    for row in table.trim_end().split("\n\n") {
        let expression = row.lines().next().unwrap_or_default();
        let Ok(program) = world.env.compile(expression) else { continue };
        let full = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
        let exact = program.evaluate(&bindings, Budget::limit(full.cost));
        // By their text, since what is not a number does not equal itself.
        assert_eq!(format!("{:?}", exact.result), format!("{:?}", full.result), "{expression}");
        if full.cost > 0 {
            let short = program.evaluate(&bindings, Budget::limit(full.cost - 1));
            let failure = short.result.expect_err(expression);
            assert_eq!(*failure.failure(), Failure::CostLimit, "{expression}");
            assert_eq!(failure.to_string(), "operation cancelled: actual cost limit exceeded");
        }
    }
}

#[test]
fn an_evaluation_stays_within_its_budget() {
    check_budget(include_str!("tables/operators.txt"));
    check_budget(include_str!("tables/objects.txt"));
    check_budget(include_str!("tables/macros.txt"));
    check_budget(include_str!("tables/strings.txt"));
    check_budget(include_str!("tables/conversions.txt"));
    check_budget(include_str!("tables/kubernetes.txt"));
}

#[test]
fn nothing_absorbs_an_exceeded_budget() {
    let env = Env::kubernetes().variable("x", Type::Int);
    let bindings = [Value::Int(1)];
    for expression in ["[1, 2, 3].all(v, v > x) || true", "[1, 2, 3].map(v, v + x).size() > 0 || true"] {
        let program = env.compile(expression).expect(expression);
        let error = program.evaluate(&bindings, Budget::limit(5)).result.expect_err(expression);
        assert!(error.is_final(), "{expression}: {error}");
    }
}

#[test]
fn long_loops_are_interrupted() {
    let env = Env::kubernetes();
    let program = env.compile("lists.range(100000).all(v, v >= 0)").expect("valid");
    let asked = Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let budget = Budget { limit: u64::MAX, interrupt: Some(&interrupted) };
    let result = program.evaluate(&[], budget).result;
    assert_eq!(result.map_err(|error| error.to_string()), Err("operation interrupted".to_owned()));
    assert_eq!(asked.get(), 3);
}

/// Compares the report on an expression, without the line that it is about.
#[track_caller]
fn check_report(expression: &str, wanted: &str) {
    let report = match Env::kubernetes().compile(expression) {
        Ok(_) => "valid".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(report.lines().next().unwrap_or_default(), wanted);
}

#[test]
fn the_text_is_bounded() {
    check_report(
        &format!("'{}'", "a".repeat(100_000)),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100002, limit 100000",
    );
    check_report(&format!("'{}' == ''", "ü".repeat(99_900)), "valid");
}

#[test]
fn the_depth_is_bounded() {
    const TOO_DEEP: &str = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    check_report(&nested(249), "valid");
    check_report(&nested(250), TOO_DEEP);
    let lists = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    check_report(&lists(249), "valid");
    check_report(&lists(5_000), TOO_DEEP);
    for (begin, more) in [("1", " + 1"), ("1", " * 1"), ("dyn(1)", " < dyn(1)"), ("dyn(1)", ".a"), ("dyn(1)", "[0]")] {
        let chain = |n: usize| format!("{begin}{}", more.repeat(n));
        check_report(&chain(250), "valid");
        check_report(&chain(251), "ERROR: <input>:-1:0: max recursion depth exceeded");
        check_report(&chain(10_000), "ERROR: <input>:-1:0: max recursion depth exceeded");
    }
    check_report(&format!("{}1{}", "(1 + ".repeat(124), ")".repeat(124)), "valid");
    check_report(&format!("{}1{}", "(1 + ".repeat(125), ")".repeat(125)), TOO_DEEP);
    check_report(&format!("true{}", " && true".repeat(5_000)), "valid");
    check_report(&format!("{}true", "!".repeat(5_000)), "valid");
    let conditionals = |n: usize| format!("{}1", "true ? 1 : ".repeat(n));
    check_report(&conditionals(249), "valid");
    check_report(&conditionals(250), TOO_DEEP);
}

#[test]
fn missing_variables_are_an_error() {
    let program = Env::kubernetes().variable("x", Type::Int).compile("x + 1").expect("valid");
    let result = program.evaluate(&[], Budget::limit(Budget::PER_CALL)).result;
    assert_eq!(result, Err(EvalError::new("no such attribute(s): x")));
}
