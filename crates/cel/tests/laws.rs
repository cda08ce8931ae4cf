//! Laws that hold for any text and any nesting.

mod world;

use pintle_cel::{Budget, Env, Type, UnknownSizes, Value};
use proptest::prelude::*;
use world::World;

/// Compiles, estimates and evaluates whatever it is.
fn run(world: &World, expression: &str) {
    let Ok(checked) = world.env.check(expression) else { return };
    let Ok(program) = world.env.program(&checked) else { return };
    let bindings = world.bindings();
    let estimate = world.env.estimate(&checked, &UnknownSizes);
    assert!(estimate.min <= estimate.max, "{expression}: {estimate:?}");
    let limit = 10_000;
    let evaluation = program.evaluate(&bindings, Budget::limit(limit));
    // What goes over the limit stops there, and the same comes out every time.
    let again = program.evaluate(&bindings, Budget::limit(limit));
    assert_eq!(evaluation.cost, again.cost, "{expression}");
    if evaluation.cost > limit {
        assert!(evaluation.result.is_err(), "{expression}");
    }
}

/// Parts of expressions, to be put together at random.
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

/// Well-formed expressions over integers, lists and truth values.
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
    fn any_text_is_answered(text in "\\PC{0,60}") {
        run(&World::kubernetes(), &text);
    }

    #[test]
    fn any_tokens_are_answered(tokens in prop::collection::vec(token(), 0..40)) {
        run(&World::kubernetes(), &tokens.concat());
    }

    #[test]
    fn any_pattern_is_answered(pattern in "[a-z\\[\\](){}*+?.^$|\\\\dDwWsSbBpPQE0-9,:&-]{0,24}") {
        let env = Env::kubernetes().variable("p", Type::String);
        let program = env.compile("'text'.matches(p)").expect("valid");
        let bindings = [Value::str(&pattern)];
        let _ = program.evaluate(&bindings, Budget::limit(Budget::PER_CALL));
    }

    #[test]
    fn well_formed_expressions_are_answered(expression in expression()) {
        let world = World::kubernetes();
        prop_assert!(world.env.compile(&expression).is_ok(), "{}", expression);
        run(&world, &expression);
    }

    #[test]
    fn conjunction_and_disjunction_commute(a in 0..3_usize, b in 0..3_usize) {
        let terms = ["true", "false", "1 / (x - x) > 0"];
        let world = World::kubernetes();
        let bindings = world.bindings();
        for op in ["&&", "||"] {
            let value = |left: &str, right: &str| {
                let program = world.env.compile(&format!("{left} {op} {right}")).expect("valid");
                program.evaluate(&bindings, Budget::limit(100)).result.ok().and_then(|value| value.as_bool())
            };
            prop_assert_eq!(value(terms[a], terms[b]), value(terms[b], terms[a]));
        }
    }
}

#[test]
fn arbitrary_nesting_is_answered() {
    // Without optimisation, frames are several times as large as they are in the server.
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    thread.spawn(nest).expect("the thread starts").join().expect("nothing panics");
}

fn nest() {
    let world = World::kubernetes();
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
            run(&world, &format!("{}1{}", before.repeat(depth), after.repeat(depth)));
        }
    }
    // All kinds of nesting at once, each close to its limit.
    let inner = format!("1{}", " + 1".repeat(120));
    run(&world, &format!("{}{inner}{}", "[{'a': (".repeat(80), ")}]".repeat(80)));
}
