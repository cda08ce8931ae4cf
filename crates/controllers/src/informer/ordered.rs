//! An informer of all collections that reports their events in the order of revisions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_cache::{EventStream, StreamedEvent, WatchCache, WatchScope};
use pintle_value::Str;

use super::InformerEvent;
use super::listings::Listings;
use crate::ClusterClient;

/// A collection that is followed.
struct FollowedCollection {
    watch_cache: Arc<WatchCache>,
    /// The list contains the effects of all events up to this revision.
    listed_at: u64,
    /// Once the watch cache is closed: the number of events that all watch caches had had by then. The last events of
    /// this watch cache are among them.
    closed_at: Option<u64>,
}

/// Follows all collections, but skips collections whose objects expire: upstream's garbage collector ignores events
/// too.
pub(crate) struct OrderedInformer {
    event_stream: EventStream,
    ignored: HashSet<Str>,
    /// The watch caches that are open, by prefix.
    watch_caches: HashMap<Str, Arc<WatchCache>>,
    followed: HashMap<Str, FollowedCollection>,
    /// True while some of `followed` are closed.
    has_closed: bool,
    resets: Vec<Arc<WatchCache>>,
    listings: Listings<Arc<WatchCache>>,
    /// Events that are reported after all lists.
    held_back: Vec<StreamedEvent>,
    /// The number of events that all watch caches had had at the last list, until those events are reported too. The
    /// collections are not listed at the same revision.
    synced_at: Option<u64>,
}

impl OrderedInformer {
    pub(crate) fn new(client: &Arc<dyn ClusterClient>) -> Self {
        let registry = client.registry();
        let expiring = registry.resources().filter(|resource| resource.strategy.has_ttl());
        let ignored = expiring.filter_map(|resource| Some(resource.collection()?.prefix.clone())).collect();
        let mut informer = Self {
            event_stream: client.event_stream(),
            ignored,
            watch_caches: HashMap::new(),
            followed: HashMap::new(),
            has_closed: false,
            resets: Vec::new(),
            listings: Listings::default(),
            held_back: Vec::new(),
            synced_at: None,
        };
        informer.update_watch_caches();
        informer
    }

    /// True if all collections are listed, and all reports are of one revision.
    pub(crate) fn has_synced(&self) -> bool {
        self.resets.is_empty() && self.listings.is_empty() && self.synced_at.is_none()
    }

    /// True if the collection of a prefix exists and is followed.
    pub(crate) fn follows(&self, prefix: &str) -> bool {
        self.followed.contains_key(prefix)
    }

    /// The next event. [`InformerEvent::Changed`] is empty if the informer has synced without any. Cancel-safe.
    pub(crate) async fn next(&mut self) -> InformerEvent<Arc<WatchCache>> {
        loop {
            // There may be many reports: let other tasks run.
            tokio::task::yield_now().await;
            // Also after events: they may be of a watch cache that was opened in the meantime.
            self.update_watch_caches();
            if let Some(watch_cache) = self.resets.pop() {
                return InformerEvent::Reset(watch_cache);
            }
            if let Some((watch_cache, objects)) = self.listings.next_batch() {
                // A later list replaces the position.
                self.synced_at = Some(self.event_stream.end());
                return InformerEvent::Added(watch_cache, objects);
            }
            let mut events = std::mem::take(&mut self.held_back);
            events.retain(|(watch_cache, event)| {
                let followed = self
                    .followed
                    .get(watch_cache.prefix())
                    .filter(|followed| Arc::ptr_eq(&followed.watch_cache, watch_cache));
                followed.is_some_and(|followed| event.revision > followed.listed_at)
            });
            let position = self.event_stream.position();
            let syncs = self.synced_at.take_if(|end| *end <= position).is_some();
            if syncs || !events.is_empty() {
                return InformerEvent::Changed(events);
            }
            match self.event_stream.next().await {
                Ok(events) => self.held_back = events,
                Err(_) => self.reset(|_| true),
            }
        }
    }

    /// Follows the watch caches that were opened since the last call. A closed watch cache is reset once all of its
    /// events are reported.
    fn update_watch_caches(&mut self) {
        if let Some(watch_caches) = self.event_stream.watch_caches() {
            self.watch_caches =
                watch_caches.into_iter().map(|watch_cache| (watch_cache.prefix().clone(), watch_cache)).collect();
            // A collection may have been closed and opened again.
            let is_open = |watch_cache: &Arc<WatchCache>| {
                self.watch_caches.get(watch_cache.prefix()).is_some_and(|open| Arc::ptr_eq(open, watch_cache))
            };
            let end = self.event_stream.end();
            for followed in self.followed.values_mut().filter(|followed| !is_open(&followed.watch_cache)) {
                followed.closed_at.get_or_insert(end);
                self.has_closed = true;
            }
        } else if !self.has_closed {
            return;
        }
        if self.has_closed && self.held_back.is_empty() {
            let reported = self.event_stream.position();
            self.reset(|followed| followed.closed_at.is_some_and(|end| end <= reported));
            self.has_closed = self.followed.values().any(|followed| followed.closed_at.is_some());
        }
        for (prefix, watch_cache) in &self.watch_caches {
            if !self.ignored.contains(prefix) && !self.followed.contains_key(prefix) {
                let followed = FollowedCollection {
                    watch_cache: watch_cache.clone(),
                    listed_at: watch_cache.newest_revision(),
                    closed_at: None,
                };
                self.followed.insert(prefix.clone(), followed);
                self.listings.add(watch_cache.clone(), watch_cache, &WatchScope::All);
            }
        }
    }

    fn reset(&mut self, is_lost: impl Fn(&FollowedCollection) -> bool) {
        let lost: Vec<_> = self.followed.extract_if(|_, followed| is_lost(followed)).collect();
        self.listings.remove(|listed| lost.iter().any(|(_, followed)| Arc::ptr_eq(&followed.watch_cache, listed)));
        self.resets.extend(lost.into_iter().map(|(_, followed)| followed.watch_cache));
    }
}
