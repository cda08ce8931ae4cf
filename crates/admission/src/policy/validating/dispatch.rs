//! Evaluates the policies that match a request, and does what their bindings say about failures (upstream:
//! `policy/validating/dispatcher.go`).

use std::time::Duration;

use pintle_admission_cel::EvaluationInput;
use pintle_registry::ApiError;
use pintle_value::{Str, Value, object, print};

use super::annotations::AnnotationCollector;
use super::policy::{FailedValidation, Policy, PolicyResult};
use crate::AdmissionAttributes;
use crate::expressions::ExpressionRequest;
use crate::matching::MatchedResource;
use crate::objects::VersionedObjects;
use crate::policy::bindings::Binding;
use crate::policy::denial;
use crate::policy::metrics::PolicyMetrics;
use crate::policy::source::Hook;

const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The evaluation of all policies for one request.
pub(super) struct Dispatch<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    object: &'a Value,
    metrics: &'a PolicyMetrics,
    request: ExpressionRequest<'a>,
    /// The message and the reason of the first denial.
    denial: Option<(String, Option<Str>)>,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(attributes: &'a AdmissionAttributes<'a>, object: &'a Value, metrics: &'a PolicyMetrics) -> Self {
        Self { attributes, object, metrics, request: ExpressionRequest::new(attributes), denial: None }
    }

    /// The error of the first denial, if there is one.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        match self.denial {
            None => Ok(()),
            Some((message, reason)) => Err(denial::validating(self.attributes, self.object, &message, reason)),
        }
    }

    /// Evaluates one policy with its bindings.
    ///
    /// # Errors
    /// The namespace of the request does not exist.
    pub(super) async fn run(&mut self, hook: &Hook<Policy>) -> Result<(), ApiError> {
        let policy = &*hook.policy;
        let matched = match &policy.matcher {
            Some(matcher) => matcher.find(self.attributes, self.object).map_err(|error| error.to_string()),
            None => Err("policy contained no match constraints, a required field".to_owned()),
        };
        let matched = match matched {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(()),
            Err(why) => {
                self.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let param_resource = match policy.param_kind.as_ref().map(|kind| kind.resource(self.attributes)).transpose() {
            Ok(resource) => resource,
            Err(why) => {
                self.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let mut versioned = None;
        let mut annotations = AnnotationCollector::default();
        for binding in hook.bindings.candidates(self.attributes, self.object) {
            match binding.matcher.as_ref().map(|matcher| matcher.find(self.attributes, self.object)).transpose() {
                Ok(None | Some(Some(_))) => {}
                Ok(Some(None)) => continue,
                Err(error) => {
                    self.misconfigured(policy, Some(binding), &error.to_string());
                    continue;
                }
            }
            let params = match (&param_resource, &binding.params) {
                (Some(resource), Some(reference)) => reference.read(self.attributes, resource),
                // Without a reference, a policy is evaluated without parameters.
                _ => Ok(vec![Value::Null]),
            };
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if versioned.is_none() && !params.is_empty() {
                match VersionedObjects::convert(self.attributes, self.object, matched.kind(self.attributes)).await {
                    Ok(request) => versioned = Some(request),
                    Err(error) => {
                        let why = format!("failed to convert object version: {error}");
                        self.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                }
            }
            let used = policy.used_values();
            let namespace = self.request.namespace(used)?;
            let Some(versioned) = &versioned else { continue };
            let equivalent;
            let request = match matched {
                MatchedResource::Requested => self.request.requested(used),
                MatchedResource::Equivalent(_) => {
                    equivalent = self.request.equivalent(&matched, used);
                    &equivalent
                }
            };
            let authorizer = used.authorizer.then(|| self.request.authorizer());
            let input = |params| EvaluationInput {
                object: &versioned.object,
                old_object: &versioned.old,
                namespace,
                request,
                params,
                authorizer,
            };
            let results: Vec<PolicyResult> = params.iter().map(|params| policy.evaluate(&input(params))).collect();
            for result in results {
                self.enforce(policy, binding, result, &mut annotations);
            }
        }
        annotations.publish(&policy.name, self.attributes);
        Ok(())
    }

    /// Does what a binding says about the result of its policy.
    fn enforce(
        &mut self,
        policy: &Policy,
        binding: &Binding,
        result: PolicyResult,
        annotations: &mut AnnotationCollector,
    ) {
        for failed in result.failed {
            if failed.is_ignored {
                self.observe(policy, binding, &failed.message, "allow", failed.elapsed);
                continue;
            }
            for action in &binding.actions {
                match &**action {
                    "Deny" => {
                        self.observe(policy, binding, &failed.message, "deny", failed.elapsed);
                        self.deny(policy, Some(binding), &failed.message, failed.reason.clone());
                    }
                    "Audit" => {
                        self.attributes.recorder.annotate(FAILURE_ANNOTATION, failure_value(policy, binding, &failed));
                        self.observe(policy, binding, &failed.message, "audit", failed.elapsed);
                    }
                    "Warn" => {
                        self.attributes.recorder.warn(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, failed.message
                        ));
                        self.observe(policy, binding, &failed.message, "warn", failed.elapsed);
                    }
                    _ => {}
                }
            }
        }
        for annotation in result.annotations {
            match annotation.value {
                Ok(value) => annotations.add(&annotation.key, value),
                // Whatever the actions of the binding are.
                Err(error) => {
                    self.observe(policy, binding, &error, "deny", annotation.elapsed);
                    self.deny(policy, Some(binding), &error, None);
                }
            }
        }
    }

    fn observe(&self, policy: &Policy, binding: &Binding, message: &str, action: &'static str, elapsed: Duration) {
        self.metrics.observe((&policy.name, &binding.name), message, Some(action), elapsed);
    }

    /// Denies the request for an error in the configuration of a policy or a binding, unless failures are ignored.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.ignores_failures {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.deny(policy, binding, &format!("failed to configure {what}: {why}"), None);
    }

    /// Only the first denial is reported.
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: Option<Str>) {
        if self.denial.is_some() {
            return;
        }
        let binding = binding.map_or_else(String::new, |binding| format!(" with binding '{}'", binding.name));
        let message = format!("ValidatingAdmissionPolicy '{}'{binding} denied request: {message}", policy.name);
        self.denial = Some((message, reason));
    }
}

/// The value of the annotation for a failed validation, with the fields in Go's order.
fn failure_value(policy: &Policy, binding: &Binding, failed: &FailedValidation) -> String {
    let value = object! {
        "message": failed.message.as_str(),
        "policy": policy.name.as_str(),
        "binding": binding.name.as_str(),
        "expressionIndex": failed.index as i64,
        "validationActions": Value::Array(binding.actions.iter().map(|action| Value::String(action.clone())).collect()),
    };
    let order = ["message", "policy", "binding", "expressionIndex", "validationActions"];
    print::json_ordered(&Value::Array(vec![value]), &order, &[])
}
