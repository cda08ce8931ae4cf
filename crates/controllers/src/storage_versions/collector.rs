//! Removes the records of gone servers. A server without an identity lease is gone. A StorageVersion that no server has
//! recorded is deleted (upstream: `pkg/controller/storageversiongc`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{KeyRange, WatchScope};
use pintle_kinds::storage_versions_resource;
use pintle_registry::{ApiError, DeletionPropagation};
use pintle_value::Value;

use super::status::{records, server_of, set_records};
use super::storage_version_ref;
use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::informer::{Informer, InformerSource};
use crate::objects::{versioned_tree, watch_cache_of};
use crate::server_registration::{LEASE_NAMESPACE, has_identity_lease, leases};
use crate::{ClusterClient, DeleteRequest};

/// The delay before the next attempt, after a failure or while a kube-controller-manager is active.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Runs the controller until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>) {
    let Some(mut informer) = client.upgrade().map(|client| {
        let sources = [
            // Identity leases are in this namespace. The leases of nodes are in another one and are written all the
            // time.
            InformerSource::new((), leases(), WatchScope::Namespace(LEASE_NAMESPACE.into())),
            InformerSource::new((), storage_versions_resource(), WatchScope::All),
        ];
        Informer::new(&client, sources.into())
    }) else {
        return;
    };
    loop {
        let Some(cluster) = client.upgrade() else { return };
        let is_done = collect(&cluster).await;
        let retry = cluster.sleep(RETRY_DELAY);
        drop(cluster);
        tokio::select! {
            event = informer.next() => if event.is_none() {
                return;
            },
            () = retry, if !is_done => {}
        }
    }
}

/// Removes stale records. Returns false if any is left.
async fn collect(client: &Arc<dyn ClusterClient>) -> bool {
    let watch_cache = watch_cache_of(client, &storage_versions_resource());
    let objects = watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All));
    let objects: Vec<Value> = objects.filter_map(|object| versioned_tree(&object)).collect();
    let mut is_done = true;
    for object in objects {
        let all = records(&object);
        let live: Vec<Value> =
            all.iter().filter(|record| has_identity_lease(client, server_of(record))).cloned().collect();
        if live.len() == all.len() {
            continue;
        }
        if controller_manager::is_active(client) {
            return false;
        }
        match remove_stale(client, &object, live).await {
            Ok(()) | Err(ApiError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, name = object.name(), "Failed to remove stale storage versions, will retry");
                is_done = false;
            }
        }
    }
    is_done
}

async fn remove_stale(client: &Arc<dyn ClusterClient>, object: &Value, live: Vec<Value>) -> Result<(), ApiError> {
    let target = storage_version_ref(object.name());
    if live.is_empty() {
        let request = DeleteRequest {
            uid: object.uid().into(),
            revision: object.resource_version().parse().unwrap_or_default(),
            propagation: DeletionPropagation::Background,
        };
        return client.clone().delete(target, request).await;
    }
    let (now, version) = (client.now(), object.resource_version().to_owned());
    let compute = move |current: &Value| {
        let mut updated = current.clone();
        // The event of a newer object leads to another attempt.
        if current.resource_version() == version {
            set_records(&mut updated, live.clone(), now);
        }
        updated
    };
    client.clone().update_as(target, "status", CONTROLLER_MANAGER, Arc::new(compute)).await
}
