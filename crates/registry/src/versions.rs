//! Kinds whose versions are equals: custom kinds. Their rules hold at each version by itself, so that every version is its
//! own hub (upstream: the handler of a version has its objects in memory at that version), and the store holds objects at
//! whatever version was the one to store when they were written.

use pintle_schema::Schema;
use pintle_value::{Str, Value};

use crate::WebhookClientConfig;

/// The versions of such a kind. Versions are named as `apiVersion` names them (`example.com/v1`).
pub trait MultiVersion: Send + Sync {
    /// The version that objects are stored at from now on.
    fn stored(&self) -> &str;

    /// True if there is such a version, served or not.
    fn has(&self, version: &str) -> bool;

    /// How objects get from one version to another.
    fn conversion(&self) -> &Conversion;

    /// The types of a version, served or not, as server-side apply merges them; `None` if there is no such version.
    fn types(&self, version: &str) -> Option<&Schema>;

    /// The other versions whose objects differ from those of a version in nothing but their `apiVersion`.
    fn identical_versions(&self, version: &str) -> Vec<&str>;

    /// The revision of the definition that says all this. What was stored later is as these versions want it; what was
    /// stored before may not be.
    fn since(&self) -> u64;

    /// Makes a stored object what these versions say that it is, at the version that it was stored at: without what is
    /// not declared, and with defaults.
    fn read(&self, object: &mut Value);

    /// Makes an object that was converted one of its version: without what is not declared.
    ///
    /// # Errors
    /// It cannot be one, in upstream's words.
    fn conform(&self, object: &mut Value) -> Result<(), String>;
}

/// How objects get from one version to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// They are the same in all versions but for their `apiVersion`.
    None,
    /// Someone else knows.
    Webhook {
        /// Whom to ask.
        webhook: WebhookClientConfig,
        /// The versions of `ConversionReview` that they understand, the best one first.
        reviews: Vec<Str>,
        /// What the definition is called.
        definition: Str,
    },
}
