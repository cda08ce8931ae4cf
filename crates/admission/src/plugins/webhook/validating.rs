//! The plugin `ValidatingAdmissionWebhook` (upstream: `admission/plugin/webhook/validating`): all webhooks that match are
//! called at the same time.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_registry::ApiError;
use pintle_value::Value;

use super::call;
use super::conditions;
use super::plugin::{WebhookPlugin, WebhookType, manifests};
use super::source::Webhook;
use crate::expressions::ExpressionRequest;
use crate::manifest::ManifestKinds;
use crate::matching::MatchedResource;
use crate::objects::VersionedObjects;
use crate::{AdmissionAttributes, Phase};

/// The prefix of audit annotations.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The type of validating webhooks.
#[derive(Debug)]
pub(super) struct Validating;

impl WebhookType for Validating {
    const NAME: &'static str = "ValidatingAdmissionWebhook";
    const PHASES: &'static [Phase; 1] = &[Phase::Validating];
    const RESOURCES: &'static [&'static str; 1] = &["validatingwebhookconfigurations"];
    const MANIFESTS: &'static ManifestKinds = &manifests(&["ValidatingWebhookConfiguration"]);
    const STEPS: [&'static str; 2] = ["validating", "validate"];

    /// All webhooks have answered when this returns. The error is the error of the first webhook that does not admit the
    /// write.
    async fn validate(
        plugin: &WebhookPlugin<Self>,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        webhooks: &[(usize, &Webhook)],
    ) -> Result<(), ApiError> {
        let invocations = invocations(plugin, attributes, object, webhooks).await?;
        if invocations.is_empty() {
            return Ok(());
        }
        attributes.check_deadline()?;
        let calls = invocations.iter().enumerate();
        let mut calls: FuturesUnordered<_> =
            calls.map(|(index, invocation)| call(plugin, attributes, invocation, index)).collect();
        let mut first = Ok(());
        while let Some(result) = calls.next().await {
            match (&first, result) {
                (Ok(()), result) => first = result,
                (Err(_), Err(error)) => tracing::warn!(%error, "Rejected by another webhook"),
                (Err(_), Ok(())) => {}
            }
        }
        first
    }
}

/// A webhook that matches, with the objects at the version that it sees.
struct Invocation<'i> {
    webhook: &'i Webhook,
    matched: MatchedResource<'i>,
    objects: Arc<VersionedObjects<'i>>,
}

/// The webhooks that match a write. The objects are converted once for each version.
async fn invocations<'i>(
    plugin: &WebhookPlugin<Validating>,
    attributes: &'i AdmissionAttributes<'_>,
    object: &'i Value,
    webhooks: &[(usize, &'i Webhook)],
) -> Result<Vec<Invocation<'i>>, ApiError> {
    let request = ExpressionRequest::new(attributes);
    let mut versions: Vec<Arc<VersionedObjects<'i>>> = Vec::new();
    let mut invocations = Vec::new();
    for &(_, webhook) in webhooks {
        let Some(matched) = webhook.matcher.find(attributes, object)? else { continue };
        let kind = matched.kind(attributes);
        let objects = match versions.iter().find(|known| known.kind == kind) {
            Some(known) => known.clone(),
            None => {
                let converted = VersionedObjects::convert(attributes, object, kind).await;
                let converted = Arc::new(converted.map_err(|error| ApiError::Internal(error.to_string()))?);
                versions.push(converted.clone());
                converted
            }
        };
        let has_conditions = !webhook.conditions.is_empty();
        if has_conditions && !conditions::evaluate(webhook, attributes, &request, &objects, &plugin.metrics)? {
            continue;
        }
        invocations.push(Invocation { webhook, matched, objects });
    }
    Ok(invocations)
}

async fn call(
    plugin: &WebhookPlugin<Validating>,
    attributes: &AdmissionAttributes<'_>,
    Invocation { webhook, matched, objects }: &Invocation<'_>,
    index: usize,
) -> Result<(), ApiError> {
    let started = Instant::now();
    let kubeconfig: Option<&Path> = plugin.kubeconfig.as_deref();
    let result = call::call(webhook, attributes, *matched, objects, false, kubeconfig).await;
    let key = || format!("{FAILED_OPEN}round_0_index_{index}");
    plugin.finish_call(attributes, webhook, result, started.elapsed(), key).map(drop)
}
