//! The strategies of all kinds.

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_registry::{DefaultStrategy, Strategy};

use crate::admissionregistration::policy::{MutatingAdmissionPolicyStrategy, ValidatingAdmissionPolicyStrategy};
use crate::admissionregistration::policy_binding::PolicyBindingStrategy;
use crate::admissionregistration::webhook::WebhookConfigurationStrategy;
use crate::apiextensions::custom_resource_definition_strategy;
use crate::apiextensions::schema::validator::NoopSchemaValidator;
use crate::apiserverinternal::storage_version::StorageVersionStrategy;
use crate::autoscaling::hpa::{HorizontalPodAutoscalerStrategy, HpaVersion};
use crate::certificates::pod_request::PodCertificateRequestStrategy;
use crate::certificates::signing_request::CertificateSigningRequestStrategy;
use crate::certificates::trust_bundle::ClusterTrustBundleStrategy;
use crate::core::{ServiceNetwork, service_strategy};
use crate::events::event::{EventGroup, EventStrategy};
use crate::flowcontrol::priority_level::PriorityLevelConfigurationStrategy;
use crate::resource::claim::{ResourceClaimStrategy, ResourceClaimTemplateStrategy};
use crate::resource::pool_status_request::ResourcePoolStatusRequestStrategy;
use crate::resource::slice::ResourceSliceStrategy;
use crate::resource::v1beta1::ApiVersion;
use crate::storagemigration::migration::StorageVersionMigrationStrategy;
use crate::{
    apiregistration, apps, batch, coordination, core, discovery, flowcontrol, lifecycle, networking, node, policy,
    rbac, resource, scheduling, storage,
};

/// Returns the strategy of a built-in resource at one version. The gates decide about defaults. The network has the
/// addresses and ports of services.
pub(crate) fn strategy_in(
    group: &str,
    version: &str,
    plural: &str,
    gates: &Gates,
    network: &ServiceNetwork,
) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("", "configmaps") => Arc::new(core::configmap::ConfigMapStrategy),
        ("", "endpoints") => Arc::new(core::endpoints::EndpointsStrategy),
        ("", "events") => Arc::new(EventStrategy { group: EventGroup::Core }),
        ("", "limitranges") => Arc::new(core::limitrange::LimitRangeStrategy),
        ("", "namespaces") => Arc::new(core::namespace::NamespaceStrategy),
        ("", "nodes") => Arc::new(core::node::NodeStrategy),
        ("", "persistentvolumeclaims") => Arc::new(core::persistentvolumeclaim::PersistentVolumeClaimStrategy),
        ("", "persistentvolumes") => Arc::new(core::persistentvolume::PersistentVolumeStrategy),
        ("", "pods") => Arc::new(core::pod::PodStrategy::new(gates)),
        ("", "podtemplates") => Arc::new(core::podtemplate::PodTemplateStrategy),
        ("", "replicationcontrollers") => Arc::new(core::replicationcontroller::ReplicationControllerStrategy),
        ("", "resourcequotas") => Arc::new(core::resourcequota::ResourceQuotaStrategy),
        ("", "secrets") => Arc::new(core::secret::SecretStrategy),
        ("", "serviceaccounts") => Arc::new(core::serviceaccount::ServiceAccountStrategy),
        ("", "services") => service_strategy(network.clone()),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => Arc::new(MutatingAdmissionPolicyStrategy),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => {
            Arc::new(PolicyBindingStrategy { validating: false, defaults_not_found_action: version == "v1alpha1" })
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => {
            Arc::new(WebhookConfigurationStrategy { mutating: true })
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => Arc::new(ValidatingAdmissionPolicyStrategy),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => {
            Arc::new(PolicyBindingStrategy { validating: true, defaults_not_found_action: version == "v1alpha1" })
        }
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => {
            Arc::new(WebhookConfigurationStrategy { mutating: false })
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            custom_resource_definition_strategy(Arc::new(NoopSchemaValidator))
        }
        ("apiregistration.k8s.io", "apiservices") => Arc::new(apiregistration::api_service::ApiServiceStrategy),
        ("apps", "controllerrevisions") => Arc::new(apps::controllerrevision::ControllerRevisionStrategy),
        ("apps", "daemonsets") => Arc::new(apps::daemonset::DaemonSetStrategy),
        ("apps", "deployments") => Arc::new(apps::deployment::DeploymentStrategy),
        ("apps", "replicasets") => Arc::new(apps::replicaset::ReplicaSetStrategy),
        ("apps", "statefulsets") => Arc::new(apps::statefulset::StatefulSetStrategy::new(gates)),
        ("autoscaling", "horizontalpodautoscalers") => {
            Arc::new(HorizontalPodAutoscalerStrategy::new(HpaVersion::named(version), gates))
        }
        ("batch", "cronjobs") => Arc::new(batch::cronjob::CronJobStrategy),
        ("batch", "jobs") => Arc::new(batch::job::JobStrategy),
        ("certificates.k8s.io", "certificatesigningrequests") => Arc::new(CertificateSigningRequestStrategy),
        ("certificates.k8s.io", "clustertrustbundles") => Arc::new(ClusterTrustBundleStrategy),
        ("certificates.k8s.io", "podcertificaterequests") if version == "v1" => {
            Arc::new(PodCertificateRequestStrategy::V1)
        }
        ("certificates.k8s.io", "podcertificaterequests") => Arc::new(PodCertificateRequestStrategy::V1BETA1),
        ("coordination.k8s.io", "leasecandidates") => Arc::new(coordination::lease_candidate::LeaseCandidateStrategy),
        ("coordination.k8s.io", "leases") => Arc::new(coordination::lease::LeaseStrategy),
        ("discovery.k8s.io", "endpointslices") => Arc::new(discovery::endpointslice::EndpointSliceStrategy),
        ("events.k8s.io", "events") => Arc::new(EventStrategy { group: EventGroup::Events }),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => Arc::new(flowcontrol::flow_schema::FlowSchemaStrategy),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => Arc::new(PriorityLevelConfigurationStrategy),
        ("internal.apiserver.k8s.io", "storageversions") => Arc::new(StorageVersionStrategy),
        ("lifecycle.k8s.io", "evictionrequests") => Arc::new(lifecycle::eviction_request::EvictionRequestStrategy),
        ("lifecycle.k8s.io", "evictions") => Arc::new(lifecycle::eviction::EvictionStrategy),
        ("networking.k8s.io", "ingressclasses") => Arc::new(networking::ingressclass::IngressClassStrategy),
        ("networking.k8s.io", "ingresses") => Arc::new(networking::ingress::IngressStrategy),
        ("networking.k8s.io", "ipaddresses") => Arc::new(networking::ipaddress::IpAddressStrategy),
        ("networking.k8s.io", "networkpolicies") => Arc::new(networking::networkpolicy::NetworkPolicyStrategy),
        ("networking.k8s.io", "servicecidrs") => Arc::new(networking::servicecidr::ServiceCidrStrategy),
        ("node.k8s.io", "runtimeclasses") => Arc::new(node::runtime_class::RuntimeClassStrategy),
        ("policy", "poddisruptionbudgets") => Arc::new(policy::poddisruptionbudget::PodDisruptionBudgetStrategy),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => Arc::new(rbac::binding::CLUSTER_ROLE_BINDING),
        ("rbac.authorization.k8s.io", "clusterroles") => Arc::new(rbac::role::CLUSTER_ROLE),
        ("rbac.authorization.k8s.io", "rolebindings") => Arc::new(rbac::binding::ROLE_BINDING),
        ("rbac.authorization.k8s.io", "roles") => Arc::new(rbac::role::ROLE),
        ("resource.k8s.io", "deviceclasses") => Arc::new(resource::device_class::DeviceClassStrategy),
        ("resource.k8s.io", "devicetaintrules") => Arc::new(resource::device_taint_rule::DeviceTaintRuleStrategy),
        ("resource.k8s.io", "resourceclaims") => {
            Arc::new(ResourceClaimStrategy { version: ApiVersion::named(version) })
        }
        ("resource.k8s.io", "resourceclaimtemplates") => {
            Arc::new(ResourceClaimTemplateStrategy { version: ApiVersion::named(version) })
        }
        ("resource.k8s.io", "resourcepoolstatusrequests") => Arc::new(ResourcePoolStatusRequestStrategy),
        ("resource.k8s.io", "resourceslices") => {
            Arc::new(ResourceSliceStrategy::new(ApiVersion::named(version), gates))
        }
        ("scheduling.k8s.io", "compositepodgroups") => {
            Arc::new(scheduling::composite_pod_group::CompositePodGroupStrategy::new(gates))
        }
        ("scheduling.k8s.io", "podgroups") => Arc::new(scheduling::pod_group::PodGroupStrategy::new(gates)),
        ("scheduling.k8s.io", "priorityclasses") => Arc::new(scheduling::priorityclass::PriorityClassStrategy),
        ("scheduling.k8s.io", "workloads") => Arc::new(scheduling::workload::WorkloadStrategy),
        ("storage.k8s.io", "csidrivers") => Arc::new(storage::csi::CsiDriverStrategy),
        ("storage.k8s.io", "csinodes") => Arc::new(storage::csi_node::CsiNodeStrategy),
        ("storage.k8s.io", "csistoragecapacities") => Arc::new(storage::csi::CsiStorageCapacityStrategy),
        ("storage.k8s.io", "storageclasses") => Arc::new(storage::class::StorageClassStrategy),
        ("storage.k8s.io", "volumeattachments") => Arc::new(storage::attachment::VolumeAttachmentStrategy),
        ("storage.k8s.io", "volumeattributesclasses") => Arc::new(storage::class::VolumeAttributesClassStrategy),
        ("storagemigration.k8s.io", "storageversionmigrations") => Arc::new(StorageVersionMigrationStrategy),
        _ => Arc::new(DefaultStrategy),
    }
}
