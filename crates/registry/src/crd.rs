//! The source of the schemas of a CustomResourceDefinition (CRD).

use pintle_value::Value;
use pintle_versions::{EffectiveVersion, Minor};

/// A source of the schemas of a CRD. Schemas are larger than all other data of a [`crate::Resource`]. So they are read
/// on demand instead of being retained.
pub trait CrdSource: Send + Sync {
    /// A string that identifies the CRD in its current state. It changes whenever the CRD changes.
    fn fingerprint(&self) -> &str;

    /// The version of Kubernetes that serves the CRD.
    fn served_by(&self) -> EffectiveVersion {
        EffectiveVersion::of(Minor::DEFAULT)
    }

    /// The schema of a version as the CRD contains it (`openAPIV3Schema`); `None` if there is none.
    fn schema(&self, version: &str) -> Option<Value>;

    /// True if the CRD is terminating, given its stored JSON at a revision.
    fn is_terminating(&self, revision: u64, json: &[u8]) -> bool;
}
