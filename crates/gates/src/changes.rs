//! Changes between the versions of kube-apiserver that have no feature gate.

use pintle_versions::{Minor, MinorRange};

/// A change that clients see and that no feature gate controls. The binary version decides.
///
/// Facts about kinds have ranges of versions in their data files. A change is for code that has to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change(MinorRange);

impl Change {
    /// DeviceTaintRules have a status.
    pub const DEVICE_TAINT_RULE_STATUS: Change = Change::since(35);
    /// StorageVersionMigrations have conditions like most kinds, with the times of their last transitions.
    pub const STORAGE_VERSION_MIGRATION_CONDITIONS: Change = Change::since(35);
    /// PodCertificateRequests have a PKCS#10 request instead of a public key with a proof of possession.
    pub const POD_CERTIFICATE_REQUEST_STUBS: Change = Change::since(36);

    /// ResourceSlices are selected by `spec.pool.name`, too.
    pub const SLICES_ARE_SELECTED_BY_POOL: Change = Change::since(37);
    /// An update of a ResourceSlice does not validate the capacity of a device that it does not change.
    pub const UNCHANGED_CAPACITY_IS_VALID: Change = Change::since(37);
    /// The values of a range of capacity are limited before steps are counted, and errors about the default name it.
    pub const CAPACITY_RANGES_HAVE_LIMITS: Change = Change::since(37);

    /// Workloads may have trees of templates, and the code validates them and the status of pod groups.
    pub const WORKLOADS_HAVE_TREES: Change = Change::since(37);
    /// Pod groups have priorities without a feature of their own.
    pub const POD_GROUPS_HAVE_PRIORITIES: Change = Change::since(37);

    /// Empty resources of a pod as a whole do not count for its quality of service.
    pub const EMPTY_POD_RESOURCES_DO_NOT_COUNT: Change = Change::since(37);
    /// The wanted, the allocated and the actual resources of a pod are each summed before the maximum is taken.
    pub const POD_RESOURCES_ARE_SUMMED_BY_SOURCE: Change = Change::since(37);
    /// The status of node allocatable resources of a pod's claims has mappings and overheads.
    pub const NODE_ALLOCATABLE_CLAIMS_HAVE_MAPPINGS: Change = Change::since(37);
    /// A writer of a pod's status that does not know the statuses of its resource claims does not remove them.
    pub const POD_CLAIM_STATUSES_ARE_KEPT: Change = Change::since(37);
    /// The users and groups in the status of containers have 32 bits.
    pub const USERS_IN_STATUS_HAVE_32_BITS: Change = Change::since(37);
    /// The target of a binding has the name of a node.
    pub const BINDING_TARGETS_ARE_NODE_NAMES: Change = Change::since(37);
    /// Image volumes of pod templates have a reference.
    pub const IMAGE_VOLUMES_OF_TEMPLATES_HAVE_REFERENCES: Change = Change::since(37);
    /// An update may keep a security context that forbids escalation and adds CAP_SYS_ADMIN.
    pub const UNCHANGED_SYS_ADMIN_IS_VALID: Change = Change::since(37);
    /// Errors about the messages of volume attachments name the limit of messages.
    pub const ATTACHMENT_ERRORS_NAME_THEIR_LIMIT: Change = Change::since(37);

    /// The audit annotation about failed validations of policies has all failures of a request.
    pub const AUDIT_OF_ALL_FAILED_VALIDATIONS: Change = Change::since(37);
    /// The parameters of policies that a cache does not have are read from the storage.
    pub const PARAMS_ARE_READ_DIRECTLY: Change = Change::since(37);
    /// Tokens of service accounts can be for webhooks, with attestations.
    pub const TOKENS_FOR_WEBHOOKS: Change = Change::since(37);
    /// Proxies of services choose endpoints from the EndpointSlices of the services.
    pub const SERVICE_PROXIES_USE_SLICES: Change = Change::since(37);
    /// The reason of a chain of authorizers that does not decide names its authorizers.
    pub const REASONS_NAME_AUTHORIZERS: Change = Change::since(37);
    /// Errors about unusable disruption budgets have causes.
    pub const UNUSABLE_BUDGETS_HAVE_CAUSES: Change = Change::since(37);
    /// Nodes request certificates for pods only from the signers that the volumes of the pods name.
    pub const NODES_REQUEST_SIGNERS_OF_PODS: Change = Change::since(37);
    /// The conditions of HorizontalPodAutoscalers name the generation that they are about.
    pub const AUTOSCALER_CONDITIONS_HAVE_GENERATIONS: Change = Change::since(37);
    /// Declarative validation runs for every kind, after the validation by code.
    pub const DECLARATIVE_VALIDATION_FOR_EVERY_KIND: Change = Change::since(37);
    /// Errors about owner references have their indices, and missing fields of owner references, managed fields and
    /// conditions are required values.
    pub const PRECISE_METADATA_ERRORS: Change = Change::since(37);
    /// An unsafe deletion can be a dry run, and conflicts with an object that can be decoded. Errors of lists contain the
    /// first error about an object.
    pub const PRECISE_UNSAFE_DELETION: Change = Change::since(37);
    /// Rules of CRDs compare sets and maps by the converted elements, and by the keys of both lists.
    pub const RULES_COMPARE_CONVERTED_ELEMENTS: Change = Change::since(37);
    /// The estimated costs of rules of CRDs know how long the names in metadata can be.
    pub const RULES_KNOW_LENGTHS_OF_NAMES: Change = Change::since(37);
    /// Documents of discovery are served in CBOR, if the server has CBOR.
    pub const DISCOVERY_IN_CBOR: Change = Change::since(37);
    /// The aggregation layer does not know aggregated discovery v2beta1.
    pub const ONLY_DISCOVERY_V2: Change = Change::since(37);
    /// Errors of watch caches that cannot list do not name the type of the objects.
    pub const WATCH_CACHES_WITHOUT_TYPE: Change = Change::since(37);
    /// The body of a patch is checked before the object is read, and audit events have an apply as JSON.
    pub const PATCHES_ARE_CHECKED_FIRST: Change = Change::since(37);
    /// An update whose managed fields cannot be computed keeps the managed fields of the stored object.
    pub const FAILED_TRACKING_KEEPS_MANAGED_FIELDS: Change = Change::since(37);
    /// Published schemas have no defaults for the items of lists and the values of maps.
    pub const ITEMS_HAVE_NO_DEFAULTS: Change = Change::since(37);
    /// Clients are warned about CustomResourceDefinitions with sets of objects or lists.
    pub const WARNING_ABOUT_SETS_OF_OBJECTS: Change = Change::since(37);
    /// Errors about preconditions of the deletion of a CustomResourceDefinition begin with a small letter.
    pub const DEFINITION_PRECONDITION_TEXT: Change = Change::since(37);

    const fn since(minor: u8) -> Self {
        Self(MinorRange::since(Minor::new(minor)))
    }

    /// The versions that have the change.
    #[must_use]
    pub const fn versions(self) -> MinorRange {
        self.0
    }
}
