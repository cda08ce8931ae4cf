//! Errors about stored objects that cannot be decrypted or decoded (upstream: `storage/errors.go`, `etcd3/corrupt_obj_deleter.go`).
//! The message depends on the feature gate that allows deleting such objects.

use pintle_cache::{CorruptObject, CorruptReason, Key, KeyRange, WatchCache};
use pintle_gates::{Change, Feature};
use pintle_registry::{ApiError, Cause, Resource};
use pintle_value::Str;
use pintle_value::print::quote;

use super::Cluster;

/// Maximum number of corrupt objects that a list error names.
pub(crate) const MAX_NAMED_CORRUPT_OBJECTS: usize = 100;

impl Cluster {
    /// True if corrupt objects can be deleted.
    pub(crate) fn deletes_corrupt_objects(&self) -> bool {
        self.gates().is_enabled(Feature::ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION)
    }

    /// The error for a get or a delete of a corrupt object.
    pub(crate) fn corrupt_read_error(&self, resource: &Resource, corrupt: &CorruptObject) -> ApiError {
        if !self.deletes_corrupt_objects() {
            return error_of(&corrupt.reason);
        }
        let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
        ApiError::Internal(corrupt_message(&format!("/{prefix}/{}", corrupt.key), corrupt))
    }

    /// The error for an update of a corrupt object.
    pub(crate) fn corrupt_update_error(&self, corrupt: &CorruptObject) -> ApiError {
        if !self.deletes_corrupt_objects() {
            return error_of(&corrupt.reason);
        }
        let message = corrupt_detail(corrupt);
        if corrupt.reason.is_encrypted { ApiError::Internal(message) } else { ApiError::Unclassified(message) }
    }

    /// Checks that all objects of a range can be decoded, at a revision or now. `bounds` are an exclusive lower and an
    /// inclusive upper key, where given.
    ///
    /// # Errors
    /// Returns upstream's error for a list if an object is corrupt.
    pub(crate) fn check_readable(
        &self,
        resource: &Resource,
        watch_cache: &WatchCache,
        range: &KeyRange,
        at: Option<u64>,
        bounds: (Option<&Key>, Option<&Key>),
    ) -> Result<(), ApiError> {
        let (after, last) = bounds;
        let mut found = watch_cache.corrupt(range, at);
        found.retain(|corrupt| {
            after.is_none_or(|after| corrupt.key > *after) && last.is_none_or(|last| corrupt.key <= *last)
        });
        let Some(first) = found.first() else { return Ok(()) };
        let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
        let key_of = |corrupt: &CorruptObject| self.stores.cache.store_key(&prefix, &corrupt.key);
        if !self.deletes_corrupt_objects() {
            return Err(if first.reason.is_encrypted {
                let key = key_of(first);
                ApiError::Internal(format!("unable to transform key {}: {}", quote(&key), first.reason.text))
            } else {
                error_of(&first.reason)
            });
        }
        Err(self.list_error(resource, &found))
    }

    /// The error of a list that meets corrupt objects, if they can be deleted.
    pub(crate) fn list_error(&self, resource: &Resource, found: &[CorruptObject]) -> ApiError {
        let prefix = resource.collection().map(|collection| collection.prefix.clone()).unwrap_or_default();
        let cause = |corrupt: &CorruptObject| {
            let key = self.stores.cache.store_key(&prefix, &corrupt.key);
            let message = corrupt_message(&key, corrupt);
            Cause { reason: Str::from("UnexpectedServerResponse"), message, field: key }
        };
        let mut causes: Vec<Cause> = found.iter().take(MAX_NAMED_CORRUPT_OBJECTS).map(cause).collect();
        let is_precise = self.gates().has(Change::PRECISE_UNSAFE_DELETION);
        let resource = resource.group_resource();
        let mut message = format!("failed to read one or more {resource} from the storage");
        if let Some(first) = causes.first().filter(|_| is_precise) {
            message = format!("{message}: {}", first.message);
            if causes.len() > 1 {
                message = format!("{message} (and {} more)", causes.len() - 1);
            }
        }
        // Since the change, upstream stops at the last object that it names, without a look at the others.
        let most = if is_precise { MAX_NAMED_CORRUPT_OBJECTS - 1 } else { MAX_NAMED_CORRUPT_OBJECTS };
        if found.len() > most {
            let message = "too many errors, the list is truncated".to_owned();
            causes.push(Cause { reason: Str::from("FieldValueTooMany"), message, field: String::new() });
        }
        ApiError::StoreRead { message, resource, causes }
    }
}

/// The error if corrupt objects cannot be deleted.
fn error_of(reason: &CorruptReason) -> ApiError {
    let text = reason.text.to_string();
    if reason.is_encrypted { ApiError::Internal(text) } else { ApiError::Unclassified(text) }
}

fn corrupt_message(key: &str, corrupt: &CorruptObject) -> String {
    let why = corrupt_detail(corrupt);
    format!("StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")
}

fn corrupt_detail(corrupt: &CorruptObject) -> String {
    let CorruptReason { text, is_encrypted } = &corrupt.reason;
    if *is_encrypted {
        // As in upstream, the transformer does not know the revision.
        return format!("data from the storage is not transformable revision=0: {text}");
    }
    format!("object not decodable revision={}: {text}", corrupt.revision)
}
