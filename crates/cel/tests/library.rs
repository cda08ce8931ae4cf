//! Custom libraries, lazily evaluated fields, and concurrent use of programs.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};

use pintle_cel::{
    AccessCheck, AccessChecker, AccessDecision, AccessSubject, AccessTarget, AuthorizationValue, CallEstimate,
    CostEstimate, Env, EvalError, EvalResult, Function, LazyMap, Library, Map, Opaque, Overload, PER_CALL_COST_LIMIT,
    Program, ResourceTarget, Type, UnknownSizes, Value,
};
use pintle_versions::{EffectiveVersion, Minor};

/// A user who may or may not perform actions.
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

/// `actor.may('verb')`, with a high cost, like an authorizer check.
fn actor_library() -> Library {
    let may = Overload::member("actor_may", &[Type::object("test.Actor"), Type::String], Type::Bool)
        .binding(|args| match args {
            [actor, Value::String(verb)] => {
                let actor = actor.as_opaque::<Actor>().ok_or_else(EvalError::no_overload)?;
                Ok(Value::Bool(actor.0 == "admin" || &**verb == "get"))
            }
            _ => Err(EvalError::no_overload()),
        })
        .cost_tracker(|_, _| 1_000)
        .cost_estimator(|_| Some(CallEstimate::cost(CostEstimate::fixed(1_000))));
    Library { functions: vec![Function::new("may").overload(may)], ..Library::default() }
}

/// Evaluates an expression over an actor and checks its result and cost.
#[track_caller]
fn check(expression: &str, actor: &'static str, expected: &str, cost: u64) {
    let env = Env::kubernetes().library(&actor_library()).variable("actor", Type::object("test.Actor"));
    let program = env.compile(expression).expect(expression);
    let bindings = [Value::opaque(Actor(actor))];
    let evaluation = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
    let actual = evaluation.result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
    assert_eq!((actual.as_str(), evaluation.cost), (expected, cost), "{expression}");
}

#[test]
fn custom_libraries_are_evaluated() {
    check("actor.may('get')", "admin", "Bool(true)", 1_001);
    check("actor.may('get')", "reader", "Bool(true)", 1_001);
    check("actor.may('delete')", "reader", "Bool(false)", 1_001);
    check("actor.may('delete') || actor.may('get')", "reader", "Bool(true)", 2_002);
    check("actor == actor", "reader", "Bool(true)", 3);
    check("actor.may(dyn(1))", "reader", "no such overload: may(test.Actor, int)", 1_001);
}

#[test]
fn custom_cost_estimators_are_used() {
    let env = Env::kubernetes().library(&actor_library()).variable("actor", Type::object("test.Actor"));
    let checked = env.check("actor.may('a') || actor.may('b')").expect("valid");
    assert_eq!(env.estimate_cost(&checked, &UnknownSizes), CostEstimate { min: 1_001, max: 2_002 });
}

/// Counts accesses.
#[derive(Debug, Default)]
struct CountingFields(AtomicUsize);

impl LazyMap for CountingFields {
    fn field(&self, name: &str) -> Option<EvalResult<Value<'_>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match name {
            "five" => Some(Ok(Value::Int(5))),
            "broken" => Some(Err(EvalError::new("broken"))),
            _ => None,
        }
    }
}

#[test]
fn lazy_fields_are_evaluated_on_access() {
    let env = Env::kubernetes().variable("variables", Type::map(Type::String, Type::Dyn));
    let evaluate = |expression: &str| {
        let program = env.compile(expression).expect(expression);
        let fields = CountingFields::default();
        let bindings = [Value::Map(Map::Lazy(&fields))];
        let result = program.evaluate(&bindings, 100).result;
        let text = result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"));
        (text, fields.0.load(Ordering::Relaxed))
    };
    assert_eq!(evaluate("variables.five == 5"), ("Bool(true)".to_owned(), 1));
    assert_eq!(evaluate("true || variables.five == 5"), ("Bool(true)".to_owned(), 0));
    assert_eq!(evaluate("variables.broken"), ("broken".to_owned(), 1));
    assert_eq!(evaluate("variables.broken == 1 || true"), ("Bool(true)".to_owned(), 1));
    assert_eq!(evaluate("variables.nothing"), ("no such key: nothing".to_owned(), 1));
}

#[test]
fn programs_can_be_shared_by_threads() {
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
                let result = program.evaluate(&bindings, 100).result;
                assert_eq!(result, Ok(Value::Bool(x > 0)));
            });
        }
    });
}

#[test]
fn checked_expressions_report_referenced_variables() {
    let env = Env::kubernetes().variable("self", Type::Dyn).variable("oldSelf", Type::Dyn);
    let references = |expression: &str| {
        let checked = env.check(expression).expect(expression);
        (checked.references("self"), checked.references("oldSelf"))
    };
    assert_eq!(references("self.a == 1"), (true, false));
    assert_eq!(references("self.a == oldSelf.a"), (true, true));
    assert_eq!(references("[1].all(oldSelf, oldSelf > 0)"), (false, true));
    assert_eq!(references("true || has(oldSelf.a)"), (false, true));
}

/// Allows service accounts everything, and nobody else anything. The reason repeats the question.
struct Accounts;

impl AccessChecker for Accounts {
    fn check(&self, check: &AccessCheck<'_>) -> AccessDecision {
        let what = match check.target {
            AccessTarget::Path(path) => path.to_owned(),
            AccessTarget::Resource(target) => format!(
                "{}/{}/{}/{}/{}/{}/{}",
                target.group,
                target.resource,
                target.subresource,
                target.namespace,
                target.name,
                target.field_selector,
                target.label_selector
            ),
        };
        let (allowed, who) = match check.subject {
            AccessSubject::Requester => (false, "requester".to_owned()),
            AccessSubject::ServiceAccount { namespace, name } => (true, format!("{namespace}:{name}")),
        };
        let error = (check.verb == "fail").then(|| "broken".to_owned());
        AccessDecision { allowed, reason: format!("{who} {} {what}", check.verb), error }
    }
}

#[test]
fn expressions_check_access() {
    let env = Env::kubernetes()
        .variable("authorizer", AuthorizationValue::authorizer_type())
        .variable("authorizer.requestResource", AuthorizationValue::resource_check_type());
    let check = |expression: &str, expected: &str, cost: u64| {
        let program = env.compile(expression).expect(expression);
        let own = ResourceTarget { resource: "pods".to_owned(), name: "web".to_owned(), ..ResourceTarget::default() };
        let bindings = [AuthorizationValue::authorizer(&Accounts), AuthorizationValue::resource_check(&Accounts, own)];
        let evaluation = program.evaluate(&bindings, PER_CALL_COST_LIMIT);
        let actual = evaluation.result.map_or_else(
            |error| error.to_string(),
            |value| match value {
                Value::String(text) => text.to_string(),
                other => format!("{other:?}"),
            },
        );
        assert_eq!((actual.as_str(), evaluation.cost), (expected, cost), "{expression}");
    };
    check("authorizer.path('/healthz').check('get').allowed()", "Bool(false)", 350_003);
    check("authorizer.path('/healthz').check('get').reason()", "requester get /healthz", 350_003);
    check("authorizer.path(' ').check('get').allowed()", "path must not be empty", 350_003);
    check(
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('n').name('d').check('get').reason()",
        "requester get apps/deployments/scale/n/d//",
        350_007,
    );
    check("authorizer.requestResource.check('get').reason()", "requester get /pods///web//", 350_002);
    check("authorizer.requestResource.check('fail').errored()", "Bool(true)", 350_002);
    check("authorizer.requestResource.check('fail').error()", "broken", 350_002);
    check("authorizer.requestResource.check('get').error()", "", 350_002);
    check("authorizer.serviceAccount('n', 'a').path('/x').check('get').reason()", "n:a get /x", 350_004);
    check(
        "authorizer.serviceAccount('n', '_').path('/x').check('get').allowed()",
        "Invalid service account name",
        350_004,
    );
    check("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty", 350_004);
    check(
        "authorizer.requestResource.fieldSelector('a=b').labelSelector('c').check('list').reason()",
        "requester list /pods///web/a=b/c",
        350_001 + 1 + 10 + 1 + 100 + 10 + 1 + 50,
    );
    check("authorizer == authorizer", "no such overload", 3);
}

/// The binary version decides on the syntax, the minimum compatibility version on libraries.
#[test]
fn newer_versions_have_more_functions_and_syntax() {
    let of = |binary: u8, compatible: u8| {
        let version =
            EffectiveVersion::of(Minor::new(binary)).compatible_with(Minor::new(compatible)).expect("a version");
        Env::kubernetes_of(version).variable("l", Type::list(Type::String)).variable("x", Type::Dyn)
    };
    let environments = [of(36, 35), of(37, 36), of(37, 37)];
    for (expression, valid) in [
        ("x.`a-b` == 1", [false, true, true]),
        ("{'a-b': 1}.`a-b` == 1", [false, true, true]),
        ("x.?`a.b/c`.hasValue()", [false, true, true]),
        ("has(x.`a b`)", [false, true, true]),
        ("l.includes('a')", [false, false, true]),
        ("l.indexOf('a') == 0", [true, true, true]),
        ("`a-b` == 1", [false, false, false]),
    ] {
        assert_eq!(environments.each_ref().map(|env| env.check(expression).is_ok()), valid, "{expression}");
    }
    let [_, _, newest] = environments;
    for (expression, expect) in [
        ("[1, 2, 3].includes(2)", true),
        ("[1, 2, 3].includes(4)", false),
        ("[1, 2].includes(2.0)", true),
        ("[[1], [2]].includes([2])", true),
        ("[].includes(1)", false),
        ("'a'.includes('a')", true),
        ("'a'.includes('b')", false),
        ("1.includes('a')", false),
        ("{'a-b': 1}.`a-b` == 1", true),
    ] {
        let program = newest.compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(program.evaluate(&[], PER_CALL_COST_LIMIT).result, Ok(Value::Bool(expect)), "{expression}");
    }
    // As in upstream, it costs what `indexOf` costs.
    let estimate = |expression| newest.estimate_cost(&newest.check(expression).expect(expression), &UnknownSizes);
    let comparison = 1;
    assert_eq!(estimate("l.includes('a')").min + comparison, estimate("l.indexOf('a') == 0").min);
}
