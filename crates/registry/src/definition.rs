//! The source of the schemas of a definition (CustomResourceDefinition).

use pintle_value::Value;

/// A source of the schemas of a definition. Schemas are larger than everything else that a [`crate::Resource`] needs,
/// so they are read on demand instead of being retained.
pub trait DefinitionSource: Send + Sync {
    /// A string that identifies this definition in its current state. It changes whenever the definition changes.
    fn fingerprint(&self) -> &str;

    /// The schema of a version as the definition has it (`openAPIV3Schema`), `None` if there is none.
    fn schema(&self, version: &str) -> Option<Value>;

    /// True if the definition is terminating, given its stored JSON at a revision.
    fn is_terminating(&self, revision: u64, json: &[u8]) -> bool;
}
