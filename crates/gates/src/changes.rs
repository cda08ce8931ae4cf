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

    /// Declarative validation runs for every kind, after the validation by code.
    pub const DECLARATIVE_VALIDATION_FOR_EVERY_KIND: Change = Change::since(37);
    /// Errors about owner references have their indices, and missing fields of owner references, managed fields and
    /// conditions are required values.
    pub const PRECISE_METADATA_ERRORS: Change = Change::since(37);
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
