//! Converts a store that is not encrypted. The rows are copied to a new file, which then takes the name of the old file
//! at once. A crash leaves either the old store or the new one. The old file is removed with its name; the disk may keep
//! its blocks until they are used again.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::embedded::acknowledged::AcknowledgedFile;
use crate::embedded::file::{self, DataDir, FileAccess, FileError};
use crate::embedded::log::{LogReader, LogWriter};
use crate::embedded::meta::{Meta, MetaWriter};
use crate::embedded::opening::{OpenedFile, Opener};
use crate::embedded::row_format::RowFormat;
use crate::{Error, HistoryRetention, Revision};

/// The number and the size of the rows that are read at once.
const PAGE_ROWS: usize = 1000;
const PAGE_BYTES: usize = 4 << 20;

/// The progress is logged after this number of rows.
const PROGRESS_ROWS: usize = 100_000;

/// Encrypts the store of a data directory. `access` has the form of the new file.
pub(in crate::embedded) fn convert(
    data_dir: &DataDir,
    access: &FileAccess,
    retention: HistoryRetention,
    accepted_loss: Option<Revision>,
) -> Result<(), Error> {
    let path = data_dir.store_file();
    tracing::info!(path = %path.display(), "Encrypting the store");
    let plain = FileAccess { format: RowFormat::Plain, ..access.clone() };
    let opened = open_and_close(&path, &plain, retention, accepted_loss);
    let (meta, old) = opened.map_err(|error| error.into_error(&path))?;
    let (mut records, mut unreadable) = (0, None);
    let created = data_dir.create(access, |new| {
        records = copy(&old, new).inspect_err(|error| {
            if let FileError::Corrupted(detail) = error {
                unreadable = Some(detail.clone());
            }
        })?;
        Ok(Meta { rows: Some(new.tally().sum()), ..meta })
    });
    if let (Err(_), Some(detail)) = (&created, unreadable) {
        let advice =
            "write or delete its object without encryption first, and wait until the history does not have it any more";
        return Err(Error::Encryption { path, detail: format!("it cannot be encrypted: {detail}; {advice}") });
    }
    created?;
    tracing::info!(path = %path.display(), records, "Encrypted the store");
    let damaged = file::damaged_log_path(&path);
    if damaged.exists() {
        tracing::warn!(path = %damaged.display(), "A damaged log from before the encryption is not encrypted");
    }
    Ok(())
}

/// Opens a store to check it, and closes it again, so that the file is complete without its log. Returns its meta record
/// and a connection that reads the file.
fn open_and_close(
    path: &Path,
    access: &FileAccess,
    retention: HistoryRetention,
    accepted_loss: Option<Revision>,
) -> Result<(Meta, Connection), FileError> {
    let acknowledged = AcknowledgedFile::beside(path, access.clone());
    let opener = Opener { path, access, acknowledged: &acknowledged, retention, accepted_loss };
    let OpenedFile { writer, reader, index, is_prepared } = opener.open()?;
    if !is_prepared {
        return Err(FileError::Io(std::io::ErrorKind::StorageFull.into()));
    }
    let meta = index.meta(false);
    MetaWriter::new(&writer, &access.format)?.write(&meta)?;
    drop(reader);
    file::copy_log(&writer)?;
    file::checkpoint_on_close(&writer);
    drop(writer);
    // A log would be taken for the log of the new file. SQLite has removed it with the last connection.
    match fs::metadata(file::log_path(path)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(FileError::Io(error)),
        Ok(_) => return Err(FileError::Io(std::io::Error::other("its write-ahead log is in use"))),
    }
    Ok((meta, file::open_without_log(path)?))
}

/// Copies all rows. Returns their number.
fn copy(old: &Connection, new: &mut LogWriter<'_>) -> Result<usize, FileError> {
    let mut log = LogReader::new(old, &RowFormat::Plain)?;
    let (mut records, mut after) = (0, Revision(0));
    loop {
        let rows = log.read_page(after, Revision(u64::MAX), PAGE_ROWS, PAGE_BYTES)?;
        let Some(last) = rows.last() else { return Ok(records) };
        after = last.revision;
        rows.iter().try_for_each(|row| new.insert(row))?;
        let before = records / PROGRESS_ROWS;
        records += rows.len();
        if records / PROGRESS_ROWS > before {
            tracing::info!(records, "Encrypting the store");
        }
    }
}
