//! Webhooks, policies and bindings from files, beside the stored ones (KEP-5793; gate
//! `ManifestBasedAdmissionControlConfig`). Upstream: `admission/plugin/manifest`, and `manifest` of the plugins for
//! webhooks and policies. The server reads, decodes and validates the files, also when they change.
//!
//! - `configuration`: the directory that the configuration of a plugin names.
//! - `set`: the requirements on the objects of a directory.

mod configuration;
mod set;

use std::path::Path;
use std::sync::Arc;

use pintle_locks::RwLock;
use pintle_value::Value;

pub(crate) use self::configuration::{check_directory, policy_directory};
pub use self::set::ManifestSet;

/// The objects that a plugin reads from files.
#[derive(Clone, Copy)]
pub struct ManifestFiles<'p> {
    /// The directory with the files.
    pub directory: &'p Path,
    /// The kinds of objects that may be in the files.
    pub kinds: &'static ManifestKinds,
    /// The plugin's store for the objects.
    pub(crate) target: &'p dyn ManifestTarget,
}

impl ManifestFiles<'_> {
    /// Replaces the objects from files, which are valid and sorted by name.
    pub fn replace(&self, objects: &[Value]) {
        self.target.set_of_files(objects);
    }
}

/// A plugin's store of objects from files, which the plugin enforces.
pub(crate) trait ManifestTarget: Sync {
    /// Replaces the objects from files.
    fn set_of_files(&self, objects: &[Value]);
}

/// The kinds of objects that a plugin reads from files.
#[derive(Debug)]
pub struct ManifestKinds {
    /// The noun for the objects in messages: `webhook` or `policy`.
    pub what: &'static str,
    /// The kinds, of `admissionregistration.k8s.io/v1`: webhook configurations, or policies and their bindings.
    pub kinds: &'static [&'static str],
    /// The name of the scheme that decodes the files, for messages. It is the line of upstream's source that makes the
    /// scheme.
    pub scheme: &'static str,
}

/// The objects from files in the form that a plugin evaluates.
#[derive(Debug)]
pub(crate) struct StaticObjects<T>(RwLock<Option<Arc<T>>>);

impl<T> Default for StaticObjects<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T> StaticObjects<T> {
    /// The objects that were read last; `None` if the plugin reads no files.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.0.read().clone()
    }

    /// Replaces the objects.
    pub(crate) fn set(&self, objects: T) {
        *self.0.write() = Some(Arc::new(objects));
    }
}
