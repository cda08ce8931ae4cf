//! The common part of the plugins for webhooks (upstream: `admission/plugin/webhook/generic`).

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pintle_gates::Feature;
use pintle_metrics::Exposition;
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use super::call::WebhookError;
use super::configuration::{self, Configuration};
use super::metrics::WebhookMetrics;
use super::source::{FailurePolicy, Webhook, WebhookSource};
use crate::manifest::{ManifestFiles, ManifestKinds};
use crate::plugins::{BuiltPlugin, PluginOptions};
use crate::{AdmissionAttributes, AdmissionPlugin, Phase, PluginError};

/// A type of webhooks: the facts and functions in which the plugins differ.
pub(super) trait WebhookType: Sized + Send + Sync + 'static {
    /// The name of the plugin.
    const NAME: &'static str;
    /// The phase in which the webhooks are called.
    const PHASES: &'static [Phase; 1];
    /// The resource whose objects configure the webhooks.
    const RESOURCES: &'static [&'static str; 1];
    /// The objects that files may have.
    const MANIFESTS: &'static ManifestKinds;
    /// The types of admission in the metrics of calls and of match conditions.
    const STEPS: [&'static str; 2];

    /// Calls the webhooks that match a write in the mutating phase. Each comes with its position among all webhooks.
    fn mutate(
        _plugin: &WebhookPlugin<Self>,
        _attributes: &AdmissionAttributes<'_>,
        _object: &mut Value,
        _webhooks: &[(usize, &Webhook)],
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Calls the webhooks that match a write in the validating phase.
    fn validate(
        _plugin: &WebhookPlugin<Self>,
        _attributes: &AdmissionAttributes<'_>,
        _object: &Value,
        _webhooks: &[(usize, &Webhook)],
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }
}

/// The kinds of objects that files may have, for [`WebhookType::MANIFESTS`].
pub(super) const fn manifests(kinds: &'static [&'static str]) -> ManifestKinds {
    let scheme = "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader/loader.go:41";
    ManifestKinds { what: "webhook", kinds, scheme }
}

/// The admission plugin for webhooks of one type.
#[derive(Debug)]
pub(super) struct WebhookPlugin<T> {
    source: WebhookSource,
    pub(super) kubeconfig: Option<PathBuf>,
    /// The folder with the files of further webhooks.
    manifests: Option<PathBuf>,
    pub(super) metrics: WebhookMetrics,
    webhook_type: PhantomData<T>,
}

impl<T: WebhookType> WebhookPlugin<T> {
    /// Builds the plugin.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(super) fn build(options: &PluginOptions<'_>) -> BuiltPlugin {
        let read = configuration::read(options.text, options.gates);
        let Configuration { kubeconfig, manifests } = read.map_err(PluginError::Unreadable)?;
        let ([resource], [step, condition_step]) = (T::RESOURCES, T::STEPS);
        Ok(Arc::new(Self {
            source: WebhookSource::new(
                resource,
                options.gates.is_enabled(Feature::EXCLUDE_ADMISSION_WEBHOOK_VIRTUAL_RESOURCES),
            ),
            kubeconfig,
            manifests,
            metrics: WebhookMetrics::new(step, condition_step),
            webhook_type: PhantomData,
        }))
    }

    /// Counts a call. Returns true if the call failed and the failure policy ignores this. Then the audit event gets an
    /// annotation with the key.
    ///
    /// # Errors
    /// The webhook refuses the write, or the failure policy is to fail.
    pub(super) fn finish_call<R>(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &Webhook,
        result: Result<R, WebhookError>,
        took: Duration,
        failed_open_key: impl FnOnce() -> String,
    ) -> Result<bool, ApiError> {
        let operation = attributes.operation.text();
        self.metrics.observe(&webhook.name, operation, webhook.failure_policy, &result, took);
        attributes.recorder.webhook_took(T::PHASES[0], took);
        let why = match result {
            Ok(_) => return Ok(false),
            Err(WebhookError::Denied(error, _) | WebhookError::Failed(error)) => return Err(error),
            Err(WebhookError::Calling { why, .. }) => why,
        };
        let message = WebhookError::message(webhook, &why);
        if webhook.failure_policy == FailurePolicy::Fail {
            tracing::warn!(webhook = %webhook.name, error = message, "Failed calling webhook, failing closed");
            return Err(ApiError::Internal(message));
        }
        tracing::warn!(webhook = %webhook.name, error = message, "Failed calling webhook, failing open");
        self.metrics.failed_open(&webhook.name);
        attributes.recorder.annotate(&failed_open_key(), webhook.name.to_string());
        Ok(true)
    }
}

impl<T: WebhookType> AdmissionPlugin for WebhookPlugin<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn phases(&self) -> &[Phase] {
        T::PHASES
    }

    fn enforced_resources(&self) -> &[&'static str] {
        T::RESOURCES
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.source.concerns(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let webhooks = self.source.webhooks(attributes)?;
            let candidates = webhooks.candidates(attributes);
            // The future of the calls is large.
            match candidates.is_empty() {
                true => Ok(()),
                false => Box::pin(T::mutate(self, attributes, object, &candidates)).await,
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let webhooks = self.source.webhooks(attributes)?;
            let candidates = webhooks.candidates(attributes);
            match candidates.is_empty() {
                true => Ok(()),
                false => Box::pin(T::validate(self, attributes, object, &candidates)).await,
            }
        })
    }

    fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    fn manifests(&self) -> Option<ManifestFiles<'_>> {
        let directory = self.manifests.as_deref()?;
        Some(ManifestFiles { directory, kinds: T::MANIFESTS, target: &self.source })
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}
