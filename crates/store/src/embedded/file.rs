//! The data directory and its one file. This module locks the directory, creates a new store file and checks an
//! existing one. A new file gets its name only when it is complete and synced, so that a crash leaves either a store or
//! nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi};

use super::acknowledged;
use super::encryption::RowTally;
use super::log::{LogRow, LogWriter};
use super::meta::{META_SCHEMA_1, Meta, MetaWriter, PLAIN_VERSION};
use super::opening::Loss;
use super::row_format::{RowFormat, SEALED_VERSION};
use super::{Durability, Vfs};
use crate::{Error, Revision};

/// The name of the store file in the data directory.
pub(super) const STORE_FILE: &str = "pintle.db";

/// The name of the file that is locked while a process uses the directory.
const LOCK_FILE: &str = "pintle.lock";

/// The application id in SQLite's header ("Pntl"), which identifies a Pintle store.
const APPLICATION_ID: i32 = 0x506e_746c;

/// The oldest format version that can be read. Opening a file converts it to the current format.
const OLDEST_FORMAT_VERSION: i64 = 1;

/// The size of a page.
pub(super) const PAGE_BYTES: usize = 4096;

/// The number of bytes of the write-ahead log that are rewritten at once.
const REWRITE_BYTES: usize = 1 << 20;

/// SQLite's number of the mode `INCREMENTAL` of `auto_vacuum`.
const INCREMENTAL_VACUUM: i64 = 2;

/// The characters that are percent-encoded in the path of a URI.
const URI_PATH: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS.add(b'%').add(b'?').add(b'#');

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// An error of an operation on the file; [`FileError::into_error`] converts it to the public error.
#[derive(Debug)]
pub(super) enum FileError {
    Sqlite(rusqlite::Error),
    /// An error of an operation without SQLite.
    Io(std::io::Error),
    Corrupted(String),
    /// Acknowledged changes are missing at the end.
    Lost(Loss),
    /// A data key is missing, or the file is not encrypted as expected.
    Encryption(String),
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> FileError {
        FileError::Sqlite(error)
    }
}

impl FileError {
    /// Converts to the public error for the file at `path`.
    pub(super) fn into_error(self, path: &Path) -> Error {
        let path = path.to_owned();
        let error = match self {
            FileError::Corrupted(detail) => return Error::Corrupted { path, detail },
            FileError::Lost(Loss { after, until, cause }) => return Error::LostChanges { path, after, until, cause },
            FileError::Io(error) => return io(&path)(error),
            FileError::Encryption(detail) => return Error::Encryption { path, detail },
            FileError::Sqlite(error) => error,
        };
        let detail = error.to_string();
        match error {
            // A column has another type than the schema says.
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows => Error::Corrupted { path, detail },
            // The statements are correct, so the tables differ from the schema.
            rusqlite::Error::SqliteFailure(cause, _) if cause.extended_code == ffi::SQLITE_ERROR => {
                Error::Corrupted { path, detail }
            }
            rusqlite::Error::SqliteFailure(cause, _) => match cause.code {
                ErrorCode::DatabaseCorrupt => Error::Corrupted { path, detail },
                ErrorCode::NotADatabase => Error::NotAStore { path, detail },
                ErrorCode::DiskFull => Error::DiskFull { path },
                _ => Error::Io { path, detail },
            },
            rusqlite::Error::SqlInputError { .. } => Error::Corrupted { path, detail },
            _ => Error::Io { path, detail },
        }
    }

    /// Returns true if the content is wrong, so that another attempt does not help.
    pub(super) fn is_corruption(&self) -> bool {
        match self {
            FileError::Corrupted(_) | FileError::Lost(_) => true,
            FileError::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) => {
                matches!(cause.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            }
            FileError::Sqlite(_) | FileError::Io(_) | FileError::Encryption(_) => false,
        }
    }

    /// Returns true if the disk is full.
    pub(super) fn is_disk_full(&self) -> bool {
        match self {
            FileError::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) => cause.code == ErrorCode::DiskFull,
            FileError::Io(error) => is_disk_full(error),
            _ => false,
        }
    }

    /// Returns true if the disk may have lost synced data, so that no later commit can be trusted.
    pub(super) fn is_failed_sync(&self) -> bool {
        let FileError::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) = self else { return false };
        matches!(
            cause.extended_code,
            ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE
        )
    }
}

/// How the files of a store are accessed.
#[derive(Clone, Debug, Default)]
pub(super) struct FileAccess {
    pub(super) vfs: Option<Vfs>,
    pub(super) durability: Durability,
    /// The form of the store file. An encrypted form has the data keys.
    pub(super) format: RowFormat,
}

/// SQLite's level of synchronization.
fn synchronous(durability: Durability) -> &'static str {
    match durability {
        Durability::Synced => "FULL",
        Durability::Unsynced => "OFF",
    }
}

/// The lock on the data directory, held until dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    lock: File,
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that was just forked from this one may still hold a copy of the
        // descriptor.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, path = %self.path.display(), "Failed to unlock the data directory");
        }
    }
}

impl DataDir {
    /// Locks the directory and creates it if it does not exist.
    pub(super) fn lock(path: &Path) -> Result<DataDir, Error> {
        create_dir(path)?;
        let lock_path = path.join(LOCK_FILE);
        let mut lock = owner_only()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The process id only improves the error message.
                let _ = lock.read_to_string(&mut text);
                return Err(Error::Locked { path: path.to_owned(), pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(io(&lock_path)(error)),
        }
        lock.set_len(0).map_err(io(&lock_path))?;
        write!(lock, "{}", std::process::id()).map_err(io(&lock_path))?;
        Ok(DataDir { path: path.to_owned(), lock })
    }

    pub(super) fn store_file(&self) -> PathBuf {
        self.path.join(STORE_FILE)
    }

    /// Checks the existing store file, or creates an empty one. Returns true if the existing file is encrypted.
    pub(super) fn ensure_store_file(&self, access: &FileAccess) -> Result<bool, Error> {
        let path = self.store_file();
        if path.try_exists().map_err(io(&path))? {
            return check_header(&path).map(|version| version == SEALED_VERSION);
        }
        for (name, file) in [
            ("write-ahead log", log_path(&path)),
            ("file with the newest acknowledged revision", acknowledged::path_of(&path)),
        ] {
            if file.try_exists().map_err(io(&file))? {
                let detail = format!(
                    "it is missing, but its {name} {} exists (delete that if the directory is to begin empty)",
                    file.display()
                );
                return Err(Error::Corrupted { path, detail });
            }
        }
        self.create(access, |_| Ok(Meta::beginning_after(Revision::EMPTY)))?;
        Ok(matches!(access.format, RowFormat::Sealed(_)))
    }

    /// Creates a store file whose log begins with this row. All history before the row counts as compacted.
    pub(super) fn create_store_file(&self, first: &LogRow, access: &FileAccess) -> Result<(), Error> {
        let path = self.store_file();
        for file in [path.clone(), log_path(&path), acknowledged::path_of(&path)] {
            if file.try_exists().map_err(io(&file))? {
                let detail = format!("{} exists", file.display());
                return Err(Error::Io { path, detail });
            }
        }
        self.create(access, |log| {
            log.insert(first)?;
            let before = Revision(first.revision.get() - 1);
            let rows = Some(log.tally().sum());
            let (compact_revision, purged_revision) = (before, before);
            let meta = Meta::beginning_after(Revision::EMPTY);
            Ok(Meta { compact_revision, purged_revision, newest: Some(first.revision), rows, ..meta })
        })
    }

    /// Creates a store file, or replaces it, with the rows and the meta record that `fill` writes and returns. A crash
    /// leaves either the old state or the new file.
    pub(super) fn create(
        &self,
        access: &FileAccess,
        fill: impl FnOnce(&mut LogWriter<'_>) -> Result<Meta, FileError>,
    ) -> Result<(), Error> {
        let path = self.store_file();
        let new = self.path.join(format!("{STORE_FILE}.new"));
        for leftover in [new.clone(), self.path.join(format!("{STORE_FILE}.new-journal"))] {
            match fs::remove_file(&leftover) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&leftover)(error)),
                _ => {}
            }
        }
        // SQLite's other files inherit this file's mode, so that no other user can read the Secrets in them.
        let file = owner_only().write(true).create_new(true).open(&new).map_err(io(&new))?;
        write_new(&new, access, fill).map_err(|error| match error {
            // The operator knows the name of the complete file.
            error @ FileError::Encryption(_) => error.into_error(&path),
            error => error.into_error(&new),
        })?;
        if access.durability == Durability::Unsynced {
            return fs::rename(&new, &path).map_err(io(&path));
        }
        file.sync_all().map_err(io(&new))?;
        // The log of a replaced file must be gone before the new file has its name.
        sync_dir(&self.path).map_err(io(&self.path))?;
        fs::rename(&new, &path).map_err(io(&path))?;
        sync_dir(&self.path).map_err(io(&self.path))
    }
}

/// Writes a file that is not in use yet. A crash leaves an incomplete file, which is removed later, so nothing is
/// journaled.
fn write_new(
    path: &Path,
    access: &FileAccess,
    fill: impl FnOnce(&mut LogWriter<'_>) -> Result<Meta, FileError>,
) -> Result<(), FileError> {
    let format = &access.format;
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", synchronous(access.durability))?;
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
    // This mode allows freeing pages in small steps. A full VACUUM would block writers.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", format.version())?;
    connection.execute_batch("BEGIN")?;
    for (_, schema) in format.tables() {
        connection.execute_batch(schema)?;
    }
    if let RowFormat::Sealed(ring) = format {
        ring.create(&connection)?;
    }
    let meta = fill(&mut LogWriter::new(&connection, format, RowTally::default())?)?;
    MetaWriter::new(&connection, format)?.write(&meta)?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Checks the header before SQLite reads it. This gives a better error message. Returns the format version.
fn check_header(path: &Path) -> Result<i64, Error> {
    let mut header = Vec::with_capacity(100);
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut header)).map_err(io(path))?;
    let not_a_store = |detail: String| Err(Error::NotAStore { path: path.to_owned(), detail });
    if header.is_empty() {
        return not_a_store("it is empty".to_owned());
    }
    if !header.starts_with(MAGIC) || header.len() < 100 {
        return not_a_store(
            "it has no SQLite header, so it is another program's file or its start is overwritten".to_owned(),
        );
    }
    let word = |at: usize| header[at..at + 4].iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    match word(68) {
        id if id == APPLICATION_ID.cast_unsigned() => {}
        id => return not_a_store(format!("it is an SQLite database of another program (application id {id:#010x})")),
    }
    match i64::from(word(60)) {
        version @ OLDEST_FORMAT_VERSION..=SEALED_VERSION => Ok(version),
        found => Err(Error::NewerFormat { path: path.to_owned(), found, supported: SEALED_VERSION }),
    }
}

/// The format version of the file. The version in the file's header may be older if the log has a newer one.
pub(super) fn format_version(connection: &Connection) -> Result<i64, FileError> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Checks that the tables match the schema of the format, so that each statement has its intended effect.
pub(super) fn check_schema(connection: &Connection, format: &RowFormat) -> Result<(), FileError> {
    let version = format_version(connection)?;
    let is_old = version < PLAIN_VERSION && matches!(format, RowFormat::Plain);
    if version != format.version() && !is_old {
        return Err(FileError::Corrupted(format!("it has the format version {version} inside")));
    }
    for (name, schema) in format.tables() {
        let schema = if is_old && *name == "meta" { META_SCHEMA_1 } else { schema };
        let query = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND tbl_name = ?1";
        let found: Option<String> = connection.query_row(query, [name], |row| row.get(0)).optional()?;
        let is_same = found.is_some_and(|found| found.split_whitespace().eq(schema.split_whitespace()));
        if !is_same {
            return Err(FileError::Corrupted(format!("its table {name} is missing or has another schema")));
        }
    }
    let auto_vacuum: i64 = connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0))?;
    if auto_vacuum == INCREMENTAL_VACUUM {
        Ok(())
    } else {
        Err(FileError::Corrupted("its header is damaged".to_owned()))
    }
}

/// Opens the store file for the committing thread.
///
/// A commit returns after its part of the WAL is synced (`synchronous=FULL`). SQLite's automatic checkpoint is off: it
/// ignores errors, and after a failed sync no other sync may follow.
pub(super) fn open_writer(path: &Path, access: &FileAccess) -> Result<Connection, FileError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, access)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(FileError::Corrupted(format!("the journal mode is {mode} and cannot be changed")));
    }
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    connection.pragma_update(None, "cache_size", -4096)?;
    Ok(connection)
}

/// The write-ahead log of a store file.
pub(super) fn log_path(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// The place of a write-ahead log that was put aside because it is damaged.
pub(super) fn damaged_log_path(path: &Path) -> PathBuf {
    path.with_extension("db-wal.damaged")
}

/// Writes the write-ahead log again, in place, and syncs it. SQLite copies the pages that it reads from the log to the
/// file. If the disk did not have the log, a power loss in the middle would leave a part of a transaction in the file.
pub(super) fn rewrite_log(path: &Path, access: &FileAccess) -> Result<(), FileError> {
    if access.durability == Durability::Unsynced {
        return Ok(());
    }
    let log = log_path(path);
    let rewritten = match &access.vfs {
        Some(vfs) => (vfs.rewrite)(&vfs.name, &log),
        None => rewrite(&log),
    };
    rewritten.map_err(FileError::Io)
}

/// Writes the content of a file again and syncs it. If the file does not exist, it is not created.
fn rewrite(path: &Path) -> std::io::Result<()> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut chunk = vec![0; REWRITE_BYTES];
    loop {
        let start = file.stream_position()?;
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return file.sync_all();
        }
        file.seek(SeekFrom::Start(start))?;
        file.write_all(&chunk[..read])?;
    }
}

/// Copies the whole write-ahead log to the file, which syncs the log. No transaction may be written after a log whose
/// sync has failed, now or before a restart. A power loss would end the log at the place that the disk does not have.
pub(super) fn copy_log(connection: &Connection) -> Result<(), FileError> {
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy { Err(busy()) } else { Ok(()) }
}

/// Copies the whole write-ahead log to the file, which syncs the log, and keeps the log. A store file that is open has
/// a log.
pub(super) fn copy_log_without_truncating(connection: &Connection) -> Result<(), FileError> {
    let (is_busy, pages, copied): (bool, i64, i64) =
        connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if is_busy || copied != pages { Err(busy()) } else { Ok(()) }
}

fn busy() -> FileError {
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    FileError::Sqlite(rusqlite::Error::SqliteFailure(busy, None))
}

/// If this connection is the last one, closing it copies the log to the file and deletes the log.
pub(super) fn checkpoint_on_close(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false) {
        tracing::warn!(%error, "Failed to enable the checkpoint of the write-ahead log when the store closes");
    }
}

/// Opens the store file for the reading thread.
pub(super) fn open_reader(path: &Path, access: &FileAccess) -> Result<Connection, FileError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, access)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

/// Opens the store file to read its content without its log.
pub(super) fn open_without_log(path: &Path) -> Result<Connection, FileError> {
    let path = path.to_string_lossy();
    let name = format!("file:{}?immutable=1", percent_encoding::utf8_percent_encode(&path, URI_PATH));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_EXRESCODE)?)
}

fn open(path: &Path, mode: OpenFlags, access: &FileAccess) -> Result<Connection, FileError> {
    // Each connection stays on one thread, so SQLite's own mutexes are not needed.
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = match &access.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.name.as_str())?,
        None => Connection::open_with_flags(path, flags)?,
    };
    // SQLite would checkpoint whenever the last connection closes. After a failed sync, only the log has everything.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    // Both connections sync: the reading connection also copies the log to the file.
    connection.pragma_update(None, "synchronous", synchronous(access.durability))?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if matches!(access.format, RowFormat::Sealed(_)) {
        // Rows and wrapped keys that were replaced are overwritten, where that writes no additional page.
        connection.execute_batch("PRAGMA secure_delete = FAST")?;
    }
    Ok(connection)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| {
        if is_disk_full(&error) { Error::DiskFull { path } } else { Error::Io { path, detail: error.to_string() } }
    }
}

fn is_disk_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Creates files that only their owner can read.
#[cfg(unix)]
pub(super) fn owner_only() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates files.
#[cfg(not(unix))]
pub(super) fn owner_only() -> OpenOptions {
    OpenOptions::new()
}

fn create_dir(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(io(path))
}

/// Syncs a directory, so that a new or renamed entry is durable.
pub(super) fn sync_dir(path: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
