//! Changes of the data keys while the store is open. One transaction adds a new data key, which seals from the next
//! transaction. Then rows with older data keys are sealed again in small steps, which share transactions with commits. An older
//! data key is removed in a transaction when no row has it. A kill between two transactions loses nothing, because each
//! transaction leaves a complete file. The next start goes on.
//!
//! Wrapping may block, so it runs on a thread of its own.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_locks::Mutex;
use pintle_sealing::SecretKey;
use rusqlite::{Connection, Statement, ffi, params};
use tokio::sync::oneshot;

use super::key_ring::{self, DataKey, DataKeyId, KeyRing};
use super::row_tally::RowCode;
use super::sealed_rows::{self, SealedRow};
use super::wrapper::WrappedKey;
use crate::embedded::file::FileError;
use crate::embedded::log::{LogRow, LogWriter, to_sql_integer, unsigned_column};
use crate::embedded::row_format::RowFormat;
use crate::embedded::{EngineState, ReaderHandle};
use crate::{Error, Revision};

/// The number of rows that a step scans, and how long and how many bytes it seals.
const STEP_ROWS: usize = 512;
const MAX_STEP_TIME: Duration = Duration::from_millis(5);
const MAX_STEP_BYTES: usize = 1 << 20;

/// How many damaged records a text names.
const MAX_NAMED: usize = 10;

/// How long to wait after a failed attempt to replace or to remove a data key.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A change of the data keys that waits for the committing thread.
#[derive(Debug)]
struct KeyRequest {
    change: KeyChange,
    reply: oneshot::Sender<Result<(), Error>>,
}

#[derive(Debug)]
enum KeyChange {
    /// A new data key, and new forms of the older ones.
    Add(SecretKey, WrappedKey, Vec<(DataKeyId, WrappedKey)>),
    /// New forms of the data keys.
    Rewrap(Vec<(DataKeyId, WrappedKey)>),
}

/// The queue of the changes.
#[derive(Debug, Default)]
pub(in crate::embedded) struct KeyRequests {
    queue: Mutex<KeyQueue>,
    /// Held from the wrapping of keys until the change is in the queue.
    order: Mutex<()>,
}

#[derive(Debug, Default)]
struct KeyQueue {
    requests: VecDeque<KeyRequest>,
    is_closed: bool,
}

impl KeyRequests {
    fn push(&self, request: KeyRequest) {
        let mut queue = self.queue.lock();
        // A request that is dropped is answered: its caller sees that the store is closed.
        if !queue.is_closed {
            queue.requests.push_back(request);
        }
    }

    fn pop(&self) -> Option<KeyRequest> {
        self.queue.lock().requests.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.queue.lock().requests.is_empty()
    }

    /// Drops all requests and accepts no more.
    pub(in crate::embedded) fn close(&self) {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        queue.requests.clear();
    }
}

/// Makes a new data key, or wraps the data keys again if `rewrap` is true, on a thread of its own. Then the committing
/// thread writes the change. Returns the channel for the result.
pub(in crate::embedded) fn change_keys(
    shared: &Arc<EngineState>,
    ring: &Arc<KeyRing>,
    rewrap: bool,
) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
    let (reply, response) = oneshot::channel();
    let (state, ring) = (Arc::clone(shared), Arc::clone(ring));
    let work = move || {
        // Changes are written in the order of their wrapping, so that no earlier key-encryption key comes back.
        let order = state.key_requests.order.lock();
        let change = if rewrap {
            ring.wrap_again().map(KeyChange::Rewrap)
        } else {
            // The older keys are wrapped again, because a damaged record may keep one of them for long.
            let made = ring.make_key();
            made.and_then(|(secret, wrapped)| Ok(KeyChange::Add(secret, wrapped, ring.wrap_again()?)))
        };
        match change {
            Ok(change) => {
                state.key_requests.push(KeyRequest { change, reply });
                state.queue.request_maintenance();
                drop(order);
            }
            Err(error) => {
                // The caller may have dropped its future.
                let _ = reply.send(Err(error.into_error(&state.path)));
            }
        }
    };
    let thread = std::thread::Builder::new().name("store-keys".to_owned()).spawn(work);
    thread.map_err(|error| Error::Io { path: shared.path.clone(), detail: error.to_string() })?;
    Ok(response)
}

/// Changes the data keys and seals rows again. The committing thread owns it.
pub(in crate::embedded) struct KeyChanger<'c> {
    shared: &'c Arc<EngineState>,
    ring: Arc<KeyRing>,
    connection: &'c Connection,
    scan: Statement<'c>,
    row: Statement<'c>,
    update: Statement<'c>,
    /// Each row up to this revision has the newest data key, or is damaged.
    cursor: Revision,
    /// The cursor after the current transaction.
    next_cursor: Revision,
    /// Rows that cannot be sealed again.
    damaged: BTreeSet<Revision>,
    /// True if the scan has ended and rows with an older data key remain, because they are damaged.
    is_stuck: bool,
    /// The change in the current transaction.
    pending: Option<PendingChange>,
    /// Data keys that are no longer in the file, until the reading thread forgets them.
    removed: Vec<DataKeyId>,
    /// The new data key that was requested because the newest one has sealed many texts.
    replacement: Option<oneshot::Receiver<Result<(), Error>>>,
    /// No data key is removed before this time.
    remove_at: Option<Instant>,
    /// No new data key is requested before this time.
    replace_at: Option<Instant>,
}

/// A change in a transaction that is not committed yet.
struct PendingChange {
    kind: PendingKind,
    reply: Option<oneshot::Sender<Result<(), Error>>>,
}

enum PendingKind {
    /// The new key, and the older keys that are wrapped again.
    Added(Box<DataKey>, WrappedKey, Vec<(DataKeyId, WrappedKey)>),
    Rewrapped(Vec<(DataKeyId, WrappedKey)>),
    Removed(Vec<DataKeyId>),
}

impl<'c> KeyChanger<'c> {
    /// Creates it for an encrypted store.
    pub(in crate::embedded) fn new(
        shared: &'c Arc<EngineState>,
        connection: &'c Connection,
    ) -> Result<Option<KeyChanger<'c>>, FileError> {
        let RowFormat::Sealed(ring) = &shared.access.format else { return Ok(None) };
        let scan = "SELECT revision, data_key FROM log WHERE revision > ?1 ORDER BY revision LIMIT ?2";
        let update = "UPDATE log SET data_key = ?2, header = ?3, value = ?4 WHERE revision = ?1";
        Ok(Some(KeyChanger {
            shared,
            ring: Arc::clone(ring),
            connection,
            scan: connection.prepare(scan)?,
            row: connection.prepare("SELECT data_key, header, value FROM log WHERE revision = ?1")?,
            update: connection.prepare(update)?,
            cursor: Revision(0),
            next_cursor: Revision(0),
            damaged: BTreeSet::new(),
            is_stuck: false,
            pending: None,
            removed: Vec::new(),
            replacement: None,
            remove_at: None,
            replace_at: None,
        }))
    }

    /// True if a transaction has something to do now.
    pub(in crate::embedded) fn has_work(&self) -> bool {
        let can_continue = !self.is_stuck && !self.waits() && self.older_keys().next().is_some();
        can_continue || !self.shared.key_requests.is_empty()
    }

    /// The data keys of the file without the newest one.
    fn older_keys(&self) -> impl Iterator<Item = DataKeyId> {
        let mut ids = self.ring.ids();
        ids.pop();
        ids.into_iter().filter(|id| !self.removed.contains(id))
    }

    /// True if a data key cannot be removed now.
    fn waits(&self) -> bool {
        self.remove_at.is_some_and(|remove_at| Instant::now() < remove_at)
    }

    /// When there is work again, without a request.
    pub(in crate::embedded) fn next_attempt(&self) -> Option<Instant> {
        let is_waiting = self.waits() && self.older_keys().next().is_some();
        self.remove_at.filter(|_| is_waiting)
    }

    /// Does a part of the work inside the open transaction, which may have changes of callers. Returns the approximate
    /// number of written pages.
    pub(in crate::embedded) fn run_step(
        &mut self,
        writer: &mut LogWriter<'_>,
        has_changes: bool,
    ) -> Result<usize, FileError> {
        self.next_cursor = self.cursor;
        if let Some(KeyRequest { change, reply }) = self.shared.key_requests.pop() {
            self.apply(change, reply)?;
            writer.set_changed();
            return Ok(1);
        }
        if self.waits() || self.older_keys().next().is_none() {
            return Ok(0);
        }
        let unused: Vec<DataKeyId> = self.older_keys().filter(|id| writer.tally().rows(*id) == 0).collect();
        if !unused.is_empty() {
            return self.remove_keys(unused, writer);
        }
        // Beside a damaged row, SQLite may fail to write the next one. This must not fail the changes of callers.
        let is_risky = has_changes && !self.damaged.is_empty();
        if self.is_stuck || is_risky { Ok(0) } else { self.seal_rows(writer) }
    }

    fn apply(&mut self, change: KeyChange, reply: oneshot::Sender<Result<(), Error>>) -> Result<(), FileError> {
        // The reply is stored before anything can fail, so that a failure of the transaction reaches the caller.
        let pending = self.pending.insert(PendingChange { kind: PendingKind::Removed(Vec::new()), reply: Some(reply) });
        pending.kind = match change {
            KeyChange::Add(secret, wrapped, rewrapped) => {
                let id = self.ring.newest()?.id.next()?;
                key_ring::insert(self.connection, id, &wrapped)?;
                for (id, wrapped) in &rewrapped {
                    key_ring::update(self.connection, *id, wrapped)?;
                }
                self.ring.stage_added(id);
                PendingKind::Added(Box::new(DataKey::new(id, secret)), wrapped, rewrapped)
            }
            KeyChange::Rewrap(wrapped) => {
                for (id, wrapped) in &wrapped {
                    key_ring::update(self.connection, *id, wrapped)?;
                }
                PendingKind::Rewrapped(wrapped)
            }
        };
        Ok(())
    }

    /// Removes data keys that no row has. The acknowledged revision must not need them either.
    fn remove_keys(&mut self, unused: Vec<DataKeyId>, writer: &mut LogWriter<'_>) -> Result<usize, FileError> {
        if let Err(error) = self.shared.acknowledged.rewrite() {
            let path = self.shared.path.display();
            tracing::warn!(%error, %path, "Failed to remove an old data key, will retry");
            self.remove_at = Some(Instant::now() + RETRY_INTERVAL);
            return Ok(0);
        }
        for id in &unused {
            key_ring::delete(self.connection, *id)?;
        }
        self.ring.stage_removed(&unused);
        self.pending = Some(PendingChange { kind: PendingKind::Removed(unused), reply: None });
        writer.set_changed();
        Ok(1)
    }

    /// Seals the next rows again whose data key is not the newest one. A damaged row keeps its data key, and blocks neither
    /// the other rows nor commits.
    fn seal_rows(&mut self, writer: &mut LogWriter<'_>) -> Result<usize, FileError> {
        let started = Instant::now();
        let scanned = match self.scan_rows() {
            Ok(scanned) => scanned,
            Err(error) => {
                let path = self.shared.path.display();
                tracing::error!(%path, after = %self.cursor, ?error, "Failed to read the records that an old data key seals");
                self.is_stuck = is_damage(&error);
                if self.is_stuck {
                    self.ring.set_problem(Some(format!("records after revision {} cannot be read", self.cursor)));
                }
                return self.go_on_after(error).map(|()| 0);
            }
        };
        if scanned.is_empty() {
            let path = self.shared.path.display();
            tracing::error!(%path, "Failed to seal all records with the newest data key, because some are damaged");
            self.is_stuck = true;
            self.ring.set_problem(Some(self.damage()));
        }
        let mut bytes = 0;
        for (revision, is_older) in scanned {
            if is_older && !self.damaged.contains(&revision) {
                match self.read_row(revision) {
                    Ok((row, old)) => bytes += self.seal_row(&row, &old, writer)?,
                    Err(error) => {
                        if is_damage(&error) {
                            let path = self.shared.path.display();
                            tracing::error!(%path, %revision, ?error, "Failed to seal a record with the newest data key");
                            self.damaged.insert(revision);
                        }
                        self.go_on_after(error)?;
                        self.next_cursor = revision;
                        break;
                    }
                }
            }
            self.next_cursor = revision;
            if bytes > MAX_STEP_BYTES || started.elapsed() > MAX_STEP_TIME {
                break;
            }
        }
        Ok(bytes.div_ceil(3500))
    }

    /// Says which records keep an older data key.
    fn damage(&self) -> String {
        let named: Vec<String> = self.damaged.iter().take(MAX_NAMED).map(Revision::to_string).collect();
        let more = if self.damaged.len() > MAX_NAMED { ", …" } else { "" };
        format!(
            "{} damaged records keep an older data key (revisions {}{more}): write or delete their objects, and wait until the \
             history does not have them any more",
            self.damaged.len(),
            named.join(", ")
        )
    }

    /// Returns an error if the transaction cannot go on after this error of a read. SQLite rolls a transaction back if the
    /// disk fails. The next transaction skips the row.
    fn go_on_after(&self, error: FileError) -> Result<(), FileError> {
        if is_damage(&error) && !self.connection.is_autocommit() { Ok(()) } else { Err(error) }
    }

    /// The next rows, and whether they have an older data key.
    fn scan_rows(&mut self) -> Result<Vec<(Revision, bool)>, FileError> {
        let newest = u64::from(self.ring.newest()?.id.0);
        let mut scanned = Vec::new();
        let mut rows = self.scan.query([to_sql_integer(self.cursor.0), STEP_ROWS as i64])?;
        while let Some(row) = rows.next()? {
            scanned.push((Revision(unsigned_column(row, 0)?), unsigned_column(row, 1)? != newest));
        }
        Ok(scanned)
    }

    fn read_row(&mut self, revision: Revision) -> Result<(LogRow, RowCode), FileError> {
        let ring = &self.ring;
        self.row.query_row([to_sql_integer(revision.0)], |row| {
            let (header, value) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob_or_null()?);
            let key = u32::try_from(unsigned_column(row, 0)?).ok().and_then(|id| ring.key(DataKeyId(id)));
            let missing = || FileError::Corrupted(format!("the data key of revision {revision} is missing"));
            Ok(key.ok_or_else(missing).and_then(|key| sealed_rows::open_row(&key, revision, header, value, None)))
        })?
    }

    /// Seals a row again. Returns its size.
    fn seal_row(&mut self, row: &LogRow, old: &RowCode, writer: &mut LogWriter<'_>) -> Result<usize, FileError> {
        let SealedRow { key, header, value, code } = sealed_rows::seal(&self.ring, row)?;
        let updated = self.update.execute(params![to_sql_integer(row.revision.0), key.0, header, value]);
        if let Err(error) = updated.map_err(FileError::from) {
            // A failed statement may have changed a part of the file, so the transaction cannot go on.
            if is_damage(&error) {
                self.damaged.insert(row.revision);
            }
            return Err(error);
        }
        writer.replace(old, &code);
        Ok(header.len() + value.map_or(0, |value| value.len()))
    }

    /// Called when the transaction is committed.
    pub(in crate::embedded) fn finish(&mut self, reader: &ReaderHandle) {
        self.cursor = self.next_cursor;
        self.ring.end_transaction(true);
        if let Some(PendingChange { kind, reply }) = self.pending.take() {
            let path = self.shared.path.display();
            match kind {
                PendingKind::Added(key, wrapped, rewrapped) => {
                    tracing::info!(%path, data_key = key.id.0, "New data key of the store");
                    self.ring.set_wrapped(rewrapped);
                    self.ring.add(*key, wrapped);
                    (self.cursor, self.is_stuck) = (Revision(0), false);
                    self.damaged.clear();
                    self.ring.set_problem(None);
                }
                PendingKind::Rewrapped(wrapped) => self.ring.set_wrapped(wrapped),
                PendingKind::Removed(ids) => {
                    for id in ids {
                        self.removed.push(id);
                        tracing::info!(%path, data_key = id.0, "Removed an old data key of the store");
                        self.forget(id, reader);
                    }
                }
            }
            if let Some(reply) = reply {
                // The caller may have dropped its future.
                let _ = reply.send(Ok(()));
            }
        }
    }

    /// Called when the transaction has failed.
    pub(in crate::embedded) fn fail(&mut self, error: &Error) {
        self.ring.end_transaction(false);
        if let Some(PendingChange { reply: Some(reply), .. }) = self.pending.take() {
            // The caller may have dropped its future.
            let _ = reply.send(Err(error.clone()));
        }
    }

    /// Forgets a data key. A read that runs may still need it, so the reading thread forgets it between two reads.
    fn forget(&self, id: DataKeyId, reader: &ReaderHandle) {
        let ring = Arc::clone(&self.ring);
        if reader.send(Box::new(move |_| ring.remove(id))).is_err() {
            self.ring.remove(id);
        }
    }

    /// Requests a new data key if the newest one has sealed many texts.
    pub(in crate::embedded) fn replace_if_due(&mut self) {
        let failed = match self.replacement.as_mut().map(oneshot::Receiver::try_recv) {
            None => None,
            Some(Err(oneshot::error::TryRecvError::Empty)) => return,
            Some(Err(oneshot::error::TryRecvError::Closed)) => Some(Error::Closed),
            Some(Ok(result)) => result.err(),
        };
        self.replacement = None;
        if let Some(error) = failed {
            tracing::warn!(%error, "Failed to replace a data key of the store, will retry");
            self.replace_at = Some(Instant::now() + RETRY_INTERVAL);
        }
        let is_due = self.ring.newest().is_ok_and(|newest| newest.sealings() >= self.ring.max_sealings());
        if is_due && self.replace_at.is_none_or(|replace_at| Instant::now() >= replace_at) {
            self.replacement = change_keys(self.shared, &self.ring, false).ok();
        }
    }
}

/// True if a row cannot be read, so that another attempt would fail, too.
fn is_damage(error: &FileError) -> bool {
    match error {
        FileError::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) => {
            let is_unreadable = matches!(
                cause.extended_code,
                ffi::SQLITE_IOERR_READ
                    | ffi::SQLITE_IOERR_SHORT_READ
                    | ffi::SQLITE_IOERR_DATA
                    | ffi::SQLITE_IOERR_CORRUPTFS
            );
            error.is_corruption() || is_unreadable
        }
        // A column has another type.
        FileError::Sqlite(_) => true,
        error => error.is_corruption(),
    }
}
