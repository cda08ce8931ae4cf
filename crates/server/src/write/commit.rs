//! The last step of every write: commits the encoded object to the store under a compare, and waits for the watch
//! cache.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use pintle_cache::{Object, ObjectIndex};
use pintle_registry::{ApiError, Resource};
use pintle_store::{Change, Compare, Condition, Error, Revision};
use pintle_value::Value;

use crate::cluster::object_index;
use crate::cluster::{Cluster, StorageOperation, store_error};

/// The outcome of a commit.
pub(crate) enum CommitOutcome {
    /// The change is stored at this revision, and the watch cache has it.
    Committed(u64),
    /// The compare failed.
    Conflict,
    /// The compare holds, but a condition does not.
    ConditionFailed,
}

/// The end of a write, for code that has reserved or allocated something for the write.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum WriteEnd {
    /// The object is stored.
    Stored,
    /// The object is not stored, and will not be.
    NotStored,
    /// It is not known whether the object is stored. Allocations may be in use, so they are kept for the repair.
    Unknown,
}

impl WriteEnd {
    /// The end of a write with this result. For a successful write, `is_stored` says whether it stored an object.
    pub(super) fn of<T>(result: &Result<T, ApiError>, is_stored: impl FnOnce(&T) -> bool) -> Self {
        match result {
            Ok(outcome) if is_stored(outcome) => Self::Stored,
            Err(ApiError::OutcomeUnknown(_)) => Self::Unknown,
            _ => Self::NotStored,
        }
    }
}

/// A change of the stored object.
pub(crate) struct ObjectChange {
    /// The required state of the stored object.
    pub(crate) compare: Compare,
    /// The required states of other objects.
    pub(crate) conditions: Vec<Condition>,
    /// The new object; `None` deletes it.
    pub(crate) json: Option<Bytes>,
}

impl ObjectChange {
    /// Replaces the object that was read at a revision.
    pub(crate) fn update(revision: u64, json: Bytes) -> Self {
        Self { compare: Compare::ModRevision(Revision(revision)), conditions: Vec::new(), json: Some(json) }
    }

    /// Deletes the object that was read at a revision.
    pub(crate) fn delete(revision: u64) -> Self {
        Self { compare: Compare::ModRevision(Revision(revision)), conditions: Vec::new(), json: None }
    }
}

/// An object in the form of the watch cache, for a response that consists of the same bytes.
pub(crate) fn cached_object(key: &str, revision: u64, json: Bytes) -> Result<Arc<Object>, ApiError> {
    let offsets =
        object_index::scan_object(&json).ok_or_else(|| ApiError::Internal("the object has no metadata".to_owned()))?;
    let index = ObjectIndex {
        resource_version_offset: offsets.resource_version_offset,
        item_offset: offsets.item_offset,
        ..ObjectIndex::default()
    };
    Ok(Arc::new(Object::new(key.into(), revision, json, index)))
}

/// The object of a commit. It is the object in the watch cache, unless a later write has already changed it.
///
/// # Errors
/// See [`cached_object`].
pub(crate) fn committed_object(
    cluster: &Cluster,
    hub: &Resource,
    key: &str,
    revision: u64,
    json: Bytes,
) -> Result<Arc<Object>, ApiError> {
    let newest = cluster.watch_cache(hub).ok().and_then(|watch_cache| watch_cache.read(key).ok().flatten());
    newest.filter(|object| object.revision == revision).map_or_else(|| cached_object(key, revision, json), Ok)
}

/// Returns the object that a dry run creates. It has revision 0, and the resourceVersion of the request's body.
///
/// # Errors
/// See [`cached_object`].
pub(crate) fn dry_run_object(key: &str, json: Bytes, resource_version: &str) -> Result<Arc<Object>, ApiError> {
    let object = cached_object(key, 0, json)?;
    if resource_version.is_empty() {
        return Ok(object);
    }
    let offset = (object.index.resource_version_offset as usize).min(object.json.len());
    let mut json = Vec::with_capacity(object.json.len() + resource_version.len() + 24);
    object.index.write_with_resource_version(&object.json, 0..offset, &mut json, |out| {
        pintle_codec::json::write_string(resource_version, out);
    });
    json.extend_from_slice(&object.json[offset..]);
    cached_object(key, 0, json.into())
}

/// Commits one change of an object and waits until reads see it. After a failed compare or condition, reads see the
/// change that made it fail. `tree` is the object that was encoded, if the caller still has it.
///
/// # Errors
/// Returns an error if the store fails.
pub(crate) async fn commit(
    cluster: &Cluster,
    hub: &Resource,
    key: &str,
    change: ObjectChange,
    tree: Option<&Value>,
) -> Result<CommitOutcome, ApiError> {
    let ObjectChange { compare, conditions, json } = change;
    let prefix = hub.collection().map(|c| c.prefix.as_str()).ok_or(ApiError::MethodNotAllowed)?;
    let storage = cluster.storage_of(prefix);
    let store_key = storage.cache.store_key(prefix, key);
    // Custom resources may be stored at a version other than the tree's version.
    let tree = tree.filter(|_| hub.built_in);
    let _written = json.as_ref().zip(tree).and_then(|(json, tree)| cluster.stores.indexers.expect(prefix, json, tree));
    let change = match json {
        Some(json) => {
            // As in upstream, a TTL of zero means no expiry.
            let ttl = Some(cluster.settings.event_ttl).filter(|ttl| hub.strategy.has_ttl() && !ttl.is_zero());
            let encoder = cluster.stores.encoder.as_ref().zip(tree);
            let encoded = encoder.and_then(|(encoder, tree)| encoder.encode_tree(&store_key, tree));
            Change::new(store_key, compare, pintle_store::Op::Put { value: json, ttl }).encoded_as(encoded)
        }
        None => Change::delete(store_key, compare),
    };
    let operation = match (&change.op, compare) {
        (pintle_store::Op::Delete, _) => StorageOperation::Delete,
        (_, Compare::Absent) => StorageOperation::Create,
        _ => StorageOperation::Update,
    };
    let started = Instant::now();
    let result = storage.store.commit(change.under(storage.conditions(conditions))).await;
    // Upstream's etcd reports a failed compare as a success of the request.
    let failed = !matches!(result, Ok(_) | Err(Error::Conflict { .. } | Error::ConditionFailed));
    cluster.metrics.collection(hub).record_commit(operation, started.elapsed(), failed);
    match result {
        Ok(revision) => {
            storage.cache.wait_until_fresh(revision.get()).await;
            Ok(CommitOutcome::Committed(revision.get()))
        }
        Err(Error::Conflict { current }) => {
            // Another write came first. The next attempt must see its result.
            if let Some(current) = current {
                storage.cache.wait_until_fresh(current.mod_revision.get()).await;
            } else {
                storage.catch_up().await?;
            }
            Ok(CommitOutcome::Conflict)
        }
        Err(Error::ConditionFailed) => {
            cluster.catch_up().await?;
            Ok(CommitOutcome::ConditionFailed)
        }
        Err(error) => Err(store_error(error)),
    }
}
