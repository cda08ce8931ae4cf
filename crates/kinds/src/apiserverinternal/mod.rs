//! Strategies of the group `internal.apiserver.k8s.io`.

mod recorded;
mod storage_version;

use std::sync::Arc;

use pintle_registry::Strategy;

pub use self::recorded::{RecordedStorageVersion, recorded_storage_versions, storage_versions_resource};

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "storageversions" => Some(Arc::new(storage_version::StorageVersionStrategy)),
        _ => None,
    }
}
