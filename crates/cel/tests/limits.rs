//! Limits on the size, depth and cost of expressions, and interrupts.

mod fixture;

use std::cell::Cell;

use fixture::Fixture;
use pintle_cel::{Budget, Env, EvalError, EvalErrorKind, Type, Value};

/// For every valid expression of a table: the evaluation succeeds with its exact cost as the limit and fails with one
/// less.
#[track_caller]
fn check_cost_limit(table: &str) {
    let fixture = Fixture::kubernetes();
    let bindings = fixture.bindings();
    for row in table.trim_end().split("\n\n") {
        let expression = row.lines().next().unwrap_or_default();
        let Ok(program) = fixture.env.compile(expression) else { continue };
        let full = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
        let exact = program.evaluate(&bindings, Budget::limit(full.cost));
        // Compares the texts, since NaN does not equal itself.
        assert_eq!(format!("{:?}", exact.result), format!("{:?}", full.result), "{expression}");
        if full.cost > 0 {
            let short = program.evaluate(&bindings, Budget::limit(full.cost - 1));
            let failure = short.result.expect_err(expression);
            assert_eq!(*failure.kind(), EvalErrorKind::CostLimit, "{expression}");
            assert_eq!(failure.to_string(), "operation cancelled: actual cost limit exceeded");
        }
    }
}

#[test]
fn evaluations_stop_exactly_at_their_cost_limit() {
    check_cost_limit(include_str!("tables/operators.txt"));
    check_cost_limit(include_str!("tables/objects.txt"));
    check_cost_limit(include_str!("tables/macros.txt"));
    check_cost_limit(include_str!("tables/strings.txt"));
    check_cost_limit(include_str!("tables/conversions.txt"));
    check_cost_limit(include_str!("tables/kubernetes.txt"));
}

#[test]
fn exceeding_the_cost_limit_is_not_absorbed() {
    let env = Env::kubernetes().variable("x", Type::Int);
    let bindings = [Value::Int(1)];
    for expression in ["[1, 2, 3].all(v, v > x) || true", "[1, 2, 3].map(v, v + x).size() > 0 || true"] {
        let program = env.compile(expression).expect(expression);
        let error = program.evaluate(&bindings, Budget::limit(5)).result.expect_err(expression);
        assert!(error.is_fatal(), "{expression}: {error}");
    }
}

#[test]
fn long_comprehensions_are_interrupted() {
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

/// Checks the first line of the compile error.
#[track_caller]
fn check_compile_error(expression: &str, expected: &str) {
    let report = match Env::kubernetes().compile(expression) {
        Ok(_) => "valid".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(report.lines().next().unwrap_or_default(), expected);
}

#[test]
fn expression_size_is_limited() {
    check_compile_error(
        &format!("'{}'", "a".repeat(100_000)),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100002, limit 100000",
    );
    check_compile_error(&format!("'{}' == ''", "ü".repeat(99_900)), "valid");
}

#[test]
fn expression_depth_is_limited() {
    const RECURSION_LIMIT: &str = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    let nested = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    check_compile_error(&nested(249), "valid");
    check_compile_error(&nested(250), RECURSION_LIMIT);
    let lists = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    check_compile_error(&lists(249), "valid");
    check_compile_error(&lists(5_000), RECURSION_LIMIT);
    for (begin, more) in [("1", " + 1"), ("1", " * 1"), ("dyn(1)", " < dyn(1)"), ("dyn(1)", ".a"), ("dyn(1)", "[0]")] {
        let chain = |n: usize| format!("{begin}{}", more.repeat(n));
        check_compile_error(&chain(250), "valid");
        check_compile_error(&chain(251), "ERROR: <input>:-1:0: max recursion depth exceeded");
        check_compile_error(&chain(10_000), "ERROR: <input>:-1:0: max recursion depth exceeded");
    }
    check_compile_error(&format!("{}1{}", "(1 + ".repeat(124), ")".repeat(124)), "valid");
    check_compile_error(&format!("{}1{}", "(1 + ".repeat(125), ")".repeat(125)), RECURSION_LIMIT);
    check_compile_error(&format!("true{}", " && true".repeat(5_000)), "valid");
    check_compile_error(&format!("{}true", "!".repeat(5_000)), "valid");
    let conditionals = |n: usize| format!("{}1", "true ? 1 : ".repeat(n));
    check_compile_error(&conditionals(249), "valid");
    check_compile_error(&conditionals(250), RECURSION_LIMIT);
}

#[test]
fn missing_bindings_are_an_error() {
    let program = Env::kubernetes().variable("x", Type::Int).compile("x + 1").expect("valid");
    let result = program.evaluate(&[], Budget::limit(Budget::PER_CALL)).result;
    assert_eq!(result, Err(EvalError::new("no such attribute(s): x")));
}
