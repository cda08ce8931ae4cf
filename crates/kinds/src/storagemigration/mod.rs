//! Strategies of the group `storagemigration.k8s.io`.

mod migration;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "storageversionmigrations" => Some(Arc::new(migration::StorageVersionMigrationStrategy)),
        _ => None,
    }
}
