//! The contract that every engine implements, modelled on etcd's key-value API: revisions, compare and commit, watch
//! from a revision, compaction. The server uses an engine as `Arc<dyn Store>` and does not know which one it is.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::ops::{Bound, Deref};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{EncryptionStatus, Error, StoreMetrics, StoredValue, Timestamp};

/// A revision of the store. Every committed change gets the next one.
///
/// An empty store is at revision 1 and its first change gets revision 2, as in etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of an empty store.
    pub const EMPTY: Revision = Revision(1);

    /// The revision as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision that the next change will get.
    #[must_use]
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key: a UTF-8 path such as `/registry/pods/default/web`. Cloning shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text that all clones share.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(path: &str) -> Key {
        Key(Arc::from(path))
    }
}

impl From<String> for Key {
    fn from(path: String) -> Key {
        Key(Arc::from(path))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A half-open interval of keys: `start` is included, `end` is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInterval {
    /// The first key of the interval.
    pub start: Key,
    /// The first key after the interval; `None` is unbounded.
    pub end: Option<Key>,
}

impl KeyInterval {
    /// Every key of the store.
    pub fn all() -> KeyInterval {
        KeyInterval { start: Key::from(""), end: None }
    }

    /// The keys from `start` up to, not including, `end`.
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> KeyInterval {
        KeyInterval { start: start.into(), end: Some(end.into()) }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &str) -> KeyInterval {
        KeyInterval { start: Key::from(prefix), end: successor(prefix).map(Key::from) }
    }

    /// Leaves the keys after `key` in the interval, for the next part of a long read.
    pub fn continue_after(&mut self, key: &str) {
        // The smallest key after a key is the key with a zero byte appended.
        self.start = format!("{key}\0").into();
    }

    /// Returns true if `key` is in the interval.
    pub fn contains(&self, key: &str) -> bool {
        *key >= *self.start && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// The interval as bounds of a map. They are out of order if it [is empty](KeyInterval::is_empty).
    pub(crate) fn bounds(&self) -> (Bound<&Key>, Bound<&Key>) {
        (Bound::Included(&self.start), self.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Returns true if no key can be in the interval.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The smallest string greater than every string that begins with `prefix` (etcd's range end of a prefix); `None` if
/// there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // Code points sort like their UTF-8 bytes, so the next scalar value makes the next string. Surrogates are not
        // scalar values.
        let above = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(above) = above {
            text.push(above);
            return Some(text);
        }
    }
    None
}

/// One value of a key at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Key,
    /// The value as the writer gave it: the result of [`crate::ValueTransformer::transform_from_storage`]. If the
    /// transformer has failed while many records were read, [`crate::unreadable_reason`] returns the error.
    pub value: Bytes,
    /// The revision of the change that wrote this value.
    pub mod_revision: Revision,
    /// The revision of the change that created the key. A key that is deleted and created again gets a new create
    /// revision.
    pub create_revision: Revision,
    /// The transformer reports the stored form as stale, for example because it is encrypted with an old key. The value
    /// must be written again even if it did not change.
    pub stale: bool,
}

/// The condition on a key under which a change is committed, like the compares of an etcd transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent,
    /// The key exists with this mod revision.
    ModRevision(Revision),
    /// No condition.
    Any,
}

impl Compare {
    /// True if the condition holds for a key with this current mod revision; `None` means that the key does not exist.
    pub(crate) fn holds(self, current: Option<Revision>) -> bool {
        match self {
            Compare::Absent => current.is_none(),
            Compare::ModRevision(revision) => current == Some(revision),
            Compare::Any => true,
        }
    }
}

/// A condition on other keys under which a change is committed. With it, servers that share a store agree on the
/// objects on which the change depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key exists with this mod revision.
    Unchanged(Key, Revision),
    /// No existing key of the interval was written after the revision. Keys may have been deleted.
    NotWrittenSince(KeyInterval, Revision),
}

/// The operation of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a value, with an optional lease after which the store deletes the key.
    Put {
        /// The value.
        value: Bytes,
        /// The time to live; `None` means that the key does not expire. A later put replaces it.
        ttl: Option<Duration>,
    },
    /// Deletes the key. Deleting a key that does not exist is a conflict, whatever the compare is.
    Delete,
}

impl Op {
    /// True if the operation can be applied to a key with this current mod revision; `None` means that the key does not
    /// exist.
    pub(crate) fn applies(&self, current: Option<Revision>) -> bool {
        current.is_some() || !matches!(self, Op::Delete)
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key to change.
    pub key: Key,
    /// The compare of the change.
    pub compare: Compare,
    /// The operation.
    pub op: Op,
    /// The conditions on other keys.
    pub conditions: Vec<Condition>,
    /// The encoding of the value, if the caller has made it. The store's transformer decides whether the encoding is
    /// stored
    /// ([`ValueTransformer::transform_encoded_to_storage`](crate::ValueTransformer::transform_encoded_to_storage)).
    pub encoded: Option<StoredValue>,
}

impl Change {
    /// Writes a value to a key that must not exist.
    pub fn create(key: impl Into<Key>, value: impl Into<Bytes>) -> Change {
        Change::new(key, Compare::Absent, Op::Put { value: value.into(), ttl: None })
    }

    /// Replaces the value with the given mod revision.
    pub fn update(key: impl Into<Key>, seen: Revision, value: impl Into<Bytes>) -> Change {
        Change::new(key, Compare::ModRevision(seen), Op::Put { value: value.into(), ttl: None })
    }

    /// Writes a value unconditionally.
    pub fn put(key: impl Into<Key>, value: impl Into<Bytes>) -> Change {
        Change::new(key, Compare::Any, Op::Put { value: value.into(), ttl: None })
    }

    /// Deletes a key if the compare holds.
    pub fn delete(key: impl Into<Key>, compare: Compare) -> Change {
        Change::new(key, compare, Op::Delete)
    }

    /// An operation on a key under a compare.
    pub fn new(key: impl Into<Key>, compare: Compare, op: Op) -> Change {
        Change { key: key.into(), compare, op, conditions: Vec::new(), encoded: None }
    }

    /// Adds conditions on other keys.
    #[must_use]
    pub fn under(mut self, conditions: Vec<Condition>) -> Change {
        self.conditions.extend(conditions);
        self
    }

    /// Adds the encoding of the value.
    #[must_use]
    pub fn encoded_as(self, encoded: Option<StoredValue>) -> Change {
        Change { encoded, ..self }
    }

    /// Sets the time to live of the written value. A deletion ignores it.
    #[must_use]
    pub fn with_ttl(mut self, time_to_live: Duration) -> Change {
        if let Op::Put { ttl, .. } = &mut self.op {
            *ttl = Some(time_to_live);
        }
        self
    }
}

/// The response to a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResponse {
    /// The records in key order.
    pub records: Vec<Record>,
    /// The number of records of the interval beyond the limit; 0 if all were returned.
    pub remaining: u64,
    /// The revision at which the range was read.
    pub revision: Revision,
}

/// A part of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage {
    /// The records in key order.
    pub records: Vec<Record>,
    /// True if the interval has no records after these.
    pub is_last: bool,
}

/// One committed change, as the change feed delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// The revision of the change.
    pub revision: Revision,
    /// The changed key.
    pub key: Key,
    /// The new value, see [`Record::value`]. `None` is a deletion, by a writer or because the time to live has passed.
    pub value: Option<Bytes>,
    /// True if the stored form of the value is stale, see [`Record::stale`]. Only the retained history has stale
    /// values: the value of a live change has just been transformed.
    pub stale: bool,
}

/// A run of consecutive changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The changes, in order of their revisions.
    pub changes: Vec<StoredChange>,
    /// Every change up to this revision has been delivered.
    pub complete_to: Revision,
}

/// A feed of the changes of a store after a revision, like an etcd watch from a revision.
pub trait ChangeFeed: fmt::Debug + Send {
    /// Waits for changes and returns all available ones. The batch is empty if the store has reached a later revision
    /// only by changes that the feed does not contain.
    ///
    /// Dropping the future loses no change. Returns [`Error::Closed`] after the last change of a closed store. Returns
    /// [`Error::Compacted`] if a slow reader needs history that has been compacted.
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch>;

    /// The revision up to which this feed has delivered every change.
    fn complete_to(&self) -> Revision;
}

/// The data keys of an encrypted store.
pub trait StoreKeys: Send + Sync {
    /// The data keys and the number of records that each of them encrypts.
    fn status(&self) -> EncryptionStatus;

    /// Adds a new data key, which encrypts all later records. Earlier records are encrypted again in the background, and
    /// then the earlier data keys are removed. Returns when the new data key is stored. It is wrapped with the current
    /// key-encryption key.
    ///
    /// # Errors
    /// The data key cannot be wrapped or stored.
    fn rotate(&self) -> StoreFuture<'_, ()>;
}

/// The future that the methods of [`Store`] and [`ChangeFeed`] return.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An ordered, multi-version key-value store.
///
/// Dropping the future of a commit does not cancel the change. The caller then does not know whether the change is
/// committed, as after a lost connection.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The revision of the last committed change. A consistent read waits for it.
    fn current_revision(&self) -> StoreFuture<'_, Revision>;

    /// Reads the record of `key`, at the current revision or at a retained one.
    ///
    /// Returns [`Error::Compacted`] below the oldest revision and [`Error::FutureRevision`] above the current one.
    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>>;

    /// Reads the records in `interval`, at the current revision or at a retained one, at most `limit` of them.
    ///
    /// Returns the same errors as [`Store::get`].
    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse>;

    /// Reads records like [`Store::range`], but does not count the records beyond the limit.
    ///
    /// Returns the same errors as [`Store::get`].
    fn page(&self, interval: KeyInterval, at: Option<Revision>, limit: usize) -> StoreFuture<'_, RecordPage> {
        Box::pin(async move {
            let RangeResponse { records, remaining, .. } = self.range(interval, at, Some(limit)).await?;
            Ok(RecordPage { records, is_last: remaining == 0 })
        })
    }

    /// Reads records like [`Store::page`] at the current revision, but returns the stored forms of their values.
    fn stored_page(&self, interval: KeyInterval, limit: usize) -> StoreFuture<'_, RecordPage> {
        self.page(interval, None, limit)
    }

    /// Commits one change if its compare and its conditions on other keys hold, and returns the revision of the change.
    /// If the compare does not hold, it returns [`Error::Conflict`] with the current record. If only a condition does
    /// not hold, it returns [`Error::ConditionFailed`].
    ///
    /// When this returns, the change is as durable as the engine makes it, and the change feeds have it. Changes of
    /// concurrent callers may share one durable commit; each change gets its own revision.
    fn commit(&self, change: Change) -> StoreFuture<'_, Revision>;

    /// Watches the changes after `from`, in order: first the retained history, then each new change as it is committed.
    /// Together with a range read at `from` the feed neither misses nor repeats a change. Returns [`Error::Compacted`]
    /// if `from` is below [`Store::oldest_revision`]. Returns [`Error::FutureRevision`] if `from` is above the current
    /// revision.
    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>>;

    /// Compacts the history. Once this returns, reads and feeds from below this revision fail. The engine frees the
    /// space later, in small steps.
    ///
    /// Returns the same errors as [`Store::get`] if the revision is already compacted or not yet committed.
    fn compact(&self, before: Revision) -> StoreFuture<'_, ()>;

    /// True if the history takes memory of this process, so that compaction frees memory.
    fn keeps_history_in_memory(&self) -> bool {
        false
    }

    /// The oldest revision at which the store can be read and from which a feed is complete.
    fn oldest_revision(&self) -> StoreFuture<'_, Revision>;

    /// True if the stored form of the key's value has become stale since it was written or read, see [`Record::stale`].
    ///
    /// Returns the same errors as [`Store::get`].
    fn is_stale(&self, _key: Key) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(false) })
    }

    /// The keys that expire, with their expiry times.
    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>>;

    /// The commit time of the newest change, by the clock of the server that committed it, if the engine records times.
    fn newest_commit_time(&self) -> StoreFuture<'_, Option<Timestamp>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the reason if the store cannot serve reads or writes now.
    ///
    /// This method neither blocks nor does I/O, so that a health endpoint can call it for every request. An engine over
    /// the network returns the result of its own background probe.
    fn health(&self) -> Result<(), Error>;

    /// Reports whether reads are answered without delay, in addition to [`health`](Self::health).
    ///
    /// # Errors
    /// The reason why clients should rather ask another server.
    fn readiness(&self) -> Result<(), Error> {
        self.health()
    }

    /// The metrics of the engine, if it has any.
    fn metrics(&self) -> Option<&StoreMetrics> {
        None
    }

    /// The data keys with which the engine encrypts everything that it stores, if it does.
    fn keys(&self) -> Option<&dyn StoreKeys> {
        None
    }

    /// The size of the stored data, in bytes, if the engine knows it. May do a little I/O.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Commits the queued changes, ends the feeds, stops the engine's threads and closes its files.
    ///
    /// Every later call returns [`Error::Closed`]. Closing twice is not an error.
    fn close(&self) -> StoreFuture<'_, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefix: &str, inside: &[&str], outside: &[&str]) {
        let interval = KeyInterval::prefix(prefix);
        for key in inside {
            assert!(interval.contains(key), "{key:?} begins with {prefix:?}");
        }
        for key in outside {
            assert!(!interval.contains(key), "{key:?} does not begin with {prefix:?}");
        }
    }

    #[test]
    fn prefix_interval_contains_exactly_the_keys_with_the_prefix() {
        check("", &["", "a", "\u{10ffff}"], &[]);
        check("/pods/", &["/pods/", "/pods/a", "/pods/\u{10ffff}"], &["/pods", "/pods0", "/poe"]);
        check("a\u{d7ff}", &["a\u{d7ff}", "a\u{d7ff}z"], &["a\u{e000}", "a\u{d7fe}"]);
        check("a\u{7f}", &["a\u{7f}b"], &["a\u{80}", "b"]);
        check("\u{10ffff}", &["\u{10ffff}", "\u{10ffff}a"], &["a"]);
    }
}
