//! Records in StorageVersion objects how the servers of a cluster store the built-in resources, and removes the records
//! of gone servers. Upstream has this in apiserver's `pkg/storageversion`, and in `pkg/controller/storageversiongc`.
//! The gates are `StorageVersionAPI` and `APIServerIdentity`.
//!
//! - `manager`: the versions that this server has still to record; its writes wait for them.
//! - `status`: the status of a StorageVersion.
//! - `updater`: records the storage versions of this server.
//! - `collector`: removes the records of gone servers.

mod collector;
mod manager;
mod status;
mod updater;

use std::sync::Arc;

use pintle_kinds::storage_versions_resource;

pub use self::manager::StorageVersionManager;
use crate::server_registration::ServerIdentity;
use crate::supervisor::supervise;
use crate::{ClusterClient, ObjectRef};

/// The name of the background task that records storage versions.
pub const STORAGE_VERSION_UPDATER_TASK: &str = "built-in-resources-storage-version-updater";
/// The name of the background task that removes the records of gone servers.
const COLLECTOR_TASK: &str = "storage-version-gc";

/// Records the storage versions of this server until the cluster is gone.
pub fn run_storage_version_updater(
    client: &Arc<dyn ClusterClient>,
    manager: Arc<StorageVersionManager>,
    server: &ServerIdentity,
) -> impl Future<Output = ()> + Send + use<> {
    let server: Arc<str> = server.name().into();
    supervise(
        client,
        STORAGE_VERSION_UPDATER_TASK,
        || false,
        move |client| updater::run(client, manager.clone(), server.clone()),
    )
}

/// Removes the records of gone servers, until the cluster is gone. Stands by while a kube-controller-manager is active.
pub fn run_storage_version_collector(client: &Arc<dyn ClusterClient>) -> impl Future<Output = ()> + Send + use<> {
    supervise(client, COLLECTOR_TASK, || false, collector::run)
}

fn storage_version_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: storage_versions_resource(), namespace: String::new(), name: name.to_owned() }
}
