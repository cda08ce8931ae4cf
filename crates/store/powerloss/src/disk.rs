//! The record of what a program did to its files, and the disks that a power failure could make of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of what a disk writes as one, or tears.
const SECTOR: usize = 512;

/// How the disk fails from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It does not.
    None,
    /// Writes find no space.
    Full,
    /// Writes are refused.
    Write,
    /// Syncs are refused.
    Sync,
}

/// The files as one power failure leaves them.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// A disk that remembers. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Record>>);

#[derive(Debug)]
struct Record {
    /// What the files held when they were first opened.
    start: Image,
    steps: Vec<Step>,
    failure: Failure,
}

#[derive(Debug)]
enum Step {
    Write { file: PathBuf, offset: usize, bytes: Vec<u8> },
    Truncate { file: PathBuf, size: usize },
    Sync { file: PathBuf },
    Delete { file: PathBuf },
    Mark(u64),
}

impl Disk {
    /// Registers a new disk with SQLite under a name that no other VFS has.
    ///
    /// The disk lives as long as the process, since SQLite may use it that long. Fails with SQLite's result code.
    pub fn register(name: &str) -> Result<Disk, i32> {
        let disk =
            Disk(Arc::new(Mutex::new(Record { start: Image::new(), steps: Vec::new(), failure: Failure::None })));
        crate::vfs::register(name, disk.clone())?;
        Ok(disk)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the disk fail from now on.
    pub fn fail(&self, failure: Failure) {
        self.record().failure = failure;
    }

    /// Notes that the outside world was told something (as a number), so that it must be true after any later failure.
    pub fn mark(&self, told: u64) {
        self.record().steps.push(Step::Mark(told));
    }

    /// How many steps there were so far; the power can fail after any number of them.
    pub fn steps(&self) -> usize {
        self.record().steps.len()
    }

    /// What the outside world had been told after so many steps.
    pub fn told(&self, steps: usize) -> Vec<u64> {
        let record = self.record();
        record
            .steps
            .iter()
            .take(steps)
            .filter_map(|step| if let Step::Mark(told) = step { Some(*told) } else { None })
            .collect()
    }

    /// The files that a power failure after so many steps leaves; `seed` decides about everything that is left to chance.
    pub fn cut(&self, steps: usize, seed: u64) -> Image {
        let record = self.record();
        let mut chance = Chance(seed);
        let mut image = record.start.clone();
        let done = &record.steps[..steps.min(record.steps.len())];
        let synced = last_syncs(done);
        // How likely unsynced sectors are to be there differs from failure to failure.
        let luck = chance.below(5);
        for (at, step) in done.iter().enumerate() {
            match step {
                Step::Write { file, offset, bytes } => {
                    let content = image.entry(file.clone()).or_default();
                    if synced.get(file).is_some_and(|sync| at < *sync) {
                        put(content, *offset, bytes);
                    } else {
                        put_by_chance(content, *offset, bytes, luck, &mut chance);
                    }
                }
                Step::Truncate { file, size } => {
                    if synced.get(file).is_some_and(|sync| at < *sync) || chance.below(2) == 0 {
                        image.entry(file.clone()).or_default().resize(*size, 0);
                    }
                }
                // SQLite deletes a log only after the sync of what it moved.
                Step::Delete { file } => {
                    if chance.below(2) == 0 {
                        image.remove(file);
                    }
                }
                Step::Sync { .. } | Step::Mark(_) => {}
            }
        }
        image
    }

    pub(crate) fn opened(&self, file: &Path) {
        let mut record = self.record();
        if !record.start.contains_key(file) && !record.steps.iter().any(|step| step.file() == Some(file)) {
            // A file that is not there yet begins empty.
            let content = std::fs::read(file).unwrap_or_default();
            record.start.insert(file.to_owned(), content);
        }
    }

    pub(crate) fn wrote(&self, file: &Path, offset: usize, bytes: &[u8]) {
        self.record().steps.push(Step::Write { file: file.to_owned(), offset, bytes: bytes.to_vec() });
    }

    pub(crate) fn truncated(&self, file: &Path, size: usize) {
        self.record().steps.push(Step::Truncate { file: file.to_owned(), size });
    }

    pub(crate) fn synced(&self, file: &Path) {
        self.record().steps.push(Step::Sync { file: file.to_owned() });
    }

    pub(crate) fn deleted(&self, file: &Path) {
        self.record().steps.push(Step::Delete { file: file.to_owned() });
    }

    pub(crate) fn failure(&self) -> Failure {
        self.record().failure
    }
}

impl Step {
    fn file(&self) -> Option<&Path> {
        match self {
            Step::Write { file, .. } | Step::Truncate { file, .. } | Step::Sync { file } | Step::Delete { file } => {
                Some(file)
            }
            Step::Mark(_) => None,
        }
    }
}

/// For each file, the number of its last sync.
fn last_syncs(steps: &[Step]) -> BTreeMap<&PathBuf, usize> {
    let syncs = steps.iter().enumerate();
    syncs.filter_map(|(at, step)| if let Step::Sync { file } = step { Some((file, at)) } else { None }).collect()
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Writes some sectors, tears one now and then, and leaves the rest as they were.
fn put_by_chance(content: &mut Vec<u8>, offset: usize, bytes: &[u8], luck: u64, chance: &mut Chance) {
    let mut at = 0;
    while at < bytes.len() {
        let to_boundary = SECTOR - (offset + at) % SECTOR;
        let end = bytes.len().min(at + to_boundary);
        if chance.below(4) < luck {
            let torn = chance.below(8) == 0;
            let until = if torn { at + chance.below((end - at) as u64) as usize } else { end };
            put(content, offset + at, &bytes[at..until]);
        }
        at = end;
    }
}

/// Chance that repeats itself (SplitMix64).
struct Chance(u64);

impl Chance {
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

    fn disk(steps: Vec<Step>) -> Disk {
        Disk(Arc::new(Mutex::new(Record { start: Image::new(), steps, failure: Failure::None })))
    }

    fn write(offset: usize, byte: u8, len: usize) -> Step {
        Step::Write { file: PathBuf::from("f"), offset, bytes: vec![byte; len] }
    }

    #[test]
    fn synced_bytes_stay_and_others_need_not() {
        let disk =
            disk(vec![write(0, 1, 2048), Step::Sync { file: PathBuf::from("f") }, Step::Mark(7), write(512, 2, 2048)]);
        assert_eq!(disk.told(2), []);
        assert_eq!(disk.told(4), [7]);
        let mut images = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let content = disk.cut(4, seed).remove(Path::new("f")).unwrap_or_default();
            assert_eq!(content[..512], [1; 512], "not written again");
            assert!(content[512..2048].iter().all(|byte| *byte == 1 || *byte == 2));
            images.insert(content);
        }
        assert!(images.len() > 10, "chance decides");
        assert!(images.contains(&[1; 2048][..]), "sometimes nothing is left");
    }
}
