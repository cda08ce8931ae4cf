//! The storage versions that a server has still to record. Until then the server refuses most writes, so that it stores
//! nothing in an unknown version (upstream: `storageversion.Manager`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_kinds::RecordedStorageVersion;
use pintle_locks::RwLock;
use pintle_registry::GroupResource;

/// Whether the version of a resource is recorded, or the error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UpdateStatus {
    is_done: bool,
    last_error: Option<String>,
}

/// The resources whose storage versions a server records.
#[derive(Debug)]
pub struct StorageVersionManager {
    versions: Vec<RecordedStorageVersion>,
    status: RwLock<HashMap<GroupResource, UpdateStatus>>,
    is_completed: AtomicBool,
}

impl StorageVersionManager {
    /// A manager that has recorded nothing yet.
    #[must_use]
    pub fn new(versions: Vec<RecordedStorageVersion>) -> Self {
        let resources = versions.iter().flat_map(|version| version.resources.iter().cloned());
        let status = RwLock::new(resources.map(|resource| (resource, UpdateStatus::default())).collect());
        Self { versions, status, is_completed: AtomicBool::new(false) }
    }

    /// True once all storage versions were recorded.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.is_completed.load(Ordering::Relaxed)
    }

    /// Fails until the storage version of a resource is recorded.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn check_recorded(&self, resource: &GroupResource) -> Result<(), String> {
        let status = self.status.read();
        let Some(status) = status.get(resource).filter(|status| !status.is_done) else { return Ok(()) };
        let error = status.last_error.as_deref().unwrap_or("<nil>");
        Err(format!(
            "wait for storage version registration to complete for resource: {resource}, last seen error: {error}"
        ))
    }

    /// The versions to record.
    pub(super) fn versions(&self) -> &[RecordedStorageVersion] {
        &self.versions
    }

    /// Stores whether a version was recorded. A recorded version never waits again.
    pub(super) fn set_result(&self, version: &RecordedStorageVersion, result: Result<(), String>) {
        let mut status = self.status.write();
        for resource in &version.resources {
            let status = status.entry(resource.clone()).or_default();
            status.is_done |= result.is_ok();
            status.last_error = result.clone().err();
        }
    }

    /// Stores that all versions were recorded.
    pub(super) fn complete(&self) {
        self.is_completed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_wait_for_their_own_version() {
        let resource = |group: &str, plural: &str| GroupResource::new(group, plural);
        let version = |name: &str, resources: Vec<GroupResource>| RecordedStorageVersion {
            name: name.to_owned(),
            resources,
            encoding: "v1".to_owned(),
            decodable: vec!["v1".to_owned()],
            served: vec!["v1".to_owned()],
        };
        let events = version("core.events", vec![resource("", "events"), resource("events.k8s.io", "events")]);
        let leases = version("coordination.k8s.io.leases", vec![resource("coordination.k8s.io", "leases")]);
        let manager = StorageVersionManager::new(vec![events.clone(), leases.clone()]);
        let check = |group: &str, plural: &str, expect: &str| {
            let error = manager.check_recorded(&resource(group, plural)).err().unwrap_or_default();
            assert_eq!(error, expect);
        };
        let wait = "wait for storage version registration to complete for resource: ";
        check("", "events", &format!("{wait}events, last seen error: <nil>"));
        check("events.k8s.io", "events", &format!("{wait}events.events.k8s.io, last seen error: <nil>"));
        check("", "tokenreviews", "");
        manager.set_result(&leases, Err("why".to_owned()));
        check("coordination.k8s.io", "leases", &format!("{wait}leases.coordination.k8s.io, last seen error: why"));
        manager.set_result(&events, Ok(()));
        check("", "events", "");
        check("events.k8s.io", "events", "");
        // A later failure refuses nothing.
        manager.set_result(&events, Err("later".to_owned()));
        check("", "events", "");
        assert!(!manager.is_completed());
    }
}
