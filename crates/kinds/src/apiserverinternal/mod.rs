//! Strategies of the group `internal.apiserver.k8s.io`.

mod storage_version;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "storageversions" => Some(Arc::new(storage_version::StorageVersionStrategy)),
        _ => None,
    }
}
