//! The plugin `ValidatingAdmissionPolicy` (upstream: `admission/plugin/policy/validating`).

mod annotations;
mod dispatch;
mod policy;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use pintle_gates::Gates;
use pintle_metrics::{Exposition, Stability};
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use self::dispatch::Dispatch;
use self::policy::Policy;
use super::metrics::{MetricNames, PolicyMetrics};
use super::source::PolicySource;
use crate::manifest::{ManifestFiles, ManifestKinds, policy_directory};
use crate::{AdmissionAttributes, AdmissionPlugin, Phase, PluginError};

static METRICS: MetricNames = MetricNames {
    stability: Stability::Beta,
    count: (
        "apiserver_validating_admission_policy_check_total",
        "Validation admission policy check total, labeled by policy and further identified by binding and enforcement \
         action taken.",
    ),
    duration: (
        "apiserver_validating_admission_policy_check_duration_seconds",
        "Validation admission latency for individual validation expressions in seconds, labeled by policy and further \
         including binding and enforcement action taken.",
    ),
};

/// The admission plugin `ValidatingAdmissionPolicy`: refuses writes that a stored policy denies.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionPolicy {
    source: PolicySource<Policy>,
    metrics: PolicyMetrics,
    /// The folder with the files of further policies.
    manifests: Option<PathBuf>,
}

/// The objects that files may have.
static MANIFESTS: ManifestKinds = ManifestKinds {
    what: "policy",
    kinds: &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
    scheme: "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader/loader.go:35",
};

impl Default for ValidatingAdmissionPolicy {
    fn default() -> Self {
        let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        let source = PolicySource::new(policies, bindings);
        Self { source, metrics: PolicyMetrics::new(&METRICS), manifests: None }
    }
}

impl ValidatingAdmissionPolicy {
    /// The plugin with its configuration, if it has one.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(crate) fn from_text(text: Option<&[u8]>, gates: &Gates) -> Result<Self, PluginError> {
        let manifests = policy_directory(text, "ValidatingAdmissionPolicyConfiguration", gates);
        Ok(Self { manifests: manifests.map_err(PluginError::Unreadable)?, ..Self::default() })
    }
}

impl AdmissionPlugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn enforced_resources(&self) -> &[&'static str] {
        &["validatingadmissionpolicies", "validatingadmissionpolicybindings"]
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
            let hooks = self.source.hooks(attributes)?;
            let mut dispatch = Dispatch::new(attributes, object, &self.metrics);
            for hook in hooks.candidates(attributes) {
                dispatch.run(hook).await?;
            }
            dispatch.finish()
        })
    }

    fn manifests(&self) -> Option<ManifestFiles<'_>> {
        let directory = self.manifests.as_deref()?;
        Some(ManifestFiles { directory, kinds: &MANIFESTS, target: &self.source })
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}
