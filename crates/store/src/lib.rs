//! The storage contract and its engines: an ordered, durable, multi-version key-value store with a change feed.
//!
//! The semantics are etcd's (one revision counter, compare on a key's revision, history until compaction); nothing in
//! here knows what a key or a value means.

mod clock;
mod contract;
mod embedded;
mod error;
mod feed;
mod memory;
mod transformer;
mod window;

pub use clock::{Clock, ManualClock, Sleep, SystemClock, Timestamp};
pub use contract::{Change, Committed, Expect, Key, Op, Pending, Range, Record, Revision, Span, Store, StoredChange};
pub use embedded::{Embedded, Options};
pub use error::Error;
pub use feed::{Batch, ChangeFeed};
pub use memory::Memory;
pub use transformer::{Decoded, Identity, TransformError, Transformer};
pub use window::Window;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even when another thread died holding it: every critical section in this crate leaves its state whole
/// before anything that could fail.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
