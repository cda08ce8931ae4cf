//! The plugin `MutatingAdmissionPolicy` (upstream: `admission/plugin/policy/mutating`): changes objects as stored policies
//! say.

mod dispatch;
mod patch;
mod policy;

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

impl PolicyType for Policy {
    const NAME: &'static str = "MutatingAdmissionPolicy";
    const PHASES: &'static [Phase; 1] = &[Phase::Mutating];
    const RESOURCES: &'static [&'static str; 2] = &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
    const MANIFESTS: &'static ManifestKinds =
        &manifests(&["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]);
    const METRICS: &'static MetricNames = &METRICS;
    const FEATURE: Option<Feature> = Some(Feature::MUTATING_ADMISSION_POLICY);
    const HANDLES_DELETES: bool = false;

    async fn mutate(
        plugin: &PolicyPlugin<Self>,
        policies: &Hooks<Self>,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        attributes.reinvocation.begin(Self::NAME, object);
        let result = Dispatch::new(attributes, plugin).run(policies, object).await;
        attributes.reinvocation.end(Self::NAME, object);
        result
    }
}
