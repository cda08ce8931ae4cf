//! The versions of custom resources. Each version is its own hub: its rules apply to objects at that version (as
//! upstream's handlers decode objects at the version of the request). The version of a stored object is the storage
//! version at the time of its write.

use pintle_schema::Schema;
use pintle_value::{Str, Value};

use crate::WebhookClientConfig;

/// The versions of a CRD. Their names have the form of `apiVersion` (`example.com/v1`).
pub trait MultiVersion: Send + Sync {
    /// The current storage version.
    fn storage_version(&self) -> &str;

    /// True if the CRD has this version, served or not.
    fn contains(&self, version: &str) -> bool;

    /// The conversion strategy.
    fn conversion(&self) -> &Conversion;

    /// The types of a version, served or not, for server-side apply. `None` if the version does not exist.
    fn types(&self, version: &str) -> Option<&Schema>;

    /// The other versions whose objects differ from the objects of `version` only in their `apiVersion`.
    fn identical_versions(&self, version: &str) -> Vec<&str>;

    /// All versions that have a subresource, served or not, in the order of the CRD. The empty name is the object
    /// itself, which every version has.
    fn versions_with(&self, subresource: &str) -> Vec<&str>;

    /// The revision of the CRD. Objects that were stored later at the version of the request are pruned and defaulted
    /// by the CRD's schemas. Other objects may not be.
    fn crd_revision(&self) -> u64;

    /// True if an object lacks a top-level field that has a default. The strategy removes the status of a new object
    /// after the object was defaulted.
    fn lacks_default(&self, object: &Value) -> bool;

    /// Prunes and defaults a stored object by the schema of the version at which it is stored.
    fn prune_and_default_stored(&self, object: &mut Value);

    /// Prunes a converted object by the schema of its version (upstream: `schemaCoercingConverter`).
    ///
    /// # Errors
    /// Returns upstream's error message if the object cannot be decoded as its kind.
    fn prune_converted(&self, object: &mut Value) -> Result<(), String>;
}

/// The conversion strategy of a CRD (`apiextensions/v1.CustomResourceConversion`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Objects differ only in their `apiVersion`.
    None,
    /// A webhook converts objects.
    Webhook {
        /// The client configuration of the webhook.
        webhook: WebhookClientConfig,
        /// The versions of `ConversionReview` that the webhook supports, in the order of preference.
        review_versions: Vec<Str>,
        /// The name of the CRD.
        crd: Str,
    },
}
