//! Opens the file. Before it modifies anything, it reads everything and finds out whether acknowledged changes are
//! missing.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::acknowledged::AcknowledgedFile;
use super::file::{self, FileAccess, FileError};
use super::index::KeyIndex;
use super::log::{LogWriter, revisions};
use super::meta::{META_SCHEMA, Meta, MetaWriter, PLAIN_VERSION, RevisionSet};
use super::row_format::RowFormat;
use super::structure;
use super::wal::{self, WalCheck};
use crate::{HistoryRetention, Revision};

/// The number of revisions that are skipped after accepted losses, in addition to the known ones. The newest
/// acknowledged revision is synced a second late, and the store file is never behind by so many changes.
const SKIPPED_REVISIONS: u64 = 1_000_000;

/// Acknowledged changes that are not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// The newest revision that is complete.
    pub(super) after: Revision,
    /// The newest acknowledged revision, if it is known.
    pub(super) until: Option<Revision>,
    /// A description of the damage.
    pub(super) cause: String,
}

/// A file that was opened and read.
pub(super) struct OpenedFile {
    pub(super) writer: Connection,
    pub(super) reader: Connection,
    pub(super) index: KeyIndex,
    /// False if the disk is too full. Then the store can be read, but nothing may be written before [`prepare`]
    /// succeeds.
    pub(super) is_prepared: bool,
}

/// Opens a store file with these settings.
pub(super) struct Opener<'o> {
    pub(super) path: &'o Path,
    pub(super) access: &'o FileAccess,
    pub(super) acknowledged: &'o AcknowledgedFile,
    pub(super) retention: HistoryRetention,
    /// Acknowledged changes after this revision may be lost.
    pub(super) accepted_loss: Option<Revision>,
}

impl Opener<'_> {
    /// Opens the file.
    ///
    /// The log may hold changes that an earlier process failed to sync: the file system shows them, but the disk may
    /// not have them. So the log is written again before SQLite reads it, and copied to the file as a whole.
    pub(super) fn open(&self) -> Result<OpenedFile, FileError> {
        if let RowFormat::Sealed(ring) = &self.access.format {
            ring.check(self.path, self.access)?;
        }
        let mut is_full = false;
        let mut or_full = |result: Result<(), FileError>| match result {
            Err(error) if error.is_disk_full() => {
                is_full = true;
                Ok(())
            }
            result => result,
        };
        or_full(file::rewrite_log(self.path, self.access))?;
        let log = wal::check(&file::log_path(self.path)).map_err(FileError::Io)?;
        if let Some(offset) = log.damaged_at {
            return self.open_damaged(&log, offset);
        }
        let (opened, meta) = self.load()?;
        if let Some(loss) = self.find_loss(&log, &meta, opened.index.revision)? {
            check_structure(&opened.writer)?;
            return self.accept(opened, loss);
        }
        if meta.is_open && log.is_empty {
            // The file is marked as open but has no log, so another program has removed the log.
            check_structure(&opened.writer)?;
        }
        or_full(prepare(self.path, &opened.writer, self.access, self.acknowledged, &opened.index))?;
        if let Some(after) = self.accepted_loss {
            tracing::info!(%after, "No acknowledged change is lost, so no loss has to be accepted");
        }
        if is_full {
            let path = self.path.display();
            tracing::warn!(%path, "The disk is full: the store accepts no writes until there is space");
        }
        Ok(OpenedFile { is_prepared: !is_full, ..opened })
    }

    /// Reads the file and its log.
    fn load(&self) -> Result<(OpenedFile, Meta), FileError> {
        let mut writer = file::open_writer(self.path, self.access)?;
        let mut reader = file::open_reader(self.path, self.access)?;
        let format = &self.access.format;
        let meta = read_meta(&writer, format)?;
        let index = KeyIndex::load([&mut writer, &mut reader], format, self.retention, &meta)?;
        Ok((OpenedFile { writer, reader, index, is_prepared: false }, meta))
    }

    /// Finds out whether acknowledged changes are missing at the end.
    fn find_loss(&self, log: &WalCheck, meta: &Meta, newest: Revision) -> Result<Option<Loss>, FileError> {
        let acknowledged = self.acknowledged.read()?;
        let log_file = file::log_path(self.path);
        let log_file = log_file.display();
        let until = acknowledged.max(log.newest).filter(|until| *until > newest);
        let cause = if log.is_empty && !meta.is_open {
            "it is older than its newest acknowledged revision".to_owned()
        } else if log.is_empty {
            format!("its write-ahead log {log_file} is missing or empty")
        } else if log.is_header_damaged {
            format!("the header of its write-ahead log {log_file} is damaged")
        } else {
            format!("its write-ahead log {log_file} ends too early")
        };
        let may_be_missing = match self.access.format {
            // A power loss can take the file with the acknowledged revision.
            RowFormat::Plain => acknowledged.is_none() && (log.is_empty || log.is_header_damaged),
            // It is synced before the store is marked as open. Without it, the log could be cut off unnoticed.
            RowFormat::Sealed(_) => !self.acknowledged.is_authentic()?,
        };
        let is_incomplete = meta.is_open && may_be_missing;
        let cause = if is_incomplete && until.is_none() && !(log.is_empty || log.is_header_damaged) {
            "its newest acknowledged revision is missing or not authentic".to_owned()
        } else {
            cause
        };
        Ok((until.is_some() || is_incomplete).then_some(Loss { after: newest, until, cause }))
    }

    /// Opens a file whose log goes on after a damaged frame. SQLite reads the log up to that frame. But if later pages
    /// of the log are already in the file, only the file without the log may be consistent.
    fn open_damaged(&self, log: &WalCheck, offset: u64) -> Result<OpenedFile, FileError> {
        let log_file = file::log_path(self.path);
        let cause =
            format!("its write-ahead log {} is damaged at byte {offset} and goes on after that", log_file.display());
        let with_log = self.load().and_then(|(opened, _)| check_structure(&opened.writer).map(|()| opened));
        let without_log = self.newest_without_log();
        let acknowledged = self.acknowledged.read()?.max(log.newest);
        let loss = |after: Revision| {
            let until = acknowledged.filter(|until| *until > after);
            Loss { after, until, cause: cause.clone() }
        };
        match (with_log, without_log) {
            (Ok(opened), without_log) if without_log.is_none_or(|newest| newest <= opened.index.revision) => {
                let after = opened.index.revision;
                self.accept(opened, loss(after))
            }
            (with_log, Some(after)) => {
                drop(with_log);
                let loss = loss(after);
                self.check_accepted(&loss)?;
                self.skip_revisions(&loss)?;
                std::fs::rename(&log_file, file::damaged_log_path(self.path)).map_err(FileError::Io)?;
                let (opened, _) = self.load()?;
                self.accept(opened, loss)
            }
            (_, None) => Err(FileError::Corrupted(format!("{cause}, and the rest is not consistent"))),
        }
    }

    /// The newest revision of the file without its log, if the file alone is consistent.
    fn newest_without_log(&self) -> Option<Revision> {
        let read = || -> Result<Revision, FileError> {
            let mut connections = [file::open_without_log(self.path)?, file::open_without_log(self.path)?];
            let [connection, _] = &connections;
            check_structure(connection)?;
            let format = &self.access.format;
            let meta = read_meta(connection, format)?;
            Ok(KeyIndex::load(connections.each_mut(), format, self.retention, &meta)?.revision)
        };
        read().ok()
    }

    fn check_accepted(&self, loss: &Loss) -> Result<(), FileError> {
        if self.accepted_loss == Some(loss.after) { Ok(()) } else { Err(FileError::Lost(loss.clone())) }
    }

    /// Makes sure that no lost revision is given out again, even if this call is interrupted. Returns the revision with
    /// which the store goes on.
    fn skip_revisions(&self, loss: &Loss) -> Result<Revision, FileError> {
        let newest = self.acknowledged.read()?.max(loss.until).unwrap_or_default().max(loss.after);
        let base = Revision(newest.0 + SKIPPED_REVISIONS);
        self.acknowledged.begin(base)?;
        Ok(base)
    }

    /// Goes on without the lost changes if the operator accepts the loss. The history ends: the readable revisions
    /// begin after all revisions that were ever given out.
    fn accept(&self, opened: OpenedFile, loss: Loss) -> Result<OpenedFile, FileError> {
        self.check_accepted(&loss)?;
        let base = self.skip_revisions(&loss)?;
        let path = self.path.display();
        tracing::warn!(%path, cause = loss.cause, after = %loss.after, next = %base.next(), "Acknowledged changes are lost");
        let OpenedFile { writer, reader, index, .. } = opened;
        file::copy_log(&writer)?;
        let format = &self.access.format;
        write_open(&writer, format, |connection| {
            let live: HashSet<Revision> = index.live_rows().collect();
            let mut log = LogWriter::new(connection, format, index.rows.clone())?;
            let mut retained = RevisionSet::default();
            for revision in revisions(connection)? {
                if live.contains(&revision) {
                    retained.add(revision);
                } else {
                    log.delete(revision)?;
                }
            }
            let (retained, rows) = (Some(retained), Some(log.tally().sum()));
            Ok(Meta { retained, is_open: true, rows, ..Meta::beginning_after(base) })
        })?;
        drop((writer, reader));
        let (opened, _) = self.load()?;
        Ok(OpenedFile { is_prepared: true, ..opened })
    }
}

/// Checks the tables, and reads the data keys and the meta record.
fn read_meta(connection: &Connection, format: &RowFormat) -> Result<Meta, FileError> {
    if let RowFormat::Sealed(ring) = format {
        ring.load(connection)?;
    }
    let meta = Meta::read(connection, format)?;
    file::check_schema(connection, format)?;
    Ok(meta)
}

/// Makes a file that was read ready for writes. It records the newest revision as acknowledged, copies the log to the
/// file, and checks the structure that only writes need. It marks the file as open, so that the file is not taken for
/// complete without its log.
pub(super) fn prepare(
    path: &Path,
    connection: &Connection,
    access: &FileAccess,
    acknowledged: &AcknowledgedFile,
    index: &KeyIndex,
) -> Result<(), FileError> {
    acknowledged.begin(index.revision)?;
    file::copy_log(connection)?;
    structure::check(path)?;
    write_open(connection, &access.format, |_| Ok(index.meta(true)))
}

/// Writes the meta record of an open store, and copies it to the file. A file of an older format gets the current
/// format.
fn write_open(
    connection: &Connection,
    format: &RowFormat,
    change: impl FnOnce(&Connection) -> Result<Meta, FileError>,
) -> Result<(), FileError> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let meta = change(&transaction)?;
    if file::format_version(&transaction)? < PLAIN_VERSION {
        transaction.execute_batch(&format!("DROP TABLE meta; {META_SCHEMA}"))?;
        transaction.pragma_update(None, "user_version", PLAIN_VERSION)?;
    }
    MetaWriter::new(&transaction, format)?.write(&meta)?;
    transaction.commit()?;
    file::copy_log_without_truncating(connection)
}

/// Lets SQLite check the whole file. This takes long.
fn check_structure(connection: &Connection) -> Result<(), FileError> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(FileError::Corrupted(found)) }
}
