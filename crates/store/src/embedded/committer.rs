//! The thread that writes. It turns what is queued into one transaction, adds what arrives meanwhile, what expired and
//! a slice of compaction, syncs once, and only then lets anybody know.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement};
use tokio::sync::oneshot;

use super::checkpoint::Checkpointer;
use super::file::Fault;
use super::index::Entry;
use super::queue::{Submission, Write};
use super::rows::{LogReader, LogWriter, Row};
use super::sweep::{Sweep, Sweeper};
use super::{Requests, Shared};
use crate::{Committed, Error, Expect, Key, Record, Revision, StoredChange, Timestamp, lock};

/// No more changes than this share a transaction, so that the first of them does not wait long.
const BATCH: usize = 512;

/// Nor more bytes.
const BATCH_BYTES: usize = 4 << 20;

/// How many expired values one transaction deletes at most.
const EXPIRIES: usize = 256;

type Reply = (oneshot::Sender<Result<Committed, Error>>, Result<Committed, Error>);

pub(super) struct Committer<'c> {
    shared: &'c Shared,
    reader: LogReader<'c>,
    writer: LogWriter<'c>,
    sweeper: Sweeper<'c>,
    checkpointer: Checkpointer<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    /// Why no more writes are taken.
    failed: Option<Error>,
    /// When to try again to expire or compact after that failed (the disk is full, say).
    pause: Option<Instant>,
}

/// The changes of one transaction, on top of the index until it is durable.
#[derive(Default)]
struct Batch {
    entries: HashMap<Key, Entry>,
    written: Vec<Written>,
    replies: Vec<Reply>,
    bytes: usize,
}

/// One change of a transaction.
struct Written {
    change: StoredChange,
    time: Timestamp,
    size: usize,
    /// When and as what the new value expires.
    expires: Option<Timestamp>,
    /// The expiry that this change makes moot.
    unexpires: Option<(Timestamp, Revision)>,
}

impl<'c> Committer<'c> {
    /// `compacted` is what the file says of its history.
    pub(super) fn new(
        shared: &'c Shared,
        requests: Arc<Requests>,
        connection: &'c Connection,
        compacted: Revision,
    ) -> Result<Committer<'c>, Fault> {
        Ok(Committer {
            shared,
            reader: LogReader::new(connection)?,
            writer: LogWriter::new(connection)?,
            sweeper: Sweeper::new(connection, compacted)?,
            checkpointer: Checkpointer::new(requests, connection)?,
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            rollback: connection.prepare("ROLLBACK")?,
            failed: None,
            pause: None,
        })
    }

    /// Works until the queue is stopped and empty.
    pub(super) fn run(mut self) {
        loop {
            let found = self.shared.queue.wait(self.patience(), BATCH);
            let chores = found.submissions.is_empty();
            if found.stopped && chores {
                return self.finish();
            }
            let mut batch = Batch::default();
            let outcome = match &self.failed {
                Some(failed) => {
                    batch.replies.extend(found.submissions.into_iter().map(|left| (left.reply, Err(Error::Closed))));
                    Err(failed.clone())
                }
                None => self.transact(&mut batch, found.submissions),
            };
            if let Err(error) = outcome {
                if chores {
                    tracing::warn!(%error, "expiry or compaction failed and will be tried again");
                }
                self.pause = Some(Instant::now() + Duration::from_secs(1));
                for (reply, _) in batch.replies {
                    // Nobody waits any more: nobody needs to know.
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// Writes down how far history is compacted, so that it does not reach further back after a restart.
    fn finish(mut self) {
        if self.failed.is_none()
            && self.sweeper.is_unrecorded(&lock(&self.shared.index))
            && let Err(error) = self.transact(&mut Batch::default(), VecDeque::new())
        {
            tracing::warn!(%error, "how far history is compacted could not be written down");
        }
    }

    /// How long to sleep if nothing is submitted.
    fn patience(&self) -> Option<Duration> {
        if self.failed.is_some() {
            return None;
        }
        let pause = self.pause.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(left) = pause.filter(|left| !left.is_zero()) {
            return Some(left);
        }
        let index = lock(&self.shared.index);
        if self.sweeper.has_work(&index) {
            return Some(Duration::ZERO);
        }
        index.next_due().map(|due| self.shared.clock.until(due))
    }

    /// Makes one transaction of what is due and submitted. After an error nothing of it is in the file, and the replies
    /// in the batch still wait for an answer.
    fn transact(&mut self, batch: &mut Batch, mut submissions: VecDeque<Submission>) -> Result<(), Error> {
        self.checkpointer.finish().unwrap_or_else(|fault| self.warn(fault));
        let now = self.shared.clock.now();
        let worked = self.begin.execute([]).map_err(Fault::from).and_then(|_| {
            self.expire(batch, now)?;
            loop {
                while let Some(submission) = submissions.pop_front() {
                    self.apply(batch, submission, now)?;
                }
                if batch.replies.len() >= BATCH || batch.bytes >= BATCH_BYTES {
                    break;
                }
                submissions = self.shared.queue.drain(BATCH - batch.replies.len());
                if submissions.is_empty() {
                    break;
                }
            }
            let sweep = self.sweeper.step(self.shared, &mut self.reader, &mut self.writer, batch.written.len(), now)?;
            if batch.written.is_empty() && !sweep.wrote {
                self.rollback.execute([])?;
            } else {
                self.commit.execute([])?;
            }
            Ok(sweep)
        });
        match worked {
            Ok(sweep) => {
                self.pause = None;
                if sweep.ended_vacuum {
                    // Only this makes the file shorter.
                    self.checkpointer.run().unwrap_or_else(|fault| self.warn(fault));
                } else if sweep.wrote || !batch.written.is_empty() {
                    self.checkpointer.note(2 + sweep.removed + batch.bytes / 3500);
                }
                self.publish(std::mem::take(batch), sweep);
                Ok(())
            }
            Err(fault) => {
                // Those that were taken but not reached share the answer.
                batch.replies.extend(submissions.into_iter().map(|left| (left.reply, Err(Error::Closed))));
                Err(self.abort(fault))
            }
        }
    }

    /// A checkpoint that fails loses nothing: what it would have moved stays in the log.
    fn warn(&self, fault: Fault) {
        tracing::warn!(error = %fault.at(&self.shared.path), "a checkpoint failed");
    }

    fn abort(&mut self, fault: Fault) -> Error {
        let lost_sync = fault.is_lost_sync();
        let error = fault.at(&self.shared.path);
        // Some errors have rolled back already, and then this one fails, which is as good.
        let _ = self.rollback.execute([]);
        if lost_sync {
            self.failed = Some(Error::Failed { path: self.shared.path.clone(), detail: error.to_string() });
        }
        error
    }

    /// Deletes what has outlived its time.
    fn expire(&mut self, batch: &mut Batch, now: Timestamp) -> Result<(), Fault> {
        let due: Vec<(Revision, Key)> = {
            let index = lock(&self.shared.index);
            let due = index.expiries.iter().take_while(|((time, _), _)| *time <= now).take(EXPIRIES);
            due.map(|((_, revision), key)| (*revision, key.clone())).collect()
        };
        for (revision, key) in due {
            let (reply, _) = oneshot::channel();
            let deletion = Submission { key, expect: Expect::At(revision), write: Write::Delete, reply };
            self.apply(batch, deletion, now)?;
            if let Some((_, Err(error))) = batch.replies.last() {
                // Not tried over and over: the value is damaged, say, and reading it says so too.
                tracing::warn!(%error, %revision, "a value that has outlived its time cannot be deleted");
                lock(&self.shared.index).expiries.retain(|(_, expiring), _| *expiring != revision);
            }
        }
        Ok(())
    }

    /// Puts one change into the transaction, or the reason against it into the batch.
    fn apply(&mut self, batch: &mut Batch, submission: Submission, now: Timestamp) -> Result<(), Fault> {
        let size = submission.size();
        let Submission { key, expect, write, reply } = submission;
        // The reply is in the batch before anything can fail, so that a failure of the transaction reaches it.
        let slot = batch.replies.len();
        batch.replies.push((reply, Err(Error::Closed)));

        let (newest, entry) = {
            let index = lock(&self.shared.index);
            let newest = batch.written.last().map_or(index.revision, |written| written.change.revision);
            (newest, batch.entries.get(&key).or_else(|| index.keys.get(&key)).copied())
        };
        let live = entry.filter(|entry| !entry.deleted);
        let current = match live.map(|entry| self.reader.row(entry.revision)).transpose() {
            // Damage to one value is not the business of the others in the transaction.
            Err(fault @ Fault::Damage(_)) => {
                batch.replies[slot].1 = Err(fault.at(&self.shared.path));
                return Ok(());
            }
            current => current?,
        };
        let unexpires = current.as_ref().and_then(|row| row.expires.map(|time| (time, row.revision)));
        let previous = match current.map(|row| self.shared.record(row)).transpose() {
            Ok(previous) => previous,
            Err(error) => {
                batch.replies[slot].1 = Err(error);
                return Ok(());
            }
        };
        let holds = match (expect, live) {
            (Expect::Absent, live) => live.is_none(),
            (Expect::At(revision), live) => live.is_some_and(|entry| entry.revision == revision),
            (Expect::Any, _) => true,
        } && (live.is_some() || matches!(write, Write::Put { .. }));
        if !holds {
            batch.replies[slot].1 = Err(Error::Conflict { current: previous.map(Box::new) });
            return Ok(());
        }

        let revision = newest.next();
        let created = live.map_or(revision, |entry| entry.created);
        let (value, stored, expires) = match write {
            Write::Put { value, stored, expires } => (Some(value), Some(stored), expires),
            Write::Delete => (None, None, None),
        };
        let time = lock(&self.shared.index).timeline.stamp(now);
        let earlier = entry.map(|entry| entry.revision);
        let row = Row { revision, key: key.clone(), created, previous: earlier, time, expires, value: stored };
        self.writer.insert(&row)?;
        batch.bytes += size;
        batch.entries.insert(key.clone(), Entry::new(revision, created, earlier, row.value.is_none()));
        batch.replies[slot].1 = Ok(Committed { revision, previous });
        let change = StoredChange { revision, key, value, create_revision: created };
        batch.written.push(Written { change, time, size, expires, unexpires });
        Ok(())
    }

    /// Lets everybody know of a durable transaction: the index, the feeds, those who wait.
    fn publish(&mut self, batch: Batch, sweep: Sweep) {
        let mut changes = Vec::with_capacity(batch.written.len());
        let mut index = lock(&self.shared.index);
        index.keys.extend(batch.entries);
        for Written { change, time, size, expires, unexpires } in batch.written {
            index.revision = change.revision;
            index.timeline.note(change.revision, time, size);
            if let Some(moot) = unexpires {
                index.expiries.remove(&moot);
            }
            if let Some(expires) = expires {
                index.expiries.insert((expires, change.revision), change.key.clone());
            }
            changes.push(change);
        }
        self.sweeper.finish(&mut index, sweep);
        // Under the lock, so that a feed attached at a revision gets exactly what follows.
        self.shared.hub.publish(changes);
        drop(index);
        for (reply, outcome) in batch.replies {
            // Nobody waits any more: nobody needs to know.
            let _ = reply.send(outcome);
        }
    }
}

impl Shared {
    /// A row as a record; for rows with a value.
    pub(super) fn record(&self, row: Row) -> Result<Record, Error> {
        let Row { key, revision, created, value, .. } = row;
        match self.transformer.decode(&key, value.unwrap_or_default()) {
            Ok(decoded) => Ok(Record {
                key,
                value: decoded.value,
                mod_revision: revision,
                create_revision: created,
                stale: decoded.stale,
            }),
            Err(error) => Err(Error::Transform { key, detail: error.to_string() }),
        }
    }
}
