//! What a client is told of stored objects that cannot be read (upstream: `storage/errors.go`,
//! `etcd3/corrupt_obj_deleter.go`). What it is told depends on whether such objects can be deleted.

use pintle_cache::{CorruptObject, Key, KeyRange, WatchCache};
use pintle_gates::Feature;
use pintle_registry::{ApiError, Cause, Resource};
use pintle_value::Str;

use super::Cluster;

/// How many of them a list names.
const NAMED: usize = 100;

impl Cluster {
    /// True if objects can be deleted that cannot be read.
    pub(crate) fn deletes_corrupt_objects(&self) -> bool {
        self.gates().is_enabled(Feature::ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION)
    }

    /// The error of who asks for an object that cannot be read, or wants to delete it.
    pub(crate) fn unreadable(&self, resource: &Resource, corrupt: &CorruptObject) -> ApiError {
        if !self.deletes_corrupt_objects() {
            return ApiError::Unclassified(corrupt.reason.to_string());
        }
        let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
        ApiError::Internal(corrupt_message(&format!("/{prefix}/{}", corrupt.key), corrupt))
    }

    /// The error of who would change an object that cannot be read.
    pub(crate) fn unchangeable(&self, corrupt: &CorruptObject) -> ApiError {
        ApiError::Unclassified(if self.deletes_corrupt_objects() {
            undecodable(corrupt)
        } else {
            corrupt.reason.to_string()
        })
    }

    /// Whether there is anything in a part of a collection that cannot be read, at a revision or now. `within` are the keys
    /// behind the first up to the second, where they are given.
    ///
    /// # Errors
    /// There is.
    pub(crate) fn check_readable(
        &self,
        resource: &Resource,
        watch_cache: &WatchCache,
        range: &KeyRange,
        at: Option<u64>,
        within: (Option<&Key>, Option<&Key>),
    ) -> Result<(), ApiError> {
        let (after, last) = within;
        let mut found = watch_cache.corrupt(range, at);
        found.retain(|corrupt| {
            after.is_none_or(|after| corrupt.key > *after) && last.is_none_or(|last| corrupt.key <= *last)
        });
        let Some(first) = found.first() else { return Ok(()) };
        if !self.deletes_corrupt_objects() {
            return Err(ApiError::Unclassified(first.reason.to_string()));
        }
        let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
        let cause = |corrupt: &CorruptObject| {
            let key = self.cache.store_key(&prefix, &corrupt.key);
            let message = corrupt_message(&key, corrupt);
            Cause { reason: Str::from("UnexpectedServerResponse"), message, field: key }
        };
        let mut causes: Vec<Cause> = found.iter().take(NAMED).map(cause).collect();
        if found.len() > NAMED {
            let message = "too many errors, the list is truncated".to_owned();
            causes.push(Cause { reason: Str::from("FieldValueTooMany"), message, field: String::new() });
        }
        Err(ApiError::StoreRead { resource: resource.group_resource(), causes })
    }
}

fn corrupt_message(key: &str, corrupt: &CorruptObject) -> String {
    let why = undecodable(corrupt);
    format!("StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")
}

fn undecodable(corrupt: &CorruptObject) -> String {
    format!("object not decodable revision={}: {}", corrupt.revision, corrupt.reason)
}
