//! The common part of policies of both types, and the requests that they match (upstream: `PolicyAccessor` and the
//! policy matcher of `policy/generic`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pintle_admission_cel::{Declarations, EvaluationInput, ExpressionCompiler, MatchConditions, MatchOutcome};
use pintle_value::{Str, Value};

use super::GROUP;
use super::bindings::Binding;
use super::params::{ParamKind, ParamRef};
use super::source::Hook;
use crate::AdmissionAttributes;
use crate::matching::{MatchedResource, RequestMatcher};

/// Resources of policies. No stored policy sees them, because a broken policy could not be repaired otherwise
/// (upstream: `admissionResources` of `policy/generic/plugin.go`).
const POLICIES: [&str; 4] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// True if the request is for a policy or a binding, which only policies of files see.
pub(super) fn is_policy(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.resource.group == GROUP && POLICIES.contains(&&*attributes.resource.plural)
}

/// A policy that is read from a stored object.
pub(super) trait StoredPolicy {
    /// Reads a stored policy.
    fn of(object: &Value) -> Self;

    /// The common part of the policy.
    fn definition(&self) -> &Definition;
}

/// The compiler for the expressions of a policy. It knows the variables of the policy.
pub(super) fn compiler(spec: &Value) -> (ExpressionCompiler, Declarations) {
    let declarations = Declarations::with_authorizer(spec.get("paramKind").is_some());
    let mut compiler = ExpressionCompiler::with_variables();
    for variable in spec.items_at(&["variables"]) {
        let [name, expression] = ["name", "expression"].map(|field| variable.str_at(&[field]));
        // An error in a variable is an error of each expression that uses the variable.
        let _ = compiler.add_variable(name, expression, declarations);
    }
    (compiler, declarations)
}

/// The part that policies of both types share: the name, the requests that match, and the parameters.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: Str,
    /// True if errors are ignored (`failurePolicy: Ignore`).
    pub(super) ignores_failures: bool,
    /// The requests that match; `None` if the policy does not say.
    pub(super) matcher: Option<RequestMatcher>,
    param_kind: Option<ParamKind>,
    /// How many of the next evaluations are expected to take long. The cost of an expression is not known before its
    /// evaluation, because it depends on the object.
    expected_long: AtomicU32,
}

/// An evaluation that takes this long gets a thread that serves nothing else. Getting such a thread takes some ten
/// microseconds.
const LONG_EVALUATION: Duration = Duration::from_millis(1);
/// How many evaluations after a long one are expected to take long, too, because the next object may be similar.
const LONG_SERIES: u32 = 1000;

impl Definition {
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            name: object.name().into(),
            ignores_failures: spec.str_at(&["failurePolicy"]) == "Ignore",
            matcher: spec.get("matchConstraints").map(RequestMatcher::of_match_resources),
            param_kind: spec.get("paramKind").and_then(ParamKind::of),
            // No evaluation of a new policy has been measured, so the first is expected to take long.
            expected_long: AtomicU32::new(1),
        }
    }

    /// Evaluates the match conditions of the policy. A policy that ignores failures does not match after a failed condition.
    ///
    /// # Errors
    /// The conditions fail, and failures are not ignored.
    pub(super) fn matches(&self, conditions: &MatchConditions, input: &EvaluationInput<'_>) -> Result<bool, String> {
        if conditions.is_empty() {
            return Ok(true);
        }
        match conditions.evaluate(&EvaluationInput { namespace: &Value::Null, ..*input }) {
            MatchOutcome::Matches => Ok(true),
            MatchOutcome::Failed { error, .. } if !self.ignores_failures => Err(error),
            MatchOutcome::Excluded(_) | MatchOutcome::Failed { .. } => Ok(false),
        }
    }

    /// Called before the policy is evaluated for a request. Gives a policy that takes long a thread of its own.
    pub(super) async fn prepare_evaluation(&self, attributes: &AdmissionAttributes<'_>) {
        if self.expected_long.load(Ordering::Relaxed) > 0 && attributes.recorder.expect_long_work() {
            tokio::task::yield_now().await;
        }
    }

    /// Called after the policy was evaluated for this long.
    pub(super) fn evaluated(&self, elapsed: Duration) {
        if elapsed >= LONG_EVALUATION {
            self.expected_long.store(LONG_SERIES, Ordering::Relaxed);
        } else {
            let one_less = |expected: u32| expected.checked_sub(1);
            // An error means that no long evaluation was expected.
            let _ = self.expected_long.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }

    /// True if the policy may match a request. A policy without a matcher is an error of every request.
    pub(super) fn concerns(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.matcher.as_ref().is_none_or(|matcher| matcher.has_rule_for(attributes))
    }
}

/// The result of matching a request with a policy and its bindings.
pub(super) struct Matches<'h, 'a> {
    /// The resource at which the policy matches.
    pub(super) matched: MatchedResource<'a>,
    /// The bindings that match, with their parameter objects, or the reason why the objects cannot be determined.
    pub(super) bindings: Vec<(&'h Binding, Result<Vec<Value>, String>)>,
}

/// How long a read of parameters may take that are missing in the cache.
const DIRECT_READ: Duration = Duration::from_secs(1);

impl<P: StoredPolicy> Hook<P> {
    /// Matches a request. `None` if the policy does not match it. If a named parameter object is missing,
    /// `reads_directly` says whether it is looked for in the storage, because the cache may be behind.
    ///
    /// # Errors
    /// The policy cannot be applied to any request that it matches.
    pub(super) async fn find_current<'h, 'a>(
        &'h self,
        attributes: &'a AdmissionAttributes<'_>,
        object: &Value,
        reads_directly: bool,
    ) -> Result<Option<Matches<'h, 'a>>, String> {
        let mut found = self.find(attributes, object)?;
        let Some(matches) = found.as_mut().filter(|_| reads_directly) else { return Ok(found) };
        let is_missing = |(binding, params): &(&Binding, Result<Vec<Value>, String>)| {
            let is_named = binding.params.as_ref().is_some_and(ParamRef::is_named);
            is_named && params.as_ref().map_or(true, Vec::is_empty)
        };
        if !matches.bindings.iter().any(is_missing) {
            return Ok(found);
        }
        let refreshed = tokio::time::timeout(DIRECT_READ, attributes.client.refresh()).await;
        let refreshed = refreshed.map_err(|_| "context deadline exceeded".to_owned());
        match refreshed.and_then(|result| result.map_err(|error| error.to_string())) {
            Ok(()) => self.find(attributes, object),
            Err(why) => {
                for missing in matches.bindings.iter_mut().filter(|binding| is_missing(binding)) {
                    missing.1 = Err(why.clone());
                }
                Ok(found)
            }
        }
    }

    /// Matches a request with the parameter objects of the cache.
    fn find<'h, 'a>(
        &'h self,
        attributes: &'a AdmissionAttributes<'_>,
        object: &Value,
    ) -> Result<Option<Matches<'h, 'a>>, String> {
        let Definition { matcher, param_kind, .. } = self.policy.definition();
        let matcher = matcher.as_ref().ok_or("policy contained no match constraints, a required field")?;
        let Some(matched) = matcher.find(attributes, object).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let param_resource = param_kind.as_ref().map(|kind| kind.resource(attributes)).transpose()?;
        let candidates = self.bindings.candidates(attributes, object);
        let bindings = candidates.filter_map(|binding| {
            let params = match binding.matcher.as_ref().map(|matcher| matcher.find(attributes, object)).transpose() {
                Ok(Some(None)) => return None,
                Ok(None | Some(Some(_))) => match (&param_resource, &binding.params) {
                    (Some(resource), Some(reference)) => reference.read(attributes, resource),
                    // Without a reference, a policy is evaluated without parameters.
                    _ => Ok(vec![Value::Null]),
                },
                Err(error) => Err(error.to_string()),
            };
            Some((binding, params))
        });
        Ok(Some(Matches { matched, bindings: bindings.collect() }))
    }
}
