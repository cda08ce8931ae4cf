//! Reads: get, list and watch, from the watch cache.

mod component_statuses;
pub(crate) mod computed;
pub(crate) mod continue_token;
mod get;
mod lifetime;
mod list;
mod watch;
mod websocket;

pub(crate) use get::{find, get, wait_until_fresh};
pub(crate) use list::{collect, list, select, select_shard};
pub(crate) use watch::start_watch_terminator;
pub(crate) use websocket::{check_opening, switching_protocols};

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::WatchCache;
use pintle_registry::{ApiError, Resource};

use crate::cluster::{Cluster, Storage, store_error};
use crate::context::RequestContext;
use crate::http::Response;

/// The time for which a read waits for a future revision (upstream: the watch cache's `blockTimeout`).
const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// The newest revision at which a collection can be read. It is never older than an event that a watcher has received.
pub(crate) fn newest_revision(cluster: &Cluster, watch_cache: &WatchCache) -> u64 {
    watch_cache.newest_revision().max(cluster.storage_of(watch_cache.prefix()).cache.applied_revision())
}

/// Waits a short time until the watch caches of a storage have reached a revision.
///
/// # Errors
/// Returns `TooLargeResourceVersion` if the revision is not reached in time.
pub(crate) async fn wait_for_revision(cluster: &Cluster, storage: Storage<'_>, revision: u64) -> Result<(), ApiError> {
    let cache = storage.cache;
    tokio::select! {
        biased;
        () = cache.wait_until_fresh(revision) => Ok(()),
        () = cluster.sleep(BLOCK_TIMEOUT) => {
            Err(ApiError::TooLargeResourceVersion { asked: revision, current: cache.applied_revision(), retry_after: 1 })
        }
    }
}

/// Waits until the watch caches of a storage contain everything that was committed to it before the call. Returns the
/// revision of the last of these commits.
///
/// # Errors
/// The store cannot be read, or the watch caches do not reach its revision in time.
pub(crate) async fn catch_up(cluster: &Cluster, storage: Storage<'_>) -> Result<u64, ApiError> {
    let current = storage.store.current_revision().await.map_err(store_error)?.get();
    wait_for_revision(cluster, storage, current).await?;
    Ok(current)
}

/// Handles a watch: as a streamed response, or over a WebSocket if the client asks for one.
pub(crate) async fn watch(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    Ok(websocket::upgrade(request, watch::watch(request, resource).await?))
}
