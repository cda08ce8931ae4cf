//! Encryption of the whole store. Each row and the meta record are sealed on their own. The file has the data keys in
//! wrapped form. SQLite sees only sealed records, so its log and its temporary files have nothing else.
//!
//! **Protected.** Without a key-encryption key, nobody can read or change keys, values, times or revisions of records. A
//! change, a move to another revision, a removal, and a return of an older record are noticed. They are noticed at the
//! start, or when the record is read.
//!
//! **Not protected.** The number of records, their revisions and sizes, and the time of writes are visible. An attacker
//! who can write can destroy the store, and can put back an older state of the whole directory. Nothing in the directory
//! tells that state from the newest one; compare the revision with a revision from elsewhere. An attacker can also put a
//! plain store in place. It is converted unless [`UnencryptedStore::Refuse`] is set. A process that runs has the data
//! keys and values in memory.
//!
//! The authenticated data needs no id of the store, because each store has data keys of its own.

mod conversion;
mod key_file;
mod key_ring;
mod rotation;
mod row_tally;
pub(super) mod sealed_meta;
pub(super) mod sealed_rows;
mod wrapper;

use std::sync::Arc;

pub(super) use self::conversion::convert;
pub use self::key_file::StoreKeyFile;
pub(super) use self::key_ring::{DATA_KEYS_SCHEMA, DataKeyId, KeyRing};
pub(super) use self::rotation::{KeyChanger, KeyRequests, change_keys};
pub(super) use self::row_tally::{RowCode, RowSum, RowTally};
pub use self::wrapper::{KeyWrapError, KeyWrapper, WrappedKey};

/// A data key is replaced after this number of sealed texts. With random nonces, a key may seal 2^32 texts (NIST SP
/// 800-38D, 8.3). A crash can lose the count of one transaction, and a replacement can take a while.
const DEFAULT_MAX_SEALINGS: u64 = 1 << 30;
const LARGEST_MAX_SEALINGS: u64 = 1 << 31;

/// The encryption of an embedded store.
#[derive(Clone, Debug)]
pub struct StoreEncryption {
    /// Wraps the data keys.
    pub wrapper: Arc<dyn KeyWrapper>,
    /// The treatment of a store that is not encrypted yet.
    pub unencrypted: UnencryptedStore,
    /// The number of sealed texts after which a data key is replaced. A change has two texts, and each transaction has
    /// one more. More than 2^31 counts as 2^31.
    pub max_sealings: u64,
}

impl StoreEncryption {
    /// The data keys of a store that is not open yet.
    pub(super) fn key_ring(&self) -> KeyRing {
        KeyRing::new(Arc::clone(&self.wrapper), self.max_sealings.min(LARGEST_MAX_SEALINGS))
    }

    /// Encrypts with data keys that this wrapper wraps.
    #[must_use]
    pub fn new(wrapper: Arc<dyn KeyWrapper>) -> Self {
        Self { wrapper, unencrypted: UnencryptedStore::default(), max_sealings: DEFAULT_MAX_SEALINGS }
    }
}

/// The treatment of an existing store that is not encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnencryptedStore {
    /// It is converted when it is opened.
    #[default]
    Convert,
    /// It is refused. So nobody can replace an encrypted store by a plain store.
    Refuse,
}

/// The encryption of an open store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// The data keys, the oldest first. The last one seals new records.
    pub data_keys: Vec<DataKeyStatus>,
    /// Why records still have an older data key, if that cannot be changed.
    pub problem: Option<String>,
}

/// The state of a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataKeyStatus {
    /// The number of the key. A newer key has a larger number.
    pub id: u32,
    /// The id of the key-encryption key that wraps it.
    pub wrapped_with: String,
    /// The number of records that are sealed with it.
    pub records: u64,
    /// The approximate number of texts that it has sealed.
    pub sealings: u64,
}

/// The state of the data keys, with the rows of the log.
pub(super) fn status(ring: &KeyRing, rows: &RowTally) -> EncryptionStatus {
    let status = |state: key_ring::KeyState| DataKeyStatus {
        id: state.id.0,
        records: rows.rows(state.id),
        wrapped_with: state.wrapped_with,
        sealings: state.sealings,
    };
    EncryptionStatus { data_keys: ring.states().into_iter().map(status).collect(), problem: ring.problem() }
}
