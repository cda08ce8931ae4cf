//! Stored objects that cannot be read: since when, until when, and why. A log keeps them beside its versions, where they
//! are no objects, so that those that can be read cost nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_value::Str;

use crate::{Key, KeyRange, Object};

/// A stored object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptObject {
    /// `namespace/name`, or `name` in the cluster's scope.
    pub key: Key,
    /// The revision at which it was written so.
    pub revision: u64,
    /// Why it cannot be read.
    pub why: Str,
}

/// One time during which an object could not be read.
#[derive(Debug)]
struct CorruptPeriod {
    since: u64,
    /// The revision of the write that ended it; none has yet where this is `u64::MAX`.
    until: u64,
    why: Str,
    /// The object before.
    last: Option<Arc<Object>>,
}

/// The unreadable objects of a log.
#[derive(Debug, Default)]
pub(crate) struct CorruptObjects {
    /// Ascending by revision for each key.
    by_key: BTreeMap<Key, Vec<CorruptPeriod>>,
    /// How many objects cannot be read now.
    now: usize,
}

impl CorruptObjects {
    /// How many objects cannot be read now.
    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// An object cannot be read from a revision on; `last` was there before.
    pub(crate) fn begin(&mut self, key: Key, since: u64, why: Str, last: Option<Arc<Object>>) {
        self.now += 1;
        self.by_key.entry(key).or_default().push(CorruptPeriod { since, until: u64::MAX, why, last });
    }

    /// Someone has written a key. Gives what was there when it could still be read, if it could not up to now.
    pub(crate) fn end(&mut self, key: &str, revision: u64) -> Option<Option<Arc<Object>>> {
        if self.now == 0 {
            return None;
        }
        let fault = self.by_key.get_mut(key)?.last_mut().filter(|fault| fault.until == u64::MAX)?;
        fault.until = revision;
        self.now -= 1;
        Some(fault.last.take())
    }

    /// What cannot be read of a range at a revision, in the order of keys.
    pub(crate) fn at(&self, range: &KeyRange, revision: u64) -> Vec<CorruptObject> {
        let of = self.by_key.iter().filter(|(key, _)| range.contains(key)).flat_map(|(key, faults)| {
            let then = faults.iter().filter(move |fault| fault.since <= revision && revision < fault.until);
            then.map(|fault| CorruptObject { key: key.clone(), revision: fault.since, why: fault.why.clone() })
        });
        of.collect()
    }

    /// Forgets what had ended by the oldest revision that can be read.
    pub(crate) fn forget(&mut self, oldest: u64) {
        if self.by_key.is_empty() {
            return;
        }
        self.by_key.retain(|_, faults| {
            faults.retain(|fault| fault.until > oldest);
            !faults.is_empty()
        });
    }
}
