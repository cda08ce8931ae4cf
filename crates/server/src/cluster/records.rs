//! Records that servers keep in the store in addition to the objects of the API, in upstream's form: their addresses
//! (`masterleases`) and allocated numbers (`ranges`). Records below `pintle` exist only in this server.

use pintle_codec::json::{self, DecodeOptions};
use pintle_registry::ApiError;
use pintle_store::{Change, Compare, Error, Key, Op, Revision, TransformErrorKind, unreadable_reason};
use pintle_value::Value;

use super::{Cluster, SERVER_ADDRESSES_PREFIX, store_error};

/// The prefix of the records of allocated numbers. They are RangeAllocations.
pub(crate) const RANGES_PREFIX: &str = "ranges";

/// The prefix of the records that upstream does not have.
pub const OWN_RECORDS_PREFIX: &str = "pintle";

/// The prefixes of all records. `peerserverleases` are records that only kube-apiserver keeps: the addresses at which
/// servers reach each other.
pub(crate) const RECORD_PREFIXES: [&str; 4] =
    [SERVER_ADDRESSES_PREFIX, RANGES_PREFIX, "peerserverleases", OWN_RECORDS_PREFIX];

/// The value of a stored record; `None` if the record is broken.
pub(super) fn decoded(record: &[u8]) -> Option<Value> {
    json::decode(record, DecodeOptions::STORED).ok().map(|decoded| decoded.value)
}

/// Checks that a record could be decrypted. Its key may only be missing for now.
pub(super) fn check_decrypted(record: &[u8]) -> Result<(), ApiError> {
    match unreadable_reason(record) {
        Some(error) if error.kind == TransformErrorKind::Encryption => Err(ApiError::Internal(error.detail)),
        _ => Ok(()),
    }
}

impl Cluster {
    pub(super) fn record_key(&self, prefix: &str, name: &str) -> Key {
        self.stores.cache.store_key(prefix, name).into()
    }

    /// Reads a record and its revision. A broken record is null, so that it is written again.
    ///
    /// # Errors
    /// The store fails, or the record cannot be decrypted.
    pub(crate) async fn read_record(&self, prefix: &str, name: &str) -> Result<Option<(Value, u64)>, ApiError> {
        let interval = pintle_store::KeyInterval::prefix(&self.record_key(prefix, name));
        let found = self.stores.main.range(interval, None, Some(1)).await.map_err(store_error)?;
        let record = found.records.into_iter().find(|record| *record.key == *self.record_key(prefix, name));
        let Some(record) = record else { return Ok(None) };
        check_decrypted(&record.value)?;
        Ok(Some((decoded(&record.value).unwrap_or(Value::Null), record.mod_revision.get())))
    }

    /// Writes a record if it still has this revision, or if it still does not exist. Returns the new revision, or
    /// `None` if the record has another revision.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn write_record(
        &self,
        prefix: &str,
        name: &str,
        record: &Value,
        revision: Option<u64>,
    ) -> Result<Option<u64>, ApiError> {
        let compare = revision.map_or(Compare::Absent, |revision| Compare::ModRevision(Revision(revision)));
        let op = Op::Put { value: json::encode(record).into(), ttl: None };
        match self.stores.main.commit(Change::new(self.record_key(prefix, name), compare, op)).await {
            Ok(revision) => Ok(Some(revision.get())),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }
}
