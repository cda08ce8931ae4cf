//! The durable engine: one SQLite file (WAL mode, `synchronous=FULL`), written by one thread with group commit. Only
//! the change log grows in the file; the index of the keys is in memory.

mod acknowledged;
mod checkpoint;
mod commit_queue;
mod committer;
mod compaction;
mod encryption;
mod file;
mod health;
mod index;
mod log;
mod meta;
mod opening;
mod plain_rows;
mod reader;
mod recovery;
mod row_format;
mod structure;
mod wal;

use pintle_locks::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

use self::acknowledged::AcknowledgedFile;
use self::checkpoint::CheckpointGate;
use self::commit_queue::{CommitQueue, CommitRequest, PreparedOp};
use self::committer::{Committer, CommitterEnd};
use self::encryption::KeyRequests;
pub use self::encryption::{
    DataKeyStatus, EncryptionStatus, KeyWrapError, KeyWrapper, StoreEncryption, StoreKeyFile, UnencryptedStore,
    WrappedKey,
};
use self::file::{DataDir, FileAccess, FileError};
use self::health::{COMMITTER, EngineHealth, READER, ThreadEndGuard};
use self::index::KeyIndex;
use self::log::LogRow;
use self::opening::{OpenedFile, Opener};
use self::reader::{ReadRequest, StoreReader};
use self::recovery::{Reopener, Writer};
use self::row_format::RowFormat;
use crate::feed::{FeedPublisher, HistoryReader};
use crate::transformer::{StoredForm, is_stale, read_in_place, read_record};
use crate::{
    Change, ChangeFeed, Clock, Error, HistoryRetention, IdentityTransformer, Key, KeyInterval, Op, RangeResponse,
    Record, RecordPage, Revision, Store, StoreFuture, StoreKeys, StoreMetrics, StoredChange, SystemClock, Timestamp,
    ValueTransformer,
};

/// The maximum size of a key and its value. It is far above the API server's limit and far below SQLite's limit.
const MAX_ENTRY_BYTES: usize = 64 << 20;

/// The options of an embedded store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// How much history is retained.
    pub retention: HistoryRetention,
    /// Converts values to and from their stored form.
    pub transformer: Arc<dyn ValueTransformer>,
    /// The clock for leases and retention.
    pub clock: Arc<dyn Clock>,
    /// The VFS that replaces the operating system's. Tests simulate power loss with it.
    pub vfs: Option<Vfs>,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// The revision after which lost acknowledged changes are accepted. If changes after it are lost, the store is
    /// opened without them. It skips revisions, so that no revision is given out twice. If nothing is lost, this has no
    /// effect.
    pub accepted_loss: Option<Revision>,
    /// Encrypts everything that the store writes. An encrypted store cannot be opened without it.
    pub encryption: Option<StoreEncryption>,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the change is synced to the disk.
    #[default]
    Synced,
    /// When the operating system has the change. A crash of the process loses nothing. A crash of the machine may lose
    /// everything, also older changes (as etcd with `--unsafe-no-fsync`).
    Unsynced,
}

/// A SQLite VFS, and functions that access the store's files with it but without SQLite.
#[derive(Clone, Debug)]
pub struct Vfs {
    /// The name of a registered SQLite VFS.
    pub name: String,
    /// Writes the content of a file again, in place, with the VFS of this name, and syncs it. If the file does not
    /// exist, it is not created.
    pub rewrite: fn(vfs: &str, file: &Path) -> std::io::Result<()>,
    /// Called before bytes are written to a file without SQLite, at this offset. `sync` tells whether they are synced
    /// afterwards. An error fails the write.
    pub write: fn(vfs: &str, file: &Path, offset: u64, bytes: &[u8], sync: bool) -> std::io::Result<()>,
}

impl Default for EmbeddedOptions {
    fn default() -> EmbeddedOptions {
        EmbeddedOptions {
            retention: HistoryRetention::default(),
            transformer: Arc::new(IdentityTransformer),
            clock: Arc::new(SystemClock),
            vfs: None,
            durability: Durability::Synced,
            accepted_loss: None,
            encryption: None,
        }
    }
}

impl EmbeddedOptions {
    fn access(&self) -> FileAccess {
        let format = self
            .encryption
            .as_ref()
            .map_or(RowFormat::Plain, |encryption| RowFormat::Sealed(Arc::new(encryption.key_ring())));
        FileAccess { vfs: self.vfs.clone(), durability: self.durability, format }
    }
}

/// A store in a data directory.
pub struct EmbeddedStore {
    shared: Arc<EngineState>,
    reader: Arc<ReaderHandle>,
    /// The committing thread, which joins the reading thread before it ends.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the engine's threads and its callers share.
#[derive(Debug)]
struct EngineState {
    path: PathBuf,
    access: FileAccess,
    clock: Arc<dyn Clock>,
    transformer: Arc<dyn ValueTransformer>,
    index: Mutex<KeyIndex>,
    queue: CommitQueue,
    checkpoint_gate: CheckpointGate,
    acknowledged: AcknowledgedFile,
    publisher: Arc<FeedPublisher>,
    key_requests: KeyRequests,
    health: EngineHealth,
    metrics: StoreMetrics,
}

/// Stops the queue and ends the feeds when the committing thread ends for any reason.
struct CloseOnDrop<'c>(&'c EngineState);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.queue.stop();
        drop(self.0.queue.take_up_to(usize::MAX));
        self.0.key_requests.close();
        self.0.publisher.close();
    }
}

/// The channel to the reading thread; `None` after the store is closed.
struct ReaderHandle(Mutex<Option<mpsc::Sender<ReadRequest>>>);

impl fmt::Debug for ReaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReaderHandle")
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in a data directory, and reads the log once. Creates the directory and the store if they do not
    /// exist. Blocks until all this is done.
    pub fn open(data_dir: &Path, options: EmbeddedOptions) -> Result<EmbeddedStore, Error> {
        let data_dir = DataDir::lock(data_dir)?;
        let access = options.access();
        let is_encrypted = data_dir.ensure_store_file(&access)?;
        let refused = |detail: &str| Err(Error::Encryption { path: data_dir.store_file(), detail: detail.to_owned() });
        match &options.encryption {
            None if is_encrypted => return refused("it is encrypted, and needs --encrypt-store with its keys"),
            Some(encryption) if !is_encrypted => match encryption.unencrypted {
                UnencryptedStore::Refuse => {
                    return refused("it is not encrypted; start once with --encrypt-existing-store to encrypt it");
                }
                UnencryptedStore::Convert => {
                    encryption::convert(&data_dir, &access, options.retention, options.accepted_loss)?;
                }
            },
            _ => {}
        }
        Self::open_locked(Arc::new(data_dir), access, options)
    }

    /// True if a data directory has a store.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn exists_in(data_dir: &Path) -> Result<bool, Error> {
        let path = data_dir.join(file::STORE_FILE);
        path.try_exists().map_err(|error| Error::Io { path, detail: error.to_string() })
    }

    /// Creates a store with one value in a data directory that has no store. Its revisions continue another store's
    /// revisions: the value gets the revision after `previous`, and all earlier history counts as compacted. A crash
    /// leaves either the store with the value or no store.
    ///
    /// # Errors
    /// The directory has a store, or cannot be written.
    pub fn create(
        data_dir: &Path,
        previous: Revision,
        key: Key,
        value: Bytes,
        options: EmbeddedOptions,
    ) -> Result<EmbeddedStore, Error> {
        let data_dir = DataDir::lock(data_dir)?;
        let stored = options.transformer.transform_to_storage(&key, value);
        let stored = stored.map_err(|error| error.of(&key))?;
        let revision = previous.max(Revision::EMPTY).next();
        let first = LogRow {
            revision,
            key,
            create_revision: revision,
            previous: None,
            time: options.clock.now(),
            expires: None,
            value: Some(stored.bytes),
        };
        let access = options.access();
        data_dir.create_store_file(&first, &access)?;
        Self::open_locked(Arc::new(data_dir), access, options)
    }

    /// Adds a new data key, which seals all later records. Earlier records are sealed again in the background, and then
    /// the earlier data keys are removed; [`EmbeddedStore::encryption_status`] shows the progress. Returns when the new
    /// data key is in the file.
    ///
    /// # Errors
    /// The store is not encrypted, the data key cannot be wrapped, or the file cannot be written.
    pub fn rotate_key(&self) -> StoreFuture<'_, ()> {
        self.change_keys(false)
    }

    /// Wraps the data keys again with the current key-encryption key. Afterwards the earlier key-encryption keys are not
    /// needed any more.
    ///
    /// # Errors
    /// The store is not encrypted, the data keys cannot be wrapped, or the file cannot be written.
    pub fn rewrap(&self) -> StoreFuture<'_, ()> {
        self.change_keys(true)
    }

    fn change_keys(&self, rewrap: bool) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let shared = &self.shared;
            let RowFormat::Sealed(ring) = &shared.access.format else {
                return Err(Error::Encryption { path: shared.path.clone(), detail: "it is not encrypted".to_owned() });
            };
            encryption::change_keys(shared, ring, rewrap)?.await.unwrap_or(Err(Error::Closed))
        })
    }

    /// The data keys and the number of records that each of them seals. `None` if the store is not encrypted.
    pub fn encryption_status(&self) -> Option<EncryptionStatus> {
        match &self.shared.access.format {
            RowFormat::Plain => None,
            RowFormat::Sealed(ring) => Some(encryption::status(ring, &self.shared.index.lock().rows)),
        }
    }

    fn open_locked(
        data_dir: Arc<DataDir>,
        access: FileAccess,
        options: EmbeddedOptions,
    ) -> Result<EmbeddedStore, Error> {
        let path = data_dir.store_file();
        let EmbeddedOptions { retention, transformer, clock, accepted_loss, .. } = options;
        let acknowledged = AcknowledgedFile::beside(&path, access.clone());
        let opener = Opener { path: &path, access: &access, acknowledged: &acknowledged, retention, accepted_loss };
        let opened = opener.open().map_err(|error: FileError| error.into_error(&path))?;
        let OpenedFile { writer: write_connection, reader: read_connection, index, is_prepared } = opened;
        let compact_revision = index.compact_revision;
        let publisher = Arc::new(FeedPublisher::new(index.revision));
        let (index, queue) = (Mutex::new(index), CommitQueue::default());
        let shared = Arc::new(EngineState {
            path,
            access,
            clock,
            transformer,
            index,
            queue,
            checkpoint_gate: CheckpointGate::default(),
            acknowledged,
            publisher,
            key_requests: KeyRequests::default(),
            health: EngineHealth::default(),
            metrics: StoreMetrics::default(),
        });

        let (sender, receiver) = mpsc::channel();
        let reader = Arc::new(ReaderHandle(Mutex::new(Some(sender))));
        let reader_handle = Arc::clone(&reader);
        let reader_data_dir = Arc::clone(&data_dir);
        let reader_thread = spawn_thread(READER, reader_data_dir, Arc::clone(&shared), move |shared| {
            let mut connection = read_connection;
            loop {
                let reader = StoreReader::new(shared, &connection).map_err(|error| error.into_error(&shared.path))?;
                let Some(handover) = reader.run(&receiver) else { break };
                drop(connection);
                let Some(reopened) = handover.finish() else {
                    // The committing thread reports why it ends, and then ends this thread. Until then reads fail.
                    while receiver.recv().is_ok() {}
                    break;
                };
                connection = reopened;
            }
            Ok(())
        })?;
        let work = move |shared: &Arc<EngineState>| {
            let mut writer = Some(Writer { connection: write_connection, is_prepared, compact_revision });
            let outcome = {
                // The guard is dropped before the reading thread ends, so that this thread is reported and not the
                // other one.
                let end_guard = ThreadEndGuard { health: &shared.health, thread: COMMITTER };
                let _close_guard = CloseOnDrop(shared);
                let reopener = Reopener { shared, reader: &reader_handle, retention };
                commit_until_stopped(shared, &reader_handle, &mut writer, &reopener)
                    .inspect_err(|error| end_guard.fail(error.clone()))
            };
            // Only the last connection to close can checkpoint the whole WAL, so the reading thread closes its
            // connection first.
            reader_handle.close();
            join(reader_thread);
            // The committing thread may not have noticed that the last checkpoint of the reading thread has failed.
            if let (Some(writer), Ok(true)) = (&writer, &outcome)
                && !shared.checkpoint_gate.has_failed()
            {
                file::checkpoint_on_close(&writer.connection);
            }
            drop(writer);
            outcome.map(drop)
        };
        let thread = spawn_thread(COMMITTER, data_dir, Arc::clone(&shared), work)?;
        Ok(EmbeddedStore { shared, reader, thread: Mutex::new(Some(thread)) })
    }

    fn lock_open_index(&self) -> Result<pintle_locks::MutexGuard<'_, KeyIndex>, Error> {
        if self.shared.queue.is_stopped() { Err(Error::Closed) } else { Ok(self.shared.index.lock()) }
    }

    fn prepare_request(
        &self,
        change: Change,
    ) -> Result<(CommitRequest, oneshot::Receiver<Result<Revision, Error>>), Error> {
        let Change { key, compare, op, conditions, encoded: _ } = change;
        let op = match op {
            Op::Delete => PreparedOp::Delete,
            Op::Put { value, ttl } => {
                let transformed = self.shared.transformer.transform_to_storage(&key, value.clone());
                let stored = transformed.map_err(|error| error.of(&key))?.bytes;
                let size = key.len() + stored.len();
                if size > MAX_ENTRY_BYTES {
                    return Err(Error::TooLarge { key, size, limit: MAX_ENTRY_BYTES });
                }
                PreparedOp::Put { value, stored, expires: ttl.map(|ttl| self.shared.clock.now().after(ttl)) }
            }
        };
        let (reply, response) = oneshot::channel();
        Ok((CommitRequest { key, compare, op, conditions, reply }, response))
    }

    /// Makes both threads end after their queued work.
    fn stop(&self) -> Option<JoinHandle<()>> {
        self.shared.health.set_closed();
        self.reader.close();
        self.shared.queue.stop();
        self.thread.lock().take()
    }
}

/// Commits until the queue is stopped and empty, and opens the file again when necessary. Returns true if the log may
/// be copied to the file when the file is closed.
fn commit_until_stopped(
    shared: &Arc<EngineState>,
    reader: &Arc<ReaderHandle>,
    writer: &mut Option<Writer>,
    reopener: &Reopener<'_>,
) -> Result<bool, Error> {
    let mut failure = None;
    while let Some(Writer { connection, is_prepared, compact_revision }) = &*writer {
        let mut committer = Committer::new(shared, Arc::clone(reader), connection, *compact_revision)
            .map_err(|error| error.into_error(&shared.path))?;
        if !is_prepared {
            committer = committer.on_full_disk();
        }
        if let Some(sync_failure) = failure.take() {
            committer = committer.after_failed_sync(sync_failure);
        }
        match committer.run() {
            CommitterEnd::Stopped { can_checkpoint } => return Ok(can_checkpoint),
            CommitterEnd::Reopen(mut sync_failure) => {
                let open = writer.take();
                *writer = reopener.reopen(open, &mut sync_failure)?;
                failure = Some(sync_failure);
            }
        }
    }
    Ok(false)
}

/// Starts a thread that holds the lock on the data directory for as long as it can access the file.
fn spawn_thread(
    name: &'static str,
    data_dir: Arc<DataDir>,
    shared: Arc<EngineState>,
    work: impl FnOnce(&Arc<EngineState>) -> Result<(), Error> + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let path = shared.path.clone();
    let body = move || {
        let guard = ThreadEndGuard { health: &shared.health, thread: name };
        if let Err(error) = work(&shared) {
            tracing::error!(%error, thread = name, "Store thread failed");
            guard.fail(error);
        }
        drop(guard);
        drop(data_dir);
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| Error::Io { path, detail: error.to_string() })
}

impl ReaderHandle {
    /// Makes the reading thread end after its queued requests.
    fn close(&self) {
        self.0.lock().take();
    }

    fn is_closed(&self) -> bool {
        self.0.lock().is_none()
    }

    fn send(&self, request: ReadRequest) -> Result<(), Error> {
        match &*self.0.lock() {
            Some(reader) => reader.send(request).map_err(|_| Error::Closed),
            None => Err(Error::Closed),
        }
    }

    /// Runs a read on the reading thread and waits for the result.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut StoreReader<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (request, response) = reader::request(read);
        self.send(request)?;
        response.await.unwrap_or(Err(Error::Closed))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(thread) = self.stop() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    // The panic hook has already reported a panic of the thread.
    let _ = thread.join();
}

impl Store for EmbeddedStore {
    fn current_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async { Ok(self.lock_open_index()?.revision) })
    }

    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            match self.reader.read(move |reader| reader.get(&key, at)).await? {
                Some(record) => read_record(&*self.shared.transformer, record).await.map(Some),
                None => Ok(None),
            }
        })
    }

    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse> {
        Box::pin(async move {
            let mut found = self.reader.read(move |reader| reader.range(&interval, at, limit)).await?;
            read_in_place(&*self.shared.transformer, found.records.iter_mut().map(StoredForm::from)).await;
            Ok(found)
        })
    }

    fn page(&self, interval: KeyInterval, at: Option<Revision>, limit: usize) -> StoreFuture<'_, RecordPage> {
        Box::pin(async move {
            let mut found = self.reader.read(move |reader| reader.page(&interval, at, limit)).await?;
            read_in_place(&*self.shared.transformer, found.records.iter_mut().map(StoredForm::from)).await;
            Ok(found)
        })
    }

    fn stored_page(&self, interval: KeyInterval, limit: usize) -> StoreFuture<'_, RecordPage> {
        Box::pin(self.reader.read(move |reader| reader.page(&interval, None, limit)))
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        Box::pin(async move {
            let (request, response) = self.prepare_request(change)?;
            self.shared.queue.submit(request)?;
            let mut result = response.await.unwrap_or(Err(Error::Closed));
            if let Err(Error::Conflict { current: Some(current) }) = &mut result {
                read_in_place(&*self.shared.transformer, [StoredForm::from(&mut **current)]).await;
            }
            result
        })
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(async move {
            let index = self.lock_open_index()?;
            let from = index.resolve_revision(Some(from))?;
            let transformer = self.shared.transformer.clone();
            let history = Arc::new(FileHistory { reader: Arc::downgrade(&self.reader), transformer });
            Ok(Box::new(self.shared.publisher.subscribe(from, history)) as Box<dyn ChangeFeed>)
        })
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let mut index = self.lock_open_index()?;
            index.compact_revision = index.resolve_revision(Some(before))?;
            drop(index);
            self.shared.queue.request_maintenance();
            Ok(())
        })
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(async { Ok(self.lock_open_index()?.compact_revision) })
    }

    fn is_stale(&self, key: Key) -> StoreFuture<'_, bool> {
        Box::pin(is_stale(self, &*self.shared.transformer, key))
    }

    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>> {
        Box::pin(async {
            let index = self.lock_open_index()?;
            Ok(index.expiries.iter().map(|((due, _), key)| (key.clone(), *due)).collect())
        })
    }

    fn newest_commit_time(&self) -> StoreFuture<'_, Option<Timestamp>> {
        Box::pin(async { Ok(self.lock_open_index()?.newest_time) })
    }

    fn health(&self) -> Result<(), Error> {
        self.shared.health.check(&self.shared.path)
    }

    fn metrics(&self) -> Option<&StoreMetrics> {
        Some(&self.shared.metrics)
    }

    fn keys(&self) -> Option<&dyn StoreKeys> {
        match self.shared.access.format {
            RowFormat::Plain => None,
            RowFormat::Sealed(_) => Some(self),
        }
    }

    fn size_bytes(&self) -> Option<u64> {
        let log = std::fs::metadata(file::log_path(&self.shared.path)).map_or(0, |log| log.len());
        std::fs::metadata(&self.shared.path).ok().map(|file| file.len() + log)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let Some(thread) = self.stop() else { return Ok(()) };
            let (closed_sender, closed) = oneshot::channel();
            // Joining blocks, and a future must not block.
            let joiner = std::thread::Builder::new().name("store-close".to_owned()).spawn(move || {
                join(thread);
                // The caller may have dropped its future.
                let _ = closed_sender.send(());
            });
            joiner.map_err(|error| Error::Io { path: self.shared.path.clone(), detail: error.to_string() })?;
            // The sender is dropped only after the thread has ended.
            let _ = closed.await;
            Ok(())
        })
    }
}

impl StoreKeys for EmbeddedStore {
    fn status(&self) -> EncryptionStatus {
        self.encryption_status().unwrap_or_else(|| EncryptionStatus { data_keys: Vec::new(), problem: None })
    }

    fn rotate(&self) -> StoreFuture<'_, ()> {
        self.rotate_key()
    }
}

/// Reads the history from the file for a feed. A feed does not keep the store open.
#[derive(Debug)]
struct FileHistory {
    reader: Weak<ReaderHandle>,
    transformer: Arc<dyn ValueTransformer>,
}

impl HistoryReader for FileHistory {
    fn read_page(&self, after: Revision, until: Revision, limit: usize) -> StoreFuture<'_, Vec<StoredChange>> {
        Box::pin(async move {
            let reader = self.reader.upgrade().ok_or(Error::Closed)?;
            let mut changes = reader.read(move |reader| reader.read_page(after, until, limit)).await?;
            drop(reader);
            read_in_place(&*self.transformer, changes.iter_mut().filter_map(StoredForm::of_change)).await;
            Ok(changes)
        })
    }
}
