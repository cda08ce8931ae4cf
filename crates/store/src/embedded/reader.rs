//! The thread that reads. The server reads its cache and comes here when it starts and when a feed needs history, so
//! one thread with one connection and little memory is enough; it never holds up the thread that writes.

use std::sync::mpsc;

use rusqlite::{Connection, Statement, Transaction};
use tokio::sync::oneshot;

use super::Shared;
use super::checkpoint;
use super::file::Fault;
use super::index::Entry;
use super::rows::{LogReader, Row, missing};
use crate::{Error, Key, Range, Record, Revision, Span, StoredChange, lock};

/// How many keys are looked up between two looks at the index.
const CHUNK: usize = 1024;

/// A page of history ends when its values come to more than this.
const PAGE_BYTES: usize = 4 << 20;

/// Something to read, with where to send what was read.
pub(super) type Request = Box<dyn FnOnce(&mut Reader<'_>) + Send>;

pub(super) struct Reader<'c> {
    shared: &'c Shared,
    connection: &'c Connection,
    log: LogReader<'c>,
    checkpoint: Statement<'c>,
}

/// Keeps a revision readable while it lives.
struct Pin<'c> {
    shared: &'c Shared,
    revision: Revision,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let awaited = lock(&self.shared.index).unpin(self.revision);
        if awaited {
            self.shared.queue.nudge();
        }
    }
}

impl<'c> Reader<'c> {
    pub(super) fn new(shared: &'c Shared, connection: &'c Connection) -> Result<Reader<'c>, Fault> {
        Ok(Reader {
            shared,
            connection,
            log: LogReader::new(connection)?,
            checkpoint: checkpoint::prepare(connection)?,
        })
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, requests: &mpsc::Receiver<Request>) {
        while let Ok(request) = requests.recv() {
            request(&mut self);
        }
    }

    /// Moves the write-ahead log into the file, as far as that goes without waiting.
    pub(super) fn checkpoint(&mut self) -> Result<(), Error> {
        checkpoint::run(&mut self.checkpoint).map_err(|fault| self.told(fault))
    }

    /// Lets the rows of one request be read under one lock of the file; taking it for each row costs more than the row.
    fn together(&self) -> Result<Transaction<'c>, Error> {
        self.connection.unchecked_transaction().map_err(|fault| self.told(fault.into()))
    }

    fn pin(&self, at: Option<Revision>) -> Result<Pin<'c>, Error> {
        let mut index = lock(&self.shared.index);
        let revision = index.readable(at)?;
        index.pin(revision);
        Ok(Pin { shared: self.shared, revision })
    }

    pub(super) fn get(&mut self, key: &Key, at: Option<Revision>) -> Result<Option<Record>, Error> {
        let pin = self.pin(at)?;
        let entry = lock(&self.shared.index).keys.get(key).copied();
        match entry {
            Some(entry) => self.revision_at(entry, pin.revision)?.map(|revision| self.record(revision)).transpose(),
            None => Ok(None),
        }
    }

    pub(super) fn range(&mut self, span: &Span, at: Option<Revision>, limit: Option<usize>) -> Result<Range, Error> {
        let pin = self.pin(at)?;
        let _together = self.together()?;
        let mut found: Vec<Revision> = Vec::new();
        let mut remaining = 0;
        let mut after: Option<Key> = None;
        loop {
            let keys = lock(&self.shared.index).keys_in(span, after.as_ref(), CHUNK);
            for (_, entry) in &keys {
                if limit.is_none_or(|limit| found.len() < limit) {
                    found.extend(self.revision_at(*entry, pin.revision)?);
                } else {
                    remaining += u64::from(self.exists_at(*entry, pin.revision)?);
                }
            }
            if keys.len() < CHUNK {
                break;
            }
            after = keys.into_iter().next_back().map(|(key, _)| key);
        }
        // Rows lie in the file by revision; read in that order, each page is read once.
        found.sort_unstable();
        let records: Result<Vec<Record>, Error> = found.into_iter().map(|revision| self.record(revision)).collect();
        let mut records = records?;
        records.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(Range { records, remaining, revision: pin.revision })
    }

    /// The changes after one revision up to another, in order.
    pub(super) fn page(&mut self, after: Revision, until: Revision, limit: usize) -> Result<Vec<StoredChange>, Error> {
        let pin = self.pin(Some(after))?;
        let rows = self.log.page(pin.revision, until, limit, PAGE_BYTES).map_err(|fault| self.told(fault))?;
        let mut expected = pin.revision;
        let mut changes = Vec::with_capacity(rows.len());
        for row in rows {
            expected = expected.next();
            if row.revision != expected {
                return Err(self.told(missing(expected)));
            }
            changes.push(self.change(row)?);
        }
        if changes.is_empty() && pin.revision < until {
            return Err(self.told(missing(expected.next())));
        }
        Ok(changes)
    }

    fn change(&self, row: Row) -> Result<StoredChange, Error> {
        let (revision, key, create_revision) = (row.revision, row.key.clone(), row.created);
        let value = if row.value.is_some() { Some(self.shared.record(row)?.value) } else { None };
        Ok(StoredChange { revision, key, value, create_revision })
    }

    /// The record of a revision that is known to have one.
    fn record(&mut self, revision: Revision) -> Result<Record, Error> {
        let row = self.log.row(revision).map_err(|fault| self.told(fault))?;
        self.shared.record(row)
    }

    fn exists_at(&mut self, entry: Entry, at: Revision) -> Result<bool, Error> {
        // The life that goes on (or ends) after `at` began before it.
        let lives = entry.created <= at && at < entry.revision;
        Ok(lives || self.revision_at(entry, at)?.is_some())
    }

    /// The row of the value that a key had at a pinned revision, walking back from its newest row.
    fn revision_at(&mut self, entry: Entry, at: Revision) -> Result<Option<Revision>, Error> {
        if entry.revision <= at {
            return Ok(Some(entry.revision).filter(|_| !entry.deleted));
        }
        let (mut revision, mut created) = (entry.revision, entry.created);
        let mut previous = entry.previous.map(|previous| Revision(previous.get()));
        loop {
            match previous {
                Some(before) if before > at => {
                    let links = self.log.links(before).map_err(|fault| self.told(fault))?;
                    let links = links.ok_or_else(|| self.told(missing(before)))?;
                    (revision, created, previous) = (before, links.created, links.previous);
                }
                // A row that does not begin a life comes after a value; one that does, after a deletion or nothing.
                before => return Ok(before.filter(|_| created < revision)),
            }
        }
    }

    fn told(&self, fault: Fault) -> Error {
        fault.at(&self.shared.path)
    }
}

/// Makes a request of a read, and what its answer comes through.
pub(super) fn request<T: Send + 'static>(
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error> + Send + 'static,
) -> (Request, oneshot::Receiver<Result<T, Error>>) {
    let (sender, receiver) = oneshot::channel();
    let request: Request = Box::new(move |reader| {
        // Nobody waits any more: nobody needs to know.
        let _ = sender.send(read(reader));
    });
    (request, receiver)
}
