//! The plugin `ValidatingAdmissionWebhook` (upstream: `admission/plugin/webhook/validating`): all webhooks that match are
//! called at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{FuturesUnordered, StreamExt};
use pintle_gates::Gates;
use pintle_metrics::Exposition;
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use super::call::{self, WebhookError};
use super::conditions;
use super::configuration::{self, Configuration};
use super::metrics::WebhookMetrics;
use super::source::{FailurePolicy, Webhook, WebhookSource};
use crate::expressions::ExpressionRequest;
use crate::manifest::{ManifestFiles, ManifestKinds};
use crate::matching::MatchedResource;
use crate::objects::VersionedObjects;
use crate::{AdmissionAttributes, AdmissionPlugin, Phase, PluginError};

/// The prefix of audit annotations.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

/// The objects that files may have.
static MANIFESTS: ManifestKinds = ManifestKinds {
    what: "webhook",
    kinds: &["ValidatingWebhookConfiguration"],
    scheme: "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader/loader.go:41",
};

/// The admission plugin `ValidatingAdmissionWebhook`.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionWebhook {
    source: WebhookSource,
    kubeconfig: Option<PathBuf>,
    /// The folder with the files of further webhooks.
    manifests: Option<PathBuf>,
    metrics: WebhookMetrics,
}

/// A webhook that matches, with the objects at the version that it sees.
struct Invocation<'i> {
    webhook: &'i Webhook,
    matched: MatchedResource<'i>,
    objects: Arc<VersionedObjects<'i>>,
}

impl Default for ValidatingAdmissionWebhook {
    fn default() -> Self {
        Self {
            source: WebhookSource::new("validatingwebhookconfigurations"),
            kubeconfig: None,
            manifests: None,
            metrics: WebhookMetrics::new("validating", "validate"),
        }
    }
}

impl ValidatingAdmissionWebhook {
    /// The plugin with its configuration, if it has one.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(crate) fn from_text(text: Option<&[u8]>, gates: &Gates) -> Result<Self, PluginError> {
        let Configuration { kubeconfig, manifests } =
            configuration::read(text, gates).map_err(PluginError::Unreadable)?;
        Ok(Self { kubeconfig, manifests, ..Self::default() })
    }

    /// Calls the webhooks that match a write. All have answered when this returns. The error is the error of the first
    /// webhook that does not admit the write.
    async fn dispatch(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        webhooks: &[(usize, &Webhook)],
    ) -> Result<(), ApiError> {
        let invocations = self.invocations(attributes, object, webhooks).await?;
        if invocations.is_empty() {
            return Ok(());
        }
        attributes.check_deadline()?;
        let calls = invocations.iter().enumerate();
        let mut calls: FuturesUnordered<_> =
            calls.map(|(index, invocation)| self.call(attributes, invocation, index)).collect();
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

    /// The webhooks that match a write. The objects are converted once for each version.
    async fn invocations<'i>(
        &self,
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
            if has_conditions && !conditions::evaluate(webhook, attributes, &request, &objects, &self.metrics)? {
                continue;
            }
            invocations.push(Invocation { webhook, matched, objects });
        }
        Ok(invocations)
    }

    async fn call(
        &self,
        attributes: &AdmissionAttributes<'_>,
        Invocation { webhook, matched, objects }: &Invocation<'_>,
        index: usize,
    ) -> Result<(), ApiError> {
        let started = Instant::now();
        let kubeconfig: Option<&Path> = self.kubeconfig.as_deref();
        let result = call::call(webhook, attributes, *matched, objects, false, kubeconfig).await;
        let operation = attributes.operation.text();
        self.metrics.observe(&webhook.name, operation, webhook.failure_policy, &result, started.elapsed());
        match result {
            Ok(_) => Ok(()),
            Err(WebhookError::Denied(error, _) | WebhookError::Failed(error)) => Err(error),
            Err(WebhookError::Calling { why, .. }) => {
                let message = WebhookError::message(webhook, &why);
                if webhook.failure_policy == FailurePolicy::Fail {
                    tracing::warn!(webhook = %webhook.name, error = message, "Failed calling webhook, failing closed");
                    return Err(ApiError::Internal(message));
                }
                tracing::warn!(webhook = %webhook.name, error = message, "Failed calling webhook, failing open");
                self.metrics.failed_open(&webhook.name);
                attributes.recorder.annotate(&format!("{FAILED_OPEN}round_0_index_{index}"), webhook.name.to_string());
                Ok(())
            }
        }
    }
}

impl AdmissionPlugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn enforced_resources(&self) -> &[&'static str] {
        &["validatingwebhookconfigurations"]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.source.concerns(attributes)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let webhooks = self.source.webhooks(attributes)?;
            let candidates = webhooks.candidates(attributes);
            // The future of the calls is large.
            match candidates.is_empty() {
                true => Ok(()),
                false => Box::pin(self.dispatch(attributes, object, &candidates)).await,
            }
        })
    }

    fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    fn manifests(&self) -> Option<ManifestFiles<'_>> {
        let directory = self.manifests.as_deref()?;
        Some(ManifestFiles { directory, kinds: &MANIFESTS, target: &self.source })
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}
