//! The cache of a webhook's answers (upstream: `LRUExpireCache`).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::review::ReviewStatus;

/// Maximum number of answers.
const MAX_ENTRIES: usize = 8192;

/// The most recently used answers, by the text of the spec. Their age is not that of a clock that may be set back.
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
    expires: Instant,
    /// When it was used, in uses.
    used: u64,
}

impl ReviewCache {
    /// The answer for a spec.
    pub(super) fn get(&self, key: &[u8], now: Instant) -> Option<ReviewStatus> {
        let mut entries = self.0.lock();
        let Entries { entries, uses } = &mut *entries;
        let entry = entries.get_mut(key)?;
        if entry.expires <= now {
            entries.remove(key);
            return None;
        }
        *uses += 1;
        entry.used = *uses;
        Some(entry.status.clone())
    }

    /// Keeps an answer for a time. One that would never expire is not kept.
    pub(super) fn insert(&self, key: Vec<u8>, status: ReviewStatus, now: Instant, ttl: Duration) {
        let Some(expires) = now.checked_add(ttl) else { return };
        let mut entries = self.0.lock();
        entries.make_room(now);
        entries.uses += 1;
        let used = entries.uses;
        entries.entries.insert(key.into(), Entry { status, expires, used });
    }
}

impl Entries {
    /// Removes expired answers if there are too many, and then the eighth that was not used for the longest time, so
    /// that this is rare.
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < MAX_ENTRIES {
            return;
        }
        self.entries.retain(|_, entry| entry.expires > now);
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
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let key = |i: usize| i.to_be_bytes().to_vec();
        let has = |i: usize, now: u64| cache.get(&key(i), at(now)).is_some();
        let insert = |i: usize, now: u64, ttl: u64| {
            cache.insert(key(i), ReviewStatus::default(), at(now), Duration::from_secs(ttl));
        };
        insert(0, 0, 10);
        assert!(has(0, 9) && !has(0, 10) && !has(0, 9));
        insert(0, 0, u64::MAX);
        assert!(!has(0, 0));
        (0..MAX_ENTRIES).for_each(|i| insert(i, 10, 20));
        assert!(has(0, 20));
        insert(MAX_ENTRIES, 20, 20);
        assert!(has(0, 20) && !has(1, 20) && !has(MAX_ENTRIES / 8, 20) && has(MAX_ENTRIES / 8 + 1, 20));
        assert!(has(MAX_ENTRIES, 20));
        (0..MAX_ENTRIES).for_each(|i| insert(i + 1, 35, 15));
        assert!(cache.0.lock().entries.len() <= MAX_ENTRIES);
    }
}
