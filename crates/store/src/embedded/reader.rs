//! The reading thread. The server reads from its cache and uses the store only at start and when a feed needs history.
//! So one thread with one connection and little memory is enough. It never blocks the committing thread. It returns
//! values in their stored form.

use std::sync::mpsc;

use rusqlite::{Connection, Statement, Transaction};
use tokio::sync::oneshot;

use super::checkpoint;
use super::file::FileError;
use super::index::{IndexEntry, IndexedKey};
use super::log::{LogReader, LogRow, missing_row};
use super::{EngineState, ReaderHandle};
use crate::{Error, Key, KeyInterval, RangeResponse, Record, RecordPage, Revision, StoredChange};

/// The number of keys that are read from the index under one lock.
const MAX_CHUNK_KEYS: usize = 1024;

/// The maximum size of the values in a page of history.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// A read to run on the reading thread. The read sends its own result.
pub(super) type ReadRequest = Box<dyn FnOnce(&mut StoreReader<'_>) + Send>;

pub(super) struct StoreReader<'c> {
    shared: &'c EngineState,
    connection: &'c Connection,
    log: LogReader<'c>,
    checkpoint: Statement<'c>,
    /// Set to make the thread give up its connection.
    handover: Option<ConnectionHandover>,
}

/// The reading thread closes its connection, so that the file can be opened again, and receives a new one.
#[derive(Debug)]
pub(super) struct ConnectionHandover {
    /// Dropped when the connection is closed.
    closed: mpsc::Sender<()>,
    reopened: mpsc::Receiver<Connection>,
}

impl ConnectionHandover {
    /// Waits for the new connection. The caller has closed the old connection. Returns `None` if the store closes.
    pub(super) fn finish(self) -> Option<Connection> {
        drop(self.closed);
        self.reopened.recv().ok()
    }
}

/// Keeps a revision readable until dropped.
struct ReadGuard<'c> {
    shared: &'c EngineState,
    revision: Revision,
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let awaited = self.shared.index.lock().release_read(self.revision);
        if awaited {
            self.shared.queue.request_maintenance();
        }
    }
}

impl<'c> StoreReader<'c> {
    pub(super) fn new(shared: &'c EngineState, connection: &'c Connection) -> Result<StoreReader<'c>, FileError> {
        Ok(StoreReader {
            shared,
            connection,
            log: LogReader::new(connection, &shared.access.format)?,
            checkpoint: checkpoint::prepare(connection)?,
            handover: None,
        })
    }

    /// Runs until every sender is dropped, or until the connection must be closed.
    pub(super) fn run(mut self, requests: &mpsc::Receiver<ReadRequest>) -> Option<ConnectionHandover> {
        while let Ok(request) = requests.recv() {
            request(&mut self);
            if self.handover.is_some() {
                break;
            }
        }
        self.handover
    }

    /// Checkpoints the WAL as far as possible without waiting.
    pub(super) fn checkpoint(&mut self) -> Result<(), FileError> {
        self.shared.checkpoint_gate.run(&mut self.checkpoint)
    }

    /// Begins a read transaction, so that the rows of one request share one lock on the file. Locking for each row
    /// costs more than reading it.
    fn begin_read(&self) -> Result<Transaction<'c>, Error> {
        self.connection.unchecked_transaction().map_err(|error| self.to_error(error.into()))
    }

    fn guard(&self, at: Option<Revision>) -> Result<ReadGuard<'c>, Error> {
        let mut index = self.shared.index.lock();
        let revision = index.resolve_revision(at)?;
        index.register_read(revision);
        Ok(ReadGuard { shared: self.shared, revision })
    }

    pub(super) fn get(&mut self, key: &Key, at: Option<Revision>) -> Result<Option<Record>, Error> {
        let guard = self.guard(at)?;
        let entry = self.shared.index.lock().entry(key);
        match entry {
            Some(entry) => {
                self.mod_revision_at(entry, guard.revision)?.map(|revision| self.record(revision)).transpose()
            }
            None => Ok(None),
        }
    }

    pub(super) fn range(
        &mut self,
        interval: &KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<RangeResponse, Error> {
        let guard = self.guard(at)?;
        let _transaction = self.begin_read()?;
        let mut found = Vec::new();
        let mut remaining = 0;
        let mut after = None;
        while let Some(keys) = self.next_keys(interval, &mut after) {
            for IndexedKey { key, entry } in keys {
                if limit.is_none_or(|limit| found.len() < limit) {
                    found.extend(self.mod_revision_at(entry, guard.revision)?.map(|revision| (revision, key)));
                } else {
                    remaining += u64::from(self.exists_at(entry, guard.revision)?);
                }
            }
        }
        Ok(RangeResponse { records: self.records(&found)?, remaining, revision: guard.revision })
    }

    pub(super) fn page(
        &mut self,
        interval: &KeyInterval,
        at: Option<Revision>,
        limit: usize,
    ) -> Result<RecordPage, Error> {
        let guard = self.guard(at)?;
        let _transaction = self.begin_read()?;
        let mut found = Vec::new();
        let mut after = None;
        while let Some(keys) = self.next_keys(interval, &mut after) {
            for IndexedKey { key, entry } in keys {
                let revision = self.mod_revision_at(entry, guard.revision)?;
                if revision.is_some() && found.len() == limit {
                    return Ok(RecordPage { records: self.records(&found)?, is_last: false });
                }
                found.extend(revision.map(|revision| (revision, key)));
            }
        }
        Ok(RecordPage { records: self.records(&found)?, is_last: true })
    }

    /// The next keys of an interval after the key `after`. Sets `after` to the last returned key.
    fn next_keys(&self, interval: &KeyInterval, after: &mut Option<Key>) -> Option<Vec<IndexedKey>> {
        let index = self.shared.index.lock();
        let keys: Vec<_> = index.keys_after(interval, after.as_ref()).take(MAX_CHUNK_KEYS).cloned().collect();
        drop(index);
        *after = Some(keys.last()?.key.clone());
        Some(keys)
    }

    /// Reads the records of these keys at these revisions.
    fn records(&mut self, found: &[(Revision, Key)]) -> Result<Vec<Record>, Error> {
        // Rows are ordered by revision in the file. Reading in that order reads each page once, and consecutive rows
        // together.
        let mut order: Vec<(Revision, usize)> = found.iter().map(|(revision, _)| *revision).zip(0..).collect();
        order.sort_unstable();
        let mut records: Vec<Option<Record>> = Vec::new();
        records.resize_with(found.len(), || None);
        for run in order.chunk_by(|(one, _), (next, _)| *next == one.next()) {
            let keys: Vec<&Key> = run.iter().map(|(_, index)| &found[*index].1).collect();
            let rows = self.log.read_run(run[0].0, &keys).map_err(|error| self.to_error(error))?;
            for ((_, index), row) in run.iter().zip(rows) {
                records[*index] = Some(row.into_record());
            }
        }
        Ok(records.into_iter().flatten().collect())
    }

    /// Reads the changes after one revision up to another, in order.
    pub(super) fn read_page(
        &mut self,
        after: Revision,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<StoredChange>, Error> {
        let guard = self.guard(Some(after))?;
        let rows =
            self.log.read_page(guard.revision, until, limit, MAX_PAGE_BYTES).map_err(|error| self.to_error(error))?;
        let mut expected = guard.revision;
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            expected = expected.next();
            if row.revision != expected {
                return Err(self.to_error(missing_row(expected)));
            }
            let (revision, key) = (row.revision, row.key);
            changes.push(StoredChange { revision, key, value: row.value, stale: false });
        }
        if changes.is_empty() && guard.revision < until {
            return Err(self.to_error(missing_row(expected.next())));
        }
        Ok(changes)
    }

    /// Reads the record of a revision whose row has a value.
    fn record(&mut self, revision: Revision) -> Result<Record, Error> {
        self.log.row(revision).map(LogRow::into_record).map_err(|error| self.to_error(error))
    }

    fn exists_at(&mut self, entry: IndexEntry, at: Revision) -> Result<bool, Error> {
        // If the key is created at or before `at` and changed or deleted after it, it exists at `at`.
        let exists = entry.create_revision() <= at && at < entry.revision();
        Ok(exists || self.mod_revision_at(entry, at)?.is_some())
    }

    /// The mod revision of a key at a guarded revision. It is found by following the previous rows from the newest one.
    fn mod_revision_at(&mut self, entry: IndexEntry, at: Revision) -> Result<Option<Revision>, Error> {
        if entry.revision() <= at {
            return Ok(Some(entry.revision()).filter(|_| !entry.is_deleted()));
        }
        let (mut revision, mut create_revision) = (entry.revision(), entry.create_revision());
        let mut previous = entry.previous();
        loop {
            match previous {
                Some(before) if before > at => {
                    let header = self.log.header(before).map_err(|error| self.to_error(error))?;
                    let header = header.ok_or_else(|| self.to_error(missing_row(before)))?;
                    (revision, create_revision, previous) = (before, header.create_revision, header.previous);
                }
                // If a row does not create its key, the previous row has a value. If it does, the previous row is a
                // tombstone or missing.
                before => return Ok(before.filter(|_| create_revision < revision)),
            }
        }
    }

    fn to_error(&self, error: FileError) -> Error {
        error.into_error(&self.shared.path)
    }
}

/// Makes the reading thread close its connection, and waits until it is closed. Returns the channel for a new
/// connection; the thread reads nothing until it has that. Returns `None` if the store closes: then the thread closes
/// its connection some time later.
pub(super) fn close_connection(reader: &ReaderHandle) -> Option<mpsc::Sender<Connection>> {
    let (closed, wait_closed) = mpsc::channel();
    let (sender, reopened) = mpsc::channel();
    let handover = ConnectionHandover { closed, reopened };
    let sent = reader.send(Box::new(move |reader| reader.handover = Some(handover)));
    // If nobody has closed the handle, the thread has ended and has no connection.
    if sent.is_err() && reader.is_closed() {
        return None;
    }
    let _ = wait_closed.recv();
    Some(sender)
}

/// Creates a request for a read, and the channel for its result.
pub(super) fn request<T: Send + 'static>(
    read: impl FnOnce(&mut StoreReader<'_>) -> Result<T, Error> + Send + 'static,
) -> (ReadRequest, oneshot::Receiver<Result<T, Error>>) {
    let (sender, receiver) = oneshot::channel();
    let request: ReadRequest = Box::new(move |reader| {
        // The caller may have dropped its future.
        let _ = sender.send(read(reader));
    });
    (request, receiver)
}
