//! Values that plugins derive from stored objects, cached until the objects change.

use std::sync::Arc;

use pintle_locks::RwLock;
use pintle_registry::{ApiError, GroupResource, ObjectClient, StoredObjects};

/// A value that a plugin derives from all objects of a resource, with the revision of the objects.
#[derive(Debug)]
pub(crate) struct CachedDerivation<T>(RwLock<Option<(u64, Arc<T>)>>);

impl<T> Default for CachedDerivation<T> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}

impl<T> CachedDerivation<T> {
    /// Returns the value for the present objects. `derive` is called only if they have changed since the last call, with
    /// the value for the objects before.
    ///
    /// # Errors
    /// The objects cannot be read, or `derive` fails. Nothing is cached then.
    pub(crate) fn get(
        &self,
        client: &dyn ObjectClient,
        resource: &GroupResource,
        derive: impl FnOnce(StoredObjects, Option<&T>) -> Result<T, ApiError>,
    ) -> Result<Arc<T>, ApiError> {
        // The revision is read before the objects. So the objects may be newer than the revision, but never older.
        let revision = client.last_change(resource)?;
        let known = self.0.read().clone();
        let before = match known {
            Some((at, derived)) if at == revision => return Ok(derived),
            known => known.map(|(_, derived)| derived),
        };
        let derived = Arc::new(derive(client.read_all(resource, "")?, before.as_deref())?);
        let mut kept = self.0.write();
        if kept.as_ref().is_none_or(|(at, _)| *at < revision) {
            *kept = Some((revision, derived.clone()));
        }
        Ok(derived)
    }
}
