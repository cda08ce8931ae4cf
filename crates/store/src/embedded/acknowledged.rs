//! The file with the newest acknowledged revision. If the log ends before this revision, changes are lost, even if the
//! log looks complete.
//!
//! Each commit writes its revision into this file after the commit is synced and before it is acknowledged. The write
//! is not synced, so it survives a kill of the process. One second after a commit this file is synced, so that it
//! survives a power loss. A revision in the file never exceeds the newest synced revision of the log. So a power loss
//! that tears or loses a write causes no false alarm. The synced revisions are written to two places in turn, so that
//! one of them is always complete.
//!
//! In an encrypted store, each record also has a code that only the holder of a data key can compute. A record without
//! an authentic code can still raise the revision. So it can cause an alarm, but cannot hide a loss. Such a record is
//! from before the store was encrypted, or from a newer file with a newer data key. An older authentic record can be put
//! back together with the older files of the whole directory, which nothing in the directory can show.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pintle_locks::Mutex;

use super::Durability;
use super::encryption::DataKeyId;
use super::file::{FileAccess, FileError, owner_only, sync_dir};
use super::row_format::RowFormat;
use crate::Revision;

/// How long after a commit its revision is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The distance of the places in the file: disks write whole sectors.
const SECTOR: usize = 512;

/// The places: two for synced revisions, and one for the newest revision.
const SYNCED_PLACES: usize = 2;
const NEWEST_PLACE: usize = 2;
const PLACES: usize = 3;

/// A revision and its checksum.
const RECORD_BYTES: usize = 12;

/// The number of a data key, and the code of the revision. They follow the record in an encrypted store.
const KEY_ID_BYTES: usize = 4;
const CODE_BYTES: usize = 32;

/// The file beside a store file.
#[derive(Debug)]
pub(super) struct AcknowledgedFile {
    path: PathBuf,
    access: FileAccess,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until the first revision is written.
    file: Option<File>,
    newest: Revision,
    /// The place of the next synced revision.
    next_place: usize,
    /// When the oldest unsynced revision was written.
    unsynced_since: Option<Instant>,
    /// True if the last write has failed.
    is_failing: bool,
}

/// The name of the file.
pub(super) fn path_of(store_file: &Path) -> PathBuf {
    store_file.with_extension("db-acknowledged")
}

impl AcknowledgedFile {
    /// The file beside this store file. It need not exist.
    pub(super) fn beside(store_file: &Path, access: FileAccess) -> AcknowledgedFile {
        AcknowledgedFile { path: path_of(store_file), access, state: Mutex::default() }
    }

    /// Reads the newest acknowledged revision; `None` if the file does not exist or has no complete record.
    pub(super) fn read(&self) -> Result<Option<Revision>, FileError> {
        Ok(self.read_places()?.into_iter().flatten().max())
    }

    /// True if the file has a record with an authentic code.
    pub(super) fn is_authentic(&self) -> Result<bool, FileError> {
        let RowFormat::Sealed(ring) = &self.access.format else { return Ok(false) };
        let content = self.content()?;
        let is_authentic = |place: &[u8]| {
            let (Some(revision), Some((key, code))) = (decode(place), decode_code(place)) else { return false };
            ring.is_acknowledged_code(key, revision.0, code)
        };
        Ok(content.chunks(SECTOR).any(is_authentic))
    }

    fn content(&self) -> Result<Vec<u8>, FileError> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            content => content.map_err(|error| self.error(error)),
        }
    }

    fn read_places(&self) -> Result<[Option<Revision>; PLACES], FileError> {
        let content = self.content()?;
        Ok(std::array::from_fn(|place| decode(content.get(place * SECTOR..)?)))
    }

    /// Writes the newest revision to all places, with the newest data key, and syncs it. After that no older data key is
    /// needed.
    pub(super) fn rewrite(&self) -> std::io::Result<()> {
        let state = self.state.lock();
        let sync = self.access.durability == Durability::Synced;
        // One place is synced before the next one is written.
        (0..PLACES).try_for_each(|place| self.write(&state, place, sync))
    }

    /// Makes sure that the file exists, and writes and syncs a revision. A newer revision in the file remains.
    pub(super) fn begin(&self, revision: Revision) -> Result<(), FileError> {
        let places = self.read_places()?;
        self.begin_after(places, revision).map_err(|error| self.error(error))
    }

    fn begin_after(&self, places: [Option<Revision>; PLACES], revision: Revision) -> std::io::Result<()> {
        let mut state = self.state.lock();
        let mut options = owner_only();
        let file = options.create(true).truncate(false).write(true).open(&self.path)?;
        if file.metadata()?.len() < (PLACES * SECTOR) as u64 {
            // The file gets its full size, so that later writes need no space.
            file.set_len((PLACES * SECTOR) as u64)?;
            if let Some(folder) = self.path.parent().filter(|_| self.access.durability == Durability::Synced) {
                sync_dir(folder)?;
            }
        }
        state.file = Some(file);
        state.newest = places.into_iter().flatten().fold(revision, Revision::max);
        state.next_place = usize::from(places[0] > places[1]);
        self.write_synced(&mut state)
    }

    fn error(&self, error: std::io::Error) -> FileError {
        FileError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }

    /// Writes a revision that is synced in the log and about to be acknowledged. A failure is only logged, because the
    /// change is durable.
    pub(super) fn record(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.newest = revision;
        let written = self.write(&state, NEWEST_PLACE, false);
        state.unsynced_since.get_or_insert_with(Instant::now);
        self.report(&mut state, written);
    }

    /// Syncs the newest revision if the sync is due. Otherwise returns when it is due.
    pub(super) fn sync_if_due(&self) -> Option<Instant> {
        let mut state = self.state.lock();
        let due = state.unsynced_since? + SYNC_INTERVAL;
        if due > Instant::now() {
            return Some(due);
        }
        let written = self.write_synced(&mut state);
        self.report(&mut state, written);
        None
    }

    fn write_synced(&self, state: &mut State) -> std::io::Result<()> {
        state.unsynced_since = None;
        self.write(state, state.next_place, self.access.durability == Durability::Synced)?;
        state.next_place = (state.next_place + 1) % SYNCED_PLACES;
        Ok(())
    }

    fn write(&self, state: &State, place: usize, sync: bool) -> std::io::Result<()> {
        let Some(file) = &state.file else { return Ok(()) };
        let (offset, record) = ((place * SECTOR) as u64, self.encode(state.newest));
        if let Some(vfs) = &self.access.vfs {
            (vfs.write)(&vfs.name, &self.path, offset, &record, sync)?;
        }
        write_at(file, offset, &record)?;
        if sync && self.access.vfs.is_none() { file.sync_data() } else { Ok(()) }
    }

    fn encode(&self, revision: Revision) -> Vec<u8> {
        let mut record = encode(revision).to_vec();
        if let RowFormat::Sealed(ring) = &self.access.format
            && let Some((key, code)) = ring.acknowledged_code(revision.0)
        {
            record.extend_from_slice(&key.0.to_le_bytes());
            record.extend_from_slice(&code);
        }
        record
    }

    fn report(&self, state: &mut State, written: std::io::Result<()>) {
        if let Err(error) = &written
            && !state.is_failing
        {
            tracing::warn!(%error, path = %self.path.display(), "Failed to record the newest acknowledged revision");
        }
        state.is_failing = written.is_err();
    }
}

fn encode(revision: Revision) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let (number, checksum) = record.split_at_mut(size_of::<u64>());
    number.copy_from_slice(&revision.0.to_le_bytes());
    checksum.copy_from_slice(&crc32fast::hash(number).to_le_bytes());
    record
}

fn decode(place: &[u8]) -> Option<Revision> {
    let record = place.first_chunk::<RECORD_BYTES>()?;
    let revision = Revision(u64::from_le_bytes(*record.first_chunk()?));
    (encode(revision) == *record).then_some(revision)
}

/// The data key and the code that follow a record.
fn decode_code(place: &[u8]) -> Option<(DataKeyId, &[u8])> {
    let (key, rest) = place.get(RECORD_BYTES..)?.split_first_chunk::<KEY_ID_BYTES>()?;
    Some((DataKeyId(u32::from_le_bytes(*key)), rest.get(..CODE_BYTES)?))
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

    use super::*;

    #[test]
    fn a_damaged_record_leaves_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let store_file = folder.path().join("pintle.db");
        let file = AcknowledgedFile::beside(&store_file, FileAccess::default());
        assert_eq!(file.read().unwrap(), None);
        file.begin(Revision(7)).unwrap();
        for revision in 8..20 {
            file.record(Revision(revision));
        }
        assert_eq!(file.read().unwrap(), Some(Revision(19)));
        let content = fs::read(path_of(&store_file)).unwrap();
        for byte in (0..PLACES).flat_map(|place| (0..RECORD_BYTES).map(move |at| place * SECTOR + at)) {
            let mut damaged = content.clone();
            damaged[byte] ^= 1 << (byte % 8);
            fs::write(path_of(&store_file), &damaged).unwrap();
            assert!(matches!(file.read().unwrap(), Some(Revision(7 | 19))), "byte {byte}");
        }
        // A store that is opened again does not go back.
        fs::write(path_of(&store_file), &content).unwrap();
        let file = AcknowledgedFile::beside(&store_file, FileAccess::default());
        file.begin(Revision(12)).unwrap();
        assert_eq!(file.read().unwrap(), Some(Revision(19)));
    }

    #[test]
    fn the_newest_revision_is_synced_a_second_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = AcknowledgedFile::beside(&folder.path().join("pintle.db"), FileAccess::default());
        file.begin(Revision(7)).unwrap();
        assert_eq!(file.sync_if_due(), None, "nothing is unsynced");
        file.record(Revision(8));
        assert!(file.sync_if_due().is_some());
        file.state.lock().unsynced_since = Instant::now().checked_sub(SYNC_INTERVAL);
        assert_eq!(file.sync_if_due(), None);
        file.record(Revision(9));
        assert_eq!(file.read_places().unwrap(), [Some(Revision(7)), Some(Revision(8)), Some(Revision(9))]);
    }
}
