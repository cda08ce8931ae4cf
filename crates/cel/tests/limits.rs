//! Limits on the size, depth and cost of expressions, and interrupts.

mod fixture;

use std::time::{Duration, Instant};

use fixture::Fixture;
use pintle_budget::{Budget, Exhausted, Limits, limit_memory};
use pintle_cel::{Env, EvalError, EvalErrorKind, PER_CALL_COST_LIMIT, Type, Value};

/// For every valid expression of a table, the evaluation succeeds with its exact cost as the limit. With a limit that
/// is one less, it fails.
#[track_caller]
fn check_cost_limit(table: &str) {
    let fixture = Fixture::kubernetes();
    let bindings = fixture.bindings();
    for row in table.trim_end().split("\n\n") {
        let expression = row.lines().next().unwrap_or_default();
        let Ok(program) = fixture.env.compile(expression) else { continue };
        let full = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
        let exact = program.evaluate(&bindings, full.cost);
        // The texts are compared, because NaN does not equal itself.
        assert_eq!(format!("{:?}", exact.result), format!("{:?}", full.result), "{expression}");
        if full.cost > 0 {
            let short = program.evaluate(&bindings, full.cost - 1);
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
        let error = program.evaluate(&bindings, 5).result.expect_err(expression);
        assert!(error.is_fatal(), "{expression}: {error}");
    }
}

#[test]
fn long_comprehensions_are_interrupted() {
    let env = Env::kubernetes();
    let program = env.compile("lists.range(100000).all(v, v >= 0)").expect("valid");
    let limits = Limits { memory: usize::MAX, processor_time: Duration::MAX };
    let budget = Budget::new(limits, None);
    budget.set_deadline(Instant::now());
    let result = {
        let _entered = budget.enter();
        program.evaluate(&[], u64::MAX).result
    };
    assert_eq!(result.map_err(|error| error.to_string()), Err("operation interrupted".to_owned()));
    assert_eq!(budget.exhausted(), Some(Exhausted::Deadline));
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
    let result = program.evaluate(&[], PER_CALL_COST_LIMIT).result;
    assert_eq!(result, Err(EvalError::new("no such attribute(s): x")));
}

/// Evaluates an expression without a cost limit, with 1 MiB of memory. `s` is a text of 200 characters, and `l` is a
/// list of 200 such texts.
fn evaluate_large(expression: &str) -> Result<String, String> {
    let env = Env::kubernetes().variable("s", Type::String).variable("l", Type::list(Type::String));
    let program = env.compile(expression).map_err(|error| error.to_string())?;
    let text = "a".repeat(200);
    let bindings = [Value::str(&text), Value::list((0..200).map(|_| Value::str(&text)).collect())];
    let result = limit_memory(1 << 20, || program.evaluate(&bindings, u64::MAX).result);
    let value = result.map_err(|error| error.to_string())?;
    Ok(value.size().map_or_else(|| format!("{value:?}"), |size| size.to_string()))
}

#[test]
fn values_that_are_much_larger_than_what_they_are_made_of_are_not_built() {
    let too_large = [
        "s.replace('', s).replace('', s)",
        "s.replace('', s).replace('a', s)",
        "l.map(x, x.replace('a', s))",
        "l.map(x, [x.replace('a', s)])",
        "l.map(x, {x.replace('a', s): 1})",
        "l.transformMap(i, x, x.replace('a', s))",
        "l.transformMapEntry(i, x, {string(i): x.replace('a', s)})",
        "l.transformList(i, x, x.replace('a', s))",
        "l.map(x, l.map(y, y + 'b'))",
        "l.map(x, l + l).flatten()",
        "l.map(x, l.map(y, l)).flatten().flatten()",
        "l.map(x, l.join()).join()",
        "l.map(x, (s + s + s + s + s).replace('', s + s + s + s)).size() > 0",
        "l.map(x, l.join().split('')).size() > 0",
        "l.join().replace('', 'ab').split('').map(c, c + s).size() > 0",
        "l.map(x, '%s%s%s%s'.format([l, l, l, l])).size() > 0",
        "'%s%s'.format([l.map(x, l), l.map(x, l)])",
        "l.map(x, strings.quote(l.join())).size() > 0",
        "l.map(x, bytes(l.join()) + bytes(s)).size() > 0",
        "l.map(x, l.join().findAll('a')).size() > 0",
        "l.map(x, l.map(y, optional.of(y + 'b'))).size() > 0",
        "lists.range(100).map(i, lists.range(1000)).size() > 0",
    ];
    for expression in too_large {
        let expect = Err("operation cancelled: memory limit exceeded".to_owned());
        assert_eq!(evaluate_large(expression), expect, "{expression}");
    }
}

#[test]
fn values_that_are_not_held_at_once_are_not_added_up() {
    let small = [
        ("l.all(x, x.replace('a', s).size() == 40000)", "Bool(true)"),
        ("l.map(x, x.replace('a', s).size()).size()", "Int(200)"),
        ("l.filter(x, x.replace('a', s) != '').size()", "Int(200)"),
        ("l.exists(x, x.replace('a', s) == '')", "Bool(false)"),
        ("l.map(x, x.replace('a', s).substring(0, 10))", "200"),
        ("l.map(x, [x.replace('a', s), x][1])", "200"),
        ("l.map(x, l).size()", "Int(200)"),
        ("l.map(x, dyn(l)).map(x, dyn(x)).size()", "Int(200)"),
        ("l.map(x, x.lowerAscii()).map(x, x.upperAscii()).size()", "Int(200)"),
        ("l.join().replace('', 'abc').size()", "Int(160003)"),
        ("l.sortBy(x, x.replace('a', s).size()).size()", "Int(200)"),
        ("lists.range(20000).size()", "Int(20000)"),
    ];
    for (expression, expect) in small {
        assert_eq!(evaluate_large(expression), Ok(expect.to_owned()), "{expression}");
    }
}

#[test]
fn values_that_contain_another_many_times_end_with_the_time_of_the_request() {
    let doubled = (0..40).fold("[1]".to_owned(), |value, i| format!("[{value}].map(v{i}, [v{i}, v{i}])[0]"));
    let limits = Limits { memory: usize::MAX, processor_time: Duration::from_millis(50) };
    for operation in
        ["V == V", "'%s'.format([V]) == ''", "V in [V, V]", "[V, V].distinct().size() == 0", "sets.contains([V], [V])"]
    {
        let expression = operation.replace('V', &doubled);
        let program = Env::kubernetes().compile(&expression).unwrap_or_else(|error| panic!("{operation}: {error}"));
        let budget = Budget::new(limits, None);
        let _entered = budget.enter();
        assert!(program.evaluate(&[], u64::MAX).result.is_err(), "{operation}");
    }
}
