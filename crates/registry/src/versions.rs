//! The versions of custom resources. Each version is its own hub: its rules apply to objects at that version (as
//! upstream's handlers decode objects at the version of the request). Stored objects are at the version that was the
//! storage version when they were written.

use pintle_schema::Schema;
use pintle_value::{Str, Value};

use crate::WebhookClientConfig;

/// The versions of a definition. Their names have the form of `apiVersion` (`example.com/v1`).
pub trait MultiVersion: Send + Sync {
    /// The current storage version.
    fn storage_version(&self) -> &str;

    /// True if the definition has this version, served or not.
    fn contains(&self, version: &str) -> bool;

    /// The conversion strategy.
    fn conversion(&self) -> &Conversion;

    /// The types of a version, served or not, for server-side apply. `None` if the version does not exist.
    fn types(&self, version: &str) -> Option<&Schema>;

    /// The other versions whose objects differ from those of a version only in their `apiVersion`.
    fn identical_versions(&self, version: &str) -> Vec<&str>;

    /// All versions that have a subresource, served or not, in the order of the definition. The empty name is the object
    /// itself, which every version has.
    fn versions_with(&self, subresource: &str) -> Vec<&str>;

    /// The revision of the definition. Objects that were stored later at the version of the request are pruned and
    /// defaulted by its schemas; others may not be.
    fn definition_revision(&self) -> u64;

    /// True if an object lacks a top-level field that has a default. The strategy removes the status of a new object
    /// after the object was defaulted.
    fn lacks_default(&self, object: &Value) -> bool;

    /// Prunes and defaults a stored object by the schema of the version that it is stored at.
    fn prune_and_default_stored(&self, object: &mut Value);

    /// Prunes a converted object by the schema of its version (upstream: `schemaCoercingConverter`).
    ///
    /// # Errors
    /// Returns upstream's error message if the object cannot be decoded as its kind.
    fn prune_converted(&self, object: &mut Value) -> Result<(), String>;
}

/// The conversion strategy of a definition (`apiextensions/v1.CustomResourceConversion`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Objects differ only in their `apiVersion`.
    None,
    /// A webhook converts objects.
    Webhook {
        /// How to connect to the webhook.
        webhook: WebhookClientConfig,
        /// The versions of `ConversionReview` that the webhook supports, in the order of preference.
        review_versions: Vec<Str>,
        /// The name of the definition.
        definition: Str,
    },
}
