//! Informers list the objects of watch caches and then follow their events (upstream: `client-go/tools/cache`). They
//! list again when events are lost, and notice watch caches that open and close.
//!
//! An [`Informer`] follows chosen sources, each in its own order. An [`OrderedInformer`] follows all collections in the
//! order of revisions. A [`RemoteInformer`] follows the objects of other API servers.

mod listings;
mod ordered;
mod remote;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use pintle_cache::{Event, Object, TooOld, WatchCache, WatchScope, Watcher};
use pintle_registry::GroupResource;
use tokio::sync::{Notify, watch};

use self::listings::Listings;
pub(crate) use self::ordered::OrderedInformer;
pub(crate) use self::remote::{RemoteChange, RemoteInformer, RemoteInformerEvent};
use crate::ClusterClient;
use crate::objects::watch_cache_of;

/// The reports of an informer about its sources, each identified by an `S`.
pub(crate) enum InformerEvent<S> {
    /// These objects exist in a source. Large sources are listed in several batches.
    Added(S, Vec<Arc<Object>>),
    /// Changes, in order. An event may be older than the object that was listed.
    Changed(Vec<(S, Arc<Event>)>),
    /// Events of a source were lost, or its watch cache was closed: all earlier reports about it are void. If the watch
    /// cache is open, it is listed again.
    Reset(S),
}

/// A part of a collection to follow.
#[derive(Clone, Debug)]
pub(crate) struct InformerSource<S> {
    id: S,
    resource: GroupResource,
    scope: WatchScope,
    lists: bool,
}

impl<S> InformerSource<S> {
    /// The objects of a resource that a scope selects. `id` identifies the source in events.
    pub(crate) fn new(id: S, resource: GroupResource, scope: WatchScope) -> Self {
        Self { id, resource, scope, lists: true }
    }

    /// The same source without [`InformerEvent::Added`], for controllers that do not need its objects.
    pub(crate) fn without_list(self) -> Self {
        Self { lists: false, ..self }
    }
}

/// A source and its watch cache, while that is open.
struct FollowedSource<S> {
    source: InformerSource<S>,
    followed: Option<(Arc<WatchCache>, Watcher)>,
}

/// Follows chosen sources.
pub(crate) struct Informer<S> {
    client: Weak<dyn ClusterClient>,
    registry_changes: watch::Receiver<()>,
    /// Notified when one of the sources may have events.
    source_changes: Arc<Notify>,
    sources: Vec<FollowedSource<S>>,
    resets: Vec<S>,
    listings: Listings<S>,
}

impl<S: Clone + PartialEq> Informer<S> {
    pub(crate) fn new(client: &Arc<dyn ClusterClient>, sources: Vec<InformerSource<S>>) -> Self {
        let mut informer = Self {
            client: Arc::downgrade(client),
            registry_changes: client.registry_changes(),
            source_changes: Arc::default(),
            sources: sources.into_iter().map(|source| FollowedSource { source, followed: None }).collect(),
            resets: Vec::new(),
            listings: Listings::default(),
        };
        informer.update_watch_caches(client);
        informer
    }

    /// Follows other sources from now on. Sources with an id that was followed before go on. The informer reports
    /// nothing more of the others.
    pub(crate) fn set_sources(&mut self, client: &Arc<dyn ClusterClient>, sources: Vec<InformerSource<S>>) {
        let mut before = std::mem::take(&mut self.sources);
        let is_wanted = |id: &S| sources.iter().any(|source| source.id == *id);
        self.resets.retain(&is_wanted);
        self.listings.remove(|id| !is_wanted(id));
        for source in sources {
            let same = before.iter().position(|followed| followed.source.id == source.id);
            let followed = same.map(|index| before.swap_remove(index));
            self.sources.push(followed.unwrap_or(FollowedSource { source, followed: None }));
        }
        self.update_watch_caches(client);
    }

    /// The next event; `None` once the cluster is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<InformerEvent<S>> {
        loop {
            if let Some(id) = self.resets.pop() {
                return Some(InformerEvent::Reset(id));
            }
            if !self.listings.is_empty() {
                // A list may be long: let other tasks run.
                tokio::task::yield_now().await;
                if let Some((id, objects)) = self.listings.next_batch() {
                    return Some(InformerEvent::Added(id, objects));
                }
            }
            if self.registry_changes.has_changed().ok()? {
                self.registry_changes.mark_unchanged();
                let client = self.client.upgrade()?;
                self.update_watch_caches(&client);
                continue;
            }
            let Some((index, events)) = next_events(&mut self.sources) else {
                tokio::select! {
                    changed = self.registry_changes.changed() => {
                        changed.ok()?;
                        self.registry_changes.mark_changed();
                    }
                    () = self.source_changes.notified() => {}
                }
                continue;
            };
            match events {
                Ok(events) => {
                    let id = &self.sources[index].source.id;
                    return Some(InformerEvent::Changed(events.into_iter().map(|event| (id.clone(), event)).collect()));
                }
                Err(TooOld { .. }) => {
                    let client = self.client.upgrade()?;
                    self.reset(index);
                    self.update_watch_caches(&client);
                }
            }
        }
    }

    /// Follows the watch caches that are open now.
    fn update_watch_caches(&mut self, client: &Arc<dyn ClusterClient>) {
        for index in 0..self.sources.len() {
            let FollowedSource { source, followed } = &self.sources[index];
            let open = watch_cache_of(client, &source.resource);
            if open.as_ref().map(Arc::as_ptr) == followed.as_ref().map(|(watch_cache, _)| Arc::as_ptr(watch_cache)) {
                continue;
            }
            if followed.is_some() {
                self.reset(index);
            }
            if let Some(watch_cache) = open {
                self.open(index, watch_cache);
            }
        }
    }

    /// Begins to follow a watch cache. The listed objects may be newer than the first events, never older.
    fn open(&mut self, index: usize, watch_cache: Arc<WatchCache>) {
        let FollowedSource { source, followed } = &mut self.sources[index];
        let (scope, revision) = (source.scope.clone(), watch_cache.newest_revision());
        let watcher = watch_cache.watch_and_notify(scope, revision, self.source_changes.clone());
        if source.lists {
            self.listings.add(source.id.clone(), &watch_cache, &source.scope);
        }
        *followed = Some((watch_cache, watcher));
    }

    fn reset(&mut self, index: usize) {
        let FollowedSource { source, followed } = &mut self.sources[index];
        *followed = None;
        self.listings.remove(|id| *id == source.id);
        self.resets.push(source.id.clone());
    }
}

/// The result of a watcher: its pending events, or the loss of some.
type PendingEvents = Result<Vec<Arc<Event>>, TooOld>;

/// The next events of one of the sources, by its index, if one has any.
fn next_events<S>(sources: &mut [FollowedSource<S>]) -> Option<(usize, PendingEvents)> {
    sources.iter_mut().enumerate().find_map(|(index, source)| {
        let events = source.followed.as_mut()?.1.pending();
        (!events.as_ref().is_ok_and(Vec::is_empty)).then_some((index, events))
    })
}
