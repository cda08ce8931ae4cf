//! Compaction removes rows that have left the retention. Its steps are small enough to share a transaction with
//! commits. It returns free pages to the file system when the store is idle.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement};

use super::EngineState;
use super::file::FileError;
use super::index::KeyIndex;
use super::log::{LogReader, LogWriter, RowHeader};
use super::meta::{Meta, MetaWriter, RevisionSet};
use super::row_format::RowFormat;
use crate::{Key, Revision, Timestamp};

/// The number of log rows that a step scans for each row that the transaction writes. It is larger than one, so that
/// compaction catches up with writers.
const ROWS_PER_WRITE: usize = 2;

/// The number of rows that a step scans in addition.
const MIN_STEP_ROWS: usize = 128;

/// The number of rows that a step scans if nothing is written.
const IDLE_STEP_ROWS: usize = 1024;

/// A step ends after this time even if it is not complete.
const MAX_STEP_TIME: Duration = Duration::from_millis(5);

/// The number of pages that one vacuum step frees (1 MiB).
const VACUUM_PAGES: u32 = 256;

/// The number of free pages that are always kept for growth (16 MiB).
const MIN_FREE_PAGES: i64 = 4096;

/// The result of a compaction step inside a transaction that is not yet committed.
#[derive(Debug)]
pub(super) struct CompactionStep {
    /// True if the step changed the file.
    pub(super) wrote: bool,
    /// The number of removed rows.
    pub(super) removed: usize,
    /// True if the last vacuum step has been done, so the file can be truncated.
    pub(super) vacuum_finished: bool,
    purged_revision: Revision,
    retained: RevisionSet,
    saved_revision: Option<Revision>,
    /// Tombstones whose rows are removed.
    removed_tombstones: Vec<(Revision, Key)>,
}

pub(super) struct Compactor<'c> {
    free_pages: Statement<'c>,
    all_pages: Statement<'c>,
    vacuum: Statement<'c>,
    meta: MetaWriter<'c>,
    /// The compact revision that is saved in the file.
    saved_revision: Revision,
    /// True if rows were removed since the free pages were last counted.
    removed: bool,
    vacuum_running: bool,
}

impl<'c> Compactor<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        format: &RowFormat,
        saved_revision: Revision,
    ) -> Result<Compactor<'c>, FileError> {
        Ok(Compactor {
            free_pages: connection.prepare("PRAGMA freelist_count")?,
            all_pages: connection.prepare("PRAGMA page_count")?,
            vacuum: connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?,
            meta: MetaWriter::new(connection, format)?,
            saved_revision,
            removed: true,
            vacuum_running: false,
        })
    }

    /// Returns true if a step has something to do now.
    pub(super) fn has_work(&self, index: &KeyIndex) -> bool {
        self.removed
            || index.purged_revision < index.purgeable_revision()
            || index.retention_tracker.exceeds_size()
            || self.has_unsaved_revision(index)
    }

    /// Returns true if the compact revision is newer than the saved one.
    pub(super) fn has_unsaved_revision(&self, index: &KeyIndex) -> bool {
        index.compact_revision > self.saved_revision
    }

    /// Runs one step inside the open transaction, which has written `written` rows. With `probe` the step writes even
    /// if there is nothing to compact, to find out whether writes succeed again. The step is the last part of the
    /// transaction, because it writes the meta record.
    pub(super) fn run_step(
        &mut self,
        shared: &EngineState,
        reader: &mut LogReader<'_>,
        writer: &mut LogWriter<'_>,
        written: usize,
        probe: bool,
        now: Timestamp,
    ) -> Result<CompactionStep, FileError> {
        let (meta, until, has_unsaved) = {
            let mut index = shared.index.lock();
            if let Some(compactable_revision) = index.retention_tracker.compactable_revision(now) {
                index.compact_revision = index.compact_revision.max(compactable_revision);
            }
            (index.meta(true), index.purgeable_revision(), self.has_unsaved_revision(&index))
        };
        let Meta { compact_revision, purged_revision, .. } = meta;
        let mut step = CompactionStep {
            wrote: false,
            removed: 0,
            vacuum_finished: false,
            purged_revision,
            retained: meta.retained.unwrap_or_default(),
            saved_revision: None,
            removed_tombstones: Vec::new(),
        };
        if purged_revision < until {
            let limit = if written == 0 { IDLE_STEP_ROWS } else { MIN_STEP_ROWS + ROWS_PER_WRITE * written };
            let mut scanned: Vec<RowHeader> = Vec::new();
            reader.scan(purged_revision, until, limit, |row, _| {
                scanned.push(row);
                Ok(())
            })?;
            let started = Instant::now();
            for row in scanned {
                step.retained.add(row.revision);
                if let Some(obsolete) = row.previous.filter(|_| row.create_revision < row.revision) {
                    writer.delete(obsolete)?;
                    step.retained.remove(obsolete);
                    step.removed += 1;
                }
                if row.size.is_none() {
                    writer.delete(row.revision)?;
                    step.retained.remove(row.revision);
                    step.removed += 1;
                    step.removed_tombstones.push((row.revision, row.key));
                }
                step.purged_revision = row.revision;
                if started.elapsed() > MAX_STEP_TIME {
                    break;
                }
            }
            self.removed = true;
        } else if self.removed && written == 0 {
            step.wrote = self.vacuum_step()?;
            self.removed = step.wrote;
            step.vacuum_finished = self.vacuum_running && !step.wrote;
            self.vacuum_running = step.wrote;
        }
        if step.purged_revision > purged_revision || has_unsaved || (probe && written == 0) || writer.is_changed() {
            let (purged_revision, retained) = (step.purged_revision, Some(step.retained));
            let (newest, rows) = (writer.newest().or(meta.newest), Some(writer.tally().sum()));
            self.meta.write(&Meta { purged_revision, retained, newest, rows, ..meta })?;
            step.saved_revision = Some(compact_revision);
            step.wrote = true;
        }
        Ok(step)
    }

    /// Frees some pages if more than a quarter of the file is free. Returns true if it freed pages.
    fn vacuum_step(&mut self) -> Result<bool, FileError> {
        let free: i64 = self.free_pages.query_row([], |row| row.get(0))?;
        let all: i64 = self.all_pages.query_row([], |row| row.get(0))?;
        if free <= MIN_FREE_PAGES.max(all / 4) {
            return Ok(false);
        }
        let mut steps = self.vacuum.query([])?;
        while steps.next()?.is_some() {}
        Ok(true)
    }

    /// Writes that the store is closed, inside a transaction.
    pub(super) fn write_closed(&mut self, index: &KeyIndex) -> Result<(), FileError> {
        self.meta.write(&index.meta(false))
    }

    /// Updates the index after the transaction of a step is committed.
    pub(super) fn finish(&mut self, index: &mut KeyIndex, step: CompactionStep) {
        index.purged_revision = step.purged_revision;
        index.retained = step.retained;
        self.saved_revision = step.saved_revision.unwrap_or(self.saved_revision);
        for (revision, key) in step.removed_tombstones {
            // The key may have been created again.
            index.remove_row(&key, revision);
        }
    }
}
