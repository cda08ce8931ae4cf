//! The state of the feature gates, with upstream's errors and warnings for setting them.

use std::collections::BTreeMap;
use std::fmt;

use pintle_versions::EffectiveVersion;

use crate::changes::Change;
use crate::effects::{EffectKind, effect_of};
use crate::table::{Existence, Gate, Stage, all_names, gates_of, index_of};

/// The name of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature(&'static str);

impl Feature {
    /// Webhooks and policies from files (KEP-5793).
    pub const MANIFEST_BASED_ADMISSION_CONTROL_CONFIG: Feature = Feature("ManifestBasedAdmissionControlConfig");
    /// Records of the storage versions of servers (KEP-2339).
    pub const STORAGE_VERSION_API: Feature = Feature("StorageVersionAPI");
    /// Lists and watches of a part of a collection (KEP-5866).
    pub const SHARDED_LIST_AND_WATCH: Feature = Feature("ShardedListAndWatch");
    /// The flags of the process at `/flagz` (KEP-4828).
    pub const COMPONENT_FLAGZ: Feature = Feature("ComponentFlagz");
    /// The description of the process at `/statusz` (KEP-4827).
    pub const COMPONENT_STATUSZ: Feature = Feature("ComponentStatusz");
    /// Errors of validation rules in beta replace the errors of code (KEP-5073).
    pub const DECLARATIVE_VALIDATION_BETA: Feature = Feature("DeclarativeValidationBeta");
    /// Deletion of objects that cannot be decoded (KEP-3926).
    pub const ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION: Feature = Feature("AllowUnsafeMalformedObjectDeletion");
    /// Nodes may request certificates with any subject.
    pub const ALLOW_INSECURE_KUBELET_CERTIFICATE_SIGNING_REQUESTS: Feature =
        Feature("AllowInsecureKubeletCertificateSigningRequests");
    /// Client certificates may contain the UID of the user.
    pub const ALLOW_PARSING_USER_UID_FROM_CERT_AUTH: Feature = Feature("AllowParsingUserUIDFromCertAuth");
    /// Leases that identify API servers (KEP-1965).
    pub const API_SERVER_IDENTITY: Feature = Feature("APIServerIdentity");
    /// WebSockets of clients need the verb `create`, as SPDY does (KEP-4006).
    pub const AUTHORIZE_POD_WEBSOCKET_UPGRADE_CREATE_PERMISSION: Feature =
        Feature("AuthorizePodWebsocketUpgradeCreatePermission");
    /// CBOR as an encoding of requests and responses (KEP-4222).
    pub const CBOR: Feature = Feature("CBORServingAndStorage");
    /// Bundles of the certificates that a signer trusts (KEP-3257).
    pub const CLUSTER_TRUST_BUNDLE: Feature = Feature("ClusterTrustBundle");
    /// Pods with the certificates of cluster trust bundles (KEP-3257).
    pub const CLUSTER_TRUST_BUNDLE_PROJECTION: Feature = Feature("ClusterTrustBundleProjection");
    /// Impersonation that is limited to some requests (KEP-5284).
    pub const CONSTRAINED_IMPERSONATION: Feature = Feature("ConstrainedImpersonation");
    /// Stop signals of containers (KEP-4960).
    pub const CONTAINER_STOP_SIGNALS: Feature = Feature("ContainerStopSignals");
    /// Coordinated leader election (KEP-4355).
    pub const COORDINATED_LEADER_ELECTION: Feature = Feature("CoordinatedLeaderElection");
    /// Devices whose capacity is shared by several claims (KEP-5075).
    pub const DRA_CONSUMABLE_CAPACITY: Feature = Feature("DRAConsumableCapacity");
    /// Devices that pods wait for after they are allocated (KEP-5007).
    pub const DRA_DEVICE_BINDING_CONDITIONS: Feature = Feature("DRADeviceBindingConditions");
    /// Taints of devices and the tolerations of requests (KEP-5055).
    pub const DRA_DEVICE_TAINTS: Feature = Feature("DRADeviceTaints");
    /// Device classes that stand for extended resources (KEP-5004).
    pub const DRA_EXTENDED_RESOURCE: Feature = Feature("DRAExtendedResource");
    /// List-valued attributes of devices in dynamic resource allocation.
    pub const DRA_LIST_TYPE_ATTRIBUTES: Feature = Feature("DRAListTypeAttributes");
    /// Certificates for pods (KEP-4317).
    pub const POD_CERTIFICATE_REQUEST: Feature = Feature("PodCertificateRequest");
    /// Workloads and pod groups (KEP-4671).
    pub const GENERIC_WORKLOAD: Feature = Feature("GenericWorkload");
    /// Groups of pod groups (KEP-5547).
    pub const COMPOSITE_POD_GROUP: Feature = Feature("CompositePodGroup");
    /// Preemption policies of pod groups (KEP-5547).
    pub const POD_GROUP_PREEMPTION_POLICY: Feature = Feature("PodGroupPreemptionPolicy");
    /// Migrations of stored objects (KEP-4192).
    pub const STORAGE_VERSION_MIGRATOR: Feature = Feature("StorageVersionMigrator");
    /// Preemption of pod groups (KEP-5710).
    pub const WORKLOAD_AWARE_PREEMPTION: Feature = Feature("WorkloadAwarePreemption");
    /// Devices that stand for allocatable resources of their node (KEP-5517).
    pub const DRA_NODE_ALLOCATABLE_RESOURCES: Feature = Feature("DRANodeAllocatableResources");
    /// Ranges of capacity whose values are fractions (KEP-5075).
    pub const DRA_FRACTIONAL_CAPACITY_RANGE: Feature = Feature("DRAFractionalCapacityRange");
    /// Devices that share counters, or that are on different nodes (KEP-4815).
    pub const DRA_PARTITIONABLE_DEVICES: Feature = Feature("DRAPartitionableDevices");
    /// Requests for devices with alternatives (KEP-4816).
    pub const DRA_PRIORITIZED_LIST: Feature = Feature("DRAPrioritizedList");
    /// The status of allocated devices in claims (KEP-4817).
    pub const DRA_RESOURCE_CLAIM_DEVICE_STATUS: Feature = Feature("DRAResourceClaimDeviceStatus");
    /// More permissions are needed to change the status of claims (KEP-4817).
    pub const DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION: Feature =
        Feature("DRAResourceClaimGranularStatusAuthorization");
    /// WebSockets of clients reach kubelets that declare this feature (KEP-4006).
    pub const EXTEND_WEB_SOCKETS_TO_KUBELET: Feature = Feature("ExtendWebSocketsToKubelet");
    /// Issuers of tokens that name the network in which they are (KEP-3331).
    pub const STRUCTURED_AUTHENTICATION_CONFIGURATION_EGRESS_SELECTOR: Feature =
        Feature("StructuredAuthenticationConfigurationEgressSelector");
    /// Admission webhooks do not see reviews of authentication and authorization.
    pub const EXCLUDE_ADMISSION_WEBHOOK_VIRTUAL_RESOURCES: Feature = Feature("ExcludeAdmissionWebhookVirtualResources");
    /// Service account tokens with which webhooks authenticate API servers (KEP-5793).
    pub const API_SERVER_WEBHOOK_AUTHENTICATION_TOKEN: Feature = Feature("APIServerWebhookAuthenticationToken");
    /// HorizontalPodAutoscalers whose spec has a generation.
    pub const HPA_GENERATION: Feature = Feature("HPAGeneration");
    /// HorizontalPodAutoscalers that scale to zero (KEP-2021).
    pub const HPA_SCALE_TO_ZERO: Feature = Feature("HPAScaleToZero");
    /// Resources of pods as a whole that are resized in place (KEP-5419).
    pub const IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING: Feature =
        Feature("InPlacePodLevelResourcesVerticalScaling");
    /// Service accounts and their tokens for the credential providers of kubelets (KEP-4412).
    pub const KUBELET_SERVICE_ACCOUNT_TOKENS_FOR_CREDENTIAL_PROVIDERS: Feature =
        Feature("KubeletServiceAccountTokenForCredentialProviders");
    /// `maxUnavailable` of StatefulSets (KEP-961).
    pub const MAX_UNAVAILABLE_STATEFUL_SET: Feature = Feature("MaxUnavailableStatefulSet");
    /// Node affinities of persistent volumes that change (KEP-5381).
    pub const MUTABLE_PV_NODE_AFFINITY: Feature = Feature("MutablePVNodeAffinity");
    /// Resources of pods as a whole get their defaults after mutating admission.
    pub const POD_LEVEL_RESOURCES_FIX_DEFAULTING: Feature = Feature("PodLevelResourcesFixDefaulting");
    /// StatefulSets that replace all pods at once.
    pub const STATEFUL_SET_RECREATE_STRATEGY: Feature = Feature("StatefulSetRecreateStrategy");
    /// The health of volumes and of their storage.
    pub const CSI_VOLUME_HEALTH: Feature = Feature("CSIVolumeHealth");
    /// Tokens of nodes are for the audiences of their pods (KEP-4412).
    pub const SERVICE_ACCOUNT_NODE_AUDIENCE_RESTRICTION: Feature = Feature("ServiceAccountNodeAudienceRestriction");
    /// Nodes declare features that other nodes may not have (KEP-5328).
    pub const NODE_DECLARED_FEATURES: Feature = Feature("NodeDeclaredFeatures");
    /// Resources of pods as a whole (KEP-2837).
    pub const POD_LEVEL_RESOURCES: Feature = Feature("PodLevelResources");
    /// Logs of one output stream of containers (KEP-3288).
    pub const POD_LOGS_QUERY_SPLIT_STREAMS: Feature = Feature("PodLogsQuerySplitStreams");
    /// Pods with the topology labels of their nodes (KEP-4742).
    pub const POD_TOPOLOGY_LABELS_ADMISSION: Feature = Feature("PodTopologyLabelsAdmission");
    /// Port forwarding of clients over WebSockets (KEP-4006).
    pub const PORT_FORWARD_WEBSOCKETS: Feature = Feature("PortForwardWebsockets");
    /// WebSockets of clients are translated to SPDY for kubelets (KEP-4006).
    pub const TRANSLATE_STREAM_CLOSE_WEBSOCKET_REQUESTS: Feature = Feature("TranslateStreamCloseWebsocketRequests");
    /// Connections of clients that are not authenticated serve one request of HTTP/2 (CVE-2023-44487).
    pub const UNAUTHENTICATED_HTTP2_DOS_MITIGATION: Feature = Feature("UnauthenticatedHTTP2DOSMitigation");
    /// Requests for tokens that name the UID of their service account.
    pub const TOKEN_REQUEST_SERVICE_ACCOUNT_UID_VALIDATION: Feature =
        Feature("TokenRequestServiceAccountUIDValidation");
    /// API servers that advertise the address at which peers reach them (KEP-4020).
    pub const UNKNOWN_VERSION_INTEROPERABILITY_PROXY: Feature = Feature("UnknownVersionInteroperabilityProxy");
    /// Pods are not scheduled to nodes without the CSI driver (KEP-5030).
    pub const VOLUME_LIMIT_SCALING: Feature = Feature("VolumeLimitScaling");

    /// The nominated node is cleared when a pod is bound (KEP-5278).
    pub const CLEARING_NOMINATED_NODE_NAME_AFTER_BINDING: Feature = Feature("ClearingNominatedNodeNameAfterBinding");
    /// Init containers that are resized in place (KEP-5532).
    pub const IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS: Feature =
        Feature("InPlacePodVerticalScalingInitContainers");
    /// Volumes in memory that are resized in place (KEP-6030).
    pub const IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES: Feature =
        Feature("InPlacePodVerticalScalingMemoryBackedVolumes");
    /// Label keys of topology spread constraints (KEP-3243).
    pub const MATCH_LABEL_KEYS_IN_SPREAD: Feature = Feature("MatchLabelKeysInPodTopologySpread");
    /// Label keys of topology spread constraints are added to the selector (KEP-3243).
    pub const MATCH_LABEL_KEYS_IN_SPREAD_SELECTORS: Feature = Feature("MatchLabelKeysInPodTopologySpreadSelectorMerge");
    /// Suspended jobs whose containers get other resources (KEP-5440).
    pub const MUTABLE_POD_RESOURCES_FOR_SUSPENDED_JOBS: Feature = Feature("MutablePodResourcesForSuspendedJobs");
    /// Suspended jobs that have run get other scheduling directives (KEP-5440).
    pub const MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS: Feature =
        Feature("MutableSchedulingDirectivesForSuspendedJobs");
    /// Mutating admission policies (KEP-3962).
    pub const MUTATING_ADMISSION_POLICY: Feature = Feature("MutatingAdmissionPolicy");
    /// Schemas list the values of enumerations.
    pub const OPENAPI_ENUMS: Feature = Feature("OpenAPIEnums");
    /// The deletion cost of pods (KEP-2255).
    pub const POD_DELETION_COST: Feature = Feature("PodDeletionCost");
    /// Names of services that are DNS labels (KEP-5311).
    pub const RELAXED_SERVICE_NAME_VALIDATION: Feature = Feature("RelaxedServiceNameValidation");
    /// Front proxies name the UID of users in a header.
    pub const REMOTE_REQUEST_HEADER_UID: Feature = Feature("RemoteRequestHeaderUID");
    /// Answers are compressed.
    pub const API_RESPONSE_COMPRESSION: Feature = Feature("APIResponseCompression");
    /// Restart rules that restart all containers of a pod (KEP-5532).
    pub const RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS: Feature = Feature("RestartAllContainersOnContainerExits");
    /// SELinux labels of volumes as mount options (KEP-1710).
    pub const SELINUX_MOUNT: Feature = Feature("SELinuxMount");
    /// Writes of ServiceCIDRs do not change their status.
    pub const SERVICE_CIDR_STATUS_FIELD_WIPING: Feature = Feature("ServiceCIDRStatusFieldWiping");
    /// Discovery has hashes of storage versions.
    pub const STORAGE_VERSION_HASH: Feature = Feature("StorageVersionHash");
    /// IP addresses and CIDRs have one form (KEP-4858).
    pub const STRICT_IP_CIDR_VALIDATION: Feature = Feature("StrictIPCIDRValidation");
    /// Tolerations that compare numbers (KEP-5471).
    pub const TAINT_TOLERATION_COMPARISON_OPERATORS: Feature = Feature("TaintTolerationComparisonOperators");
    /// Pods with a user namespace in the network of the node (KEP-5607).
    pub const USER_NAMESPACES_HOST_NETWORK_SUPPORT: Feature = Feature("UserNamespacesHostNetworkSupport");
    /// Watches that begin with the existing objects (KEP-3157).
    pub const WATCH_LIST: Feature = Feature("WatchList");
    /// Watches that begin with the existing objects are compressed.
    pub const WATCH_LIST_COMPRESSION: Feature = Feature("WatchListCompression");

    /// The name of the gate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// The version that a server is, and the state of its feature gates.
#[derive(Clone, PartialEq, Eq)]
pub struct Gates {
    version: EffectiveVersion,
    /// The gates of this version, in the order of the table.
    gates: &'static [Gate],
    /// Whether each feature is enabled, in the order of the table.
    enabled: Vec<bool>,
}

/// An error in setting feature gates, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The gate does not exist.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The gate is locked to its default.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {default}")]
    Locked {
        /// The gate.
        name: &'static str,
        /// The requested value.
        value: bool,
        /// The default.
        default: bool,
    },
    /// The emulated version does not have the gate yet.
    #[error(
        "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {}, min compatibility \
         version {}",
        .version.emulation(), .version.min_compatibility()
    )]
    PreAlpha {
        /// The gate.
        name: &'static str,
        /// The requested value.
        value: bool,
        /// The version of the server.
        version: EffectiveVersion,
    },
    /// The gate depends on disabled gates.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", .disabled.join(" "))]
    UnmetDependencies {
        /// The gate.
        name: &'static str,
        /// The disabled dependencies.
        disabled: Vec<&'static str>,
    },
    /// The value of the flag is malformed.
    #[error("{0}")]
    Malformed(String),
    /// Several errors.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Multiple(Vec<GateError>),
}

/// A warning about a gate that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The gate.
    pub gate: &'static Gate,
    /// The new value.
    pub value: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = if self.gate.stage == Stage::Ga { "GA" } else { "deprecated" };
        write!(f, "Warning: setting {stage} feature gate. It will be removed in a future release.")
    }
}

/// A gate whose name was looked up once, for tables that are read at every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateId(usize);

impl GateId {
    /// The gate of a name, if there is one.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        index_of(name).map(Self)
    }

    /// The name of the gate.
    #[must_use]
    pub fn name(self) -> &'static str {
        all_names().nth(self.0).unwrap_or_default()
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self::of(EffectiveVersion::default())
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self
            .states()
            .filter(|(gate, enabled)| gate.default != *enabled)
            .map(|(gate, enabled)| (gate.name, enabled));
        f.debug_map().entries(changed).finish()
    }
}

impl Gates {
    /// The default state in a version.
    #[must_use]
    pub fn of(version: EffectiveVersion) -> Self {
        let gates = gates_of(version);
        Self { version, gates, enabled: gates.iter().map(|gate| gate.default).collect() }
    }

    /// The default state in the default version with some gates overridden, and warnings about the overrides.
    ///
    /// # Errors
    ///
    /// See [`Gates::overridden`].
    pub fn with_overrides(overrides: &BTreeMap<String, bool>) -> Result<(Self, Vec<Warning>), GateError> {
        Self::default().overridden(overrides)
    }

    /// The default state in this version with some gates overridden, and warnings about the overrides.
    ///
    /// # Errors
    ///
    /// Returns an error if a gate is unknown, locked, or depends on a disabled gate.
    pub fn overridden(&self, overrides: &BTreeMap<String, bool>) -> Result<(Self, Vec<Warning>), GateError> {
        let (version, table) = (self.version, self.gates);
        let mut set = vec![None; table.len()];
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        for (name, &value) in overrides {
            let known = index_of(name).map(|index| (index, &table[index]));
            let Some((index, gate)) = known.filter(|(_, gate)| gate.existence != Existence::Unknown) else {
                errors.push(GateError::Unknown(name.clone()));
                return Err(combine(errors));
            };
            if gate.existence == Existence::PreAlpha {
                errors.push(GateError::PreAlpha { name: gate.name, value, version });
                continue;
            }
            if gate.locked && gate.default != value {
                errors.push(GateError::Locked { name: gate.name, value, default: gate.default });
                continue;
            }
            set[index] = Some(value);
            if matches!(gate.stage, Stage::Ga | Stage::Deprecated) {
                warnings.push(Warning { gate, value });
            }
        }
        let stage_override = |stage| match stage {
            Stage::Alpha => overrides.get("AllAlpha").copied(),
            Stage::Beta => overrides.get("AllBeta").copied(),
            Stage::Ga | Stage::Deprecated => None,
        };
        let follows_stage =
            |gate: &Gate| gate.existence == Existence::Known && !matches!(gate.name, "AllAlpha" | "AllBeta");
        let state = |(gate, set): (&Gate, Option<bool>)| {
            set.or_else(|| stage_override(gate.stage).filter(|_| follows_stage(gate))).unwrap_or(gate.default)
        };
        let gates = Self { version, gates: table, enabled: table.iter().zip(set).map(state).collect() };
        if errors.is_empty() {
            errors = gates.unmet_dependencies();
        }
        if errors.is_empty() { Ok((gates, warnings)) } else { Err(combine(errors)) }
    }

    /// The version of the server.
    #[must_use]
    pub fn version(&self) -> EffectiveVersion {
        self.version
    }

    /// True if the version of the server has a change that no gate controls.
    #[must_use]
    pub fn has(&self, change: Change) -> bool {
        change.versions().contains(self.version.binary())
    }

    /// The errors for enabled gates whose dependencies are disabled.
    fn unmet_dependencies(&self) -> Vec<GateError> {
        let mut errors = Vec::new();
        for (gate, _) in self.states().filter(|(_, enabled)| *enabled) {
            let disabled: Vec<_> =
                gate.dependencies.iter().copied().filter(|name| !self.is_enabled(Feature(name))).collect();
            if !disabled.is_empty() {
                errors.push(GateError::UnmetDependencies { name: gate.name, disabled });
            }
        }
        errors
    }

    /// True if the feature is enabled.
    #[must_use]
    pub fn is_enabled(&self, feature: Feature) -> bool {
        self.is_enabled_by_name(feature.0)
    }

    /// True if the gate is enabled. Unlike [`is_enabled`](Self::is_enabled), it needs no look-up by name.
    #[must_use]
    pub fn is_enabled_by_id(&self, gate: GateId) -> bool {
        self.enabled.get(gate.0).copied().unwrap_or_default()
    }

    /// True if there is such a gate, in any version, and its feature is disabled.
    #[must_use]
    pub fn is_disabled_by_name(&self, name: &str) -> bool {
        index_of(name).and_then(|index| self.enabled.get(index)).is_some_and(|enabled| !enabled)
    }

    /// True if there is such a gate, in any version, and its feature is enabled.
    #[must_use]
    pub fn is_enabled_by_name(&self, name: &str) -> bool {
        index_of(name).and_then(|index| self.enabled.get(index).copied()).unwrap_or_default()
    }

    /// The gates that differ from their defaults although their effect is missing in this server.
    pub fn unsupported_overrides(&self) -> impl Iterator<Item = &'static Gate> {
        self.states()
            .filter(|(gate, enabled)| gate.default != *enabled)
            .map(|(gate, _)| gate)
            .filter(|gate| effect_of(gate).is_some_and(|effect| effect.kind == EffectKind::Open))
    }

    /// The gates of the server's version and whether they are enabled.
    pub fn states(&self) -> impl Iterator<Item = (&'static Gate, bool)> {
        self.gates.iter().zip(self.enabled.iter().copied()).filter(|(gate, _)| gate.existence == Existence::Known)
    }
}

fn combine(mut errors: Vec<GateError>) -> GateError {
    match errors.pop() {
        Some(error) if errors.is_empty() => error,
        Some(error) => {
            errors.push(error);
            GateError::Multiple(errors)
        }
        None => GateError::Multiple(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::all_gates;

    fn check(overrides: &[(&str, bool)], expect: Result<&[(&str, bool)], &str>) {
        let overrides = overrides.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        match (Gates::with_overrides(&overrides), expect) {
            (Ok((gates, _)), Ok(states)) => {
                for (name, enabled) in states {
                    assert_eq!(gates.is_enabled_by_name(name), *enabled, "{name} of {overrides:?}");
                    let id = GateId::of(name).expect(name);
                    assert_eq!((id.name(), gates.is_enabled_by_id(id)), (*name, *enabled), "{overrides:?}");
                }
            }
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
            (found, _) => panic!("{overrides:?}: {found:?}"),
        }
    }

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        check(&[], Ok(&[("CBORServingAndStorage", false), ("WatchList", true)]));
        check(&[("CBORServingAndStorage", true)], Ok(&[("CBORServingAndStorage", true)]));
        check(
            &[("AllAlpha", true), ("PodsAPI", false)],
            Ok(&[("CBORServingAndStorage", true), ("PodsAPI", false), ("AllAlpha", true), ("SELinuxMount", false)]),
        );
        check(
            &[("AllBeta", false)],
            Ok(&[("WatchList", false), ("APIServerIdentity", false), ("CRDValidationRatcheting", true)]),
        );
        check(&[("DynamicResourceAllocation", true)], Ok(&[("DynamicResourceAllocation", true)]));
    }

    #[test]
    fn invalid_overrides_are_rejected() {
        check(&[("Nope", true)], Err("unrecognized feature gate: Nope"));
        check(
            &[("WatchList", false), ("WinDSR", false)],
            Err("cannot set feature gate WinDSR to false, feature is locked to true"),
        );
        check(
            &[("WinDSR", false), ("KMSv1", false), ("WinOverlay", false)],
            Err("[cannot set feature gate WinDSR to false, feature is locked to true, \
                 cannot set feature gate WinOverlay to false, feature is locked to true]"),
        );
        check(
            &[
                ("StorageVersionAPI", true),
                ("APIServerIdentity", false),
                ("UnknownVersionInteroperabilityProxy", false),
            ],
            Err("StorageVersionAPI is enabled, but depends on features that are disabled: [APIServerIdentity]"),
        );
    }

    #[test]
    fn overriding_ga_and_deprecated_gates_warns() {
        let overrides = [("KMSv1", true), ("MutatingAdmissionPolicy", false), ("WatchList", true)];
        let overrides = overrides.map(|(name, enabled)| (name.to_owned(), enabled)).into();
        let (_, warnings) = Gates::with_overrides(&overrides).expect("settings");
        let texts: Vec<_> = warnings.iter().map(|w| format!("{} {}: {w}", w.gate.name, w.value)).collect();
        assert_eq!(
            texts,
            [
                "KMSv1 true: Warning: setting deprecated feature gate. It will be removed in a future release.",
                "MutatingAdmissionPolicy false: Warning: setting GA feature gate. It will be removed in a future release.",
            ]
        );
    }

    #[test]
    fn only_gates_whose_effect_is_missing_are_told() {
        let overrides = ["StorageVersionAPI", "HPAScaleToZero", "MemoryQoS"].map(|name| (name.to_owned(), true));
        let (gates, _) = Gates::with_overrides(&overrides.into()).expect("settings");
        let names: Vec<_> = gates.unsupported_overrides().map(|gate| gate.name).collect();
        let known = all_gates(EffectiveVersion::default());
        let open = known.filter(|gate| effect_of(gate).is_none_or(|effect| effect.kind == EffectKind::Open));
        let open: Vec<_> = open.map(|gate| gate.name).collect();
        assert_eq!((names, open), (Vec::new(), Vec::new()));
    }

    #[test]
    fn every_feature_has_a_gate() {
        let source = include_str!("gates.rs");
        let names = source.split("Feature(\"").skip(1).filter_map(|rest| rest.split_once("\")").map(|(name, _)| name));
        let mut count = 0;
        for name in names.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric())) {
            count += 1;
            assert!(index_of(name).is_some(), "{name}");
        }
        assert!(count > 50, "{count}");
    }
}
