//! The authorizer library: checks whether a user has an access. Every environment of Kubernetes has the functions of
//! the library. Only admission declares variables of its types (upstream: `apiserver/pkg/cel/library/authz.go`).

use pintle_value::names;

use super::Library;
use super::quantity::estimate_one;
use crate::cost::{
    CallEstimate, CostEstimate, EstimatedCall, LIST_CREATE_BASE_COST, STRING_TRAVERSAL_COST_FACTOR,
    STRUCT_CREATE_BASE_COST, SizeEstimate, tracker,
};
use crate::error::EvalError;
use crate::function::{Function, Overload};
use crate::types::Type;
use crate::value::authorization::{
    AUTHORIZER, AccessDecision, AccessSubject, AccessTarget, AuthorizationKind, AuthorizationValue, DECISION,
    GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK, ResourceTarget,
};
use crate::value::{CelString, EvalResult, Value};

/// The cost of a check. It allows two checks per expression.
const CHECK_COST: u64 = 350_000;
/// The largest number of requirements per character of a selector (upstream: `selectorLengthToRequirementCount`).
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;

/// The receiver and the texts of a call.
fn call<'v, 'a, const N: usize>(
    args: &'v [Value<'a>],
) -> EvalResult<(&'v AuthorizationValue<'a>, [&'v CelString<'a>; N])> {
    let (Some(Value::Authorization(receiver)), true) = (args.first(), args.len() == N + 1) else {
        return Err(EvalError::no_overload());
    };
    let mut texts = Vec::with_capacity(N);
    for arg in &args[1..] {
        let Value::String(text) = arg else { return Err(EvalError::no_overload()) };
        texts.push(text);
    }
    Ok((receiver, texts.try_into().map_err(|_| EvalError::no_overload())?))
}

fn path<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (receiver, [path]) = call(args)?;
    let AuthorizationKind::Authorizer(subject) = &receiver.kind else { return Err(EvalError::no_overload()) };
    if path.trim().is_empty() {
        return Err(EvalError::new("path must not be empty"));
    }
    receiver.with(AuthorizationKind::PathCheck(subject.clone(), path.to_string()))
}

fn group<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (receiver, [group]) = call(args)?;
    let AuthorizationKind::Authorizer(subject) = &receiver.kind else { return Err(EvalError::no_overload()) };
    receiver.with(AuthorizationKind::GroupCheck(subject.clone(), group.to_string()))
}

fn service_account<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (receiver, [namespace, name]) = call(args)?;
    let AuthorizationKind::Authorizer(_) = &receiver.kind else { return Err(EvalError::no_overload()) };
    if !names::dns1123_subdomain(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !names::dns1123_label(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let subject = AccessSubject::ServiceAccount { namespace: namespace.to_string(), name: name.to_string() };
    receiver.with(AuthorizationKind::Authorizer(subject))
}

fn resource<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (receiver, [resource]) = call(args)?;
    let AuthorizationKind::GroupCheck(subject, group) = &receiver.kind else { return Err(EvalError::no_overload()) };
    if resource.trim().is_empty() {
        return Err(EvalError::new("resource must not be empty"));
    }
    let target = ResourceTarget { group: group.clone(), resource: resource.to_string(), ..ResourceTarget::default() };
    receiver.with(AuthorizationKind::ResourceCheck(subject.clone(), target))
}

/// A resource check with one more field.
fn set<'a>(args: &[Value<'a>], field: fn(&mut ResourceTarget) -> &mut String) -> EvalResult<Value<'a>> {
    let (receiver, [text]) = call(args)?;
    let AuthorizationKind::ResourceCheck(subject, target) = &receiver.kind else {
        return Err(EvalError::no_overload());
    };
    let mut target = target.clone();
    *field(&mut target) = text.to_string();
    receiver.with(AuthorizationKind::ResourceCheck(subject.clone(), target))
}

fn check<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (receiver, [verb]) = call(args)?;
    match &receiver.kind {
        AuthorizationKind::PathCheck(subject, path) => receiver.decide(subject, AccessTarget::Path(path), verb),
        AuthorizationKind::ResourceCheck(subject, target) => {
            receiver.decide(subject, AccessTarget::Resource(target), verb)
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn decision<'v>(args: &'v [Value<'_>]) -> EvalResult<&'v AccessDecision> {
    match call(args)? {
        (AuthorizationValue { kind: AuthorizationKind::Decision(decision), .. }, []) => Ok(decision),
        _ => Err(EvalError::no_overload()),
    }
}

/// The cost of parsing a selector of this size into requirements.
fn selector_cost(size: SizeEstimate) -> CostEstimate {
    let per_requirement = (LIST_CREATE_BASE_COST + STRUCT_CREATE_BASE_COST) as f64;
    let requirements = size.times_factor(REQUIREMENTS_PER_CHARACTER);
    let requirements = SizeEstimate { min: requirements.min, max: requirements.max }.times_factor(per_requirement);
    let parse = size.times_factor(STRING_TRAVERSAL_COST_FACTOR);
    CostEstimate::fixed(LIST_CREATE_BASE_COST).plus(parse).plus(requirements)
}

fn estimate_selector(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let [selector] = call.args else { return None };
    Some(CallEstimate::cost(selector_cost(call.size(selector))))
}

pub(super) fn library() -> Library {
    let object = Type::object;
    let builder =
        |name, overload| Function::new(name).overload(overload).cost_tracker(tracker::one).cost_estimator(estimate_one);
    let from = |receiver, id, result| Overload::member(id, &[object(receiver), Type::String], object(result));
    let of = |id, result| Overload::member(id, &[object(DECISION)], result);
    let selector = |name, overload| {
        Function::new(name)
            .overload(overload)
            .cost_tracker(|args, _| selector_cost(SizeEstimate::fixed(args.get(1).map_or(1, tracker::actual_size))).max)
            .cost_estimator(estimate_selector)
    };
    let account = [object(AUTHORIZER), Type::String, Type::String];
    let functions = vec![
        builder("path", from(AUTHORIZER, "authorizer_path", PATH_CHECK).binding(path)),
        builder("group", from(AUTHORIZER, "authorizer_group", GROUP_CHECK).binding(group)),
        builder(
            "serviceAccount",
            Overload::member("authorizer_serviceaccount", &account, object(AUTHORIZER)).binding(service_account),
        ),
        builder("resource", from(GROUP_CHECK, "groupcheck_resource", RESOURCE_CHECK).binding(resource)),
        builder(
            "subresource",
            from(RESOURCE_CHECK, "resourcecheck_subresource", RESOURCE_CHECK)
                .binding(|args| set(args, |target| &mut target.subresource)),
        ),
        builder(
            "namespace",
            from(RESOURCE_CHECK, "resourcecheck_namespace", RESOURCE_CHECK)
                .binding(|args| set(args, |target| &mut target.namespace)),
        ),
        builder(
            "name",
            from(RESOURCE_CHECK, "resourcecheck_name", RESOURCE_CHECK)
                .binding(|args| set(args, |target| &mut target.name)),
        ),
        Function::new("check")
            .overload(from(PATH_CHECK, "pathcheck_check", DECISION).binding(check))
            .overload(from(RESOURCE_CHECK, "resourcecheck_check", DECISION).binding(check))
            .cost_tracker(|_, _| CHECK_COST)
            .cost_estimator(|_| Some(CallEstimate::cost(CostEstimate::fixed(CHECK_COST)))),
        builder(
            "errored",
            of("decision_errored", Type::Bool).binding(|args| Ok(Value::Bool(decision(args)?.error.is_some()))),
        ),
        builder(
            "error",
            of("decision_error", Type::String)
                .binding(|args| Ok(Value::string(decision(args)?.error.as_deref().unwrap_or_default()))),
        ),
        builder("allowed", of("decision_allowed", Type::Bool).binding(|args| Ok(Value::Bool(decision(args)?.allowed)))),
        builder(
            "reason",
            of("decision_reason", Type::String).binding(|args| Ok(Value::string(&*decision(args)?.reason))),
        ),
        selector(
            "fieldSelector",
            from(RESOURCE_CHECK, "authorizer_fieldselector", RESOURCE_CHECK)
                .binding(|args| set(args, |target| &mut target.field_selector)),
        ),
        selector(
            "labelSelector",
            from(RESOURCE_CHECK, "authorizer_labelselector", RESOURCE_CHECK)
                .binding(|args| set(args, |target| &mut target.label_selector)),
        ),
    ];
    Library::of(functions)
}
