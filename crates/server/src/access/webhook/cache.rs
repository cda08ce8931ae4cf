//! The cache of a webhook's answers (upstream: `LRUExpireCache`).

use std::collections::HashMap;

use parking_lot::Mutex;

use super::review::ReviewStatus;

/// Maximum number of answers.
const MAX_ENTRIES: usize = 8192;

/// The most recently used answers, by the text of the spec. Times are in milliseconds. The clock may be set back: then
/// answers that seem to be of the future have expired.
#[derive(Default)]
pub(super) struct ReviewCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    entries: HashMap<Box<[u8]>, Entry>,
    /// The number of uses so far.
    uses: u64,
}

struct Entry {
    status: ReviewStatus,
    inserted: u64,
    expires: u64,
    /// When it was used, in uses.
    used: u64,
}

impl Entry {
    fn is_valid(&self, now: u64) -> bool {
        (self.inserted..self.expires).contains(&now)
    }
}

impl ReviewCache {
    /// The answer for a spec.
    pub(super) fn get(&self, key: &[u8], now: u64) -> Option<ReviewStatus> {
        let mut entries = self.0.lock();
        let Entries { entries, uses } = &mut *entries;
        let entry = entries.get_mut(key)?;
        if !entry.is_valid(now) {
            entries.remove(key);
            return None;
        }
        *uses += 1;
        entry.used = *uses;
        Some(entry.status.clone())
    }

    /// Keeps an answer for a time.
    pub(super) fn insert(&self, key: Vec<u8>, status: ReviewStatus, now: u64, ttl: u64) {
        let mut entries = self.0.lock();
        entries.make_room(now);
        entries.uses += 1;
        let used = entries.uses;
        entries.entries.insert(key.into(), Entry { status, inserted: now, expires: now.saturating_add(ttl), used });
    }
}

impl Entries {
    /// Removes expired answers if there are too many, and then the eighth that was not used for the longest time, so
    /// that this is rare.
    fn make_room(&mut self, now: u64) {
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        self.entries.retain(|_, entry| entry.is_valid(now));
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        let mut used: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let (_, limit, _) = used.select_nth_unstable(MAX_ENTRIES / 8);
        let limit = *limit;
        self.entries.retain(|_, entry| entry.used >= limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_the_least_recently_used_make_room() {
        let cache = ReviewCache::default();
        let key = |i: usize| i.to_be_bytes().to_vec();
        let has = |i: usize, now: u64| cache.get(&key(i), now).is_some();
        let insert = |i: usize, now: u64, ttl: u64| cache.insert(key(i), ReviewStatus::default(), now, ttl);
        insert(0, 0, 10);
        assert!(has(0, 9) && !has(0, 10) && !has(0, 9));
        // The clock is set back.
        insert(0, 5, 10);
        assert!(has(0, 5) && !has(0, 4) && !has(0, 5));
        (0..MAX_ENTRIES).for_each(|i| insert(i, 10, 20));
        assert!(has(0, 20));
        insert(MAX_ENTRIES, 20, 20);
        assert!(has(0, 20) && !has(1, 20) && !has(MAX_ENTRIES / 8, 20) && has(MAX_ENTRIES / 8 + 1, 20));
        assert!(has(MAX_ENTRIES, 20));
        (0..MAX_ENTRIES).for_each(|i| insert(i + 1, 35, 15));
        assert!(cache.0.lock().entries.len() <= MAX_ENTRIES);
    }
}
