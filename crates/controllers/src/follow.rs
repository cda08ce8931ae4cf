//! All logs of a cluster, as one stream of changes in their order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use pintle_cache::{EventStream, KeyRange, Object, StreamedEvent, WatchCache};
use pintle_value::Str;

use crate::ClusterClient;

/// How many objects that were there are handed out at once.
const PART: usize = 256;

/// What has happened.
pub(crate) enum Change {
    /// These objects are there, in the collection of this prefix.
    There(Str, Vec<Arc<Object>>),
    /// These events came, in their order over all collections; none, where it is only known now that there are no others.
    Events(Vec<StreamedEvent>),
    /// Nothing counts any more that was heard of this collection. If it is still there it comes again.
    Gone(Str),
}

/// A log that is followed.
struct Followed {
    watch_cache: Arc<WatchCache>,
    /// Up to where its objects tell what its events would.
    read_to: u64,
    /// For one that has gone: how many events of all logs there were then. Its own last ones are among them.
    gone_at: Option<u64>,
}

/// What was there in a log when following it began, and was not handed out yet.
struct Unread {
    watch_cache: Arc<WatchCache>,
    objects: Box<dyn Iterator<Item = Arc<Object>> + Send + Sync>,
}

/// The logs that are followed: those of all collections, but not of what expires, as upstream leaves out events.
pub(crate) struct Following {
    event_stream: EventStream,
    left_out: HashSet<Str>,
    /// The logs there are.
    watch_caches: HashMap<Str, Arc<WatchCache>>,
    followed: HashMap<Str, Followed>,
    /// True while some that are followed have gone.
    leaves: bool,
    gone: Vec<Str>,
    unread: VecDeque<Unread>,
    /// Events that came, and wait until all that was there before them is handed out.
    held: Vec<StreamedEvent>,
    /// How many events there were in all logs when the last objects that were there were handed out, until all of them
    /// are too: logs are not read at one revision.
    behind: Option<u64>,
}

impl Following {
    pub(crate) fn new(client: &Arc<dyn ClusterClient>) -> Self {
        let registry = client.registry();
        let expiring = registry.resources().filter(|resource| resource.strategy.has_ttl());
        let left_out = expiring.filter_map(|resource| Some(resource.collection()?.prefix.clone())).collect();
        let mut following = Self {
            event_stream: client.event_stream(),
            left_out,
            watch_caches: HashMap::new(),
            followed: HashMap::new(),
            leaves: false,
            gone: Vec::new(),
            unread: VecDeque::new(),
            held: Vec::new(),
            behind: None,
        };
        following.update_watch_caches();
        following
    }

    /// True if everything is handed out that was there when following began, and what is handed out is of one revision.
    pub(crate) fn has_read_all(&self) -> bool {
        self.gone.is_empty() && self.unread.is_empty() && self.behind.is_none()
    }

    /// True if there is such a collection, and what is in it is followed.
    pub(crate) fn follows(&self, prefix: &str) -> bool {
        self.followed.contains_key(prefix)
    }

    /// The next change. Nothing is lost if the wait is given up.
    pub(crate) async fn next(&mut self) -> Change {
        loop {
            // There may be much to hand out, and others want to work as well.
            tokio::task::yield_now().await;
            // Also after events came: they may be of a log that was not there before.
            self.update_watch_caches();
            if let Some(prefix) = self.gone.pop() {
                return Change::Gone(prefix);
            }
            if let Some(Unread { watch_cache, objects }) = self.unread.front_mut() {
                let objects: Vec<_> = objects.by_ref().take(PART).collect();
                let prefix = watch_cache.prefix().clone();
                if objects.len() < PART {
                    self.unread.pop_front();
                    self.behind = Some(self.event_stream.end());
                }
                return Change::There(prefix, objects);
            }
            let mut events = std::mem::take(&mut self.held);
            events.retain(|(watch_cache, event)| {
                let followed = self
                    .followed
                    .get(watch_cache.prefix())
                    .filter(|followed| Arc::ptr_eq(&followed.watch_cache, watch_cache));
                followed.is_some_and(|followed| event.revision > followed.read_to)
            });
            let position = self.event_stream.position();
            let catches_up = self.behind.take_if(|end| *end <= position).is_some();
            if catches_up || !events.is_empty() {
                return Change::Events(events);
            }
            match self.event_stream.next().await {
                Ok(events) => self.held = events,
                Err(_) => self.forget(|_| true),
            }
        }
    }

    /// Looks which logs have come and gone since the last look. One that has gone is forgotten when all is handed out that
    /// it told before.
    fn update_watch_caches(&mut self) {
        if let Some(watch_caches) = self.event_stream.watch_caches() {
            self.watch_caches =
                watch_caches.into_iter().map(|watch_cache| (watch_cache.prefix().clone(), watch_cache)).collect();
            // One may have gone and come again.
            let is_there = |watch_cache: &Arc<WatchCache>| {
                self.watch_caches.get(watch_cache.prefix()).is_some_and(|now| Arc::ptr_eq(now, watch_cache))
            };
            let end = self.event_stream.end();
            for followed in self.followed.values_mut().filter(|followed| !is_there(&followed.watch_cache)) {
                followed.gone_at.get_or_insert(end);
                self.leaves = true;
            }
        } else if !self.leaves {
            return;
        }
        if self.leaves && self.held.is_empty() {
            let handed_out = self.event_stream.position();
            self.forget(|followed| followed.gone_at.is_some_and(|end| end <= handed_out));
            self.leaves = self.followed.values().any(|followed| followed.gone_at.is_some());
        }
        for (prefix, watch_cache) in &self.watch_caches {
            if !self.left_out.contains(prefix) && !self.followed.contains_key(prefix) {
                let followed = Followed {
                    watch_cache: watch_cache.clone(),
                    read_to: watch_cache.newest_revision(),
                    gone_at: None,
                };
                self.followed.insert(prefix.clone(), followed);
                self.unread.push_back(Unread {
                    watch_cache: watch_cache.clone(),
                    objects: Box::new(watch_cache.objects(KeyRange::All)),
                });
            }
        }
    }

    fn forget(&mut self, is_lost: impl Fn(&Followed) -> bool) {
        let lost: Vec<_> = self.followed.extract_if(|_, followed| is_lost(followed)).collect();
        self.unread
            .retain(|unread| !lost.iter().any(|(_, followed)| Arc::ptr_eq(&followed.watch_cache, &unread.watch_cache)));
        self.gone.extend(lost.into_iter().map(|(prefix, _)| prefix));
    }
}
