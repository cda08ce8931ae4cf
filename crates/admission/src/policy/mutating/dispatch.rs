//! Runs the policies that match a request, one after the other (upstream: `policy/mutating/dispatcher.go`,
//! `policy/generic/policy_dispatcher.go`).

use std::time::{Duration, Instant};

use pintle_admission_cel::EvaluationInput;
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::{Str, Value};

use super::NAME;
use super::patch::{apply_configuration, apply_json_patch};
use super::policy::{MutationKind, Policy};
use crate::AdmissionAttributes;
use crate::converted_view::ConvertedView;
use crate::expressions::ExpressionRequest;
use crate::matching::MatchedResource;
use crate::policy::bindings::Binding;
use crate::policy::denial::{self, Denial};
use crate::policy::metrics::PolicyMetrics;
use crate::policy::source::Hook;

/// The policies of one request.
pub(super) struct Dispatch<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    metrics: &'a PolicyMetrics,
    request: ExpressionRequest<'a>,
    denials: Vec<Denial>,
}

/// A policy with a binding and one of its parameter objects.
struct Invocation<'h, 'a> {
    policy: &'h Policy,
    binding: &'h Binding,
    matched: MatchedResource<'a>,
    params: Value,
    /// What tells it apart from all others.
    uid: Str,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(attributes: &'a AdmissionAttributes<'a>, metrics: &'a PolicyMetrics) -> Self {
        Self { attributes, metrics, request: ExpressionRequest::new(attributes), denials: Vec::new() }
    }

    /// Runs the policies on an object, which is null for deletes.
    ///
    /// # Errors
    /// A policy fails.
    pub(super) async fn run(mut self, hooks: &[Hook<Policy>], object: &mut Value) -> Result<(), ApiError> {
        let invocations: Vec<Invocation<'_, 'a>> =
            hooks.iter().flat_map(|hook| self.invocations(hook, object)).collect();
        let mut view = ConvertedView::default();
        let mut result = Ok(());
        for invocation in &invocations {
            if let Err(error) = self.invoke(invocation, object, &mut view).await {
                result = Err(error);
                break;
            }
        }
        view.leave(self.attributes, object).await?;
        result?;
        match self.denials.is_empty() {
            true => Ok(()),
            false => Err(denial::mutating(self.attributes, object, &self.denials)),
        }
    }

    /// The invocations of a policy that matches the object as it is before all mutations.
    fn invocations<'h>(&mut self, hook: &'h Hook<Policy>, object: &Value) -> Vec<Invocation<'h, 'a>> {
        let (policy, attributes) = (&*hook.policy, self.attributes);
        let matched = match &policy.matcher {
            Some(matcher) => matcher.find(attributes, object).map_err(|error| error.to_string()),
            None => Err("policy contained no match constraints, a required field".to_owned()),
        };
        let resource = |matched: Option<MatchedResource<'a>>| {
            let Some(matched) = matched else { return Ok(None) };
            let resource = policy.param_kind.as_ref().map(|kind| kind.resource(attributes)).transpose()?;
            Ok(Some((matched, resource)))
        };
        let (matched, param_resource) = match matched.and_then(resource) {
            Ok(Some(found)) => found,
            Ok(None) => return Vec::new(),
            Err(why) => {
                self.deny(policy, None, format!("failed to configure policy: {why}"), None);
                return Vec::new();
            }
        };
        let mut invocations = Vec::new();
        for binding in hook.bindings.candidates(attributes, object) {
            let found = match binding.matcher.as_ref().map(|matcher| matcher.find(attributes, object)).transpose() {
                Ok(Some(None)) => continue,
                Ok(None | Some(Some(_))) => match (&param_resource, &binding.params) {
                    (Some(resource), Some(reference)) => reference.read(attributes, resource),
                    // Without a reference, a policy is evaluated without parameters.
                    _ => Ok(vec![Value::Null]),
                },
                Err(error) => Err(error.to_string()),
            };
            match found {
                Ok(params) => invocations.extend(params.into_iter().map(|params| {
                    let uid = format!("{}/{}/{}/{}", policy.name, binding.name, params.namespace(), params.name());
                    Invocation { policy, binding, matched, params, uid: uid.into() }
                })),
                Err(why) => self.deny(policy, Some(binding), format!("failed to configure binding: {why}"), None),
            }
        }
        invocations
    }

    /// Runs a policy. Errors of its expressions are denials.
    async fn invoke(
        &mut self,
        invocation: &Invocation<'_, 'a>,
        object: &mut Value,
        view: &mut ConvertedView,
    ) -> Result<(), ApiError> {
        let Invocation { policy, binding, matched, uid, .. } = invocation;
        let attributes = self.attributes;
        // Upstream looks the namespace up for every policy that matches.
        self.request.namespace(policy.used_values())?;
        view.enter(attributes, object, matched).await?;
        match policy.matches(&self.input(invocation, view, object, &Value::Null)?) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                self.deny(policy, Some(binding), why, Some("Invalid"));
                return Ok(());
            }
        }
        if !attributes.reinvocation.should_invoke(NAME, uid) {
            return Ok(());
        }
        let mut is_changed = false;
        for index in 0..policy.mutation_count() {
            if view.object(object).is_null() {
                continue;
            }
            let started = Instant::now();
            match self.mutate(invocation, index, view, object)? {
                Ok(new) => {
                    self.observe(policy, binding, "", started.elapsed());
                    is_changed |= new != *view.object(object);
                    attributes.reinvocation.will_replace(object);
                    view.replace(object, new);
                }
                Err(why) => {
                    self.observe(policy, binding, &why, started.elapsed());
                    self.deny(policy, Some(binding), why, Some("Invalid"));
                }
            }
        }
        if is_changed {
            attributes.reinvocation.changed(NAME);
        }
        if policy.is_reinvocable {
            attributes.reinvocation.add_reinvocable(NAME, uid);
        }
        Ok(())
    }

    fn observe(&self, policy: &Policy, binding: &Binding, message: &str, elapsed: Duration) {
        self.metrics.observe((&policy.name, &binding.name), message, None, elapsed);
    }

    /// What the expressions of an invocation are evaluated with. `request` is that of an equivalent resource, if one is
    /// matched.
    fn input<'i>(
        &'i self,
        invocation: &'i Invocation<'_, 'a>,
        view: &'i ConvertedView,
        object: &'i Value,
        equivalent: &'i Value,
    ) -> Result<EvaluationInput<'i>, ApiError> {
        let used = invocation.policy.used_values();
        let request = match invocation.matched {
            MatchedResource::Requested => self.request.requested(used),
            MatchedResource::Equivalent(_) => equivalent,
        };
        Ok(EvaluationInput {
            object: view.object(object),
            old_object: view.old(self.attributes),
            namespace: self.request.namespace(used)?,
            request,
            params: &invocation.params,
            authorizer: used.authorizer.then(|| self.request.authorizer()),
        })
    }

    /// The object after a mutation, or why it fails.
    fn mutate(
        &self,
        invocation: &Invocation<'_, 'a>,
        index: usize,
        view: &ConvertedView,
        object: &Value,
    ) -> Result<Result<Value, String>, ApiError> {
        let attributes = self.attributes;
        let kind = invocation.matched.kind(attributes);
        // Upstream has no types of subresources.
        let Some(resource) = attributes.client.resource_of_kind(&kind) else {
            let GroupVersionKind { group, version, kind } = &kind;
            return Err(ApiError::Unavailable(format!(
                "Resource kind {group}/{version}, Kind={kind} not found. There can be a delay between when \
                 CustomResourceDefinitions are created and when they are available."
            )));
        };
        let equivalent = match invocation.matched {
            MatchedResource::Requested => Value::Null,
            MatchedResource::Equivalent(_) => {
                self.request.equivalent(&invocation.matched, invocation.policy.used_values())
            }
        };
        let current = view.object(object);
        let input = self.input(invocation, view, object, &equivalent)?;
        let patched = match invocation.policy.evaluate(index, &input) {
            Ok((MutationKind::ApplyConfiguration, made)) => apply_configuration(current, made, &resource.schema),
            Ok((MutationKind::JsonPatch, made)) => apply_json_patch(current, made),
            Err(why) => Err(why),
        };
        match patched {
            Ok(patched) => {
                attributes.objects.decode(attributes.resource, patched, &kind).map(Ok).map_err(ApiError::Internal)
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// Denies the request, unless the policy ignores failures.
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, why: String, reason: Option<&'static str>) {
        if policy.ignores_failures {
            return;
        }
        let message = match binding {
            Some(binding) => format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name),
            None => format!("policy \"{}\" denied request: {why}", policy.name),
        };
        self.denials.push(Denial { message, reason });
    }
}
