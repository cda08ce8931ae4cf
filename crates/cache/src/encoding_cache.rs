//! Encodings of objects beside the JSON that they are held in: one of each object that is asked for, within a budget over all
//! objects. An encoding is kept with its object and dies with it. Those that nobody asks for are given back after a while,
//! and where there is no room for all that are asked for, most of those that are kept stay: who lists more than there is
//! room for, again and again, would otherwise find none of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Object;

/// What an encoding takes beside its bytes, about.
const OVERHEAD: usize = 64;
/// Where there is no room, one of so many encodings is kept all the same, in the place of others.
const ADMITTED: u32 = 16;
/// At most so many encodings are looked at to find those that give way.
const LOOKS: usize = 64;
/// So many are looked at for each one that comes, for those whose objects are gone.
const FORGOTTEN: usize = 3;
/// The rounds of all encodings are made in so many ticks: what is not asked for in one of them is given back.
const TICKS: usize = 60;

/// The place of an object's encoding.
#[derive(Debug, Default)]
pub struct Encoding(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nobody has asked yet.
    #[default]
    Unknown,
    /// How long it is, for those who need to know that before they make it.
    Length(u32),
    /// The same, and the bytes.
    Kept(u32, Box<Kept>),
}

#[derive(Debug)]
struct Kept {
    bytes: Box<[u8]>,
    /// Asked for since the hand passed it last.
    used: bool,
    /// Where it is counted.
    held: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len() + OVERHEAD, Ordering::Relaxed);
    }
}

impl Encoding {
    /// How long it is, if it was made before.
    #[must_use]
    pub fn length(&self) -> Option<usize> {
        match &*self.0.lock() {
            State::Unknown => None,
            State::Length(length) | State::Kept(length, _) => Some(*length as usize),
        }
    }

    /// Shows the bytes, if they are kept.
    pub fn look<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match &mut *self.0.lock() {
            State::Kept(_, kept) => {
                kept.used = true;
                Some(look(&kept.bytes))
            }
            _ => None,
        }
    }

    /// Passes the hand over it. True if it is kept and stays.
    fn pass(&self) -> bool {
        let mut state = self.0.lock();
        let State::Kept(length, kept) = &mut *state else { return false };
        if std::mem::take(&mut kept.used) {
            return true;
        }
        *state = State::Length(*length);
        false
    }
}

/// The budget of all encodings.
#[derive(Debug)]
pub struct EncodingCache {
    /// What they take, in bytes.
    held: Arc<AtomicUsize>,
    limit: usize,
    ring: Mutex<Ring>,
}

/// The objects whose encodings are kept; the hand is at the front. Some may be gone.
#[derive(Debug, Default)]
struct Ring {
    objects: VecDeque<Weak<Object>>,
    /// How many found no room.
    refused: u32,
}

impl EncodingCache {
    /// Encodings that together take up to so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit, ring: Mutex::default() }
    }

    /// Keeps an object's encoding, if there is room for it, or else how long it is. Of an object that nobody else holds,
    /// such as the answer to a write, nothing is kept: it is gone when the answer is.
    pub fn keep(&self, object: &Arc<Object>, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else { return };
        if Arc::strong_count(object) == 1 {
            return;
        }
        let state = if self.admit(object, bytes.len() + OVERHEAD) {
            State::Kept(length, Box::new(Kept { bytes: bytes.into(), used: true, held: self.held.clone() }))
        } else {
            State::Length(length)
        };
        *object.encoding.0.lock() = state;
    }

    /// Counts an encoding in. False if there is no room for it.
    fn admit(&self, object: &Arc<Object>, cost: usize) -> bool {
        let mut ring = self.ring.lock();
        let fits = || self.held.load(Ordering::Relaxed) + cost <= self.limit;
        if !fits() {
            ring.refused = ring.refused.wrapping_add(1);
            if cost > self.limit || !ring.refused.is_multiple_of(ADMITTED) {
                return false;
            }
            for _ in 0..LOOKS {
                ring.turn(1);
                if fits() {
                    break;
                }
            }
            if !fits() {
                return false;
            }
        }
        self.held.fetch_add(cost, Ordering::Relaxed);
        ring.objects.push_back(Arc::downgrade(object));
        ring.forget();
        true
    }

    /// Gives back what has not been asked for lately. To be called every few seconds.
    pub(crate) fn tick(&self) {
        let mut ring = self.ring.lock();
        let part = ring.objects.len().div_ceil(TICKS);
        ring.turn(part);
    }

    /// How many bytes the encodings take.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Ring {
    /// Looks at a few for objects that are gone, so that at no time there are many more of them than of others.
    fn forget(&mut self) {
        for _ in 0..FORGOTTEN {
            if let Some(object) = self.objects.pop_front()
                && object.strong_count() > 0
            {
                self.objects.push_back(object);
            }
        }
    }

    /// Passes the hand over so many objects.
    fn turn(&mut self, count: usize) {
        for _ in 0..count {
            let Some(object) = self.objects.pop_front() else { return };
            if object.upgrade().is_some_and(|object| object.encoding.pass()) {
                self.objects.push_back(object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectIndex;
    use bytes::Bytes;

    fn objects(count: usize) -> Vec<Arc<Object>> {
        let object = |i: usize| Object::new(i.to_string().into(), 1, Bytes::new(), ObjectIndex::default());
        (0..count).map(|i| Arc::new(object(i))).collect()
    }

    /// Keeps an object's encoding as if a log held the object too.
    fn keep(encoding_cache: &EncodingCache, object: &Arc<Object>) {
        let watch_cache = object.clone();
        encoding_cache.keep(object, &[0; LENGTH]);
        drop(watch_cache);
    }

    const LENGTH: usize = 936;

    /// Asks for every object's encoding once, as a list does. How many were kept already?
    fn list(encoding_cache: &EncodingCache, objects: &[Arc<Object>]) -> usize {
        let mut found = 0;
        for object in objects {
            match object.encoding.look(<[u8]>::len) {
                Some(length) => {
                    assert_eq!(length, LENGTH);
                    found += 1;
                }
                None => keep(encoding_cache, object),
            }
            assert!(encoding_cache.held() <= encoding_cache.limit);
            assert_eq!(object.encoding.length(), Some(LENGTH));
        }
        found
    }

    #[test]
    fn what_fits_is_found_again() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(100));
        assert_eq!(objects[0].encoding.length(), None);
        assert_eq!([list(&encoding_cache, &objects), list(&encoding_cache, &objects)], [0, 100]);
        assert_eq!(encoding_cache.held(), 100_000);
    }

    #[test]
    fn a_list_that_does_not_fit_finds_most_of_what_there_is_room_for() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(1000));
        let found: Vec<usize> = (0..20).map(|_| list(&encoding_cache, &objects)).collect();
        assert!(found[10..].iter().all(|found| *found > 30), "{found:?}");
    }

    #[test]
    fn what_is_asked_for_takes_the_place_of_what_is_not() {
        let (encoding_cache, before, now) = (EncodingCache::new(100_000), objects(100), objects(50));
        list(&encoding_cache, &before);
        let found: Vec<usize> = (0..40).map(|_| list(&encoding_cache, &now)).collect();
        assert!(found[30..].iter().all(|found| *found > 35), "{found:?}");
    }

    #[test]
    fn encodings_die_with_their_objects() {
        let (encoding_cache, mut objects) = (EncodingCache::new(100_000), objects(100));
        list(&encoding_cache, &objects);
        objects.truncate(10);
        assert_eq!(encoding_cache.held(), 10_000);
        for _ in 0..2 * TICKS {
            list(&encoding_cache, &objects);
            encoding_cache.tick();
        }
        assert_eq!(encoding_cache.ring.lock().objects.len(), 10);
    }

    #[test]
    fn objects_that_are_gone_are_forgotten_while_others_come() {
        let (encoding_cache, there) = (EncodingCache::new(100_000), objects(50));
        list(&encoding_cache, &there);
        for object in objects(5000) {
            keep(&encoding_cache, &object);
        }
        assert_eq!(encoding_cache.held(), 50_000);
        let known = encoding_cache.ring.lock().objects.len();
        assert!(known < 150, "{known}");
        assert_eq!(list(&encoding_cache, &there), 50);
        // What nobody else holds is not kept at all.
        let alone = objects(1);
        encoding_cache.keep(&alone[0], &[0; LENGTH]);
        assert_eq!((alone[0].encoding.length(), encoding_cache.held()), (None, 50_000));
    }

    #[test]
    fn what_nobody_asks_for_is_given_back() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(100));
        list(&encoding_cache, &objects);
        for _ in 0..3 * TICKS {
            list(&encoding_cache, &objects[..20]);
            encoding_cache.tick();
        }
        assert_eq!((encoding_cache.held(), encoding_cache.ring.lock().objects.len()), (20_000, 20));
        assert_eq!(objects[50].encoding.length(), Some(LENGTH));
    }

    #[test]
    fn nothing_is_kept_without_a_budget() {
        let (encoding_cache, objects) = (EncodingCache::new(0), objects(100));
        assert_eq!([list(&encoding_cache, &objects), list(&encoding_cache, &objects)], [0, 0]);
        assert_eq!(encoding_cache.held(), 0);
    }
}
