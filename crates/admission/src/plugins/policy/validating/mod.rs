//! The plugin `ValidatingAdmissionPolicy` (upstream: `admission/plugin/policy/validating`): refuses writes that a stored
//! policy denies.

mod annotations;
mod dispatch;
mod policy;
#[cfg(test)]
mod tests;

use pintle_gates::Feature;
use pintle_metrics::Stability;
use pintle_registry::ApiError;
use pintle_value::Value;

use self::dispatch::Dispatch;
pub(super) use self::policy::Policy;
use super::metrics::MetricNames;
use super::plugin::{PolicyPlugin, PolicyType, manifests};
use super::source::Hooks;
use crate::manifest::ManifestKinds;
use crate::{AdmissionAttributes, Phase};

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

impl PolicyType for Policy {
    const NAME: &'static str = "ValidatingAdmissionPolicy";
    const PHASES: &'static [Phase; 1] = &[Phase::Validating];
    const RESOURCES: &'static [&'static str; 2] = &["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    const MANIFESTS: &'static ManifestKinds =
        &manifests(&["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]);
    const METRICS: &'static MetricNames = &METRICS;
    const FEATURE: Option<Feature> = None;
    const HANDLES_DELETES: bool = true;

    async fn validate(
        plugin: &PolicyPlugin<Self>,
        policies: &Hooks<Self>,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
    ) -> Result<(), ApiError> {
        let mut dispatch = Dispatch::new(attributes, object, plugin);
        for hook in policies.candidates(attributes) {
            dispatch.run(hook).await?;
        }
        dispatch.finish()
    }
}
