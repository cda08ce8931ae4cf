//! The storage contract and its engines: an ordered, durable, multi-version key-value store with a change feed.
//!
//! The semantics are etcd's: one revision counter, compare on a key's mod revision, history until compaction. This
//! crate does not know what a key or a value means.
//!
//! ```
//! use pintle_store::{Change, KeyInterval, MemoryStore, Store};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), pintle_store::Error> {
//!     let store = MemoryStore::new();
//!     let created = store.commit(Change::create("/pods/a", "one")).await?;
//!     let updated = store.commit(Change::update("/pods/a", created, "two")).await?;
//!     // Another writer has seen the first value only, so its change is refused.
//!     assert!(store.commit(Change::update("/pods/a", created, "three")).await.is_err());
//!
//!     let now = store.range(KeyInterval::prefix("/pods/"), None, None).await?;
//!     assert_eq!((&now.records[0].value[..], now.revision), (&b"two"[..], updated));
//!     let before = store.get("/pods/a".into(), Some(created)).await?;
//!     assert_eq!(before.expect("the key existed").value, "one");
//!     Ok(())
//! }
//! ```

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
    Revision, Store, StoreFuture, StoreKeys, StoredChange,
};
pub use embedded::{
    DataKeyStatus, Durability, EmbeddedOptions, EmbeddedStore, EncryptionStatus, KeyWrapError, KeyWrapper,
    StoreEncryption, StoreKeyFile, UnencryptedStore, Vfs, WrappedKey,
};
pub use error::Error;
pub use etcd::{EtcdCertificateFiles, EtcdOptions, EtcdStore};
pub use memory::MemoryStore;
pub use metrics::StoreMetrics;
pub use pintle_sealing::SecretKey;
pub use retention::HistoryRetention;
pub use snapshot::StoreSnapshot;
pub use transformer::{
    ExternalKey, IdentityTransformer, StoredValue, TransformError, TransformErrorKind, TransformedValue,
    ValueTransformer, unreadable_reason,
};
