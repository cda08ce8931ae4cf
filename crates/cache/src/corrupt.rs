//! Stored objects that cannot be decrypted or decoded: the revisions between which they are corrupt, and the reason. A
//! watch cache keeps them apart from its object versions, so that they cost other objects nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_value::Str;

use crate::{Key, KeyRange, Object};

/// Why a stored object cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptReason {
    /// The reason.
    pub text: Str,
    /// True if the value cannot be decrypted. It may be readable later, with other keys.
    pub is_encrypted: bool,
}

/// An object that cannot be decoded.
impl From<String> for CorruptReason {
    fn from(text: String) -> Self {
        Self { text: text.into(), is_encrypted: false }
    }
}

/// A stored object that cannot be decrypted or decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptObject {
    /// `namespace/name`, or `name` if the kind is cluster-scoped.
    pub key: Key,
    /// The revision that wrote the object.
    pub revision: u64,
    /// The reason.
    pub reason: CorruptReason,
}

/// A period during which an object could not be served.
#[derive(Debug)]
struct CorruptPeriod {
    since: u64,
    /// The revision of the write that ended the period; `u64::MAX` while it lasts.
    until: u64,
    reason: CorruptReason,
    /// The last object before the period.
    last_object: Option<Arc<Object>>,
}

/// The corrupt objects of a watch cache.
#[derive(Debug, Default)]
pub(crate) struct CorruptObjects {
    /// The periods of each key, ascending by revision.
    by_key: BTreeMap<Key, Vec<CorruptPeriod>>,
    /// The number of objects that are corrupt now.
    corrupt_count: usize,
}

impl CorruptObjects {
    /// The number of objects that are corrupt now.
    pub(crate) fn corrupt_count(&self) -> usize {
        self.corrupt_count
    }

    /// Records that an object is corrupt from a revision on. `last_object` is the object before that revision.
    pub(crate) fn insert(&mut self, key: Key, since: u64, reason: CorruptReason, last_object: Option<Arc<Object>>) {
        self.corrupt_count += 1;
        self.by_key.entry(key).or_default().push(CorruptPeriod { since, until: u64::MAX, reason, last_object });
    }

    /// Records a write to a key. If the key was corrupt up to now, returns the last object before the corruption.
    pub(crate) fn resolve(&mut self, key: &str, revision: u64) -> Option<Option<Arc<Object>>> {
        if self.corrupt_count == 0 {
            return None;
        }
        let period = self.by_key.get_mut(key)?.last_mut().filter(|period| period.until == u64::MAX)?;
        period.until = revision;
        self.corrupt_count -= 1;
        Some(period.last_object.take())
    }

    /// The objects that cannot be decrypted now.
    pub(crate) fn encrypted(&self) -> impl Iterator<Item = (&Key, u64)> {
        let newest = self.by_key.iter().filter_map(|(key, periods)| Some((key, periods.last()?)));
        let is_encrypted = |period: &CorruptPeriod| period.until == u64::MAX && period.reason.is_encrypted;
        newest.filter(move |(_, period)| is_encrypted(period)).map(|(key, period)| (key, period.since))
    }

    /// The objects of a range that are corrupt at a revision, in key order.
    pub(crate) fn at(&self, range: &KeyRange, revision: u64) -> Vec<CorruptObject> {
        let of = self.by_key.iter().filter(|(key, _)| range.contains(key)).flat_map(|(key, periods)| {
            let then = periods.iter().filter(move |period| period.since <= revision && revision < period.until);
            then.map(|period| CorruptObject { key: key.clone(), revision: period.since, reason: period.reason.clone() })
        });
        of.collect()
    }

    /// Drops the periods that ended before the oldest readable revision.
    pub(crate) fn trim(&mut self, oldest: u64) {
        if self.by_key.is_empty() {
            return;
        }
        self.by_key.retain(|_, periods| {
            periods.retain(|period| period.until > oldest);
            !periods.is_empty()
        });
    }
}
