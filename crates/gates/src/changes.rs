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

    /// Declarative validation runs for every kind, after the validation by code.
    pub const DECLARATIVE_VALIDATION_FOR_EVERY_KIND: Change = Change::since(37);
    /// Errors about owner references have their indices, and missing fields of owner references, managed fields and
    /// conditions are required values.
    pub const PRECISE_METADATA_ERRORS: Change = Change::since(37);
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
    /// The deletion of an object that cannot be decoded can be a dry run.
    pub const DRY_RUN_OF_UNSAFE_DELETION: Change = Change::since(37);

    const fn since(minor: u8) -> Self {
        Self(MinorRange::since(Minor::new(minor)))
    }

    /// The versions that have the change.
    #[must_use]
    pub const fn versions(self) -> MinorRange {
        self.0
    }
}
