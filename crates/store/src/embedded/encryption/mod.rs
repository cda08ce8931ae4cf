//! Encryption of the whole store. Rows and the meta record are sealed one by one, with data keys that the file has in
//! wrapped form. SQLite sees only sealed records, so its log and its temporary files have nothing else.
//!
//! **What is protected.** Without a key-encryption key, nobody can read or change keys, values, times or revisions of
//! records. A record that is changed, moved to another revision, removed, put back after compaction or replaced by an
//! older record is noticed: at the start, or when it is read.
//!
//! **What is not protected.** The number of records, their revisions and sizes, and the time of writes are visible. An
//! attacker who can write can destroy the store, and can put back an older state of the whole directory. Nothing in the
//! directory tells that state from the newest one; compare the revision with a revision from elsewhere. A process that
//! runs has the data keys and values in memory.

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
/// 800-38D, 8.3).
const MAX_SEALINGS: u64 = 1 << 30;

/// The encryption of an embedded store.
#[derive(Clone, Debug)]
pub struct StoreEncryption {
    /// Wraps the data keys.
    pub wrapper: Arc<dyn KeyWrapper>,
    /// What happens to a store that is not encrypted yet.
    pub unencrypted: UnencryptedStore,
    /// The number of sealed texts after which a data key is replaced. A change has two texts, and each transaction has
    /// one more. At most 2^31.
    pub max_sealings: u64,
}

impl StoreEncryption {
    /// Encrypts with data keys that this wrapper wraps.
    #[must_use]
    pub fn new(wrapper: Arc<dyn KeyWrapper>) -> Self {
        Self { wrapper, unencrypted: UnencryptedStore::default(), max_sealings: MAX_SEALINGS }
    }
}

/// What happens to an existing store that is not encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnencryptedStore {
    /// It is converted when it is opened.
    #[default]
    Convert,
    /// It is refused. So nobody can replace an encrypted store by another one that is not encrypted.
    Refuse,
}

/// The encryption of an open store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// The data keys, the oldest first. The last one seals new records.
    pub data_keys: Vec<DataKeyStatus>,
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
    EncryptionStatus { data_keys: ring.states().into_iter().map(status).collect() }
}
