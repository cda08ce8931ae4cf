//! The contract that every engine fulfils, modelled on etcd's key-value API (revisions, compare and commit, watch from
//! a revision, compaction). An engine is used as `Arc<dyn Store>`, so that the server does not know which one it has.

use std::borrow::Borrow;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{ChangeFeed, Error};

/// A position in a store's history. Every committed change takes the next one.
///
/// An empty store is at revision 1 and its first change gets 2, as in etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store to which nothing was ever written.
    pub const EMPTY: Revision = Revision(1);

    /// The number itself.
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

/// A half-open interval of keys, `start` included, `end` (when there is one) not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first key of the interval.
    pub start: Key,
    /// The first key beyond the interval; `None` means up to the last key.
    pub end: Option<Key>,
}

impl Span {
    /// Every key of the store.
    pub fn all() -> Span {
        Span { start: Key::from(""), end: None }
    }

    /// The keys from `start` up to, not including, `end`.
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> Span {
        Span { start: start.into(), end: Some(end.into()) }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &str) -> Span {
        Span { start: Key::from(prefix), end: successor(prefix).map(Key::from) }
    }

    /// Whether `key` lies in the interval.
    pub fn contains(&self, key: &str) -> bool {
        *key >= *self.start && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Whether no key can lie in the interval.
    pub(crate) fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The least string above every string that begins with `prefix`; `None` when there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // Code points sort as their UTF-8 bytes do, so the next scalar value is the next string; surrogates are no
        // scalar values.
        let above = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(above) = above {
            text.push(above);
            return Some(text);
        }
    }
    None
}

/// One value as it is or was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is stored.
    pub key: Key,
    /// What is stored, as the writer gave it (the transformer's work is undone).
    pub value: Bytes,
    /// The change that wrote this value.
    pub mod_revision: Revision,
    /// The change that created the key in its present life.
    pub create_revision: Revision,
    /// The stored form is outdated (an old encryption key, say): write the value again even when it did not change.
    pub stale: bool,
}

/// What must hold of a key for a change to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and its last change has this revision.
    At(Revision),
    /// Nothing.
    Any,
}

/// What a change does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores a value, with an optional time to live after which the store itself deletes it.
    Put {
        /// The value.
        value: Bytes,
        /// How long the value lives; `None` means until it is deleted. A later put replaces this.
        ttl: Option<Duration>,
    },
    /// Removes the key. A key that does not exist cannot be deleted: that is a conflict, whatever is expected.
    Delete,
}

/// One change to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key to change.
    pub key: Key,
    /// The condition under which to change it.
    pub expect: Expect,
    /// What to do.
    pub op: Op,
}

impl Change {
    /// Stores a value under a key that must not exist.
    pub fn create(key: impl Into<Key>, value: impl Into<Bytes>) -> Change {
        Change { key: key.into(), expect: Expect::Absent, op: Op::Put { value: value.into(), ttl: None } }
    }

    /// Replaces the value that was last changed at `seen`.
    pub fn update(key: impl Into<Key>, seen: Revision, value: impl Into<Bytes>) -> Change {
        Change { key: key.into(), expect: Expect::At(seen), op: Op::Put { value: value.into(), ttl: None } }
    }

    /// Stores a value whatever is there.
    pub fn put(key: impl Into<Key>, value: impl Into<Bytes>) -> Change {
        Change { key: key.into(), expect: Expect::Any, op: Op::Put { value: value.into(), ttl: None } }
    }

    /// Deletes a key under a condition.
    pub fn delete(key: impl Into<Key>, expect: Expect) -> Change {
        Change { key: key.into(), expect, op: Op::Delete }
    }

    /// Gives the stored value a time to live. Has no effect on a deletion.
    #[must_use]
    pub fn with_ttl(mut self, time_to_live: Duration) -> Change {
        if let Op::Put { ttl, .. } = &mut self.op {
            *ttl = Some(time_to_live);
        }
        self
    }
}

/// The answer to a committed change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The change's own revision.
    pub revision: Revision,
    /// What was there before.
    pub previous: Option<Record>,
}

/// The answer to a range read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The records found, in key order.
    pub records: Vec<Record>,
    /// How many records of the interval lie beyond the limit; 0 when all were returned.
    pub remaining: u64,
    /// The revision at which the answer is true.
    pub revision: Revision,
}

/// One change as the feed tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// The change's revision.
    pub revision: Revision,
    /// The key that it changed.
    pub key: Key,
    /// The new value; `None` is a deletion (by a writer, or because the time to live passed).
    pub value: Option<Bytes>,
    /// The change that created the key in the life that this change belongs to (or ends).
    pub create_revision: Revision,
}

/// A future as the contract's methods return it.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// An ordered, multi-version key-value store.
///
/// Dropping the future of a commit does not take the change back: whether it is committed is then unknown to the
/// caller, as with a lost connection.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The revision of the last committed change. What a consistent read waits for.
    fn current_revision(&self) -> Pending<'_, Revision>;

    /// The record under `key`, now or as it was at a revision of the window.
    ///
    /// Fails with [`Error::Compacted`] below the window and [`Error::Future`] above the current revision.
    fn get(&self, key: Key, at: Option<Revision>) -> Pending<'_, Option<Record>>;

    /// The records in `span`, now or as they were at a revision of the window, at most `limit` of them.
    ///
    /// Fails as [`Store::get`] does.
    fn range(&self, span: Span, at: Option<Revision>, limit: Option<usize>) -> Pending<'_, Range>;

    /// Commits one change if its condition holds; otherwise fails with [`Error::Conflict`], which carries what is there.
    ///
    /// When this returns, the change is as durable as the engine makes it and the feed has it. Changes of concurrent
    /// callers may share one durable commit, each with its own revision.
    fn commit(&self, change: Change) -> Pending<'_, Committed>;

    /// The changes after `from`, in order: first those that the store kept, then each new one as it is committed.
    ///
    /// Together with a range read at `from` this misses nothing and repeats nothing. Fails with [`Error::Compacted`]
    /// when `from` is below [`Store::oldest_revision`] and [`Error::Future`] when it is above the current revision.
    fn changes(&self, from: Revision) -> Pending<'_, ChangeFeed>;

    /// Forgets what is needed only for reads and feeds from before this revision. Returns when reads below it fail;
    /// the space is given back in small steps later.
    ///
    /// Fails as [`Store::get`] does when the revision is already compacted or not yet committed.
    fn compact(&self, before: Revision) -> Pending<'_, ()>;

    /// The oldest revision at which the store can be read and from which a feed is complete.
    fn oldest_revision(&self) -> Pending<'_, Revision>;

    /// Commits what is queued, ends the feeds, stops the engine's threads and lets go of its files.
    ///
    /// Everything called afterwards fails with [`Error::Closed`]. Closing twice is no error.
    fn close(&self) -> Pending<'_, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefix: &str, inside: &[&str], outside: &[&str]) {
        let span = Span::prefix(prefix);
        for key in inside {
            assert!(span.contains(key), "{key:?} begins with {prefix:?}");
        }
        for key in outside {
            assert!(!span.contains(key), "{key:?} does not begin with {prefix:?}");
        }
    }

    #[test]
    fn prefixes() {
        check("", &["", "a", "\u{10ffff}"], &[]);
        check("/pods/", &["/pods/", "/pods/a", "/pods/\u{10ffff}"], &["/pods", "/pods0", "/poe"]);
        check("a\u{d7ff}", &["a\u{d7ff}", "a\u{d7ff}z"], &["a\u{e000}", "a\u{d7fe}"]);
        check("a\u{7f}", &["a\u{7f}b"], &["a\u{80}", "b"]);
        check("\u{10ffff}", &["\u{10ffff}", "\u{10ffff}a"], &["a"]);
    }
}
