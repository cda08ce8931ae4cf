//! The committing thread. It puts queued requests, requests that arrive meanwhile, expired keys and a step of
//! compaction into one transaction. It syncs once, and only then publishes the result.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement};
use tokio::sync::oneshot;

use super::checkpoint::Checkpointer;
use super::commit_queue::{CommitRequest, PreparedOp};
use super::compaction::{CompactionStep, Compactor};
use super::encryption::KeyChanger;
use super::file::{self, FileError};
use super::index::{IndexEntry, KeyIndex};
use super::log::{LogReader, LogRow, LogWriter, missing_row};
use super::opening;
use super::{EngineState, ReaderHandle};
use crate::{Compare, Condition, Error, Key, Revision, StoredChange, Timestamp};

/// The maximum number of changes in one transaction, so that the first change does not wait long.
const MAX_CHANGES: usize = 512;

/// The maximum size of one transaction.
const MAX_BYTES: usize = 4 << 20;

/// The maximum number of expired keys that one transaction deletes.
const MAX_EXPIRIES: usize = 256;

/// How long to wait before the retry after a failed transaction.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait before the first attempt to recover from a failed sync. Each further attempt waits twice as long.
const FIRST_RECOVERY_INTERVAL: Duration = Duration::from_millis(250);

/// The longest wait between two attempts to recover from a failed sync.
const MAX_RECOVERY_INTERVAL: Duration = Duration::from_secs(8);

type Reply = (oneshot::Sender<Result<Revision, Error>>, Result<Revision, Error>);

pub(super) struct Committer<'c> {
    shared: &'c EngineState,
    connection: &'c Connection,
    reader: LogReader<'c>,
    writer: LogWriter<'c>,
    compactor: Compactor<'c>,
    /// `None` if the store is not encrypted.
    key_changer: Option<KeyChanger<'c>>,
    reader_handle: Arc<ReaderHandle>,
    checkpointer: Checkpointer<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    /// Set after a failed sync: writes are rejected until the store has recovered.
    sync_failure: Option<SyncFailure>,
    /// A sync of a checkpoint has failed, so the file may lack any page of the log. The log must be copied to the file
    /// from the start, which SQLite does only for a log that it opens.
    must_reopen: bool,
    /// False if the log may end with a transaction that was reported as failed because its sync failed. The next
    /// transaction overwrites it.
    is_log_clean: bool,
    /// True once the log that was found at opening is in the file, and the file is marked as open. No change is written
    /// before.
    is_prepared: bool,
    /// When to retry after a failed transaction, for example on a full disk. The retry writes even if nothing is due,
    /// so that an idle store notices that the disk works again.
    retry_at: Option<Instant>,
}

/// The reason why a committer has ended.
pub(super) enum CommitterEnd {
    /// The queue is stopped and empty.
    Stopped {
        /// True if the log may be copied to the file when the file is closed. After a failed sync only the log has
        /// everything.
        can_checkpoint: bool,
    },
    /// The file must be opened again to recover from this failed sync.
    Reopen(SyncFailure),
}

/// A failed sync from which the store has not yet recovered.
#[derive(Debug)]
pub(super) struct SyncFailure {
    /// The error of the sync.
    sync_error: String,
    /// Why the last attempt to recover has failed, if its cause was not a failed sync. For example, the disk may be
    /// full.
    recovery_error: Option<String>,
    /// The wait before the next attempt to recover.
    interval: Duration,
}

impl SyncFailure {
    pub(super) fn new(error: Error) -> SyncFailure {
        SyncFailure { sync_error: error.into_cause(), recovery_error: None, interval: FIRST_RECOVERY_INTERVAL }
    }

    /// The error of the store, and of the requests that are rejected meanwhile.
    pub(super) fn to_error(&self, path: &Path) -> Error {
        let detail = match &self.recovery_error {
            None => self.sync_error.clone(),
            Some(recovery_error) => format!("{}; recovery failed: {recovery_error}", self.sync_error),
        };
        Error::SyncFailed { path: path.to_owned(), detail }
    }

    /// Records that an attempt to recover has failed, but not by a failed sync. Returns the time of the next attempt.
    pub(super) fn retry_after(&mut self, recovery_error: Error) -> Instant {
        self.recovery_error = Some(recovery_error.into_cause());
        self.next_attempt()
    }

    /// The time of the next attempt. The attempt after it waits twice as long.
    fn next_attempt(&mut self) -> Instant {
        let at = Instant::now() + self.interval;
        self.interval = (self.interval * 2).min(MAX_RECOVERY_INTERVAL);
        at
    }
}

/// The changes of one transaction. The index gets them only when they are durable.
#[derive(Default)]
struct Transaction {
    entries: HashMap<Key, IndexEntry>,
    changes: Vec<WrittenChange>,
    replies: Vec<Reply>,
    bytes: usize,
}

impl Transaction {
    /// True if a condition holds after the changes so far.
    fn holds(&self, index: &KeyIndex, condition: &Condition) -> bool {
        let is_live = |entry: &IndexEntry| !entry.is_deleted();
        match condition {
            Condition::Unchanged(key, revision) => {
                let entry = self.entries.get(key).copied().or_else(|| index.entry(key));
                entry.filter(is_live).is_some_and(|entry| entry.revision() == *revision)
            }
            Condition::NotWrittenSince(interval, revision) => {
                // A change of this transaction is newer than any revision that a caller can know.
                let written = self.entries.iter().filter(|(key, _)| interval.contains(key)).map(|(_, entry)| *entry);
                let stored = index.entries_in(interval).filter(|indexed| !self.entries.contains_key(&indexed.key));
                let all = written.chain(stored.map(|indexed| indexed.entry));
                all.filter(is_live).all(|entry| entry.revision() <= *revision)
            }
        }
    }
}

/// One change of a transaction.
struct WrittenChange {
    change: StoredChange,
    time: Timestamp,
    size: usize,
    /// When the new value expires.
    expires: Option<Timestamp>,
    /// The expiry of the previous value, which this change removes.
    replaced_expiry: Option<(Timestamp, Revision)>,
}

impl<'c> Committer<'c> {
    /// Creates a committer. `compact_revision` is the compact revision that is saved in the file.
    pub(super) fn new(
        shared: &'c Arc<EngineState>,
        reader_handle: Arc<ReaderHandle>,
        connection: &'c Connection,
        compact_revision: Revision,
    ) -> Result<Committer<'c>, FileError> {
        Ok(Committer {
            shared,
            connection,
            reader: LogReader::new(connection, &shared.access.format)?,
            writer: LogWriter::new(connection, &shared.access.format, shared.index.lock().rows.clone())?,
            compactor: Compactor::new(connection, &shared.access.format, compact_revision)?,
            key_changer: KeyChanger::new(shared, connection)?,
            checkpointer: Checkpointer::new(&shared.checkpoint_gate, Arc::clone(&reader_handle), connection)?,
            reader_handle,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            sync_failure: None,
            must_reopen: false,
            is_log_clean: true,
            is_prepared: true,
            retry_at: None,
        })
    }

    /// Called after the file was opened again after a failed sync. The first transaction shows whether the store works
    /// again.
    pub(super) fn after_failed_sync(mut self, sync_failure: SyncFailure) -> Self {
        self.shared.health.set_commit_error(Some(sync_failure.to_error(&self.shared.path)));
        self.sync_failure = Some(sync_failure);
        self.retry_at = Some(Instant::now());
        self
    }

    /// Called if the log could not be copied to the file at opening because the disk is full.
    pub(super) fn on_full_disk(mut self) -> Self {
        self.is_prepared = false;
        self.retry_at = Some(Instant::now());
        self.shared.health.set_commit_error(Some(Error::DiskFull { path: self.shared.path.clone() }));
        self
    }

    /// Copies the log that was found at opening, and marks the file as open, unless both were done.
    fn prepare(&mut self) -> Result<(), FileError> {
        if !self.is_prepared {
            file::rewrite_log(&self.shared.path, &self.shared.access)?;
            let EngineState { path, access, acknowledged, index, .. } = self.shared;
            opening::prepare(path, self.connection, access, acknowledged, &index.lock())?;
            self.is_prepared = true;
        }
        Ok(())
    }

    /// Runs until the queue is stopped and empty, or until the file must be opened again.
    pub(super) fn run(mut self) -> CommitterEnd {
        loop {
            let timeout = self.idle_timeout();
            self.shared.health.set_in_transaction(false);
            let mut queued = self.shared.queue.wait(timeout, MAX_CHANGES);
            self.shared.health.set_in_transaction(true);
            let maintenance_only = queued.requests.is_empty();
            if queued.stopped && maintenance_only {
                return CommitterEnd::Stopped { can_checkpoint: self.finish() };
            }
            if let Some(sync_failure) = self.sync_failure.take() {
                reject(std::mem::take(&mut queued.requests), &sync_failure.to_error(&self.shared.path));
                let waits = self.waits_for_retry();
                if !waits && self.can_reopen() {
                    return CommitterEnd::Reopen(sync_failure);
                }
                self.sync_failure = Some(sync_failure);
                if waits {
                    continue;
                }
            }
            let mut transaction = Transaction::default();
            if let Err(error) = self.run_transaction(&mut transaction, queued.requests) {
                if maintenance_only || self.sync_failure.is_some() {
                    tracing::warn!(%error, "Failed to commit a maintenance transaction, will retry");
                }
                self.schedule_retry(&error);
                for (reply, _) in transaction.replies {
                    // The caller may have dropped its future.
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// True if a retry is due only later.
    fn waits_for_retry(&self) -> bool {
        self.retry_at.is_some_and(|retry_at| Instant::now() < retry_at)
    }

    /// Reports the error of a failed transaction, and schedules a retry even if nothing is due. A retry that is already
    /// scheduled for later stays.
    fn schedule_retry(&mut self, error: &Error) {
        if !self.waits_for_retry() {
            self.retry_at = Some(match &mut self.sync_failure {
                Some(sync_failure) => sync_failure.retry_after(error.clone()),
                None => Instant::now() + RETRY_INTERVAL,
            });
        }
        let reported = self.sync_failure.as_ref().map(|sync_failure| sync_failure.to_error(&self.shared.path));
        self.shared.health.set_commit_error(Some(reported.unwrap_or_else(|| error.clone())));
    }

    /// True if the file must and can be opened again. The log that is read then must not contain a transaction that was
    /// reported as failed. Such a transaction is overwritten first.
    fn can_reopen(&self) -> bool {
        self.must_reopen && self.is_log_clean
    }

    /// Marks the file as closed, and saves the compact revision, so that it does not go backwards at a restart. Returns
    /// true if the log may be copied to the file. The copy deletes the log.
    fn finish(mut self) -> bool {
        if self.sync_failure.is_some() || !self.is_prepared {
            return false;
        }
        let closed = self.write_closed();
        closed.inspect_err(|error| tracing::warn!(%error, "Failed to mark the store file as closed")).is_ok()
    }

    fn write_closed(&mut self) -> Result<(), Error> {
        let result = self.begin.execute([]).map_err(FileError::from).and_then(|_| {
            self.compactor.write_closed(&self.shared.index.lock())?;
            self.commit.execute([])?;
            Ok(())
        });
        result.map_err(|error| self.abort(error))
    }

    /// How long to wait if no request arrives. Syncs the newest acknowledged revision if that sync is due.
    fn idle_timeout(&self) -> Option<Duration> {
        let wait = |until: Instant| until.saturating_duration_since(Instant::now());
        if let Some(retry_at) = self.retry_at {
            return Some(wait(retry_at));
        }
        let sync = self.shared.acknowledged.sync_if_due().map(wait);
        let index = self.shared.index.lock();
        if self.compactor.has_work(&index) || self.key_changer.as_ref().is_some_and(KeyChanger::has_work) {
            return Some(Duration::ZERO);
        }
        let due = index.next_deadline().map(|due| self.shared.clock.until(due));
        let key_change = self.key_changer.as_ref().and_then(KeyChanger::next_attempt).map(wait);
        [sync, due, key_change].into_iter().flatten().min()
    }

    /// Runs one transaction with the requests, the expired keys and a step of compaction. After an error, the file has
    /// no part of it, and the replies in the transaction are not yet sent.
    fn run_transaction(
        &mut self,
        transaction: &mut Transaction,
        mut requests: VecDeque<CommitRequest>,
    ) -> Result<(), Error> {
        if !self.must_reopen
            && let Err(error) = self.checkpointer.finish()
            && let Err(sync_failure) = self.accept_failed_checkpoint(error)
        {
            transaction.replies.extend(requests.into_iter().map(|request| (request.reply, Err(Error::Closed))));
            return Err(sync_failure);
        }
        let now = self.shared.clock.now();
        let started = Instant::now();
        let prepared = self.prepare();
        // A failed copy leaves the file in the same state as a failed checkpoint.
        self.must_reopen |= prepared.as_ref().is_err_and(FileError::is_failed_sync);
        let begun = prepared.and_then(|()| self.begin.execute([]).map_err(FileError::from));
        let is_recovery = self.sync_failure.is_some();
        self.writer.begin();
        let mut sealed_pages = 0;
        let result = begun.and_then(|_| {
            self.expire(transaction, now)?;
            loop {
                while let Some(request) = requests.pop_front() {
                    self.apply(transaction, request, now)?;
                }
                let is_full = transaction.replies.len() >= MAX_CHANGES || transaction.bytes >= MAX_BYTES;
                if is_full || is_recovery {
                    break;
                }
                requests = self.shared.queue.take_up_to(MAX_CHANGES - transaction.replies.len());
                if requests.is_empty() {
                    break;
                }
            }
            if let Some(key_changer) = &mut self.key_changer {
                sealed_pages = key_changer.run_step(&mut self.writer, !transaction.changes.is_empty())?;
            }
            let step = self.compactor.run_step(
                self.shared,
                &mut self.reader,
                &mut self.writer,
                transaction.changes.len(),
                self.retry_at.is_some(),
                now,
            )?;
            if transaction.changes.is_empty() && !step.wrote {
                self.rollback.execute([])?;
            } else {
                // Until the commit returns, the transaction may or may not be in the log.
                self.is_log_clean = false;
                self.commit.execute([])?;
                self.is_log_clean = true;
                if let Some(newest) = transaction.changes.last() {
                    self.shared.acknowledged.record(newest.change.revision);
                }
            }
            Ok(step)
        });
        match result {
            Ok(step) => {
                let metrics = &self.shared.metrics;
                if step.wrote || !transaction.changes.is_empty() {
                    metrics.commit_durations.observe(started.elapsed());
                    metrics.changes.add(transaction.changes.len() as u64);
                }
                self.accept_writes();
                if let Some(key_changer) = &mut self.key_changer {
                    key_changer.finish(&self.reader_handle);
                    key_changer.replace_if_due();
                }
                let checkpointed = if self.must_reopen {
                    Ok(())
                } else if step.vacuum_finished {
                    // Only a checkpoint truncates the file.
                    self.checkpointer.run()
                } else if step.wrote || !transaction.changes.is_empty() {
                    self.checkpointer.record_commit(2 + step.removed + sealed_pages + transaction.bytes / 3500)
                } else {
                    Ok(())
                };
                // This transaction is durable, whatever the result of the checkpoint is.
                let _ = checkpointed.or_else(|error| self.accept_failed_checkpoint(error));
                self.publish(std::mem::take(transaction), step);
                Ok(())
            }
            Err(error) => {
                self.shared.metrics.commit_errors.inc();
                // The requests that were taken but not applied get the same error.
                transaction.replies.extend(requests.into_iter().map(|request| (request.reply, Err(Error::Closed))));
                let error = self.abort(error);
                if let Some(key_changer) = &mut self.key_changer {
                    key_changer.fail(&error);
                }
                Err(error)
            }
        }
    }

    /// A failed checkpoint loses nothing: the pages stay in the WAL, and the next checkpoint copies them again. But
    /// once a sync has failed, a later sync may succeed without the pages of the failed one. Then SQLite would drop the
    /// WAL that has them. So no further checkpoint may run before the file is opened again.
    fn accept_failed_checkpoint(&mut self, error: FileError) -> Result<(), Error> {
        let sync_failed = error.is_failed_sync();
        let error = error.into_error(&self.shared.path);
        tracing::warn!(%error, "Failed to checkpoint the write-ahead log");
        if !sync_failed {
            return Ok(());
        }
        self.must_reopen = true;
        Err(self.reject_writes(error))
    }

    /// Rejects writes after a failed sync, until the store has recovered. Returns the error for these writes.
    fn reject_writes(&mut self, error: Error) -> Error {
        tracing::error!(%error, "A sync failed: the store rejects writes until it has recovered");
        let mut failure = SyncFailure::new(error);
        if let Some(earlier) = &self.sync_failure {
            failure.interval = earlier.interval;
        }
        self.retry_at = Some(failure.next_attempt());
        let rejection = failure.to_error(&self.shared.path);
        self.sync_failure = Some(failure);
        self.shared.health.set_commit_error(Some(rejection.clone()));
        rejection
    }

    /// Records that a transaction is on the disk, so the store works, or works again. After a failed sync of a
    /// checkpoint, the store works only after the file is opened again.
    fn accept_writes(&mut self) {
        if self.must_reopen {
            self.retry_at = Some(Instant::now());
            return;
        }
        if self.sync_failure.take().is_some() {
            tracing::info!("The store has recovered from a failed sync and accepts writes");
        }
        if self.retry_at.take().is_some() {
            self.shared.health.set_commit_error(None);
        }
    }

    fn abort(&mut self, error: FileError) -> Error {
        let sync_failed = error.is_failed_sync();
        let error = error.into_error(&self.shared.path);
        // After some errors SQLite has already rolled back. Then this rollback fails, which is harmless.
        let _ = self.rollback.execute([]);
        if sync_failed {
            self.reject_writes(error.clone());
        }
        error
    }

    /// Deletes expired keys.
    fn expire(&mut self, transaction: &mut Transaction, now: Timestamp) -> Result<(), FileError> {
        let due: Vec<(Revision, Key)> = {
            let index = self.shared.index.lock();
            let due = index.expiries.iter().take_while(|((time, _), _)| *time <= now).take(MAX_EXPIRIES);
            due.map(|((_, revision), key)| (*revision, key.clone())).collect()
        };
        for (revision, key) in due {
            let (reply, _) = oneshot::channel();
            let (compare, op) = (Compare::ModRevision(revision), PreparedOp::Delete);
            let deletion = CommitRequest { key, compare, op, conditions: Vec::new(), reply };
            self.apply(transaction, deletion, now)?;
            if let Some((_, Err(error))) = transaction.replies.last() {
                // The deletion is not retried: for example, the row may be corrupted, and reading it reports that too.
                tracing::warn!(%error, %revision, "Failed to delete an expired key");
                self.shared.index.lock().expiries.retain(|(_, expiring), _| *expiring != revision);
            }
        }
        Ok(())
    }

    /// Adds one change to the transaction, or an error for its caller.
    fn apply(
        &mut self,
        transaction: &mut Transaction,
        request: CommitRequest,
        now: Timestamp,
    ) -> Result<(), FileError> {
        let size = request.size();
        let CommitRequest { key, compare, op, conditions, reply } = request;
        // Push the reply before anything can fail, so that a failure of the transaction reaches the caller.
        let reply_index = transaction.replies.len();
        transaction.replies.push((reply, Err(Error::Closed)));

        let (newest, entry) = {
            let index = self.shared.index.lock();
            let newest = transaction.changes.last().map_or(index.revision, |written| written.change.revision);
            (newest, transaction.entries.get(&key).copied().or_else(|| index.entry(&key)))
        };
        let current_entry = entry.filter(|entry| !entry.is_deleted());
        let matches = compare.holds(current_entry.map(IndexEntry::revision))
            && (current_entry.is_some() || matches!(op, PreparedOp::Put { .. }));
        if !matches {
            transaction.replies[reply_index].1 = Err(self.conflict(current_entry)?);
            return Ok(());
        }
        if !conditions.is_empty() {
            let index = self.shared.index.lock();
            if !conditions.iter().all(|condition| transaction.holds(&index, condition)) {
                transaction.replies[reply_index].1 = Err(Error::ConditionFailed);
                return Ok(());
            }
        }

        let replaced_expiry = match current_entry.filter(|entry| entry.expires()).map(IndexEntry::revision) {
            None => None,
            Some(revision) => {
                match self.reader.header(revision).and_then(|header| header.ok_or_else(|| missing_row(revision))) {
                    // Corruption of one row does not affect the other changes in the transaction.
                    Err(error @ FileError::Corrupted(_)) => {
                        transaction.replies[reply_index].1 = Err(error.into_error(&self.shared.path));
                        return Ok(());
                    }
                    header => header?.expires.map(|time| (time, revision)),
                }
            }
        };
        let revision = newest.next();
        let create_revision = current_entry.map_or(revision, IndexEntry::create_revision);
        let (value, stored, expires) = match op {
            PreparedOp::Put { value, stored, expires } => (Some(value), Some(stored), expires),
            PreparedOp::Delete => (None, None, None),
        };
        let time = self.shared.index.lock().retention_tracker.monotonic_time(now);
        let previous = entry.map(IndexEntry::revision);
        let row = LogRow { revision, key: key.clone(), create_revision, previous, time, expires, value: stored };
        self.writer.insert(&row)?;
        transaction.bytes += size;
        transaction.entries.insert(key.clone(), IndexEntry::from(&row.header()));
        transaction.replies[reply_index].1 = Ok(revision);
        let change = StoredChange { revision, key, value, stale: false };
        transaction.changes.push(WrittenChange { change, time, size, expires, replaced_expiry });
        Ok(())
    }

    /// The error of a change whose compare does not hold, with the current record. Corruption of one value does not
    /// affect the other changes in a transaction.
    fn conflict(&mut self, current: Option<IndexEntry>) -> Result<Error, FileError> {
        let current = match current.map(|entry| self.reader.row(entry.revision())).transpose() {
            Err(error @ FileError::Corrupted(_)) => return Ok(error.into_error(&self.shared.path)),
            current => current?,
        };
        Ok(Error::Conflict { current: current.map(|row| Box::new(row.into_record())) })
    }

    /// Publishes a durable transaction: updates the index, the feeds and the callers.
    fn publish(&mut self, transaction: Transaction, step: CompactionStep) {
        let mut changes = Vec::with_capacity(transaction.changes.len());
        let mut index = self.shared.index.lock();
        for (key, entry) in transaction.entries {
            index.set_entry(key, entry);
        }
        for WrittenChange { change, time, size, expires, replaced_expiry } in transaction.changes {
            index.revision = change.revision;
            index.retention_tracker.record_change(change.revision, time, size);
            index.newest_time = Some(time);
            if let Some(replaced) = replaced_expiry {
                index.expiries.remove(&replaced);
            }
            if let Some(expires) = expires {
                index.expiries.insert((expires, change.revision), change.key.clone());
            }
            changes.push(change);
        }
        self.compactor.finish(&mut index, step);
        if let Some(rows) = self.writer.commit() {
            index.rows = rows;
        }
        // The lock is still held, so that a feed that subscribes at a revision gets exactly the changes after it.
        self.shared.publisher.publish(changes);
        drop(index);
        for (reply, result) in transaction.replies {
            // The caller may have dropped its future.
            let _ = reply.send(result);
        }
    }
}

/// Answers requests that are not committed with an error.
pub(super) fn reject(requests: VecDeque<CommitRequest>, error: &Error) {
    for request in requests {
        // The caller may have dropped its future.
        let _ = request.reply.send(Err(error.clone()));
    }
}
