//! The last step of every write: the object's finished bytes go to the store under a compare, and the cache follows.

use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{Object, ObjectIndex};
use pintle_registry::{ApiError, Resource};
use pintle_store::{Change, Compare, Error, Revision};

use crate::cluster::object_index;
use crate::cluster::{Cluster, store_error};

/// What became of a commit.
pub(crate) enum CommitOutcome {
    /// It is stored, with this revision, and the cache has it.
    Done(u64),
    /// The compare failed.
    Conflict,
}

/// An object as the cache would hold it, for an answer made of the same bytes.
pub(crate) fn as_cached(key: &str, revision: u64, json: Bytes) -> Result<Arc<Object>, ApiError> {
    let places = object_index::places(&json).ok_or_else(|| ApiError::Internal("the object has no uid".to_owned()))?;
    let index = ObjectIndex {
        resource_version_offset: places.version_at,
        item_offset: places.item_at,
        ..ObjectIndex::default()
    };
    Ok(Arc::new(Object::new(key.into(), revision, json, index)))
}

/// Commits one change of an object, `json` being `None` for its removal, and waits until reads see it.
///
/// # Errors
/// The store fails.
pub(crate) async fn commit(
    cluster: &Cluster,
    hub: &Resource,
    key: &str,
    compare: Compare,
    json: Option<Bytes>,
) -> Result<CommitOutcome, ApiError> {
    let prefix = hub.collection().map(|c| c.prefix.as_str()).ok_or(ApiError::MethodNotAllowed)?;
    let full = cluster.cache.store_key(prefix, key);
    let change = match json {
        Some(json) => {
            // Upstream takes no time at all for all the time there is.
            let ttl = Some(cluster.event_ttl).filter(|ttl| hub.strategy.expires() && !ttl.is_zero());
            Change { key: full.into(), compare, op: pintle_store::Op::Put { value: json, ttl } }
        }
        None => Change::delete(full, compare),
    };
    match cluster.store.commit(change).await {
        Ok(committed) => {
            let revision = committed.revision.get();
            cluster.cache.wait_until_fresh(revision).await;
            Ok(CommitOutcome::Done(revision))
        }
        Err(Error::Conflict { current }) => {
            // What is there came from elsewhere: the next try has to see it.
            if let Some(current) = current {
                cluster.cache.wait_until_fresh(current.mod_revision.get()).await;
            } else {
                cluster.catch_up().await?;
            }
            Ok(CommitOutcome::Conflict)
        }
        Err(error) => Err(store_error(error)),
    }
}

/// The compare on a revision.
pub(crate) fn at(revision: u64) -> Compare {
    Compare::ModRevision(Revision(revision))
}
