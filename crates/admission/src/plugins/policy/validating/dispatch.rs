//! Evaluates the policies that match a request, and does what their bindings say about failures (upstream:
//! `policy/validating/dispatcher.go`).

use std::time::{Duration, Instant};

use pintle_admission_cel::EvaluationInput;
use pintle_registry::ApiError;
use pintle_value::{Str, Value, object, print};

use super::annotations::AnnotationCollector;
use super::policy::{FailedValidation, Policy, PolicyResult};
use crate::AdmissionAttributes;
use crate::expressions::ExpressionRequest;
use crate::matching::MatchedResource;
use crate::objects::VersionedObjects;
use crate::plugins::policy::bindings::Binding;
use crate::plugins::policy::definition::Matches;
use crate::plugins::policy::denial;
use crate::plugins::policy::plugin::PolicyPlugin;
use crate::plugins::policy::source::Hook;

const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The maximum number of failures in the annotation.
const MAX_FAILURES: usize = 50;

/// The evaluation of all policies for one request.
pub(super) struct Dispatch<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    object: &'a Value,
    plugin: &'a PolicyPlugin<Policy>,
    request: ExpressionRequest<'a>,
    /// The message and the reason of the first denial.
    denial: Option<(String, Option<Str>)>,
    /// The failures for the audit annotation.
    failures: Vec<Value>,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
        plugin: &'a PolicyPlugin<Policy>,
    ) -> Self {
        let request = ExpressionRequest::new(attributes);
        Self { attributes, object, plugin, request, denial: None, failures: Vec::new() }
    }

    /// Writes the annotation about failures. Returns the error of the first denial, if there is one.
    pub(super) fn finish(self) -> Result<(), ApiError> {
        if !self.failures.is_empty() {
            self.attributes.recorder.annotate(FAILURE_ANNOTATION, failures_value(self.failures));
        }
        match self.denial {
            None => Ok(()),
            Some((message, reason)) => Err(denial::validating(self.attributes, self.object, &message, reason)),
        }
    }

    /// Evaluates one policy with its bindings.
    ///
    /// # Errors
    /// The namespace of the request does not exist, or the time of the request is over.
    pub(super) async fn run(&mut self, hook: &Hook<Policy>) -> Result<(), ApiError> {
        let (policy, attributes) = (&*hook.policy, self.attributes);
        let Matches { matched, bindings } =
            match hook.find_current(attributes, self.object, self.plugin.reads_params_directly).await {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(()),
                Err(why) => {
                    self.misconfigured(policy, None, &why);
                    return Ok(());
                }
            };
        let mut versioned = None;
        let mut annotations = AnnotationCollector::default();
        for (binding, params) in bindings {
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if versioned.is_none() && !params.is_empty() {
                match VersionedObjects::convert(attributes, self.object, matched.kind(attributes)).await {
                    Ok(request) => versioned = Some(request),
                    Err(error) => {
                        let why = format!("failed to convert object version: {error}");
                        self.misconfigured(policy, Some(binding), &why);
                        continue;
                    }
                }
            }
            self.request.namespace(policy.used_values())?;
            let Some(versioned) = &versioned else { continue };
            for (index, params) in params.iter().enumerate() {
                if index > 0 {
                    // An evaluation can take long. Other requests run between two of them.
                    tokio::task::yield_now().await;
                }
                policy.definition.prepare_evaluation(attributes).await;
                let started = Instant::now();
                let result = self.evaluate(policy, matched, versioned, params)?;
                policy.definition.evaluated(started.elapsed());
                attributes.check_deadline()?;
                self.enforce(policy, binding, result, &mut annotations);
            }
        }
        annotations.publish(&policy.definition.name, attributes);
        Ok(())
    }

    /// Evaluates a policy with a parameter object.
    fn evaluate(
        &self,
        policy: &Policy,
        matched: MatchedResource<'_>,
        versioned: &VersionedObjects<'_>,
        params: &Value,
    ) -> Result<PolicyResult, ApiError> {
        let used = policy.used_values();
        let request = self.request.matched(&matched, used);
        let input = EvaluationInput {
            object: &versioned.object,
            old_object: &versioned.old,
            namespace: self.request.namespace(used)?,
            request: &request,
            params,
            authorizer: used.authorizer.then(|| self.request.authorizer()),
        };
        Ok(policy.evaluate(&input, &self.request.for_conditions(&matched, used)))
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
                        // Older versions write the annotation for each failure. Only the first value counts.
                        let max = if self.plugin.audits_all_failures { MAX_FAILURES } else { 1 };
                        if self.failures.len() < max {
                            self.failures.push(failure_value(policy, binding, &failed));
                        }
                        self.observe(policy, binding, &failed.message, "audit", failed.elapsed);
                    }
                    "Warn" => {
                        self.attributes.recorder.warn(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.definition.name, binding.name, failed.message
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
                // An error denies the request, whatever the actions of the binding are.
                Err(error) => {
                    self.observe(policy, binding, &error, "deny", annotation.elapsed);
                    self.deny(policy, Some(binding), &error, None);
                }
            }
        }
    }

    fn observe(&self, policy: &Policy, binding: &Binding, message: &str, action: &'static str, elapsed: Duration) {
        self.plugin.metrics.observe((&policy.definition.name, &binding.name), message, Some(action), elapsed);
    }

    /// Denies the request for an error in the configuration of a policy or a binding, unless failures are ignored.
    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.definition.ignores_failures {
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
        let message =
            format!("ValidatingAdmissionPolicy '{}'{binding} denied request: {message}", policy.definition.name);
        self.denial = Some((message, reason));
    }
}

/// A failed validation in the annotation.
fn failure_value(policy: &Policy, binding: &Binding, failed: &FailedValidation) -> Value {
    object! {
        "message": failed.message.as_str(),
        "policy": policy.definition.name.as_str(),
        "binding": binding.name.as_str(),
        "expressionIndex": failed.index as i64,
        "validationActions": Value::Array(binding.actions.iter().map(|action| Value::String(action.clone())).collect()),
    }
}

/// The value of the annotation for failed validations, with the fields in Go's order.
fn failures_value(failures: Vec<Value>) -> String {
    let order = ["message", "policy", "binding", "expressionIndex", "validationActions"];
    print::json_ordered(&Value::Array(failures), &order, &[])
}
