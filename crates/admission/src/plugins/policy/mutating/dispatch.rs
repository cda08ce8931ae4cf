//! Runs the policies that match a request, one after the other (upstream: `policy/mutating/dispatcher.go`,
//! `policy/generic/policy_dispatcher.go`).

use std::time::{Duration, Instant};

use pintle_admission_cel::EvaluationInput;
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::patch::{apply_configuration, apply_json_patch};
use super::policy::{MutationKind, Policy};
use crate::AdmissionAttributes;
use crate::converted_view::{ConversionError, ConvertedView};
use crate::expressions::ExpressionRequest;
use crate::matching::MatchedResource;
use crate::objects::Decoding;
use crate::plugins::policy::bindings::Binding;
use crate::plugins::policy::definition::Matches;
use crate::plugins::policy::denial::{self, Denial};
use crate::plugins::policy::plugin::PolicyPlugin;
use crate::plugins::policy::plugin::PolicyType;
use crate::plugins::policy::source::{Hook, Hooks};

/// The policies of one request.
pub(super) struct Dispatch<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    plugin: &'a PolicyPlugin<Policy>,
    request: ExpressionRequest<'a>,
    denials: Vec<Denial>,
    /// True if a mutation was applied.
    is_mutated: bool,
}

/// A policy with a binding and one of its parameter objects.
struct Invocation<'h, 'a> {
    policy: &'h Policy,
    binding: &'h Binding,
    matched: MatchedResource<'a>,
    params: Value,
    /// Identifies the invocation among all others.
    uid: Str,
}

/// Why a mutation cannot be applied.
enum Failure {
    /// The failure policy decides.
    Denied(String),
    /// The request fails in any case.
    Request(ApiError),
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(attributes: &'a AdmissionAttributes<'a>, plugin: &'a PolicyPlugin<Policy>) -> Self {
        Self { attributes, plugin, request: ExpressionRequest::new(attributes), denials: Vec::new(), is_mutated: false }
    }

    /// Runs the policies on an object, which may be null for connects.
    ///
    /// # Errors
    /// A policy fails.
    pub(super) async fn run(mut self, hooks: &Hooks<Policy>, object: &mut Value) -> Result<(), ApiError> {
        let mut invocations: Vec<Invocation<'_, 'a>> = Vec::new();
        for hook in hooks.candidates(self.attributes) {
            invocations.extend(self.invocations(hook, object).await);
        }
        let mut view = ConvertedView::default();
        let mut result = Ok(());
        for (index, invocation) in invocations.iter().enumerate() {
            if index > 0 {
                // An evaluation can take long. Other requests run between two of them.
                tokio::task::yield_now().await;
            }
            result = self.invoke(invocation, object, &mut view).await;
            result = result.and_then(|()| self.attributes.check_deadline());
            if result.is_err() {
                break;
            }
        }
        if self.is_mutated {
            // Upstream does not ask whether the mutations have changed anything. Policies that can run again see even
            // their own changes.
            self.attributes.reinvocation.changed(Policy::NAME);
        }
        let left = view.leave(self.attributes, object).await;
        left.map_err(|error| ApiError::Internal(format!("failed to convert object: {error}")))?;
        result?;
        match self.denials.is_empty() {
            true => Ok(()),
            false => Err(denial::mutating(self.attributes, object, &self.denials)),
        }
    }

    /// The invocations of a policy that matches the object as it is before all mutations.
    async fn invocations<'h>(&mut self, hook: &'h Hook<Policy>, object: &Value) -> Vec<Invocation<'h, 'a>> {
        let policy = &*hook.policy;
        let Matches { matched, bindings } =
            match hook.find_current(self.attributes, object, self.plugin.reads_params_directly).await {
                Ok(Some(found)) => found,
                Ok(None) => return Vec::new(),
                Err(why) => {
                    self.deny(policy, None, format!("failed to configure policy: {why}"), None);
                    return Vec::new();
                }
            };
        let mut invocations = Vec::new();
        for (binding, params) in bindings {
            match params {
                Ok(params) => invocations.extend(params.into_iter().map(|params| {
                    let name = &policy.definition.name;
                    let uid = format!("{name}/{}/{}/{}", binding.name, params.namespace(), params.name());
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
        match view.enter(attributes, object, matched).await {
            Ok(()) => {}
            Err(ConversionError::ToMatched(why)) => {
                self.deny(policy, None, format!("failed to configure policy: {why}"), None);
                return Ok(());
            }
            Err(ConversionError::ToRequested(why)) => {
                return Err(ApiError::Internal(format!("failed to convert object: {why}")));
            }
        }
        policy.definition.prepare_evaluation(attributes).await;
        let request = self.request.for_conditions(matched, policy.used_values());
        match policy.matches(&self.input(invocation, view, object, &request)?) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                drop(request);
                self.deny(policy, Some(binding), why, Some("Invalid"));
                return Ok(());
            }
        }
        drop(request);
        if !attributes.reinvocation.should_invoke(Policy::NAME, uid) {
            return Ok(());
        }
        let mut is_changed = false;
        for index in 0..policy.mutation_count() {
            if view.object(object).is_null() {
                continue;
            }
            let started = Instant::now();
            let mutated = self.mutate(invocation, index, view, object);
            let message = match &mutated {
                Ok(_) => String::new(),
                Err(Failure::Denied(why)) => why.clone(),
                Err(Failure::Request(error)) => error.to_string(),
            };
            let elapsed = started.elapsed();
            policy.definition.evaluated(elapsed);
            self.observe(policy, binding, &message, elapsed);
            match mutated {
                Ok(new) => {
                    self.is_mutated = true;
                    is_changed |= new != *view.object(object);
                    attributes.reinvocation.will_replace(object);
                    view.replace(object, new);
                }
                Err(Failure::Denied(why)) => self.deny(policy, Some(binding), why, Some("Invalid")),
                Err(Failure::Request(error)) => return Err(error),
            }
        }
        if is_changed {
            attributes.reinvocation.changed(Policy::NAME);
        }
        if policy.is_reinvocable {
            attributes.reinvocation.add_reinvocable(Policy::NAME, uid);
        }
        Ok(())
    }

    fn observe(&self, policy: &Policy, binding: &Binding, message: &str, elapsed: Duration) {
        self.plugin.metrics.observe((&policy.definition.name, &binding.name), message, None, elapsed);
    }

    /// The variables for the expressions of an invocation.
    fn input<'i>(
        &'i self,
        invocation: &'i Invocation<'_, 'a>,
        view: &'i ConvertedView,
        object: &'i Value,
        request: &'i Value,
    ) -> Result<EvaluationInput<'i>, ApiError> {
        let used = invocation.policy.used_values();
        Ok(EvaluationInput {
            object: view.object(object),
            old_object: view.old(self.attributes),
            namespace: self.request.namespace(used)?,
            request,
            params: &invocation.params,
            authorizer: used.authorizer.then(|| self.request.authorizer()),
        })
    }

    /// The object after a mutation.
    fn mutate(
        &self,
        invocation: &Invocation<'_, 'a>,
        index: usize,
        view: &ConvertedView,
        object: &Value,
    ) -> Result<Value, Failure> {
        let attributes = self.attributes;
        let kind = invocation.matched.kind(attributes);
        if !attributes.client.serves(&kind.group, &kind.version) {
            return Err(Failure::Request(ApiError::Unavailable(format!(
                "Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are created \
                 and when they are available."
            ))));
        }
        let request = self.request.matched(&invocation.matched, invocation.policy.used_values());
        let current = view.object(object);
        let input = self.input(invocation, view, object, &request).map_err(Failure::Request)?;
        let decode = |patched, decoding| attributes.objects.decode(attributes.resource, patched, &kind, decoding);
        let mut new = match invocation.policy.evaluate(index, &input).map_err(Failure::Denied)? {
            (MutationKind::ApplyConfiguration, made) => {
                let resource = attributes.client.resource_of_kind(&kind);
                let schema = resource.as_ref().map(|resource| &*resource.schema);
                let patched = apply_configuration(current, made, &kind, schema).map_err(Failure::Denied)?;
                decode(patched, Decoding::Unstructured).map_err(Failure::Denied)?
            }
            (MutationKind::JsonPatch, made) => {
                let patched = apply_json_patch(current, made).map_err(Failure::Denied)?;
                decode(patched, Decoding::Strict).map_err(|why| Failure::Request(ApiError::Internal(why)))?
            }
        };
        attributes.objects.set_defaults(&mut new, &kind);
        Ok(new)
    }

    /// Denies the request, unless the policy ignores failures.
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, why: String, reason: Option<&'static str>) {
        if policy.definition.ignores_failures {
            return;
        }
        let message = match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {why}", policy.definition.name, binding.name)
            }
            None => format!("policy \"{}\" denied request: {why}", policy.definition.name),
        };
        self.denials.push(Denial { message, reason });
    }
}
