//! The built-in plugins, one file or folder each, under their names (upstream: `plugin/pkg/admission`, and
//! `admission/plugin` of `k8s.io/apiserver`). [`PLUGINS`] lists them (upstream: `pkg/kubeapiserver/options/plugins.go`).

mod always_admit;
mod always_deny;
mod always_pull_images;
mod certificates;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod job_validation;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_group_protection;
mod pod_group_workload_exists;
mod pod_node_selector;
mod pod_resize_validator;
pub mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policy;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod terminating_crd;
mod webhook;

use std::sync::Arc;

use pintle_gates::Gates;

pub use self::default_toleration_seconds::TolerationSeconds;
pub use self::namespace_lifecycle::NamespaceLifecycle;
pub use self::terminating_crd::TerminatingCrd;
use crate::AdmissionPlugin;

/// A plugin that can be enabled and disabled.
pub(crate) struct Registration {
    pub(crate) name: &'static str,
    pub(crate) enabled_by_default: bool,
    pub(crate) build: fn(&PluginOptions<'_>) -> BuiltPlugin,
}

/// The inputs from which a plugin is built.
pub(crate) struct PluginOptions<'a> {
    /// The text of its configuration, if it has one.
    pub(crate) text: Option<&'a [u8]>,
    /// How long pods tolerate nodes that are not ready or not reachable.
    pub(crate) toleration_seconds: TolerationSeconds,
    pub(crate) gates: &'a Gates,
}

pub(crate) type BuiltPlugin = Result<Arc<dyn AdmissionPlugin>, PluginError>;

/// Why a plugin cannot be built, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginError {
    /// Its configuration is refused while it is read ("couldn't init admission plugin").
    Unreadable(String),
    /// Its configuration is refused when the plugin begins ("failed to initialize admission plugin").
    Invalid(String),
}

/// A plugin that is enabled by default.
const fn on(name: &'static str, build: fn(&PluginOptions<'_>) -> BuiltPlugin) -> Registration {
    Registration { name, enabled_by_default: true, build }
}

/// A plugin that is disabled by default.
const fn off(name: &'static str, build: fn(&PluginOptions<'_>) -> BuiltPlugin) -> Registration {
    Registration { name, enabled_by_default: false, build }
}

/// Builds a plugin that has no options.
fn plain<P: AdmissionPlugin + Default + 'static>(_: &PluginOptions<'_>) -> BuiltPlugin {
    Ok(Arc::new(P::default()))
}

/// The plugins that can be configured, in the order in which they run.
pub(crate) const PLUGINS: &[Registration] = &[
    off("AlwaysAdmit", plain::<always_admit::AlwaysAdmit>),
    off("NamespaceAutoProvision", plain::<namespace_auto_provision::NamespaceAutoProvision>),
    on("NamespaceLifecycle", plain::<namespace_lifecycle::NamespaceLifecycle>),
    off("NamespaceExists", plain::<namespace_exists::NamespaceExists>),
    off(
        "LimitPodHardAntiAffinityTopology",
        plain::<limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology>,
    ),
    on("LimitRanger", plain::<limit_ranger::LimitRanger>),
    on("ServiceAccount", plain::<service_account::ServiceAccount>),
    on("NodeRestriction", |options| Ok(Arc::new(node_restriction::NodeRestriction::new(options.gates)))),
    on("TaintNodesByCondition", plain::<taint_nodes_by_condition::TaintNodesByCondition>),
    off("AlwaysPullImages", plain::<always_pull_images::AlwaysPullImages>),
    off("ImagePolicyWebhook", |options| {
        Ok(Arc::new(image_policy_webhook::ImagePolicyWebhook::from_text(options.text)?))
    }),
    on("PodSecurity", |options| {
        let plugin = pod_security::PodSecurity::from_text(options.text)?;
        Ok(Arc::new(plugin.in_server(options.gates.version().binary())))
    }),
    off("PodNodeSelector", |options| Ok(Arc::new(pod_node_selector::PodNodeSelector::from_text(options.text)))),
    on("Priority", |options| Ok(Arc::new(priority::Priority::new(options.gates)))),
    on("DefaultTolerationSeconds", |options| {
        Ok(Arc::new(default_toleration_seconds::DefaultTolerationSeconds(options.toleration_seconds)))
    }),
    off("PodTolerationRestriction", |options| {
        Ok(Arc::new(pod_toleration_restriction::PodTolerationRestriction::from_text(options.text, options.gates)?))
    }),
    off("EventRateLimit", |options| Ok(Arc::new(event_rate_limit::EventRateLimit::from_text(options.text)?))),
    off("ExtendedResourceToleration", plain::<extended_resource_toleration::ExtendedResourceToleration>),
    on("DefaultStorageClass", plain::<default_storage_class::DefaultStorageClass>),
    on("StorageObjectInUseProtection", plain::<storage_object_in_use_protection::StorageObjectInUseProtection>),
    on("PodGroupProtection", |options| Ok(Arc::new(pod_group_protection::PodGroupProtection::new(options.gates)))),
    off(
        "OwnerReferencesPermissionEnforcement",
        plain::<owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement>,
    ),
    on("PersistentVolumeClaimResize", plain::<persistent_volume_claim_resize::PersistentVolumeClaimResize>),
    on("RuntimeClass", plain::<runtime_class::RuntimeClass>),
    on("CertificateApproval", plain::<certificates::CertificateApproval>),
    on("CertificateSigning", plain::<certificates::CertificateSigning>),
    on("ClusterTrustBundleAttest", |options| Ok(Arc::new(certificates::ClusterTrustBundleAttest::new(options.gates)))),
    on("CertificateSubjectRestriction", plain::<certificates::CertificateSubjectRestriction>),
    on("DefaultIngressClass", plain::<default_ingress_class::DefaultIngressClass>),
    off("DenyServiceExternalIPs", plain::<deny_service_external_ips::DenyServiceExternalIPs>),
    on("PodTopologyLabels", |options| Ok(Arc::new(pod_topology_labels::PodTopologyLabels::new(options.gates)))),
    on("PodGroupWorkloadExists", |options| {
        Ok(Arc::new(pod_group_workload_exists::PodGroupWorkloadExists::new(options.gates)))
    }),
    on("NodeDeclaredFeatureValidator", |options| {
        Ok(Arc::new(node_declared_feature_validator::NodeDeclaredFeatureValidator::new(options.gates)))
    }),
    on("JobValidation", |options| Ok(Arc::new(job_validation::JobValidation::new(options.gates)))),
    on("PodResizeValidator", plain::<pod_resize_validator::PodResizeValidator>),
    on("MutatingAdmissionPolicy", policy::build_mutating),
    on("MutatingAdmissionWebhook", webhook::build_mutating),
    on("ValidatingAdmissionPolicy", policy::build_validating),
    on("ValidatingAdmissionWebhook", webhook::build_validating),
    on("ResourceQuota", |options| Ok(Arc::new(resource_quota::ResourceQuota::from_text(options.text, options.gates)?))),
    off("AlwaysDeny", plain::<always_deny::AlwaysDeny>),
];

/// The built-in plugin with this name, with the default feature gates and no configuration. Programs that test or
/// measure one plugin use it. Returns `None` if there is no such plugin, or if the plugin needs a configuration.
#[must_use]
pub fn built_in_plugin(name: &str) -> Option<Arc<dyn AdmissionPlugin>> {
    let Registration { build, .. } = PLUGINS.iter().find(|plugin| plugin.name == name)?;
    let options =
        PluginOptions { text: None, toleration_seconds: TolerationSeconds::default(), gates: &Gates::default() };
    build(&options).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_have_the_names_of_their_rows() {
        for Registration { name, .. } in PLUGINS {
            let needs_configuration = matches!(*name, "ImagePolicyWebhook" | "EventRateLimit");
            let plugin = built_in_plugin(name);
            assert_eq!(plugin.is_none(), needs_configuration, "{name}");
            assert!(plugin.is_none_or(|plugin| plugin.name() == *name), "{name}");
        }
        assert!(built_in_plugin("Nope").is_none());
    }
}
