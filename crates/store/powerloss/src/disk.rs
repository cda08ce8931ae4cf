//! Records what a program does to its files, and computes the files that a power loss may leave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The unit of a disk write. A power loss may tear a write within a sector.
const SECTOR: usize = 512;

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// The disk works.
    None,
    /// Writes fail with a full disk.
    Full,
    /// Writes fail with an I/O error.
    Write,
    /// Syncs fail with an I/O error. As on Linux, the unsynced bytes count as written from then on. A later sync
    /// succeeds without them, although only the file system has them.
    Sync,
    /// Like `Sync`, but syncs of write-ahead logs succeed: only checkpoints fail.
    CheckpointSync,
    /// Reads fail with an I/O error.
    Read,
    /// Writes and syncs do not return until the failure ends.
    Stall,
}

/// The content of the files after a power loss.
pub type DiskImage = BTreeMap<PathBuf, Vec<u8>>;

/// A disk that records every operation. Clones share the record.
#[derive(Clone, Debug)]
pub struct Disk(Arc<SharedDisk>);

#[derive(Debug)]
struct SharedDisk {
    record: Mutex<DiskRecord>,
    /// Notified when the failure changes.
    failure_changed: Condvar,
    /// False if operations are not recorded. Then no power loss can be simulated.
    is_recorded: bool,
}

#[derive(Debug)]
struct DiskRecord {
    /// The content of the files when they were first opened.
    start: DiskImage,
    operations: Vec<DiskOperation>,
    failure: DiskFailure,
}

#[derive(Debug)]
enum DiskOperation {
    Write { file: PathBuf, offset: usize, bytes: Vec<u8> },
    Truncate { file: PathBuf, size: usize },
    Sync { file: PathBuf },
    FailedSync { file: PathBuf },
    Delete { file: PathBuf },
    Acknowledge(u64),
}

/// The disks by name.
static DISKS: Mutex<BTreeMap<String, Disk>> = Mutex::new(BTreeMap::new());

fn registered() -> MutexGuard<'static, BTreeMap<String, Disk>> {
    DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Creates a disk and registers it with SQLite under a name that no other VFS has.
    ///
    /// The disk is never freed, since SQLite may use it until the process ends. Returns SQLite's result code on
    /// failure.
    pub fn register(name: &str) -> Result<Disk, i32> {
        Disk::register_with(name, true)
    }

    /// Like [`Disk::register`], for a disk that fails but records no operations. Recorded operations take memory.
    pub fn register_unrecorded(name: &str) -> Result<Disk, i32> {
        Disk::register_with(name, false)
    }

    fn register_with(name: &str, is_recorded: bool) -> Result<Disk, i32> {
        let disk = Disk::new(Vec::new(), is_recorded);
        crate::vfs::register(name, disk.clone())?;
        registered().insert(name.to_owned(), disk.clone());
        Ok(disk)
    }

    /// Writes the content of a file on the disk with this name again, and syncs it. If the file does not exist, it is
    /// not created.
    ///
    /// # Errors
    /// The disk fails, or no disk has this name.
    pub fn rewrite(name: &str, file: &Path) -> std::io::Result<()> {
        let disk = registered().get(name).cloned().ok_or(std::io::ErrorKind::InvalidInput)?;
        let content = match std::fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            content => content?,
        };
        disk.record_open(file);
        let failure = disk.failure();
        if matches!(failure, DiskFailure::Read | DiskFailure::Write) {
            return Err(std::io::Error::other("disk I/O error"));
        }
        // The file already has its space, so a full disk does not fail this write.
        disk.record_write(file, 0, &content);
        if failure == DiskFailure::Sync {
            disk.record_failed_sync(file);
            return Err(std::io::Error::other("disk I/O error"));
        }
        disk.record_sync(file);
        Ok(())
    }

    /// Records that bytes are written to a file on the disk with this name, and whether they are synced. The caller
    /// writes the bytes.
    ///
    /// # Errors
    /// The disk fails, or no disk has this name.
    pub fn write(name: &str, file: &Path, offset: u64, bytes: &[u8], sync: bool) -> std::io::Result<()> {
        let disk = registered().get(name).cloned().ok_or(std::io::ErrorKind::InvalidInput)?;
        disk.record_open(file);
        let failure = disk.failure();
        if failure == DiskFailure::Write {
            return Err(std::io::Error::other("disk I/O error"));
        }
        // The file already has its space, so a full disk does not fail this write.
        let offset = usize::try_from(offset).map_err(|_| std::io::ErrorKind::InvalidInput)?;
        disk.record_write(file, offset, bytes);
        if sync && matches!(failure, DiskFailure::Sync | DiskFailure::CheckpointSync) {
            disk.record_failed_sync(file);
            return Err(std::io::Error::other("disk I/O error"));
        }
        if sync {
            disk.record_sync(file);
        }
        Ok(())
    }

    fn new(operations: Vec<DiskOperation>, is_recorded: bool) -> Disk {
        let record = Mutex::new(DiskRecord { start: DiskImage::new(), operations, failure: DiskFailure::None });
        Disk(Arc::new(SharedDisk { record, failure_changed: Condvar::new(), is_recorded }))
    }

    fn record(&self) -> MutexGuard<'_, DiskRecord> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, operation: impl FnOnce() -> DiskOperation) {
        if self.0.is_recorded {
            self.record().operations.push(operation());
        }
    }

    /// Makes the disk fail from now on.
    pub fn fail(&self, failure: DiskFailure) {
        self.record().failure = failure;
        self.0.failure_changed.notify_all();
    }

    /// Records that a number was acknowledged to a caller, so it must survive any later power loss.
    pub fn acknowledge(&self, acknowledged: u64) {
        self.push(|| DiskOperation::Acknowledge(acknowledged));
    }

    /// The number of operations so far. The power may be lost after any of them.
    pub fn operation_count(&self) -> usize {
        self.record().operations.len()
    }

    /// The number of syncs that failed so far.
    pub fn failed_syncs(&self) -> usize {
        let record = self.record();
        record.operations.iter().filter(|operation| matches!(operation, DiskOperation::FailedSync { .. })).count()
    }

    /// The numbers that were acknowledged within the first `operations` operations.
    pub fn acknowledged(&self, operations: usize) -> Vec<u64> {
        let record = self.record();
        record
            .operations
            .iter()
            .take(operations)
            .filter_map(|operation| {
                if let DiskOperation::Acknowledge(acknowledged) = operation { Some(*acknowledged) } else { None }
            })
            .collect()
    }

    /// The files that a power loss leaves after `operations` operations. `seed` decides all random choices.
    pub fn image_after_power_loss(&self, operations: usize, seed: u64) -> DiskImage {
        let record = self.record();
        let mut rng = Rng(seed);
        let mut image = record.start.clone();
        let done = &record.operations[..operations.min(record.operations.len())];
        let is_synced = synced_operations(done);
        // The survival rate of unsynced sectors differs between power losses.
        let survival = rng.below(5);
        for (at, operation) in done.iter().enumerate() {
            match operation {
                DiskOperation::Write { file, offset, bytes } => {
                    let content = image.entry(file.clone()).or_default();
                    if is_synced[at] {
                        write_synced(content, *offset, bytes);
                    } else {
                        write_unsynced(content, *offset, bytes, survival, &mut rng);
                    }
                }
                DiskOperation::Truncate { file, size } => {
                    if is_synced[at] || rng.below(2) == 0 {
                        image.entry(file.clone()).or_default().resize(*size, 0);
                    }
                }
                // SQLite deletes a WAL only after it has checkpointed the WAL and synced the store file.
                DiskOperation::Delete { file } => {
                    if rng.below(2) == 0 {
                        image.remove(file);
                    }
                }
                DiskOperation::Sync { .. } | DiskOperation::FailedSync { .. } | DiskOperation::Acknowledge(_) => {}
            }
        }
        image
    }

    pub(crate) fn record_open(&self, file: &Path) {
        if !self.0.is_recorded {
            return;
        }
        let mut record = self.record();
        if !record.start.contains_key(file) && !record.operations.iter().any(|operation| operation.file() == Some(file))
        {
            // A file that does not exist yet starts empty.
            let content = std::fs::read(file).unwrap_or_default();
            record.start.insert(file.to_owned(), content);
        }
    }

    pub(crate) fn record_write(&self, file: &Path, offset: usize, bytes: &[u8]) {
        self.push(|| DiskOperation::Write { file: file.to_owned(), offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn record_truncate(&self, file: &Path, size: usize) {
        self.push(|| DiskOperation::Truncate { file: file.to_owned(), size });
    }

    pub(crate) fn record_sync(&self, file: &Path) {
        self.push(|| DiskOperation::Sync { file: file.to_owned() });
    }

    pub(crate) fn record_failed_sync(&self, file: &Path) {
        self.push(|| DiskOperation::FailedSync { file: file.to_owned() });
    }

    pub(crate) fn record_delete(&self, file: &Path) {
        self.push(|| DiskOperation::Delete { file: file.to_owned() });
    }

    /// The current failure. Waits while the disk stalls.
    pub(crate) fn failure(&self) -> DiskFailure {
        let stalls = |record: &mut DiskRecord| record.failure == DiskFailure::Stall;
        let record = self.0.failure_changed.wait_while(self.record(), stalls);
        record.unwrap_or_else(PoisonError::into_inner).failure
    }

    /// True if reads fail.
    pub(crate) fn fails_reads(&self) -> bool {
        self.record().failure == DiskFailure::Read
    }
}

impl DiskOperation {
    fn file(&self) -> Option<&Path> {
        match self {
            DiskOperation::Write { file, .. }
            | DiskOperation::Truncate { file, .. }
            | DiskOperation::Sync { file }
            | DiskOperation::FailedSync { file }
            | DiskOperation::Delete { file } => Some(file),
            DiskOperation::Acknowledge(_) => None,
        }
    }
}

/// For each operation, whether it is certainly on the disk. It is if a sync of its file follows and no failed sync
/// comes first.
fn synced_operations(operations: &[DiskOperation]) -> Vec<bool> {
    let mut next_sync: BTreeMap<&Path, bool> = BTreeMap::new();
    let is_synced = operations.iter().rev().map(|operation| {
        let Some(file) = operation.file() else { return false };
        match operation {
            DiskOperation::Sync { .. } => drop(next_sync.insert(file, true)),
            DiskOperation::FailedSync { .. } => drop(next_sync.insert(file, false)),
            _ => {}
        }
        next_sync.get(file).copied().unwrap_or(false)
    });
    let mut is_synced: Vec<bool> = is_synced.collect();
    is_synced.reverse();
    is_synced
}

fn write_synced(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Writes some sectors, tears some of them and skips the others.
fn write_unsynced(content: &mut Vec<u8>, offset: usize, bytes: &[u8], survival: u64, rng: &mut Rng) {
    let mut at = 0;
    while at < bytes.len() {
        let to_boundary = SECTOR - (offset + at) % SECTOR;
        let end = bytes.len().min(at + to_boundary);
        if rng.below(4) < survival {
            let torn = rng.below(8) == 0;
            let until = if torn { at + rng.below((end - at) as u64) as usize } else { end };
            write_synced(content, offset + at, &bytes[at..until]);
        }
        at = end;
    }
}

/// A deterministic random number generator (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: usize, byte: u8, len: usize) -> DiskOperation {
        DiskOperation::Write { file: PathBuf::from("f"), offset, bytes: vec![byte; len] }
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_may_not() {
        let operations = vec![
            write(0, 1, 2048),
            DiskOperation::Sync { file: PathBuf::from("f") },
            DiskOperation::Acknowledge(7),
            write(512, 2, 2048),
        ];
        let disk = Disk::new(operations, true);
        assert_eq!(disk.acknowledged(2), []);
        assert_eq!(disk.acknowledged(4), [7]);
        let mut images = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let content = disk.image_after_power_loss(4, seed).remove(Path::new("f")).unwrap_or_default();
            assert_eq!(content[..512], [1; 512], "not written again");
            assert!(content[512..2048].iter().all(|byte| *byte == 1 || *byte == 2));
            images.insert(content);
        }
        assert!(images.len() > 10, "chance decides");
        assert!(images.contains(&[1; 2048][..]), "sometimes nothing is left");
    }

    #[test]
    fn a_sync_proves_nothing_about_what_an_earlier_one_failed_to_sync() {
        let file = || PathBuf::from("f");
        let (failed, synced) = (DiskOperation::FailedSync { file: file() }, DiskOperation::Sync { file: file() });
        let disk = Disk::new(vec![write(0, 1, 512), failed, write(512, 1, 512), synced], true);
        let mut images = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let content = disk.image_after_power_loss(4, seed).remove(Path::new("f")).unwrap_or_default();
            assert_eq!(content[512..], [1; 512]);
            images.insert(content);
        }
        assert!(images.len() > 1, "chance decides over the first sector");
    }
}
