//! Records the storage versions of a server as soon as it has an identity lease, and again from time to time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_kinds::{RecordedStorageVersion, storage_versions_resource};
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use super::status::set_record;
use super::{StorageVersionManager, storage_version_ref};
use crate::ClusterClient;
use crate::objects::{find, is_served};
use crate::server_registration::lease_ref;

/// How often the records are compared with the desired ones.
const INTERVAL: Duration = Duration::from_secs(600);
/// How often the server looks for its lease.
const LEASE_INTERVAL: Duration = Duration::from_millis(100);
/// How long to wait after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The number of attempts to record a version in a round.
const TRIES: usize = 3;

/// Records versions until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>, manager: Arc<StorageVersionManager>, server: Arc<str>) {
    while let Some(cluster) = client.upgrade() {
        // The record of a server without a lease looks like the record of a gone server.
        let delay = if find(&cluster, &lease_ref(&server)).is_some() {
            record_all(&cluster, &manager, &server).await;
            INTERVAL
        } else {
            LEASE_INTERVAL
        };
        let delay = cluster.sleep(delay);
        drop(cluster);
        delay.await;
    }
}

async fn record_all(client: &Arc<dyn ClusterClient>, manager: &StorageVersionManager, server: &Arc<str>) {
    let mut is_complete = true;
    for version in manager.versions() {
        let result = record_with_retries(client, server, version).await;
        if let Err(error) = &result {
            tracing::error!(%error, name = version.name, "Failed to update storage version");
            is_complete = false;
        }
        manager.set_result(version, result);
    }
    if is_complete {
        manager.complete();
    }
}

async fn record_with_retries(
    client: &Arc<dyn ClusterClient>,
    server: &Arc<str>,
    version: &RecordedStorageVersion,
) -> Result<(), String> {
    let mut tries = 0;
    loop {
        match record(client, server, version).await {
            Ok(()) => return Ok(()),
            // Another server has created it.
            Err(ApiError::AlreadyExists { .. } | ApiError::Conflict { .. }) => {}
            Err(error) => {
                tries += 1;
                if tries == TRIES {
                    return Err(error.to_string());
                }
            }
        }
        client.sleep(RETRY_DELAY).await;
    }
}

async fn record(
    client: &Arc<dyn ClusterClient>,
    server: &Arc<str>,
    version: &RecordedStorageVersion,
) -> Result<(), ApiError> {
    if !is_served(client, &storage_versions_resource()) {
        let resource = "storageversions.internal.apiserver.k8s.io";
        return Err(ApiError::Unclassified(format!(
            "the server could not find the requested resource (post {resource})"
        )));
    }
    let target = storage_version_ref(&version.name);
    if find(client, &target).is_none() {
        let created = object! { "metadata": object! { "name": version.name.as_str() }, "spec": Value::object() };
        client.clone().create(storage_versions_resource(), created).await?;
    }
    let (now, server, version) = (client.now(), server.clone(), version.clone());
    let compute = move |current: &Value| {
        let mut updated = current.clone();
        set_record(&mut updated, &server, &version, now);
        updated
    };
    client.clone().update(target, "status", Arc::new(compute)).await.map(drop)
}
