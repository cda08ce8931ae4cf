//! The data folder and its one file: who may open it, how a new one is made, whether an old one is ours and whole.
//! A new file gets its name only when it is complete and synced, so that a crash leaves either a store or nothing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::Error;

/// The file's name in the data folder.
pub(super) const FILE: &str = "pintle.db";

/// The file whose lock says that a process uses the folder.
const LOCK: &str = "pintle.lock";

/// Marks the file as ours in SQLite's header ("Pntl").
const APPLICATION_ID: i32 = 0x506e_746c;

/// The format of the tables. Raised when an older program could not read or would harm the file.
const FORMAT: i64 = 1;

/// Every SQLite file begins with this.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The log is one table, so that a value is written once. `value` comes last, so that the rest of a row is read without
/// it; a row without a value is a deletion.
const TABLES: &str = "
    CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        compacted INTEGER NOT NULL,
        swept INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        created INTEGER NOT NULL,
        previous INTEGER,
        time INTEGER NOT NULL,
        expires INTEGER,
        sum INTEGER NOT NULL,
        value BLOB
    ) STRICT;
    INSERT INTO meta (id, compacted, swept) VALUES (1, 1, 1);
";

/// What stops an operation on the file; [`Fault::at`] tells it to the outside.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(rusqlite::Error),
    Damage(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(error)
    }
}

impl Fault {
    /// The fault as an error about the file at `path`.
    pub(super) fn at(self, path: &Path) -> Error {
        let path = path.to_owned();
        let error = match self {
            Fault::Damage(detail) => return Error::Damaged { path, detail },
            Fault::Sqlite(error) => error,
        };
        let detail = error.to_string();
        match error {
            // A column that does not hold what the table's definition says.
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::QueryReturnedNoRows => Error::Damaged { path, detail },
            // Our statements are right, so the tables are not those that we made.
            rusqlite::Error::SqliteFailure(cause, _) if cause.extended_code == ffi::SQLITE_ERROR => {
                Error::Damaged { path, detail }
            }
            rusqlite::Error::SqliteFailure(cause, _) => match cause.code {
                ErrorCode::DatabaseCorrupt => Error::Damaged { path, detail },
                ErrorCode::NotADatabase => Error::Foreign { path, detail },
                ErrorCode::DiskFull => Error::DiskFull { path },
                _ => Error::Io { path, detail },
            },
            rusqlite::Error::SqlInputError { .. } => Error::Damaged { path, detail },
            _ => Error::Io { path, detail },
        }
    }

    /// Whether the disk may have lost what it was told to keep, so that nothing later can be promised.
    pub(super) fn is_lost_sync(&self) -> bool {
        let Fault::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) = self else { return false };
        matches!(
            cause.extended_code,
            ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE
        )
    }
}

/// Holds the data folder for this process until dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: File,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file would do only after every process that was just forked from this one has dropped its copy.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, folder = %self.path.display(), "the data folder cannot be unlocked");
        }
    }
}

impl Folder {
    /// Takes the folder, making it if needed.
    pub(super) fn take(path: &Path) -> Result<Folder, Error> {
        make_folder(path)?;
        let lock_path = path.join(LOCK);
        let mut lock =
            private().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(io(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The process id is a courtesy: without it the message is shorter.
                let _ = lock.read_to_string(&mut text);
                return Err(Error::Locked { path: path.to_owned(), pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(io(&lock_path)(error)),
        }
        lock.set_len(0).map_err(io(&lock_path))?;
        write!(lock, "{}", std::process::id()).map_err(io(&lock_path))?;
        Ok(Folder { path: path.to_owned(), lock })
    }

    pub(super) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    /// Makes sure that there is a store file of ours, making an empty one if there is none.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        let path = self.file();
        if path.try_exists().map_err(io(&path))? {
            return check_header(&path);
        }
        let wal = self.path.join(format!("{FILE}-wal"));
        if wal.try_exists().map_err(io(&wal))? {
            let detail = format!("it is missing, but what was written last is still there in {}", wal.display());
            return Err(Error::Damaged { path, detail });
        }
        self.create(&path)
    }

    fn create(&self, path: &Path) -> Result<(), Error> {
        let new = self.path.join(format!("{FILE}.new"));
        for leftover in [new.clone(), self.path.join(format!("{FILE}.new-journal"))] {
            match fs::remove_file(&leftover) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&leftover)(error)),
                _ => {}
            }
        }
        // SQLite's other files inherit this file's mode, so that nobody else reads the Secrets in them.
        let file = private().write(true).create_new(true).open(&new).map_err(io(&new))?;
        fill(&new).map_err(|fault| fault.at(&new))?;
        file.sync_all().map_err(io(&new))?;
        fs::rename(&new, path).map_err(io(path))?;
        sync_folder(&self.path)
    }
}

fn fill(path: &Path) -> Result<(), Fault> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "page_size", 4096)?;
    // Lets free pages be given back in small steps; a full VACUUM would stop writers.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(&format!("BEGIN; {TABLES} COMMIT;"))?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Looks at what every reader of the file needs, before SQLite does, for a message that says what is wrong.
fn check_header(path: &Path) -> Result<(), Error> {
    let mut header = Vec::with_capacity(100);
    File::open(path).and_then(|file| file.take(100).read_to_end(&mut header)).map_err(io(path))?;
    let foreign = |detail: String| Err(Error::Foreign { path: path.to_owned(), detail });
    if header.is_empty() {
        return foreign("it is empty".to_owned());
    }
    if !header.starts_with(MAGIC) || header.len() < 100 {
        return foreign(
            "it has no SQLite header, so it is another program's file or its start is overwritten".to_owned(),
        );
    }
    let word = |at: usize| header[at..at + 4].iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    match word(68) {
        id if id == APPLICATION_ID.cast_unsigned() => {}
        id => return foreign(format!("it is an SQLite database of another program (application id {id:#010x})")),
    }
    match i64::from(word(60)) {
        FORMAT => Ok(()),
        found => Err(Error::NewerFormat { path: path.to_owned(), found, supported: FORMAT }),
    }
}

/// Opens the store file for the thread that commits.
///
/// A commit returns after its part of the write-ahead log is synced (`synchronous=FULL`). SQLite's own checkpoint, which
/// makes the commit wait, is only for when ours (see `checkpoint`) does not get its turn.
pub(super) fn open_writer(path: &Path, vfs: Option<&str>) -> Result<Connection, Fault> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, vfs)?;
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Damage(format!("the journal mode is {mode} and cannot be changed")));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_000)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    connection.pragma_update(None, "cache_size", -4096)?;
    Ok(connection)
}

/// Opens the store file for the thread that reads.
pub(super) fn open_reader(path: &Path, vfs: Option<&str>) -> Result<Connection, Fault> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, vfs)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -1024)?;
    Ok(connection)
}

fn open(path: &Path, access: OpenFlags, vfs: Option<&str>) -> Result<Connection, Fault> {
    // Each connection stays on one thread, so SQLite's own locks are not needed.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Error::DiskFull { path },
        _ => Error::Io { path, detail: error.to_string() },
    }
}

#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(io(path))
}

/// Makes a new name in a folder durable.
fn sync_folder(path: &Path) -> Result<(), Error> {
    if cfg!(unix) {
        File::open(path).and_then(|folder| folder.sync_all()).map_err(io(path))?;
    }
    Ok(())
}
