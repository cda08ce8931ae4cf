//! Compaction: what has left the window goes from the file in slices small enough to ride along with commits, and
//! pages that stay free are given back when there is nothing else to do.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement};

use super::Shared;
use super::file::Fault;
use super::index::Index;
use super::rows::{Links, LogReader, LogWriter};
use crate::{Key, Revision, Timestamp, lock};

/// How many log rows a slice looks at for each that the transaction writes, so that sweeping overtakes writing.
const PACE: usize = 2;

/// How many it looks at beside those.
const SLICE: usize = 128;

/// How many it looks at when nothing is written.
const IDLE_SLICE: usize = 1024;

/// A slice ends after this time even when it is not through.
const SLICE_TIME: Duration = Duration::from_millis(5);

/// Pages given back in one step (1 MiB).
const VACUUM: u32 = 256;

/// Free pages that are kept for growth whatever the size of the file (16 MiB).
const SPARE: i64 = 4096;

/// What a slice did inside a transaction that is not yet committed.
#[derive(Debug)]
pub(super) struct Sweep {
    /// The transaction changed the file.
    pub(super) wrote: bool,
    /// How many rows it removed.
    pub(super) removed: usize,
    /// The last free pages that are to be given back have been cut off.
    pub(super) ended_vacuum: bool,
    swept: Revision,
    recorded: Option<Revision>,
    /// Deletions whose rows are gone.
    forgotten: Vec<(Revision, Key)>,
}

pub(super) struct Sweeper<'c> {
    free_pages: Statement<'c>,
    all_pages: Statement<'c>,
    vacuum: Statement<'c>,
    /// What the file says about how far history is compacted.
    recorded: Revision,
    /// Rows were removed since the free pages were last counted.
    removed: bool,
    vacuuming: bool,
}

impl<'c> Sweeper<'c> {
    pub(super) fn new(connection: &'c Connection, recorded: Revision) -> Result<Sweeper<'c>, Fault> {
        Ok(Sweeper {
            free_pages: connection.prepare("PRAGMA freelist_count")?,
            all_pages: connection.prepare("PRAGMA page_count")?,
            vacuum: connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM})"))?,
            recorded,
            removed: true,
            vacuuming: false,
        })
    }

    /// Whether there is something to do at once.
    pub(super) fn has_work(&self, index: &Index) -> bool {
        self.removed || index.swept < index.sweepable() || index.timeline.is_full() || self.is_unrecorded(index)
    }

    /// The file does not say yet how far history is compacted.
    pub(super) fn is_unrecorded(&self, index: &Index) -> bool {
        index.compacted > self.recorded
    }

    /// Does one slice inside the open transaction, which writes `written` rows of its own.
    pub(super) fn step(
        &mut self,
        shared: &Shared,
        reader: &mut LogReader<'_>,
        writer: &mut LogWriter<'_>,
        written: usize,
        now: Timestamp,
    ) -> Result<Sweep, Fault> {
        let (compacted, swept, until, unrecorded) = {
            let mut index = lock(&shared.index);
            if let Some(horizon) = index.timeline.horizon(now) {
                index.compacted = index.compacted.max(horizon);
            }
            (index.compacted, index.swept, index.sweepable(), self.is_unrecorded(&index))
        };
        let mut sweep =
            Sweep { wrote: false, removed: 0, ended_vacuum: false, swept, recorded: None, forgotten: Vec::new() };
        if swept < until {
            let limit = if written == 0 { IDLE_SLICE } else { SLICE + PACE * written };
            let mut passed: Vec<Links> = Vec::new();
            reader.scan(swept, until, limit, |row| {
                passed.push(row);
                Ok(())
            })?;
            let started = Instant::now();
            for row in passed {
                if let Some(superseded) = row.previous.filter(|_| row.created < row.revision) {
                    writer.delete(superseded)?;
                    sweep.removed += 1;
                }
                if row.size.is_none() {
                    writer.delete(row.revision)?;
                    sweep.removed += 1;
                    sweep.forgotten.push((row.revision, row.key));
                }
                sweep.swept = row.revision;
                if started.elapsed() > SLICE_TIME {
                    break;
                }
            }
            self.removed = true;
        } else if self.removed && written == 0 {
            sweep.wrote = self.give_back()?;
            self.removed = sweep.wrote;
            sweep.ended_vacuum = self.vacuuming && !sweep.wrote;
            self.vacuuming = sweep.wrote;
        }
        if sweep.swept > swept || unrecorded {
            writer.set_meta(compacted, sweep.swept)?;
            sweep.recorded = Some(compacted);
            sweep.wrote = true;
        }
        Ok(sweep)
    }

    /// Shortens the file by some free pages when more than a quarter of it is free; tells whether it did.
    fn give_back(&mut self) -> Result<bool, Fault> {
        let free: i64 = self.free_pages.query_row([], |row| row.get(0))?;
        let all: i64 = self.all_pages.query_row([], |row| row.get(0))?;
        if free <= SPARE.max(all / 4) {
            return Ok(false);
        }
        let mut steps = self.vacuum.query([])?;
        while steps.next()?.is_some() {}
        Ok(true)
    }

    /// Brings the index up to a slice that is committed now.
    pub(super) fn finish(&mut self, index: &mut Index, sweep: Sweep) {
        index.swept = sweep.swept;
        self.recorded = sweep.recorded.unwrap_or(self.recorded);
        for (revision, key) in sweep.forgotten {
            // The key may live again.
            if index.keys.get(&key).is_some_and(|entry| entry.revision == revision) {
                index.keys.remove(&key);
            }
        }
    }
}
