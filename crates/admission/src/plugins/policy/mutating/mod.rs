//! The plugin `MutatingAdmissionPolicy` (upstream: `admission/plugin/policy/mutating`).

mod dispatch;
mod patch;
mod policy;

use std::path::PathBuf;

use pintle_gates::{Feature, Gates};
use pintle_metrics::{Exposition, Stability};
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use self::dispatch::Dispatch;
use self::policy::Policy;
use super::metrics::{MetricNames, PolicyMetrics};
use super::source::PolicySource;
use crate::manifest::{ManifestFiles, ManifestKinds, policy_directory};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase, PluginError};

const NAME: &str = "MutatingAdmissionPolicy";

static METRICS: MetricNames = MetricNames {
    stability: Stability::Alpha,
    count: (
        "apiserver_mutating_admission_policy_check_total",
        "Mutation admission policy check total, labeled by policy and further identified by binding.",
    ),
    duration: (
        "apiserver_mutating_admission_policy_check_duration_seconds",
        "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
    ),
};

/// The admission plugin `MutatingAdmissionPolicy`: changes objects as stored policies say.
#[derive(Debug)]
pub(crate) struct MutatingAdmissionPolicy {
    source: PolicySource<Policy>,
    metrics: PolicyMetrics,
    /// The state of the feature.
    enabled: bool,
    /// The folder with the files of further policies.
    manifests: Option<PathBuf>,
}

/// The objects that files may have.
static MANIFESTS: ManifestKinds = ManifestKinds {
    what: "policy",
    kinds: &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
    scheme: "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader/loader.go:35",
};

impl Default for MutatingAdmissionPolicy {
    fn default() -> Self {
        let (policies, bindings) = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
        let source = PolicySource::new(policies, bindings);
        Self { source, metrics: PolicyMetrics::new(&METRICS), enabled: true, manifests: None }
    }
}

impl MutatingAdmissionPolicy {
    /// The plugin of a server with these feature gates, with its configuration, if it has one.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(crate) fn from_text(text: Option<&[u8]>, gates: &Gates) -> Result<Self, PluginError> {
        let manifests = policy_directory(text, "MutatingAdmissionPolicyConfiguration", gates);
        Ok(Self {
            enabled: gates.is_enabled(Feature::MUTATING_ADMISSION_POLICY),
            manifests: manifests.map_err(PluginError::Unreadable)?,
            ..Self::default()
        })
    }
}

impl AdmissionPlugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Mutating]
    }

    fn enforced_resources(&self) -> &[&'static str] {
        if self.enabled { &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] } else { &[] }
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        // As in upstream, deletes are not handled, whatever the rules of a policy say.
        self.enabled && attributes.operation != AdmissionOperation::Delete && self.source.concerns(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let hooks = self.source.hooks(attributes)?;
            attributes.reinvocation.begin(NAME, object);
            let result = Dispatch::new(attributes, &self.metrics).run(&hooks, object).await;
            attributes.reinvocation.end(NAME, object);
            result
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
