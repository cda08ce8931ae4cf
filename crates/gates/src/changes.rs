//! Changes between the versions of kube-apiserver that have no feature gate.

use pintle_versions::{Minor, MinorRange};

/// A change that clients see and that no feature gate controls. The binary version decides.
///
/// Facts about kinds have ranges of versions in their data files. A change is for code that has to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change(MinorRange);

impl Change {
    /// The strategic merge key of the claim statuses of pods is the name of the claim.
    pub const POD_CLAIM_STATUSES_ARE_A_MAP: Change = Change::since(37);

    const fn since(minor: u8) -> Self {
        Self(MinorRange::since(Minor::new(minor)))
    }

    /// The versions that have the change.
    #[must_use]
    pub const fn versions(self) -> MinorRange {
        self.0
    }
}
