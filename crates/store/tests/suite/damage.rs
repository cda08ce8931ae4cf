//! Damaged files of a store: either the damage is noticed, or nothing is lost. `PINTLE_DAMAGE` multiplies the number of
//! flipped bits (default 1).

use pintle_store::{Change, Error, Revision, Store};

use crate::form::Form;

use super::content::{
    ACKNOWLEDGED, Content, Files, LOG, MAIN, files_after_kill, fill, folder_with, open, read_everything, read_files,
};

const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME: usize = 24 + PAGE;

/// The files of a store that was closed or killed, and its content.
struct Sample {
    files: Files,
    content: Content,
}

impl Sample {
    /// A store that was closed. It has free pages, since much of its history is compacted.
    async fn closed() -> Sample {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).unwrap();
        fill(&store, 1, 300).await;
        store.compact(Revision(240)).await.unwrap();
        fill(&store, 2, 20).await;
        let content = read_everything(&store).await.unwrap();
        store.close().await.unwrap();
        Sample { files: read_files(folder.path()), content }
    }

    /// A store that was opened again, written to and killed: some of its changes are in its log only.
    async fn killed() -> Sample {
        Sample::killed_after(100).await
    }

    async fn killed_after(changes: u64) -> Sample {
        let folder = folder_with(&Sample::closed().await.files);
        let store = open(folder.path()).unwrap();
        fill(&store, 3, changes).await;
        let content = read_everything(&store).await.unwrap();
        Sample { files: files_after_kill(folder.path()), content }
    }

    /// Opens damaged files. Returns true if the damage was noticed, at the start or whenever it matters.
    async fn is_noticed(&self, files: &Files, what: &str) -> bool {
        let folder = folder_with(files);
        let noticed = |error: &Error| {
            let is_expected = matches!(
                error,
                Error::Corrupted { .. }
                    | Error::NotAStore { .. }
                    | Error::NewerFormat { .. }
                    | Error::LostChanges { .. }
                    | Error::Io { .. }
                    | Error::DiskFull { .. }
            );
            assert!(is_expected, "{what}: {error}");
            true
        };
        let store = match open(folder.path()) {
            Ok(store) => store,
            Err(error) => return noticed(&error),
        };
        let found = match read_everything(&store).await {
            Ok(found) => found,
            Err(error) => return noticed(&error),
        };
        assert!(
            found == self.content,
            "{what}: the content differs at {} and {}",
            found.revision,
            self.content.revision
        );
        // The store goes on: damage that was not noticed does no harm later, even if a write notices it.
        let mut expected = self.content.state.clone();
        let mut is_noticed = false;
        for number in 0..12_u64 {
            let (key, value) = (format!("/later/{}", number % 5), vec![number as u8; 3000 * number as usize]);
            match store.commit(Change::put(key.as_str(), value.clone())).await {
                Ok(revision) => drop(expected.insert(key.as_str().into(), (revision, value))),
                Err(error) => is_noticed |= noticed(&error),
            }
            if number == 2 {
                store.compact(store.current_revision().await.unwrap()).await.unwrap();
            }
        }
        store.close().await.unwrap();
        drop(store);
        let store = open(folder.path()).unwrap_or_else(|error| panic!("{what}, later: {error}"));
        let found = read_everything(&store).await.unwrap_or_else(|error| panic!("{what}, later: {error}"));
        assert!(found.state == expected, "{what}: the content differs later");
        is_noticed
    }

    /// Damages a file in these ways, and expects that at least `min_noticed` damages are noticed. The files of an encrypted
    /// store have more pages, so every second damage is left out.
    async fn check(&self, name: &str, damages: impl IntoIterator<Item = (String, Vec<u8>)>, min_noticed: usize) {
        let step = if super::FORM == Form::Plain { 1 } else { 2 };
        let (mut noticed, mut all, min_noticed) = (0, 0, min_noticed / step);
        for (what, damaged) in damages.into_iter().step_by(step) {
            let mut files = self.files.clone();
            *files.get_mut(name).unwrap() = damaged;
            noticed += usize::from(self.is_noticed(&files, &format!("{name}, {what}")).await);
            all += 1;
        }
        assert!(noticed >= min_noticed, "{name}: {noticed} of {all} are noticed");
        // The log of an encrypted store is not trusted without the newest acknowledged revision.
        let is_trusted = super::FORM == Form::Plain || self.files.contains_key(ACKNOWLEDGED);
        assert!(self.files.contains_key(name) && self.is_noticed(&self.files, "undamaged").await != is_trusted);
    }
}

/// Some bits of each unit of a file: bits at its start, where its structure is, and others.
fn bits(content: &[u8], start: usize, unit: usize, structure: usize) -> Vec<usize> {
    let factor: usize = std::env::var("PINTLE_DAMAGE").map_or(1, |factor| factor.parse().unwrap());
    let mut bits = Vec::new();
    for (number, unit_start) in (start..content.len()).step_by(unit).enumerate() {
        let mut add = |at: usize, limit: usize| {
            let byte = unit_start + at % limit.min(content.len() - unit_start);
            bits.push(byte * 8 + (number + at) % 8);
        };
        for round in 0..factor {
            let at = number * 7919 + round * 104_729;
            add(at, structure);
            add(at, unit);
            add(at / 3, unit);
        }
    }
    bits
}

fn flipped(content: &[u8], bits: Vec<usize>) -> impl Iterator<Item = (String, Vec<u8>)> {
    bits.into_iter().map(|bit| {
        let mut damaged = content.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        (format!("byte {}, bit {}", bit / 8, bit % 8), damaged)
    })
}

/// Damages of a file that cut it off, or swap, repeat or clear its units.
fn rearranged(content: &[u8], start: usize, unit: usize) -> Vec<(String, Vec<u8>)> {
    let mut damages = Vec::new();
    let starts: Vec<usize> = (start..content.len()).step_by(unit).collect();
    for (number, at) in starts.iter().copied().enumerate() {
        let mut add = |what: &str, damage: &dyn Fn(&mut Vec<u8>)| {
            let mut damaged = content.to_vec();
            damage(&mut damaged);
            if damaged != content {
                damages.push((format!("{what} at {at}"), damaged));
            }
        };
        let other = starts[(number * 7 + 3) % starts.len()];
        add("cut off", &|content| content.truncate(at));
        add("cleared", &|content| content[at..at + unit].fill(0));
        add("repeated elsewhere", &|content| content.copy_within(at..at + unit, other));
        add("swapped", &|content| {
            for byte in 0..unit {
                content.swap(at + byte, other + byte);
            }
        });
        if number % 4 == 0 {
            add("cut off within", &|content| content.truncate(at + unit / 2));
            add("left out", &|content| drop(content.drain(at..at + unit)));
        }
    }
    damages
}

#[tokio::test]
async fn a_flipped_bit_of_a_closed_store_is_noticed_or_loses_nothing() {
    let sample = Sample::closed().await;
    let content = &sample.files[MAIN];
    let header = flipped(content, (0..100 * 8).step_by(5).collect());
    sample.check(MAIN, header.chain(flipped(content, bits(content, 0, PAGE, 64))), 100).await;
}

/// SQLite writes to the pages of this list without reading their content.
#[tokio::test]
async fn a_flipped_bit_in_the_list_of_free_pages_is_noticed_or_loses_nothing() {
    let sample = Sample::closed().await;
    let content = &sample.files[MAIN];
    let word = |at: usize| content[at..at + 4].iter().fold(0, |word, byte| word << 8 | usize::from(*byte));
    let trunk = (word(32) - 1) * PAGE;
    let pages = word(trunk + 4);
    assert!(pages > 20, "{pages} pages are free");
    // The bits of the numbers of pages that exist.
    let bits = (0..2 + pages).flat_map(|entry| (0..7).map(move |bit| (trunk + 4 * entry + 3) * 8 + bit)).collect();
    sample.check(MAIN, flipped(content, bits), 1).await;
}

/// SQLite writes to the bytes that the header of a page says are free.
#[tokio::test]
async fn a_flipped_bit_in_the_header_of_a_page_is_noticed_or_loses_nothing() {
    let sample = Sample::closed().await;
    let content = &sample.files[MAIN];
    // The first free block, the start of the cells, and the number of bytes between them.
    let header = [1, 2, 5, 6, 7];
    let pages = (PAGE..content.len()).step_by(PAGE).enumerate();
    let bits = pages.flat_map(|(number, page)| header.map(|byte| (page + byte) * 8 + (number + byte) % 8)).collect();
    sample.check(MAIN, flipped(content, bits), 40).await;
}

#[tokio::test]
async fn a_flipped_bit_of_a_killed_store_is_noticed_or_loses_nothing() {
    let sample = Sample::killed().await;
    let content = &sample.files[LOG];
    let header = flipped(content, (0..LOG_HEADER * 8).step_by(3).collect());
    let frames = bits(content, LOG_HEADER, FRAME, 24 + 64);
    let expected = frames.len();
    sample.check(LOG, header.chain(flipped(content, frames)), expected).await;
    let content = &sample.files[ACKNOWLEDGED];
    sample.check(ACKNOWLEDGED, flipped(content, (0..content.len() * 8).step_by(97).collect()), 0).await;
    let content = &sample.files[MAIN];
    sample.check(MAIN, flipped(content, bits(content, 0, PAGE, 64)), 20).await;
}

/// The file that has the newest acknowledged revision is missing, as after a power loss. Only the last transaction
/// cannot be told from an incomplete transaction.
#[tokio::test]
async fn a_flipped_bit_in_the_middle_of_a_log_is_noticed_from_the_log_alone() {
    let mut sample = Sample::killed().await;
    sample.files.remove(ACKNOWLEDGED);
    let content = &sample.files[LOG];
    // The last two transactions have less than 20 pages.
    let end = content.len() - 20 * FRAME;
    let frames: Vec<usize> = bits(&content[..end], LOG_HEADER, FRAME, 24 + 64);
    let all = frames.len();
    sample.check(LOG, flipped(content, frames), all).await;
    let header: Vec<usize> = (0..LOG_HEADER * 8).step_by(3).collect();
    let all = header.len();
    sample.check(LOG, flipped(content, header), all).await;
}

#[tokio::test]
async fn pages_that_are_cut_off_or_swapped_or_repeated_are_noticed_or_nothing_is_lost() {
    let closed = Sample::closed().await;
    closed.check(MAIN, rearranged(&closed.files[MAIN], 0, PAGE), 150).await;
    let killed = Sample::killed().await;
    let log = rearranged(&killed.files[LOG], LOG_HEADER, FRAME);
    let all = log.len();
    killed.check(LOG, log, all).await;
    killed.check(ACKNOWLEDGED, rearranged(&killed.files[ACKNOWLEDGED], 0, 512), 0).await;
}

#[tokio::test]
async fn files_that_are_left_out_or_older_than_others_are_noticed_or_nothing_is_lost() {
    let (closed, killed) = (Sample::closed().await, Sample::killed().await);
    let without = |sample: &Sample, names: &[&'static str]| {
        let mut files = sample.files.clone();
        names.iter().for_each(|name| drop(files.remove(name)));
        files
    };
    for names in [&[MAIN][..], &[LOG], &[LOG, ACKNOWLEDGED], &[MAIN, LOG], &[MAIN, ACKNOWLEDGED]] {
        assert!(killed.is_noticed(&without(&killed, names), &format!("without {names:?}")).await, "{names:?}");
    }
    let is_noticed = super::FORM == Form::Encrypted;
    assert_eq!(killed.is_noticed(&without(&killed, &[ACKNOWLEDGED]), "the log is complete").await, is_noticed);
    assert!(!closed.is_noticed(&without(&closed, &[ACKNOWLEDGED]), "a closed store is complete").await);
    let older = Sample { files: closed.files.clone(), content: closed.content.clone() };
    for name in [MAIN, ACKNOWLEDGED] {
        let mut files = killed.files.clone();
        files.insert(name, older.files[name].clone());
        killed.is_noticed(&files, &format!("an older {name}")).await;
    }
    let mut files = older.files.clone();
    files.insert(ACKNOWLEDGED, killed.files[ACKNOWLEDGED].clone());
    assert!(older.is_noticed(&files, "an older store").await);
}

/// The pages of the log, or some of them, are already in the file.
#[tokio::test]
async fn a_damaged_log_that_was_copied_to_the_file_is_noticed() {
    // So many changes that a checkpoint runs.
    let sample = Sample::killed_after(1200).await;
    let content = &sample.files[LOG];
    let step = content.len() / FRAME / 12;
    let bits = (0..12).map(|number| (LOG_HEADER + number * step * FRAME + 100 + number * 300) * 8).collect();
    sample.check(LOG, flipped(content, bits), 1).await;
}
