//! A cache of answers that expire, for webhooks that decide about requests (upstream: `LRUExpireCache`).

use std::collections::HashMap;

use pintle_locks::Mutex;

/// The most recently used answers, by the text of the question. Times are in milliseconds. If the clock is set back,
/// answers that seem to come from the future have expired.
#[derive(Debug)]
pub struct ExpiringCache<T> {
    entries: Mutex<Entries<T>>,
    max_entries: usize,
}

#[derive(Debug)]
struct Entries<T> {
    entries: HashMap<Box<[u8]>, Entry<T>>,
    /// The number of uses so far.
    uses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    answer: T,
    inserted: u64,
    expires: u64,
    /// The number of uses at the time of its last use.
    used: u64,
}

impl<T> Entry<T> {
    fn is_valid(&self, now: u64) -> bool {
        (self.inserted..self.expires).contains(&now)
    }
}

impl<T: Clone> ExpiringCache<T> {
    /// An empty cache of at most this many answers.
    #[must_use]
    pub fn new(max_entries: usize) -> Self {
        Self { entries: Mutex::new(Entries { entries: HashMap::new(), uses: 0 }), max_entries }
    }

    /// The answer to a question.
    pub fn get(&self, key: &[u8], now: u64) -> Option<T> {
        let mut entries = self.entries.lock();
        let Entries { entries, uses } = &mut *entries;
        let entry = entries.get_mut(key)?;
        if !entry.is_valid(now) {
            entries.remove(key);
            return None;
        }
        *uses += 1;
        entry.used = *uses;
        Some(entry.answer.clone())
    }

    /// Keeps an answer for a time.
    pub fn insert(&self, key: Vec<u8>, answer: T, now: u64, ttl: u64) {
        let mut entries = self.entries.lock();
        if !entries.entries.contains_key(&*key) {
            entries.make_room(self.max_entries, now);
        }
        entries.uses += 1;
        let used = entries.uses;
        entries.entries.insert(key.into(), Entry { answer, inserted: now, expires: now.saturating_add(ttl), used });
    }
}

impl<T> Entries<T> {
    /// Removes expired answers if there are too many answers. If that is not enough, removes the least recently used
    /// eighth, so that removals are rare.
    fn make_room(&mut self, max_entries: usize, now: u64) {
        if self.entries.len() < max_entries {
            return;
        }
        self.entries.retain(|_, entry| entry.is_valid(now));
        if self.entries.len() < max_entries {
            return;
        }
        let mut used: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let (_, limit, _) = used.select_nth_unstable(max_entries / 8);
        let limit = *limit;
        self.entries.retain(|_, entry| entry.used >= limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_the_least_recently_used_make_room() {
        const MAX_ENTRIES: usize = 8192;
        let cache = ExpiringCache::new(MAX_ENTRIES);
        let key = |i: usize| i.to_be_bytes().to_vec();
        let has = |i: usize, now: u64| cache.get(&key(i), now).is_some();
        let insert = |i: usize, now: u64, ttl: u64| cache.insert(key(i), (), now, ttl);
        insert(0, 0, 10);
        assert!(has(0, 9) && !has(0, 10) && !has(0, 9));
        // The clock was set back.
        insert(0, 5, 10);
        assert!(has(0, 5) && !has(0, 4) && !has(0, 5));
        (0..MAX_ENTRIES).for_each(|i| insert(i, 10, 20));
        assert!(has(0, 20));
        insert(MAX_ENTRIES, 20, 20);
        assert!(has(0, 20) && !has(1, 20) && !has(MAX_ENTRIES / 8, 20) && has(MAX_ENTRIES / 8 + 1, 20));
        assert!(has(MAX_ENTRIES, 20));
        (0..MAX_ENTRIES).for_each(|i| insert(i + 1, 35, 15));
        assert!(cache.entries.lock().entries.len() <= MAX_ENTRIES);
        // An answer that replaces another needs no room.
        let cache = ExpiringCache::new(2);
        [b"a", b"b", b"a"].into_iter().for_each(|key| cache.insert(key.to_vec(), (), 0, 10));
        assert!(cache.get(b"a", 0).is_some() && cache.get(b"b", 0).is_some());
    }
}
