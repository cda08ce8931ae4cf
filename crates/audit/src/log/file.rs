//! A log file that is rotated as lumberjack rotates it, which upstream uses. This file keeps lines that lumberjack would
//! lose. A line longer than the maximum size has a file of its own. A backup never replaces another one. A file that
//! cannot be rotated grows.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use pintle_auth::config_file::system_error;
use pintle_locks::Mutex;
use pintle_value::time::Time;

use super::Rotation;
use super::backups::{clean_up, free_backup_path};

/// How often the server looks whether the file was moved.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A file to which lines are appended.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    open: Option<OpenFile>,
    /// True if the last rotation failed. Only the first failure is logged.
    rotation_failed: bool,
    /// Held while backups are compressed and removed.
    cleaning: Arc<Mutex<()>>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// The device and the inode.
    identity: (u64, u64),
    size: u64,
    /// True if the file ends with a part of a line.
    is_torn: bool,
    /// When the path was last known to lead to this file.
    checked: Instant,
}

impl OpenFile {
    fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { file, identity: identity(&metadata), size: metadata.len(), is_torn: false, checked: Instant::now() })
    }

    /// Appends lines. After an error, the part that was written is removed.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
            (self.is_torn, self.size) = (false, self.size + 1);
        }
        let mut written = 0;
        while written < lines.len() {
            let error = match self.file.write(&lines[written..]) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            if written > 0 {
                let end = self.file.metadata().map(|metadata| metadata.len().saturating_sub(written as u64));
                self.is_torn = end.and_then(|end| self.file.set_len(end)).is_err();
            }
            return Err(error);
        }
        self.size += lines.len() as u64;
        Ok(())
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl LogFile {
    /// A file at a path. Creates the file and its folder, if they do not exist.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> Result<Self, String> {
        let failed = |what: &str, path: &Path, error: &io::Error| {
            format!("ensureLogFile: {what} {}: {}", path.display(), system_error(error))
        };
        create_folders(folder(path)).map_err(|(path, error)| failed("mkdir", &path, &error))?;
        append_to(path, 0o600).map_err(|error| failed("open", path, &error))?;
        let file =
            Self { path: path.to_owned(), rotation, open: None, rotation_failed: false, cleaning: Arc::default() };
        file.clean_up();
        Ok(file)
    }

    /// Opens the file again before the next line.
    pub(crate) fn reopen(&mut self) {
        self.open = None;
    }

    /// Appends lines. Each ends with a line feed.
    ///
    /// # Errors
    /// The lines could not be written. No part of them is in the file.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.check();
        let max = self.rotation.max_size;
        let length = lines.len() as u64;
        // Like lumberjack, an existing file is rotated a byte earlier than an open one.
        let (size, limit) = match &self.open {
            Some(open) => (open.size, max),
            None => (self.open_file()?.size, max.saturating_sub(1)),
        };
        if max > 0 && size > 0 && size + length > limit {
            self.rotate_or_grow();
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open_file()?,
        };
        open.append(lines)
    }

    /// Closes the open file if the file at the path is another one: somebody has moved or removed it. Lines that are
    /// written before the next check are in the file that was moved.
    fn check(&mut self) {
        let Some(open) = self.open.as_mut().filter(|open| open.checked.elapsed() >= CHECK_INTERVAL) else { return };
        open.checked = Instant::now();
        match fs::metadata(&self.path) {
            Ok(found) if identity(&found) == open.identity => open.size = found.len(),
            // Better the open file than none.
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            _ => self.open = None,
        }
    }

    fn open_file(&mut self) -> io::Result<&mut OpenFile> {
        // The folder may be gone, too. If it cannot be created, opening the file fails.
        let _ = create_folders(folder(&self.path));
        let mut file = OpenFile::new(append_to(&self.path, 0o600)?)?;
        file.is_torn = file.size > 0 && !ends_with_line_feed(&self.path);
        Ok(self.open.insert(file))
    }

    /// Rotates the file. If this fails, the open file is used further, and the next line tries again.
    fn rotate_or_grow(&mut self) {
        match self.rotate() {
            Ok(()) => {
                self.rotation_failed = false;
                self.clean_up();
            }
            Err(error) => {
                if !std::mem::replace(&mut self.rotation_failed, true) {
                    let path = self.path.display();
                    tracing::error!(%path, %error, "Failed to rotate the audit log, will retry");
                }
            }
        }
    }

    /// Moves the file aside and opens a new file with the same owner and mode.
    fn rotate(&mut self) -> io::Result<()> {
        let old = fs::metadata(&self.path)?;
        if !old.is_file() {
            return Err(ErrorKind::Unsupported.into());
        }
        let backup = free_backup_path(&self.path, Time::from(SystemTime::now()))?;
        fs::rename(&self.path, backup)?;
        let file = append_to(&self.path, old.mode() & 0o7777)?;
        // Only a privileged user may give files away.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        self.open = Some(OpenFile::new(file)?);
        Ok(())
    }

    /// Compresses and removes backups, in a thread of its own.
    fn clean_up(&self) {
        if self.rotation.max_size == 0 {
            return;
        }
        let (path, rotation, cleaning) = (self.path.clone(), self.rotation, self.cleaning.clone());
        let run = move || {
            let _guard = cleaning.lock();
            if let Err(error) = clean_up(&path, rotation, Time::from(SystemTime::now())) {
                tracing::warn!(path = %path.display(), %error, "Failed to clean up old audit logs, will retry");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("audit-log-backups".to_owned()).spawn(run) {
            tracing::warn!(%error, "Failed to clean up old audit logs, will retry");
        }
    }
}

fn append_to(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(mode).open(path)
}

/// Returns whether a file ends with a whole line. Otherwise the process that has written it was killed. A file that cannot
/// be read counts as whole.
fn ends_with_line_feed(path: &Path) -> bool {
    let last_byte = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last_byte().map_or(true, |last| last == b'\n')
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Creates a folder and its parents. An error has the path of the first folder that cannot be created.
fn create_folders(path: &Path) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error: io::Error| (path.to_owned(), error);
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(failed(ErrorKind::NotADirectory.into())),
        Err(_) => {}
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folders(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_after_the_last_line_of_a_killed_process_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        for (found, expect) in [("", "next\n"), ("whole\n", "whole\nnext\n"), ("whole\npar", "whole\npar\nnext\n")] {
            fs::write(&path, found).expect("a file");
            let mut log = LogFile::open(&path, Rotation::default()).expect("a log");
            log.write(b"next\n").expect("written");
            assert_eq!(fs::read_to_string(&path).expect("a text"), expect);
        }
    }

    #[test]
    fn a_line_after_a_part_of_a_line_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        fs::write(&path, "whole\npar").expect("a file");
        let mut open = OpenFile::new(append_to(&path, 0o600).expect("a file")).expect("a file");
        open.is_torn = true;
        open.append(b"next\n").expect("written");
        open.append(b"last\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a text"), "whole\npar\nnext\nlast\n");
        assert_eq!(open.size, 20);
    }
}
