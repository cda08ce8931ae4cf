//! Property tests: arbitrary texts and arbitrary nesting neither panic nor exceed limits.

mod fixture;

use fixture::Fixture;
use pintle_cel::{Env, PER_CALL_COST_LIMIT, Type, UnknownSizes, Value};
use proptest::prelude::*;

/// Compiles, estimates and evaluates an expression, if it is valid.
fn run(fixture: &Fixture, expression: &str) {
    let Ok(checked) = fixture.env.check(expression) else { return };
    let Ok(program) = fixture.env.program(&checked) else { return };
    let bindings = fixture.bindings();
    let estimate = fixture.env.estimate_cost(&checked, &UnknownSizes);
    assert!(estimate.min <= estimate.max, "{expression}: {estimate:?}");
    let limit = 10_000;
    let evaluation = program.evaluate(&bindings, limit);
    // An evaluation stops at the cost limit, and its result is deterministic.
    let again = program.evaluate(&bindings, limit);
    assert_eq!(evaluation.cost, again.cost, "{expression}");
    if evaluation.cost > limit {
        assert!(evaluation.result.is_err(), "{expression}");
    }
}

/// Tokens and fragments of expressions, to be concatenated at random.
fn token() -> impl Strategy<Value = &'static str> {
    const TOKENS: [&str; 62] = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "?",
        ":",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        " in ",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'x'",
        "r'\\d'",
        "true",
        "null",
        "x",
        "s",
        "li",
        "m",
        "self",
        "self.items",
        "dy",
        "has(",
        ".all(v, ",
        ".exists(v, ",
        ".map(v, ",
        ".filter(v, ",
        ".size()",
        ".?",
        "[?",
        "optional.of(",
        ".orValue(",
        "size(",
        "int(",
        "string(",
        ".matches(",
        ".split(",
        ".format([",
        "duration('1h')",
        "ip('::1')",
        "quantity('1')",
        " ",
        "\n",
        "ü",
        "`",
    ];
    prop::sample::select(TOKENS.to_vec())
}

/// Well-formed expressions over integers, lists and bools.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "x",
        "y",
        "self.replicas",
        "li[0]",
        "s.size()",
        "self.nested.n",
        "9223372036854775807",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(6, 64, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone(), prop::sample::select(vec!["+", "-", "*", "/", "%"]))
                .prop_map(|(a, b, op)| format!("({a} {op} {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} < {b} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}].map(v, v + {b}).sum()")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("([{a}].exists(v, v == {b}) || {a} > 3 ? 1 : 2)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("optional.of({a}).orValue({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("li[?{a}].orValue({b})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_texts_do_not_panic(text in "\\PC{0,60}") {
        run(&Fixture::kubernetes(), &text);
    }

    #[test]
    fn arbitrary_token_sequences_do_not_panic(tokens in prop::collection::vec(token(), 0..40)) {
        run(&Fixture::kubernetes(), &tokens.concat());
    }

    #[test]
    fn arbitrary_regular_expressions_do_not_panic(pattern in "[a-z\\[\\](){}*+?.^$|\\\\dDwWsSbBpPQE0-9,:&-]{0,24}") {
        let env = Env::kubernetes().variable("p", Type::String);
        let program = env.compile("'text'.matches(p)").expect("valid");
        let bindings = [Value::str(&pattern)];
        let _ = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
    }

    #[test]
    fn well_formed_expressions_compile(expression in expression()) {
        let fixture = Fixture::kubernetes();
        prop_assert!(fixture.env.compile(&expression).is_ok(), "{}", expression);
        run(&fixture, &expression);
    }

    #[test]
    fn logical_operators_are_commutative(a in 0..3_usize, b in 0..3_usize) {
        let terms = ["true", "false", "1 / (x - x) > 0"];
        let fixture = Fixture::kubernetes();
        let bindings = fixture.bindings();
        for op in ["&&", "||"] {
            let value = |left: &str, right: &str| {
                let program = fixture.env.compile(&format!("{left} {op} {right}")).expect("valid");
                program.evaluate(&bindings, 100).result.ok().and_then(|value| value.as_bool())
            };
            prop_assert_eq!(value(terms[a], terms[b]), value(terms[b], terms[a]));
        }
    }
}

#[test]
fn arbitrary_nesting_does_not_panic() {
    // In debug builds, stack frames are several times as large as in release builds.
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    thread.spawn(run_nested_expressions).expect("the thread starts").join().expect("nothing panics");
}

fn run_nested_expressions() {
    let fixture = Fixture::kubernetes();
    let wraps: [(&str, &str); 9] = [
        ("(", ")"),
        ("[", "]"),
        ("{'a': ", "}"),
        ("!", ""),
        ("-", ""),
        ("size([", "])"),
        ("[1].map(v, ", ")"),
        ("true ? ", " : 1"),
        ("optional.of(", ")"),
    ];
    for (before, after) in wraps {
        for depth in [1, 10, 100, 200, 249, 260, 3_000] {
            run(&fixture, &format!("{}1{}", before.repeat(depth), after.repeat(depth)));
        }
    }
    // Several kinds of nesting combined, each close to its limit.
    let inner = format!("1{}", " + 1".repeat(120));
    run(&fixture, &format!("{}{inner}{}", "[{'a': (".repeat(80), ")}]".repeat(80)));
}
