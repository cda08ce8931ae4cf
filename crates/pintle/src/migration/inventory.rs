//! The content of a store at one revision: its keys in the order of their changes, and hashes of the copy's expected
//! values. Values are read page by page and not kept.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use pintle_store::{Key, KeyInterval, Record, Revision, Timestamp, ValueTransformer, unreadable_reason};
use sha2::{Digest as _, Sha256};

use super::progress::ProgressLogger;
use super::{MigrationError, Side, identity, marker_key};

/// How many values are read at once.
const PAGE: usize = 500;

pub(super) type ValueHash = [u8; 32];

pub(super) fn hash(value: &[u8]) -> ValueHash {
    Sha256::digest(value).into()
}

/// A key to copy.
#[derive(Debug)]
pub(super) struct Item {
    /// The key without the prefix.
    pub(super) path: Box<str>,
    /// The revision of its last change in the source.
    pub(super) revision: Revision,
    /// When the key expires.
    pub(super) expires: Option<Timestamp>,
    /// The hash of the value that the copy should have.
    pub(super) hash: ValueHash,
    /// How many bytes the value has in its stored form.
    pub(super) stored_size: usize,
}

/// The keys to copy.
#[derive(Debug)]
pub(super) struct Inventory {
    /// The revision of the source that is copied.
    pub(super) revision: Revision,
    /// The keys, in the order of their revisions.
    pub(super) items: Vec<Item>,
    /// The size of all values.
    pub(super) bytes: u64,
    values: ValueForm,
}

/// Converts values of the source to the form of the copy.
#[derive(Debug)]
struct ValueForm {
    /// The prefix of the keys of the copy.
    target_prefix: String,
    /// Reads the values of the source in the form of the server. It reads JSON of any version.
    read: Arc<dyn ValueTransformer>,
    /// The form of values in the copy.
    stored: Arc<dyn ValueTransformer>,
}

impl ValueForm {
    fn target_key(&self, path: &str) -> String {
        format!("{}/{path}", self.target_prefix)
    }

    /// The value that a server reads from the copy. Protobuf has no empty lists, so they become null.
    fn expected(&self, path: &str, value: &Bytes) -> Result<Bytes, String> {
        let key = self.target_key(path);
        let read = self.read.transform_from_storage(&key, value.clone()).map_err(|error| error.detail)?.value;
        let (copy, _) = self.after_storage(&key, &read)?;
        match copy == read || without_empty_lists(&copy) == without_empty_lists(&read) {
            true => Ok(copy),
            false => Err("the value is another one when it is read from its stored form".to_owned()),
        }
    }

    /// As [`expected`](Self::expected), and checks that the value stays the same when it is stored again. Also returns
    /// the size of its stored form.
    fn checked(&self, path: &str, value: &Bytes) -> Result<(Bytes, usize), String> {
        let expected = self.expected(path, value)?;
        match self.after_storage(&self.target_key(path), &expected)? {
            (read, size) if read == expected => Ok((expected, size)),
            _ => Err("the value changes each time it is stored".to_owned()),
        }
    }

    /// A value after a conversion to its stored form and back, and the size of the stored form.
    fn after_storage(&self, key: &str, value: &Bytes) -> Result<(Bytes, usize), String> {
        let stored = self.stored.transform_to_storage(key, value.clone()).map_err(|error| error.detail)?.bytes;
        let size = stored.len();
        let read = self.stored.transform_from_storage(key, stored).map_err(|error| error.detail)?;
        Ok((read.value, size))
    }
}

/// JSON with null for empty lists. Only comparisons use it.
fn without_empty_lists(json: &[u8]) -> String {
    String::from_utf8_lossy(json).replace(":[]", ":null")
}

impl Inventory {
    /// Reads a source. `form` converts values for the target; `None` if the target keeps the server's form.
    ///
    /// # Errors
    /// The source cannot be read, or values cannot be converted.
    pub(super) async fn read(
        source: &Side,
        target_prefix: &str,
        form: Option<Arc<dyn ValueTransformer>>,
    ) -> Result<Self, MigrationError> {
        let form = form.unwrap_or_else(identity);
        let values = ValueForm { target_prefix: target_prefix.to_owned(), read: form.clone(), stored: form };
        // The order matters: a key that expires in between is not in the inventory.
        let expiries = source.store.expiries().await.map_err(source.error())?;
        let revision = source.store.current_revision().await.map_err(source.error())?;
        let expiries: HashMap<Key, Timestamp> = expiries.into_iter().collect();
        let (mut items, mut unreadable, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut progress = ProgressLogger::start("read");
        let mut pages = Pages::new(source.interval());
        while let Some((records, remaining)) = pages.next(source, Some(revision)).await? {
            for record in records {
                let Some(path) = source.path(&record.key) else { continue };
                match readable(&record).and_then(|value| values.checked(path, &value)) {
                    Ok((value, stored_size)) => {
                        bytes += value.len() as u64;
                        items.push(Item {
                            path: path.into(),
                            revision: record.mod_revision,
                            expires: expiries.get(&record.key).copied(),
                            hash: hash(&value),
                            stored_size,
                        });
                    }
                    Err(why) => unreadable.push((record.key, why)),
                }
            }
            progress.log(items.len() as u64, items.len() as u64 + remaining);
        }
        if !unreadable.is_empty() {
            return Err(MigrationError::Unreadable(unreadable));
        }
        progress.end(items.len() as u64);
        // Keys of one transaction of etcd have the same revision.
        items.sort_by(|one, other| (one.revision, &one.path).cmp(&(other.revision, &other.path)));
        Ok(Self { revision, items, bytes, values })
    }

    /// Reads the value of an item for the copy.
    pub(super) async fn value(&self, source: &Side, item: &Item) -> Result<Bytes, MigrationError> {
        let key = source.key(&item.path);
        let found = source.store.get(key.clone(), Some(self.revision)).await.map_err(source.error())?;
        let value = match found {
            Some(found) => self.values.expected(&item.path, &found.value),
            None => Err("it is not there any more".to_owned()),
        };
        value.map_err(|why| MigrationError::Unreadable(vec![(key, why)]))
    }
}

/// The value of a record, or why it cannot be read.
fn readable(record: &Record) -> Result<Bytes, String> {
    unreadable_reason(&record.value).map_or_else(|| Ok(record.value.clone()), |error| Err(error.detail))
}

/// Reads the keys of an interval page by page, without the mark of a migration.
pub(super) struct Pages {
    rest: Option<KeyInterval>,
}

impl Pages {
    pub(super) fn new(interval: KeyInterval) -> Self {
        Self { rest: Some(interval) }
    }

    /// The next records, and how many more follow.
    pub(super) async fn next(
        &mut self,
        side: &Side,
        at: Option<Revision>,
    ) -> Result<Option<(Vec<Record>, u64)>, MigrationError> {
        let Some(mut interval) = self.rest.take() else { return Ok(None) };
        let range = side.store.range(interval.clone(), at, Some(PAGE)).await.map_err(side.error())?;
        if let Some(last) = range.records.last().filter(|_| range.remaining > 0) {
            // The smallest key greater than a key is the key and a zero byte.
            interval.start = format!("{}\0", last.key).into();
            self.rest = Some(interval);
        }
        let marker = marker_key(&side.prefix);
        let records = range.records.into_iter().filter(|record| record.key != marker).collect();
        Ok(Some((records, range.remaining)))
    }
}
