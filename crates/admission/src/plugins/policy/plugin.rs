//! The common part of the plugins for policies (upstream: `policy/generic/plugin.go`).

use std::path::PathBuf;
use std::sync::Arc;

use pintle_gates::{Change, Feature};
use pintle_metrics::Exposition;
use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use super::definition::StoredPolicy;
use super::metrics::{MetricNames, PolicyMetrics};
use super::source::{Hooks, PolicySource};
use crate::manifest::{ManifestFiles, ManifestKinds, policy_directory};
use crate::plugins::{BuiltPlugin, PluginOptions};
use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase, PluginError};

/// A type of policies: the facts and functions in which the plugins differ.
pub(super) trait PolicyType: StoredPolicy + Sized + Send + Sync + 'static {
    /// The name of the plugin, which is also the kind of the policies.
    const NAME: &'static str;
    /// The phase in which the policies are evaluated.
    const PHASES: &'static [Phase; 1];
    /// The resources of the policies and of their bindings.
    const RESOURCES: &'static [&'static str; 2];
    /// The objects that files may have.
    const MANIFESTS: &'static ManifestKinds;
    /// The metrics of the plugin.
    const METRICS: &'static MetricNames;
    /// The plugin does nothing if this feature is disabled.
    const FEATURE: Option<Feature>;
    /// False if deletes are not handled, whatever the rules of a policy say.
    const HANDLES_DELETES: bool;

    /// Evaluates the policies that match a write in the mutating phase.
    fn mutate(
        _plugin: &PolicyPlugin<Self>,
        _policies: &Hooks<Self>,
        _attributes: &AdmissionAttributes<'_>,
        _object: &mut Value,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Evaluates the policies that match a write in the validating phase.
    fn validate(
        _plugin: &PolicyPlugin<Self>,
        _policies: &Hooks<Self>,
        _attributes: &AdmissionAttributes<'_>,
        _object: &Value,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }
}

/// The kinds of objects that files may have, for [`PolicyType::MANIFESTS`].
pub(super) const fn manifests(kinds: &'static [&'static str]) -> ManifestKinds {
    let scheme = "k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader/loader.go:35";
    ManifestKinds { what: "policy", kinds, scheme }
}

/// The admission plugin for policies of one type.
#[derive(Debug)]
pub(super) struct PolicyPlugin<P> {
    source: PolicySource<P>,
    pub(super) metrics: PolicyMetrics,
    /// Missing parameters are read from the storage.
    pub(super) reads_params_directly: bool,
    /// The audit annotation about failed validations has all failures of a request.
    pub(super) audits_all_failures: bool,
    /// The state of the feature.
    enabled: bool,
    /// The folder with the files of further policies.
    manifests: Option<PathBuf>,
}

impl<P: PolicyType> PolicyPlugin<P> {
    /// Builds the plugin.
    ///
    /// # Errors
    /// The configuration is refused.
    pub(super) fn build(options: &PluginOptions<'_>) -> BuiltPlugin {
        let PluginOptions { text, gates, .. } = *options;
        let manifests = policy_directory(text, &format!("{}Configuration", P::NAME), gates);
        let [policies, bindings] = P::RESOURCES;
        Ok(Arc::new(Self {
            source: PolicySource::new(policies, bindings),
            metrics: PolicyMetrics::new(P::METRICS),
            reads_params_directly: gates.has(Change::PARAMS_ARE_READ_DIRECTLY),
            audits_all_failures: gates.has(Change::AUDIT_OF_ALL_FAILED_VALIDATIONS),
            enabled: P::FEATURE.is_none_or(|feature| gates.is_enabled(feature)),
            manifests: manifests.map_err(PluginError::Unreadable)?,
        }))
    }
}

impl<P: PolicyType> AdmissionPlugin for PolicyPlugin<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn phases(&self) -> &[Phase] {
        P::PHASES
    }

    fn enforced_resources(&self) -> &[&'static str] {
        if self.enabled { P::RESOURCES } else { &[] }
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let handles_operation = P::HANDLES_DELETES || attributes.operation != AdmissionOperation::Delete;
        self.enabled && handles_operation && self.source.concerns(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move { P::mutate(self, &self.source.hooks(attributes)?, attributes, object).await })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move { P::validate(self, &self.source.hooks(attributes)?, attributes, object).await })
    }

    fn manifests(&self) -> Option<ManifestFiles<'_>> {
        let directory = self.manifests.as_deref()?;
        Some(ManifestFiles { directory, kinds: P::MANIFESTS, target: &self.source })
    }

    fn write_metrics(&self, out: &mut Exposition) {
        self.metrics.write(out);
    }
}
