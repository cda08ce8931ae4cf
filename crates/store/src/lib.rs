//! The storage contract and its engines: an ordered, durable, multi-version key-value store with a change feed.
//!
//! The semantics are etcd's: one revision counter, compare on a key's mod revision, history until compaction. This
//! crate does not know what a key or a value means.

mod clock;
mod contract;
mod embedded;
mod error;
mod etcd;
mod feed;
mod memory;
mod metrics;
mod retention;
mod snapshot;
mod transformer;

pub use clock::{Clock, ManualClock, Sleep, SystemClock, Timestamp};
pub use contract::{
    Change, ChangeBatch, ChangeFeed, Compare, Condition, Key, KeyInterval, Op, RangeResponse, Record, RecordPage,
    Revision, Store, StoreFuture, StoredChange,
};
pub use embedded::{Durability, EmbeddedOptions, EmbeddedStore, Vfs};
pub use error::Error;
pub use etcd::{EtcdCertificateFiles, EtcdOptions, EtcdStore};
pub use memory::MemoryStore;
pub use metrics::StoreMetrics;
pub use retention::HistoryRetention;
pub use snapshot::StoreSnapshot;
pub use transformer::{
    IdentityTransformer, StoredValue, TransformError, TransformedValue, ValueTransformer, unreadable_reason,
};
