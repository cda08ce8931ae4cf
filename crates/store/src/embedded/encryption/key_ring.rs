//! The data keys of a store. The newest key seals, and all keys open. Three keys are derived from a data key. They are
//! for the cipher, for the codes of rows, and for the codes of acknowledged revisions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_locks::{Mutex, RwLock};
use pintle_sealing::{Cipher, CodeKey, Nonce, SealError, SecretKey};
use rusqlite::{Connection, params};

use super::row_tally::RowCode;
use super::wrapper::{KeyWrapError, KeyWrapper, WrappedKey};
use crate::embedded::file::{self, FileAccess, FileError};
use crate::embedded::log::unsigned_column;

/// A data key seals no more texts than this, whatever happens (see `MAX_SEALINGS`).
const LAST_SEALING: u64 = (1 << 32) - (1 << 20);

/// The table of the wrapped data keys.
pub(in crate::embedded) const DATA_KEYS_SCHEMA: &str = "CREATE TABLE data_keys (
    id INTEGER PRIMARY KEY,
    wrapped_with TEXT NOT NULL,
    wrapped BLOB NOT NULL
) STRICT";

/// The number of a data key in its store. A newer key has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::embedded) struct DataKeyId(pub(in crate::embedded) u32);

impl DataKeyId {
    /// The number of the first data key of a store.
    pub(super) const FIRST: DataKeyId = DataKeyId(1);

    /// # Errors
    /// The numbers are used up.
    pub(super) fn next(self) -> Result<DataKeyId, FileError> {
        let next = self.0.checked_add(1).map(DataKeyId);
        next.ok_or_else(|| {
            FileError::Encryption("it has had as many data keys as there are numbers for them".to_owned())
        })
    }
}

/// A part of the file that is sealed on its own. It is authenticated with the sealed text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The header of the row with this revision.
    Header(u64),
    /// The value of the row with this revision, and the nonce of the row's header.
    Value(u64, Nonce),
    /// The meta record.
    Meta,
}

impl Part {
    /// The text that is authenticated. Its first byte tells the parts apart.
    fn context(self, key: DataKeyId) -> [u8; 25] {
        let (part, revision, nonce) = match self {
            Part::Header(revision) => (1, revision, Nonce::default()),
            Part::Value(revision, header) => (2, revision, header),
            Part::Meta => (3, 0, Nonce::default()),
        };
        let mut context = [0; 25];
        context[0] = part;
        context[1..5].copy_from_slice(&key.0.to_le_bytes());
        context[5..13].copy_from_slice(&revision.to_le_bytes());
        context[13..].copy_from_slice(&nonce);
        context
    }
}

/// A data key.
pub(super) struct DataKey {
    pub(super) id: DataKeyId,
    secret: SecretKey,
    cipher: Cipher,
    row_codes: CodeKey,
    acknowledged_codes: CodeKey,
    /// The number of sealed texts. After a crash, the last transaction may be missing.
    sealings: AtomicU64,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DataKey {
    pub(super) fn new(id: DataKeyId, secret: SecretKey) -> DataKey {
        DataKey {
            id,
            cipher: Cipher::new(&secret.derive(b"seal")),
            row_codes: CodeKey::new(&secret.derive(b"rows")),
            acknowledged_codes: CodeKey::new(&secret.derive(b"acknowledged")),
            secret,
            sealings: AtomicU64::new(0),
        }
    }

    /// Seals a part of the file. The nonces are random, although each row has its own revision. A transaction that fails
    /// gives its revisions to the next transaction, and the file system may show both. A nonce from the revision would
    /// be used twice then.
    pub(super) fn seal(&self, nonce: Nonce, plain: &[u8], part: Part) -> Result<Vec<u8>, FileError> {
        if self.sealings.fetch_add(1, Ordering::Relaxed) >= LAST_SEALING {
            let why = format!("its data key {} has sealed too many texts, and no new data key can be made", self.id.0);
            return Err(FileError::Encryption(why));
        }
        Ok(self.cipher.seal(nonce, plain, &part.context(self.id))?)
    }

    /// Returns the plaintext of an authentic sealed text.
    pub(super) fn open(&self, sealed: &[u8], part: Part) -> Option<Vec<u8>> {
        self.cipher.open(sealed, &part.context(self.id))
    }

    /// The code of the row whose header has this nonce. A key uses a nonce once, so the nonce identifies the header,
    /// which is authentic for one revision. The value is authentic with this header only.
    pub(super) fn row_code(&self, header: &Nonce) -> RowCode {
        RowCode { key: self.id, code: self.row_codes.code(&[header]) }
    }

    pub(super) fn sealings(&self) -> u64 {
        self.sealings.load(Ordering::Relaxed)
    }

    /// Continues the number that the file has.
    pub(super) fn continue_sealings(&self, sealings: u64) {
        self.sealings.fetch_max(sealings, Ordering::Relaxed);
    }
}

impl From<SealError> for FileError {
    fn from(error: SealError) -> FileError {
        FileError::Io(std::io::Error::other(error))
    }
}

/// A data key, and its form in the file.
#[derive(Clone, Debug)]
struct StoredKey {
    key: Arc<DataKey>,
    wrapped: WrappedKey,
}

/// The data keys of a store.
#[derive(Debug)]
pub(in crate::embedded) struct KeyRing {
    wrapper: Arc<dyn KeyWrapper>,
    max_sealings: u64,
    /// The keys by id. It is empty until the file is read. It may have keys that are not in the file any more, because the
    /// reading thread still uses them.
    keys: RwLock<Vec<StoredKey>>,
    in_file: Mutex<FileKeys>,
    /// Why records still have an older key, if that cannot be changed.
    problem: Mutex<Option<String>>,
}

/// The ids of the data keys in the file. The meta record has them, too, so that nobody can put a key into the file.
#[derive(Debug, Default)]
struct FileKeys {
    committed: Vec<DataKeyId>,
    /// The ids after the open transaction, if it changes them.
    staged: Option<Vec<DataKeyId>>,
}

/// The state of a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyState {
    pub(super) id: DataKeyId,
    pub(super) wrapped_with: String,
    pub(super) sealings: u64,
}

impl KeyRing {
    pub(super) fn new(wrapper: Arc<dyn KeyWrapper>, max_sealings: u64) -> KeyRing {
        let (keys, in_file, problem) = (RwLock::default(), Mutex::default(), Mutex::default());
        KeyRing { wrapper, max_sealings, keys, in_file, problem }
    }

    /// The number of sealed texts after which a data key is replaced.
    pub(super) fn max_sealings(&self) -> u64 {
        self.max_sealings
    }

    /// The data keys, the oldest first.
    pub(super) fn ids(&self) -> Vec<DataKeyId> {
        self.keys.read().iter().map(|stored| stored.key.id).collect()
    }

    /// Wraps a data key, and checks that it can be unwrapped again. Otherwise the store could not be opened any more.
    fn wrap(&self, key: &SecretKey) -> Result<WrappedKey, KeyWrapError> {
        let wrapped = self.wrapper.wrap(key)?;
        match self.wrapper.unwrap(&wrapped)?.bytes() == key.bytes() {
            true => Ok(wrapped),
            false => Err(KeyWrapError("the wrapped key is unwrapped to another key".to_owned())),
        }
    }

    /// The ids of the keys that the file has after the open transaction.
    pub(super) fn ids_in_file(&self) -> Vec<DataKeyId> {
        let in_file = self.in_file.lock();
        in_file.staged.as_ref().unwrap_or(&in_file.committed).clone()
    }

    /// Records that the open transaction adds a key to the file.
    pub(super) fn stage_added(&self, id: DataKeyId) {
        let mut in_file = self.in_file.lock();
        let ids = in_file.committed.iter().copied().chain([id]).collect();
        in_file.staged = Some(ids);
    }

    /// Records that the open transaction removes keys from the file.
    pub(super) fn stage_removed(&self, ids: &[DataKeyId]) {
        let mut in_file = self.in_file.lock();
        let kept = in_file.committed.iter().copied().filter(|id| !ids.contains(id)).collect();
        in_file.staged = Some(kept);
    }

    /// Ends the open transaction.
    pub(super) fn end_transaction(&self, is_committed: bool) {
        let mut in_file = self.in_file.lock();
        if let Some(staged) = in_file.staged.take().filter(|_| is_committed) {
            in_file.committed = staged;
        }
    }

    /// Why records still have an older key, if that cannot be changed.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    pub(super) fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock() = problem;
    }

    /// Makes a random data key and wraps it. May block.
    pub(super) fn make_key(&self) -> Result<(SecretKey, WrappedKey), FileError> {
        let secret = SecretKey::random().map_err(|error| KeyWrapError(error.to_string()));
        let made = secret.and_then(|secret| self.wrap(&secret).map(|wrapped| (secret, wrapped)));
        made.map_err(|error| FileError::Encryption(format!("a data key cannot be wrapped: {error}")))
    }

    /// Wraps all data keys again. May block.
    pub(super) fn wrap_again(&self) -> Result<Vec<(DataKeyId, WrappedKey)>, FileError> {
        let keys: Vec<Arc<DataKey>> = self.keys.read().iter().map(|stored| stored.key.clone()).collect();
        let wrap = |key: Arc<DataKey>| match self.wrap(&key.secret) {
            Ok(wrapped) => Ok((key.id, wrapped)),
            Err(error) => Err(FileError::Encryption(format!("its data key {} cannot be wrapped: {error}", key.id.0))),
        };
        keys.into_iter().map(wrap).collect()
    }

    /// Writes the first data key of a new file.
    pub(in crate::embedded) fn create(&self, connection: &Connection) -> Result<(), FileError> {
        let (secret, wrapped) = self.make_key()?;
        insert(connection, DataKeyId::FIRST, &wrapped)?;
        self.add(DataKey::new(DataKeyId::FIRST, secret), wrapped);
        self.in_file.lock().committed = vec![DataKeyId::FIRST];
        Ok(())
    }

    /// Reads the data keys of the file, before anything is written. Other errors than a missing key are ignored here,
    /// because they are found again.
    pub(in crate::embedded) fn check(&self, path: &std::path::Path, access: &FileAccess) -> Result<(), FileError> {
        match file::open_reader(path, access).and_then(|connection| self.load(&connection)) {
            Err(error @ FileError::Encryption(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the data keys of the file. Keys that are known are not unwrapped again. Keys that the file does not have are
    /// forgotten: they may have been in a log that was put aside.
    pub(in crate::embedded) fn load(&self, connection: &Connection) -> Result<(), FileError> {
        let mut statement = connection.prepare("SELECT id, wrapped_with, wrapped FROM data_keys ORDER BY id")?;
        let rows = statement.query_map([], |row| {
            Ok((unsigned_column(row, 0)?, WrappedKey { wrapped_with: row.get(1)?, bytes: row.get(2)? }))
        })?;
        let mut ids = Vec::new();
        for row in rows {
            let (id, wrapped) = row?;
            let id = u32::try_from(id).map_err(|_| FileError::Corrupted(format!("it has a data key {id}")))?;
            if self.key(DataKeyId(id)).is_none() {
                let unwrapped = self.wrapper.unwrap(&wrapped);
                let secret = unwrapped.map_err(|error| {
                    FileError::Encryption(format!(
                        "it is encrypted, and its data key {id} cannot be unwrapped: {error}"
                    ))
                })?;
                self.add(DataKey::new(DataKeyId(id), secret), wrapped);
            }
            ids.push(DataKeyId(id));
        }
        self.keys.write().retain(|stored| ids.contains(&stored.key.id));
        *self.in_file.lock() = FileKeys { committed: ids, staged: None };
        self.newest().map(drop)
    }

    /// Adds a new key, or a key of the file.
    pub(super) fn add(&self, key: DataKey, wrapped: WrappedKey) {
        let mut keys = self.keys.write();
        keys.push(StoredKey { key: Arc::new(key), wrapped });
        keys.sort_by_key(|stored| stored.key.id);
    }

    /// Records that keys are wrapped again.
    pub(super) fn set_wrapped(&self, wrapped: Vec<(DataKeyId, WrappedKey)>) {
        let mut keys = self.keys.write();
        for (id, wrapped) in wrapped {
            keys.iter_mut().filter(|stored| stored.key.id == id).for_each(|stored| stored.wrapped = wrapped.clone());
        }
    }

    /// Forgets a key that no row needs any more.
    pub(super) fn remove(&self, id: DataKeyId) {
        self.keys.write().retain(|stored| stored.key.id != id);
    }

    /// The key that seals.
    pub(super) fn newest(&self) -> Result<Arc<DataKey>, FileError> {
        let newest = self.keys.read().last().map(|stored| stored.key.clone());
        newest.ok_or_else(|| FileError::Corrupted("it has no data key".to_owned()))
    }

    pub(super) fn key(&self, id: DataKeyId) -> Option<Arc<DataKey>> {
        self.keys.read().iter().find(|stored| stored.key.id == id).map(|stored| stored.key.clone())
    }

    pub(super) fn states(&self) -> Vec<KeyState> {
        let state = |stored: &StoredKey| KeyState {
            id: stored.key.id,
            wrapped_with: stored.wrapped.wrapped_with.clone(),
            sealings: stored.key.sealings(),
        };
        self.keys.read().iter().map(state).collect()
    }

    /// The code of an acknowledged revision, with the newest key.
    pub(in crate::embedded) fn acknowledged_code(&self, revision: u64) -> Option<(DataKeyId, [u8; 32])> {
        let key = self.newest().ok()?;
        Some((key.id, key.acknowledged_codes.code(&[&revision.to_le_bytes()])))
    }

    /// Checks the code of an acknowledged revision.
    pub(in crate::embedded) fn is_acknowledged_code(&self, key: DataKeyId, revision: u64, code: &[u8]) -> bool {
        self.key(key).is_some_and(|key| key.acknowledged_codes.has_code(&[&revision.to_le_bytes()], code))
    }
}

pub(super) fn insert(connection: &Connection, id: DataKeyId, wrapped: &WrappedKey) -> Result<(), FileError> {
    let statement = "INSERT INTO data_keys (id, wrapped_with, wrapped) VALUES (?1, ?2, ?3)";
    connection.execute(statement, params![id.0, wrapped.wrapped_with, wrapped.bytes])?;
    Ok(())
}

pub(super) fn update(connection: &Connection, id: DataKeyId, wrapped: &WrappedKey) -> Result<(), FileError> {
    let statement = "UPDATE data_keys SET wrapped_with = ?2, wrapped = ?3 WHERE id = ?1";
    connection.execute(statement, params![id.0, wrapped.wrapped_with, wrapped.bytes])?;
    Ok(())
}

pub(super) fn delete(connection: &Connection, id: DataKeyId) -> Result<(), FileError> {
    connection.execute("DELETE FROM data_keys WHERE id = ?1", [id.0])?;
    Ok(())
}
