//! Caches a second encoding of objects besides their JSON, within a size limit over all objects. A cached encoding is
//! stored in its object and freed with it. Encodings that are not requested for a while are evicted. If the requested
//! encodings do not fit, most cached encodings stay. Otherwise a client that repeatedly lists more than fits would
//! never get a hit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use pintle_locks::Mutex;

use crate::{CompressedBlocks, Object};

/// The approximate memory overhead of a cached encoding.
const OVERHEAD: usize = 64;
/// When the cache is full, one in this many encodings is admitted and others are evicted for it.
const ADMIT_ONE_IN: u32 = 16;
/// The maximum number of encodings to check for eviction per admitted encoding.
const MAX_EVICTION_ATTEMPTS: usize = 64;
/// The number of entries to check for dropped objects per inserted entry.
const DEAD_CHECKS_PER_INSERT: usize = 3;
/// The number of ticks per round over the ring. An encoding that is not requested for a round is evicted.
const TICKS_PER_ROUND: usize = 60;

/// The slot for the cached encoding of an object, and a flag of the object that fits into the slot's padding.
#[derive(Debug, Default)]
pub struct Encoding {
    cached: Mutex<Option<Box<CachedBytes>>>,
    /// The length of the encoding, for callers that need it before they encode; 0 if it has not been encoded yet.
    length: AtomicU32,
    /// See [`Object::is_stale`].
    pub(crate) object_is_stale: bool,
}

#[derive(Debug)]
struct CachedBytes {
    bytes: Box<[u8]>,
    /// True if the encoding was requested since the clock hand last passed it.
    referenced: bool,
    /// The total size of the cache, which includes this encoding.
    size: Arc<AtomicUsize>,
}

impl Drop for CachedBytes {
    fn drop(&mut self) {
        self.size.fetch_sub(self.bytes.len() + OVERHEAD, Ordering::Relaxed);
    }
}

impl Encoding {
    /// The length of the encoding, if it is known.
    #[must_use]
    pub fn length(&self) -> Option<usize> {
        // An encoding is never empty.
        Some(self.length.load(Ordering::Relaxed) as usize).filter(|length| *length > 0)
    }

    /// Calls a function with the bytes, if they are cached.
    pub fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.cached.lock().as_mut().map(|cached| {
            cached.referenced = true;
            read(&cached.bytes)
        })
    }

    /// Called when the clock hand passes. Returns true if the encoding stays cached.
    fn evict_unless_referenced(&self) -> bool {
        let mut slot = self.cached.lock();
        let stays = slot.as_mut().is_some_and(|cached| std::mem::take(&mut cached.referenced));
        if !stays {
            *slot = None;
        }
        stays
    }
}

/// The size limit and the eviction (the CLOCK algorithm) of all cached encodings.
#[derive(Debug)]
pub struct EncodingCache {
    /// The size of all cached encodings in bytes.
    size: Arc<AtomicUsize>,
    limit: usize,
    /// False while memory is short: nothing is cached.
    enabled: AtomicBool,
    ring: Mutex<EvictionRing>,
    compressed_blocks: Arc<CompressedBlocks>,
}

/// The objects with a cached encoding. The clock hand is at the front. Some objects may have been dropped.
#[derive(Debug, Default)]
struct EvictionRing {
    objects: VecDeque<Weak<Object>>,
    /// The number of encodings that did not fit.
    rejected: u32,
}

impl EncodingCache {
    /// A cache with a size limit in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let (enabled, compressed_blocks) = (AtomicBool::new(true), Arc::default());
        Self { size: Arc::default(), limit, enabled, ring: Mutex::default(), compressed_blocks }
    }

    /// The compressed parts of responses, which have a limit of their own.
    #[must_use]
    pub fn compressed_blocks(&self) -> &Arc<CompressedBlocks> {
        &self.compressed_blocks
    }

    /// Caches the encoding of an object if there is room for it, otherwise only its length. Does nothing if nobody else
    /// holds the object. The response to a write is such an object: the encoding would be dropped with the response.
    pub fn insert(&self, object: &Arc<Object>, bytes: &[u8]) {
        let Ok(length) = u32::try_from(bytes.len()) else { return };
        if Arc::strong_count(object) == 1 {
            return;
        }
        object.encoding.length.store(length, Ordering::Relaxed);
        if self.enabled.load(Ordering::Relaxed) && self.admit(object, bytes.len() + OVERHEAD) {
            let cached = CachedBytes { bytes: bytes.into(), referenced: true, size: self.size.clone() };
            *object.encoding.cached.lock() = Some(Box::new(cached));
        }
    }

    /// Reserves the size of an encoding. Returns false if there is no room.
    fn admit(&self, object: &Arc<Object>, cost: usize) -> bool {
        let mut ring = self.ring.lock();
        let fits = || self.size.load(Ordering::Relaxed) + cost <= self.limit;
        if !fits() {
            ring.rejected = ring.rejected.wrapping_add(1);
            if cost > self.limit || !ring.rejected.is_multiple_of(ADMIT_ONE_IN) {
                return false;
            }
            for _ in 0..MAX_EVICTION_ATTEMPTS {
                ring.advance(1);
                if fits() {
                    break;
                }
            }
            if !fits() {
                return false;
            }
        }
        self.size.fetch_add(cost, Ordering::Relaxed);
        ring.objects.push_back(Arc::downgrade(object));
        ring.drop_dead();
        true
    }

    /// Evicts encodings that have not been requested for a round. Called every few seconds.
    pub(crate) fn tick(&self) {
        let mut ring = self.ring.lock();
        let part = ring.objects.len().div_ceil(TICKS_PER_ROUND);
        ring.advance(part);
        drop(ring);
        self.compressed_blocks.tick();
    }

    /// Caches encodings from now on, or evicts all of them and caches no more.
    pub(crate) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
        self.compressed_blocks.set_enabled(enabled);
        if !enabled {
            let ring = std::mem::take(&mut *self.ring.lock());
            for object in ring.objects.iter().filter_map(Weak::upgrade) {
                object.encoding.cached.lock().take();
            }
        }
    }

    /// The size of all cached encodings in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }
}

impl EvictionRing {
    /// Removes a few entries whose objects are dropped, so that such entries never far outnumber the others.
    fn drop_dead(&mut self) {
        for _ in 0..DEAD_CHECKS_PER_INSERT {
            if let Some(object) = self.objects.pop_front()
                && object.strong_count() > 0
            {
                self.objects.push_back(object);
            }
        }
    }

    /// Moves the clock hand over some entries.
    fn advance(&mut self, count: usize) {
        for _ in 0..count {
            let Some(object) = self.objects.pop_front() else { return };
            if object.upgrade().is_some_and(|object| object.encoding.evict_unless_referenced()) {
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

    /// Caches an encoding as if a watch cache held the object too.
    fn insert(encoding_cache: &EncodingCache, object: &Arc<Object>) {
        let watch_cache = object.clone();
        encoding_cache.insert(object, &[0; LENGTH]);
        drop(watch_cache);
    }

    const LENGTH: usize = 936;

    /// Requests the encoding of every object once, like a list. Returns the number of cache hits.
    fn list(encoding_cache: &EncodingCache, objects: &[Arc<Object>]) -> usize {
        let mut hits = 0;
        for object in objects {
            match object.encoding.with_bytes(<[u8]>::len) {
                Some(length) => {
                    assert_eq!(length, LENGTH);
                    hits += 1;
                }
                None => insert(encoding_cache, object),
            }
            assert!(encoding_cache.size() <= encoding_cache.limit);
            assert_eq!(object.encoding.length(), Some(LENGTH));
        }
        hits
    }

    #[test]
    fn encodings_that_fit_are_hits() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(100));
        assert_eq!(objects[0].encoding.length(), None);
        assert_eq!([list(&encoding_cache, &objects), list(&encoding_cache, &objects)], [0, 100]);
        assert_eq!(encoding_cache.size(), 100_000);
    }

    #[test]
    fn a_list_larger_than_the_cache_still_has_hits() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(1000));
        let hits: Vec<usize> = (0..20).map(|_| list(&encoding_cache, &objects)).collect();
        assert!(hits[10..].iter().all(|hits| *hits > 30), "{hits:?}");
    }

    #[test]
    fn requested_encodings_replace_unused_ones() {
        let (encoding_cache, before, now) = (EncodingCache::new(100_000), objects(100), objects(50));
        list(&encoding_cache, &before);
        let hits: Vec<usize> = (0..40).map(|_| list(&encoding_cache, &now)).collect();
        assert!(hits[30..].iter().all(|hits| *hits > 35), "{hits:?}");
    }

    #[test]
    fn encodings_are_freed_with_their_objects() {
        let (encoding_cache, mut objects) = (EncodingCache::new(100_000), objects(100));
        list(&encoding_cache, &objects);
        objects.truncate(10);
        assert_eq!(encoding_cache.size(), 10_000);
        for _ in 0..2 * TICKS_PER_ROUND {
            list(&encoding_cache, &objects);
            encoding_cache.tick();
        }
        assert_eq!(encoding_cache.ring.lock().objects.len(), 10);
    }

    #[test]
    fn dropped_objects_leave_the_ring_as_others_are_inserted() {
        let (encoding_cache, living) = (EncodingCache::new(100_000), objects(50));
        list(&encoding_cache, &living);
        for object in objects(5000) {
            insert(&encoding_cache, &object);
        }
        assert_eq!(encoding_cache.size(), 50_000);
        let ring_length = encoding_cache.ring.lock().objects.len();
        assert!(ring_length < 150, "{ring_length}");
        assert_eq!(list(&encoding_cache, &living), 50);
        // The encoding of an object that nobody else holds is not cached.
        let alone = objects(1);
        encoding_cache.insert(&alone[0], &[0; LENGTH]);
        assert_eq!((alone[0].encoding.length(), encoding_cache.size()), (None, 50_000));
    }

    #[test]
    fn unused_encodings_are_evicted_by_ticks() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(100));
        list(&encoding_cache, &objects);
        for _ in 0..3 * TICKS_PER_ROUND {
            list(&encoding_cache, &objects[..20]);
            encoding_cache.tick();
        }
        assert_eq!((encoding_cache.size(), encoding_cache.ring.lock().objects.len()), (20_000, 20));
        assert_eq!(objects[50].encoding.length(), Some(LENGTH));
    }

    #[test]
    fn a_disabled_cache_holds_nothing_until_it_is_enabled() {
        let (encoding_cache, objects) = (EncodingCache::new(100_000), objects(100));
        list(&encoding_cache, &objects);
        encoding_cache.set_enabled(false);
        assert_eq!((encoding_cache.size(), encoding_cache.ring.lock().objects.len()), (0, 0));
        assert_eq!((list(&encoding_cache, &objects), encoding_cache.size()), (0, 0));
        encoding_cache.set_enabled(true);
        assert_eq!([list(&encoding_cache, &objects), list(&encoding_cache, &objects)], [0, 100]);
    }

    #[test]
    fn a_zero_limit_caches_nothing() {
        let (encoding_cache, objects) = (EncodingCache::new(0), objects(100));
        assert_eq!([list(&encoding_cache, &objects), list(&encoding_cache, &objects)], [0, 0]);
        assert_eq!(encoding_cache.size(), 0);
    }
}
