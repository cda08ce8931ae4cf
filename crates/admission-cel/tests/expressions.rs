//! Compilation and evaluation of the expressions of admission.

use std::time::{Duration, Instant};

use pintle_admission_cel::{
    AdmissionRequest, Declarations, EvaluationInput, ExpressionCompiler, ExpressionKind, Expressions, GroupVersionName,
    MatchConditions, MatchOutcome, OutOfBudget, POLICY_BUDGET, RequestAuthorizer, UsedValues,
};
use pintle_budget::{Budget, Limits};
use pintle_cel::{AccessCheck, AccessChecker, AccessDecision, AccessTarget, ResourceTarget, Value};
use pintle_value::{Value as Json, object};

const ALL: Declarations = Declarations::with_authorizer(true);

/// Allows the verb `get`.
struct Getter;

impl AccessChecker for Getter {
    fn check(&self, check: &AccessCheck<'_>) -> AccessDecision {
        let reason = match check.target {
            AccessTarget::Path(path) => path.to_owned(),
            AccessTarget::Resource(target) => target.resource.clone(),
        };
        AccessDecision { allowed: check.verb == "get", reason, error: None }
    }
}

fn pod() -> Json {
    object! {"apiVersion": "v1", "kind": "Pod", "metadata": object! {"name": "web", "labels": object! {"app": "x"}},
    "spec": object! {"replicas": 3}}
}

fn request() -> Json {
    let pods = GroupVersionName { group: "", version: "v1", name: "pods" };
    let kind = GroupVersionName { name: "Pod", ..pods };
    AdmissionRequest {
        kind,
        resource: pods,
        request_kind: kind,
        request_resource: pods,
        subresource: "",
        name: "web",
        namespace: "default",
        operation: "CREATE",
        user: "alice",
        uid: "",
        groups: &["admins".into()],
        extra: &[("scope".into(), vec!["all".into()])],
        dry_run: false,
        options: object! {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    .to_json()
}

fn describe(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// Evaluates expressions after variables, and returns their values or errors.
fn evaluate_all(
    variables: &[(&str, &str)],
    expressions: &[&str],
    budget: i64,
) -> (Vec<String>, Result<i64, OutOfBudget>) {
    let mut compiler = ExpressionCompiler::with_variables();
    for (name, text) in variables {
        let _ = compiler.add_variable(name, text, ALL);
    }
    let compiled = expressions.iter().map(|text| Some(compiler.compile(text, ExpressionKind::Variable, ALL))).collect();
    let expressions = Expressions::new(&compiler, compiled);
    let (pod, request, params) = (pod(), request(), object! {"max": 5});
    let namespace = object! {"metadata": object! {"name": "default", "labels": object! {"env": "prod"}}};
    let target = ResourceTarget { resource: "pods".to_owned(), ..ResourceTarget::default() };
    let input = EvaluationInput {
        object: &pod,
        old_object: &Json::Null,
        namespace: &namespace,
        request: &request,
        params: &params,
        authorizer: Some(RequestAuthorizer { checker: &Getter, target: &target }),
    };
    let mut results = Vec::new();
    let left = expressions.evaluate(&input, budget, |_, result| {
        results.push(result.map_or_else(|error| error.to_string(), describe));
    });
    (results, left)
}

#[track_caller]
fn check(variables: &[(&str, &str)], expression: &str, expected: &str) {
    let (results, left) = evaluate_all(variables, &[expression], POLICY_BUDGET);
    assert!(left.is_ok(), "{expression}");
    assert_eq!(results, [expected], "{expression}");
}

#[test]
fn expressions_see_the_request() {
    check(&[], "object.metadata.name", "web");
    check(&[], "oldObject == null", "Bool(true)");
    check(&[], "params.max >= object.spec.replicas", "Bool(true)");
    check(&[], "namespaceObject.metadata.labels.env", "prod");
    check(&[], "request.operation + request.namespace + request.userInfo.groups[0]", "CREATEdefaultadmins");
    check(&[], "request.userInfo.extra['scope'][0]", "all");
    check(&[], "request.resource.resource + request.requestKind.kind", "podsPod");
    check(&[], "request.options.kind", "CreateOptions");
    check(&[], "has(request.subResource)", "Bool(false)");
    check(
        &[],
        "request.subResource == ''",
        "expression 'request.subResource == ''' resulted in error: no such key: subResource",
    );
    check(&[], "authorizer.requestResource.check('get').allowed()", "Bool(true)");
    check(&[], "authorizer.path('/healthz').check('post').allowed()", "Bool(false)");
    check(&[], "authorizer.group('').resource('nodes').check('get').reason()", "nodes");
}

#[test]
fn variables_are_typed_and_may_refer_to_earlier_ones() {
    let variables = [("n", "object.spec.replicas"), ("twice", "int(variables.n) * 2"), ("names", "['a', 'b']")];
    check(&variables, "variables.twice", "Int(6)");
    check(&variables, "variables.names.join('-')", "a-b");
    check(&variables, "has(variables.n)", "Bool(true)");
    let undefined = "compilation error: compilation failed: ERROR: <input>:1:10: undefined field 'nothing'\n | variables.nothing\n | .........^";
    check(&variables, "variables.nothing", undefined);
    check(
        &[("later", "variables.earlier"), ("earlier", "1")],
        "variables.later",
        "expression 'variables.later' resulted in error: composited variable \"later\" fails to compile: compilation failed: \
         ERROR: <input>:1:10: undefined field 'earlier'\n | variables.earlier\n | .........^",
    );
    check(
        &[("broken", "object.nothing")],
        "variables.broken",
        "expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nothing",
    );
    check(&[("broken", "object.nothing")], "true || variables.broken", "Bool(true)");
    check(
        &[("a", "1"), ("a", "variables.a + 1")],
        "variables.a",
        "expression 'variables.a' resulted in error: composited variable \"a\" fails to evaluate: composited variable \"a\" refers to itself",
    );
}

#[test]
fn a_variable_is_evaluated_once_for_all_expressions() {
    let expensive = [("v", "authorizer.path('/x').check('get').allowed()")];
    let cost = |expressions: &[&str]| {
        POLICY_BUDGET - evaluate_all(&expensive, expressions, POLICY_BUDGET).1.expect("in budget")
    };
    assert!(cost(&["variables.v"]) > 350_000);
    assert!(cost(&["variables.v", "variables.v"]) < 360_000);
    assert!(cost(&["true"]) < 10);
}

#[test]
fn evaluation_ends_with_the_budget() {
    let (results, left) =
        evaluate_all(&[], &["1 == object.spec.replicas - 2", "object.metadata.name.size() == 3", "true"], 6);
    assert_eq!((results, left), (vec!["Bool(true)".to_owned()], Err(OutOfBudget)));
    let expensive = [("v", "authorizer.path('/x').check('get').allowed()")];
    let (results, left) = evaluate_all(&expensive, &["variables.v"], 1_000);
    assert_eq!((results, left), (Vec::new(), Err(OutOfBudget)));
    check(
        &[],
        "[1, 2, 3].all(x, authorizer.path('/x').check('get').allowed())",
        "expression '[1, 2, 3].all(x, authorizer.path('/x').check('get').allowed())' resulted in error: operation cancelled: \
         actual cost limit exceeded",
    );
}

#[test]
fn compilation_reports_upstreams_errors() {
    let check = |kind, declarations, text: &str, expected: &str| {
        let compiled = ExpressionCompiler::new().compile(text, kind, declarations);
        let error = compiled.program.err().map_or_else(String::new, |error| error.to_string());
        assert_eq!(error, expected, "{text}");
    };
    let none = Declarations::default();
    check(ExpressionKind::Condition, none, "object.a == 1", "");
    check(ExpressionKind::Condition, none, "object.a", "must evaluate to bool but got dyn");
    check(ExpressionKind::Message, none, "'a' + string(object.a)", "");
    check(ExpressionKind::Message, none, "1", "must evaluate to string but got int");
    check(ExpressionKind::Message, none, "null", "must evaluate to string but got null_type");
    check(ExpressionKind::Message, none, "[1]", "must evaluate to string but got list(int)");
    check(ExpressionKind::AuditAnnotation, none, "null", "");
    check(ExpressionKind::AuditAnnotation, none, "true", "must evaluate to one of [string null_type] but got bool");
    let undeclared = |name: &str, column: &str, line: &str| {
        format!(
            "compilation failed: ERROR: <input>:1:1: undeclared reference to '{name}' (in container '')\n | {line}\n | {column}"
        )
    };
    check(ExpressionKind::Condition, none, "params.a == 1", &undeclared("params", "^", "params.a == 1"));
    check(ExpressionKind::Condition, none, "authorizer == null", &undeclared("authorizer", "^", "authorizer == null"));
    check(ExpressionKind::Condition, ALL, "variables.a == 1", &undeclared("variables", "^", "variables.a == 1"));
    check(ExpressionKind::Condition, ALL, "params.a == 1 && authorizer.path('/').check('get').allowed()", "");
    check(
        ExpressionKind::Condition,
        none,
        "request.object == null",
        "compilation failed: ERROR: <input>:1:8: undefined field 'object'\n | request.object == null\n | .......^",
    );
    check(
        ExpressionKind::Condition,
        none,
        "request.dryRun == 'a'",
        "compilation failed: ERROR: <input>:1:16: found no matching overload for '_==_' applied to '(bool, string)'\n | request.dryRun == 'a'\n | ...............^",
    );
}

fn conditions(list: &[(&str, &str)]) -> Vec<Json> {
    list.iter().map(|(name, expression)| object! {"name": *name, "expression": *expression}).collect()
}

#[test]
fn match_conditions_decide_whether_a_request_matches() {
    let check = |list: &[(&str, &str)], expected: MatchOutcome<'_>| {
        let conditions = MatchConditions::of_webhook(&conditions(list));
        let (pod, request) = (pod(), request());
        let target = ResourceTarget::default();
        let input = EvaluationInput {
            object: &pod,
            old_object: &Json::Null,
            namespace: &Json::Null,
            request: &request,
            params: &Json::Null,
            authorizer: Some(RequestAuthorizer { checker: &Getter, target: &target }),
        };
        assert_eq!(conditions.evaluate(&input), expected, "{list:?}");
    };
    let failed = |error: &str, failures| MatchOutcome::Failed { error: error.to_owned(), failures };
    check(&[], MatchOutcome::Matches);
    check(&[("a", "object.metadata.name == 'web'"), ("b", "namespaceObject == null")], MatchOutcome::Matches);
    check(&[("a", "true"), ("b", "object.metadata.name == 'db'"), ("c", "false")], MatchOutcome::Excluded("b"));
    check(&[("a", "object.x == 1"), ("b", "false")], MatchOutcome::Excluded("b"));
    check(
        &[("a", "object.x == 1"), ("b", "true")],
        failed("expression 'object.x == 1' resulted in error: no such key: x", 1),
    );
    check(
        &[("a", "object.x == 1"), ("b", "object.y == 1")],
        failed(
            "[expression 'object.x == 1' resulted in error: no such key: x, expression 'object.y == 1' resulted in error: no such key: y]",
            2,
        ),
    );
    check(&[("a", "authorizer.requestResource.check('get').allowed()")], MatchOutcome::Matches);
    let checks = "authorizer.path('/x').check('get').allowed() && authorizer.path('/y').check('get').allowed()";
    let many: Vec<(&str, &str)> = ["a", "b", "c", "d"].map(|name| (name, checks)).to_vec();
    check(
        &many,
        failed("validation failed due to running out of cost budget, no further validation rules will be run", 0),
    );
}

#[test]
fn expressions_tell_which_values_they_use() {
    let used = |variables: &[&str], expression: &str| {
        let mut compiler = ExpressionCompiler::with_variables();
        for (i, text) in variables.iter().enumerate() {
            compiler.add_variable(&format!("v{i}"), text, ALL).expect("valid");
        }
        let compiled = compiler.compile(expression, ExpressionKind::Condition, ALL);
        let UsedValues { request, namespace, authorizer } =
            Expressions::new(&compiler, vec![Some(compiled)]).used_values();
        (request, namespace, authorizer)
    };
    assert_eq!(used(&[], "object.request == oldObject.namespaceObject"), (false, false, false));
    assert_eq!(used(&[], "request.name == namespaceObject.metadata.name"), (true, true, false));
    assert_eq!(used(&[], "authorizer.requestResource.check('get').allowed()"), (false, false, true));
    assert_eq!(used(&["request.operation", "authorizer.path('/')"], "true"), (true, false, true));
}

/// Evaluates the last of some variables, each of which uses the one before it, deep in its own expression.
fn evaluate_chain(length: usize, nesting: usize) -> String {
    let nested = |number: usize| match number {
        0 => "1".to_owned(),
        _ => format!("{}variables.v{}{}", "(1 + ".repeat(nesting), number - 1, ")".repeat(nesting)),
    };
    let owned: Vec<(String, String)> = (0..length).map(|number| (format!("v{number}"), nested(number))).collect();
    let variables: Vec<(&str, &str)> = owned.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let (results, left) =
        evaluate_all(&variables, &[&format!("dyn(variables.v{}) != null", length - 1)], POLICY_BUDGET);
    assert!(left.is_ok());
    results.join(" ")
}

#[test]
fn variables_use_each_other_up_to_a_depth() {
    assert_eq!(evaluate_chain(30, 1), "Bool(true)");
    let found = evaluate_chain(1_000, 20);
    assert!(found.contains("variables use each other too deeply"), "{found}");
}

#[test]
fn evaluations_end_with_the_time_of_the_request() {
    let numbers: Vec<String> = (1..=200).map(|number| number.to_string()).collect();
    let loops = &format!("[{}].all(x, x > 0)", numbers.join(", "));
    assert_eq!(evaluate_all(&[], &[loops], POLICY_BUDGET).0, ["Bool(true)"]);
    let limits = Limits { memory: usize::MAX, processor_time: Duration::MAX };
    let loops = &format!("lists.range(1000).all(y, {loops})");
    let budget = Budget::new(limits, None);
    budget.set_deadline(Instant::now());
    let (results, left) = {
        let _entered = budget.enter();
        evaluate_all(&[("v", loops)], &[loops, "variables.v"], POLICY_BUDGET)
    };
    assert!(left.is_ok());
    assert!(results.iter().all(|result| result.ends_with("operation interrupted")), "{results:?}");
}

#[test]
fn variables_hold_memory_together() {
    let check = |first: &str, next: &dyn Fn(usize) -> String, count: usize| {
        let texts: Vec<(String, String)> = (0..count)
            .map(|number| (format!("v{number}"), if number == 0 { first.to_owned() } else { next(number - 1) }))
            .collect();
        let variables: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let last = format!("variables.v{}.size() > 0", count - 1);
        let (results, left) = evaluate_all(&variables, &[&last, "true"], POLICY_BUDGET);
        assert!(left.is_ok());
        let ends = ["operation cancelled: memory limit exceeded", "operation cancelled: actual cost limit exceeded"];
        assert!(ends.iter().any(|end| results[0].ends_with(end)), "{first}: {results:?}");
        assert_eq!(results[1], "Bool(true)", "what needs no memory goes on");
    };
    check("[1, 2, 3]", &|before| format!("variables.v{before} + variables.v{before}"), 28);
    check("'abcd'", &|before| ["variables.v"; 4].map(|name| format!("{name}{before}")).join(" + "), 14);
    check(
        "'abcd'",
        &|before| format!("'%s%s%s%s'.format([{}])", vec![format!("variables.v{before}"); 4].join(", ")),
        14,
    );
    // None of these values is large, but all are kept.
    let large = "lists.range(500000).map(i, i)";
    check(large, &|before| format!("variables.v{before} + [1]"), 10);
}
