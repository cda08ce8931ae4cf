//! Reading: get, list and watch, all from the cache.

mod component_statuses;
pub(crate) mod computed;
mod continue_token;
mod get;
mod lifetime;
mod list;
mod watch;
mod websocket;

pub(crate) use get::{find, get};
pub(crate) use list::{collect, list, select};

use std::sync::Arc;
use std::time::Duration;

use pintle_cache::WatchCache;
use pintle_registry::{ApiError, Resource};

use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::http::Response;

/// How long a read waits for a revision that is about to come (upstream: the watch cache's `blockTimeout`).
const PATIENCE: Duration = Duration::from_secs(3);

/// The newest revision at which a collection can be read: never before anything that a watcher was told of it.
pub(crate) fn newest(cluster: &Cluster, watch_cache: &WatchCache) -> u64 {
    watch_cache.newest_revision().max(cluster.cache.applied_revision())
}

/// Waits until the cache has come to a revision, briefly.
///
/// # Errors
/// It does not come: the revision is one of the future.
pub(crate) async fn wait_for(cluster: &Cluster, revision: u64) -> Result<(), ApiError> {
    tokio::select! {
        biased;
        () = cluster.cache.wait_until_fresh(revision) => Ok(()),
        () = cluster.sleep(PATIENCE) => {
            Err(ApiError::TooLargeResourceVersion { asked: revision, current: cluster.cache.applied_revision(), retry_after: 1 })
        }
    }
}

/// Answers a watch: as the body of the answer, or over a WebSocket if the client asks for one.
pub(crate) async fn watch(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    Ok(websocket::upgrade(call, watch::watch(call, resource).await?))
}
