//! CEL: expressions are compiled, their cost is estimated, and they are evaluated within a budget. Another target
//! compiles regular expressions.

use std::sync::{Arc, LazyLock};

use pintle_cel::{Env, Type, TypeProvider, UnknownSizes, compile_pattern, untyped};
use pintle_value::{Value, object};

/// The cost limit of an evaluation. An expression of Kubernetes may cost a hundred times as much.
const COST: u64 = 10_000;

struct FuzzTypes;

impl TypeProvider for FuzzTypes {
    fn has_type(&self, name: &str) -> bool {
        matches!(name, "Obj" | "Item")
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        Some(match (type_name, field) {
            ("Obj", "replicas" | "maxReplicas" | "missing") | ("Item", "n") => Type::Int,
            ("Obj", "name" | "opt") | ("Item", "name") => Type::String,
            ("Obj", "items") => Type::list(Type::object("Item")),
            ("Obj", "labels") => Type::map(Type::String, Type::String),
            ("Obj", "tags") => Type::list(Type::String),
            ("Obj", "nested") => Type::object("Item"),
            _ => return None,
        })
    }
}

/// The variables of the tables of CEL's own tests. The seeds use them.
struct Fixture {
    env: Env,
    data: Vec<Value>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let item = |name: &str, n: i64| object! { "name": name, "n": n };
    let this = object! {
        "replicas": 3, "maxReplicas": 5, "name": "web-server", "tags": vec!["a", "b"],
        "items": vec![item("a1", 1), item("b2", 2)], "labels": object! { "app": "web" }, "nested": item("in", 9),
    };
    let strings = Type::map(Type::String, Type::String);
    let variables = [
        ("self", Type::object("Obj"), this.clone()),
        ("s", Type::String, "hello world".into()),
        ("u", Type::String, "ünïcödé ✓".into()),
        ("x", Type::Int, Value::Int(7)),
        ("y", Type::Int, Value::Int(-3)),
        ("d", Type::Double, Value::Float(2.5)),
        ("b", Type::Bool, Value::Bool(true)),
        ("li", Type::list(Type::Int), vec![3, 1, 2].into()),
        ("ls", Type::list(Type::String), vec!["b", "a", "c"].into()),
        ("m", strings.clone(), object! { "k1": "v1", "k2": "v2" }),
        ("lm", Type::list(strings), vec![object! { "a": "1" }, object! { "a": "2", "b": "3" }].into()),
        ("dy", Type::Dyn, this),
        ("e", Type::list(Type::Int), Value::Array(Vec::new())),
        ("dn", Type::Dyn, Value::Int(5)),
        ("ds", Type::Dyn, "dyn".into()),
    ];
    let mut env = Env::kubernetes().type_provider(Arc::new(FuzzTypes));
    let mut data = Vec::new();
    for (name, ty, value) in variables {
        env = env.variable(name, ty);
        data.push(value);
    }
    Fixture { env, data }
});

pub(super) fn expression(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let fixture = &*FIXTURE;
    let checked = match fixture.env.check(text) {
        Ok(checked) => checked,
        Err(issues) => return drop(issues.to_string()),
    };
    // As in upstream's estimate, the minimum may exceed the maximum, for example for `url('') == url('')`.
    let _ = fixture.env.estimate_cost(&checked, &UnknownSizes);
    let Ok(program) = fixture.env.program(&checked) else { return };
    let bindings: Vec<_> = fixture.data.iter().map(untyped).collect();
    let evaluation = program.evaluate(&bindings, COST);
    let again = program.evaluate(&bindings, COST);
    assert_eq!(evaluation.cost, again.cost, "an evaluation is deterministic");
    assert!(evaluation.cost <= COST || evaluation.result.is_err(), "an evaluation ends at its limit");
}

/// The input is a pattern and a text, separated by a zero byte.
pub(super) fn pattern(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (pattern, text) = text.split_once('\0').unwrap_or((text, "a1-b2.example"));
    if let Ok(compiled) = compile_pattern(pattern)
        && let Ok(regex) = compiled.searching(text)
    {
        let _ = regex.is_match(text);
    }
}

/// The expressions of the tables of CEL's own tests.
pub(super) fn expression_seeds() -> Vec<Vec<u8>> {
    let tables = [
        include_str!("../../../cel/tests/tables/checks.txt"),
        include_str!("../../../cel/tests/tables/conversions.txt"),
        include_str!("../../../cel/tests/tables/dynamic.txt"),
        include_str!("../../../cel/tests/tables/kubernetes.txt"),
        include_str!("../../../cel/tests/tables/macros.txt"),
        include_str!("../../../cel/tests/tables/objects.txt"),
        include_str!("../../../cel/tests/tables/operators.txt"),
        include_str!("../../../cel/tests/tables/strings.txt"),
        include_str!("../../../cel/tests/tables/syntax.txt"),
    ];
    // The lines of an answer are indented, so they are skipped.
    let expressions = tables.iter().flat_map(|table| table.lines());
    let expressions = expressions.filter(|line| !line.is_empty() && !line.starts_with([' ', '#']));
    expressions.map(|line| line.as_bytes().to_vec()).collect()
}

pub(super) fn pattern_seeds() -> Vec<Vec<u8>> {
    [
        "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$\0a.b-c",
        "^(?i)\\d{1,3}\\Q.\\E\\pL+\\x{1F600}\\b$",
        "(?P<n>a|b)*?(?:c{2,}|[^[:alpha:]\\w]){0,1000}",
        "(?ims-U:^$.)\\A\\z\\07\\C",
        "((a*)*)*|[\\]\\-a-]{a}\0aaaaaaaaaaaaaaaaaaaaaaaa!",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
