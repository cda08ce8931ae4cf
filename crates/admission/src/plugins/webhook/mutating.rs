//! The plugin `MutatingAdmissionWebhook` (upstream: `admission/plugin/webhook/mutating`): webhooks are called one after the
//! other, and each may patch the object.

use std::path::Path;
use std::time::Instant;

use pintle_codec::json;
use pintle_patch::JsonPatch;
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::print::quote;

use super::call::{self, WebhookError};
use super::conditions;
use super::plugin::{WebhookPlugin, WebhookType, manifests};
use super::review::AdmissionResponse;
use super::source::Webhook;
use crate::converted_view::{ConvertedView, internal};
use crate::expressions::ExpressionRequest;
use crate::manifest::ManifestKinds;
use crate::matching::MatchedResource;
use crate::objects::Decoding;
use crate::{AdmissionAttributes, Phase};

/// Prefixes of audit annotations.
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

/// The type of mutating webhooks.
#[derive(Debug)]
pub(super) struct Mutating;

impl WebhookType for Mutating {
    const NAME: &'static str = "MutatingAdmissionWebhook";
    const PHASES: &'static [Phase; 1] = &[Phase::Mutating];
    const RESOURCES: &'static [&'static str; 1] = &["mutatingwebhookconfigurations"];
    const MANIFESTS: &'static ManifestKinds = &manifests(&["MutatingWebhookConfiguration"]);
    const STEPS: [&'static str; 2] = ["admit", "admit"];

    async fn mutate(
        plugin: &WebhookPlugin<Self>,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Value,
        webhooks: &[(usize, &Webhook)],
    ) -> Result<(), ApiError> {
        attributes.reinvocation.begin(Mutating::NAME, object);
        let mut view = ConvertedView::default();
        // A refused object is not converted back.
        let result = match call_all(plugin, attributes, object, webhooks, &mut view).await {
            Ok(()) => view.leave(attributes, object).await,
            refused => refused,
        };
        attributes.reinvocation.end(Mutating::NAME, object);
        result
    }
}

async fn call_all(
    plugin: &WebhookPlugin<Mutating>,
    attributes: &AdmissionAttributes<'_>,
    object: &mut Value,
    webhooks: &[(usize, &Webhook)],
    view: &mut ConvertedView,
) -> Result<(), ApiError> {
    let request = ExpressionRequest::new(attributes);
    for &(index, webhook) in webhooks {
        let Some(matched) = webhook.matcher.find(attributes, view.object(object))? else { continue };
        if !webhook.conditions.is_empty() {
            view.enter(attributes, object, &matched).await.map_err(|error| internal(&error.into()))?;
            let objects = view.objects(attributes, object);
            if !conditions::evaluate(webhook, attributes, &request, &objects, &plugin.metrics)? {
                continue;
            }
        }
        // A webhook that was not called in the first run is not called in the second.
        if !attributes.reinvocation.should_invoke(Mutating::NAME, &webhook.uid) {
            continue;
        }
        // As in upstream, the error is wrapped twice.
        view.enter(attributes, object, &matched).await.map_err(|error| internal(&error.into()))?;
        let call = Call { plugin, attributes, webhook, matched, index };
        call.run(object, view).await?;
    }
    Ok(())
}

/// The call of a webhook that matched.
struct Call<'c> {
    plugin: &'c WebhookPlugin<Mutating>,
    attributes: &'c AdmissionAttributes<'c>,
    webhook: &'c Webhook,
    matched: MatchedResource<'c>,
    /// The position among all webhooks.
    index: usize,
}

impl Call<'_> {
    /// Calls the webhook and applies its patch.
    async fn run(&self, object: &mut Value, view: &mut ConvertedView) -> Result<(), ApiError> {
        let Self { plugin, attributes, webhook, .. } = self;
        let started = Instant::now();
        let result = self.call_and_patch(object, view).await;
        let (took, changed) = (started.elapsed(), *result.as_ref().unwrap_or(&false));
        self.annotate(MUTATION, &[("mutated", changed.into())]);
        if changed {
            attributes.reinvocation.changed(Mutating::NAME);
        }
        if webhook.is_reinvocable {
            attributes.reinvocation.add_reinvocable(Mutating::NAME, &webhook.uid);
        }
        match plugin.finish_call(attributes, webhook, result, took, || self.annotation_key(FAILED_OPEN))? {
            true => attributes.check_deadline(),
            false => Ok(()),
        }
    }

    /// Returns whether the webhook has changed the object.
    async fn call_and_patch(&self, object: &mut Value, view: &mut ConvertedView) -> Result<bool, WebhookError> {
        let Self { plugin, attributes, webhook, matched, .. } = self;
        let response = {
            let objects = view.objects(attributes, object);
            let kubeconfig: Option<&Path> = plugin.kubeconfig.as_deref();
            call::call(webhook, attributes, *matched, &objects, true, kubeconfig).await?
        };
        let Some(patch) = self.decode_patch(&response)? else { return Ok(false) };
        let current = view.object(object);
        if current.is_null() {
            let name = quote(&webhook.name);
            return Err(WebhookError::Failed(ApiError::Internal(format!(
                "admission webhook {name} attempted to modify the object, which is not supported for this operation"
            ))));
        }
        if response.patch_type != "JSONPatch" {
            let why = format!("unsupported patch type {}", quote(&response.patch_type));
            return Err(WebhookError::Calling { why, code: 0 });
        }
        let failed = |why: String| WebhookError::Failed(ApiError::Internal(why));
        let patched = patch.decoded.apply(current.clone()).map_err(|error| failed(error.message))?;
        let kind = view.kind(attributes);
        let mut new =
            attributes.objects.decode(attributes.resource, patched, &kind, Decoding::Lenient).map_err(failed)?;
        let changed = new != *current;
        self.annotate(PATCH, &[("patch", patch.text), ("patchType", "JSONPatch".into())]);
        // As in upstream, defaults alone are no change.
        attributes.objects.set_defaults(&mut new, &kind);
        attributes.reinvocation.will_replace(object);
        view.replace(object, new);
        Ok(changed)
    }

    /// The patch of an answer, unless it is empty.
    fn decode_patch(&self, response: &AdmissionResponse) -> Result<Option<Patch>, WebhookError> {
        if response.patch.is_empty() {
            return Ok(None);
        }
        let undecodable = |why: String| {
            let why = format!("received undecodable patch in webhook response: {why}");
            WebhookError::Calling { why, code: 503 }
        };
        let options = json::DecodeOptions::default();
        let tree = json::decode(&response.patch, options).map_err(|error| undecodable(error.to_string()))?.value;
        let decoded = JsonPatch::decode(&tree, false).map_err(|error| undecodable(error.message))?;
        let is_empty = tree.is_null() || tree.as_array().is_some_and(Vec::is_empty);
        Ok((!is_empty).then_some(Patch { decoded, text: tree }))
    }

    fn annotation_key(&self, prefix: &str) -> String {
        let round = u8::from(self.attributes.reinvocation.is_reinvocation());
        format!("{prefix}round_{round}_index_{}", self.index)
    }

    /// Adds an audit annotation, an object with the names of the configuration and the webhook and these members.
    fn annotate(&self, prefix: &str, members: &[(&str, Value)]) {
        let Webhook { configuration, name, .. } = self.webhook;
        let value = annotation_value(configuration, name, members);
        let key = self.annotation_key(prefix);
        match prefix {
            PATCH => self.attributes.recorder.annotate_with_request(&key, value),
            _ => self.attributes.recorder.annotate(&key, value),
        }
    }
}

/// The value of an audit annotation. As in upstream, its members are in this order.
fn annotation_value(configuration: &str, webhook: &str, members: &[(&str, Value)]) -> String {
    let mut text = b"{\"configuration\":".to_vec();
    json::encode_into(&Value::from(configuration), &mut text);
    text.extend_from_slice(b",\"webhook\":");
    json::encode_into(&Value::from(webhook), &mut text);
    for (name, value) in members {
        text.push(b',');
        json::encode_into(&Value::from(*name), &mut text);
        text.push(b':');
        json::encode_into(value, &mut text);
    }
    text.push(b'}');
    String::from_utf8_lossy(&text).into_owned()
}

/// A patch, and its text as a tree.
struct Patch {
    decoded: JsonPatch,
    text: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn audit_annotations_have_their_members_in_upstreams_order() {
        let patch = json(r#"[{"op": "remove", "path": "/a"}]"#);
        assert_eq!(
            annotation_value("c", "w", &[("patch", patch), ("patchType", "JSONPatch".into())]),
            r#"{"configuration":"c","webhook":"w","patch":[{"op":"remove","path":"/a"}],"patchType":"JSONPatch"}"#
        );
        let mutated = annotation_value("c", "w", &[("mutated", true.into())]);
        assert_eq!(mutated, r#"{"configuration":"c","webhook":"w","mutated":true}"#);
    }
}
