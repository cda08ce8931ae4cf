//! The garbage collector: objects go when nobody owns them any more, before their owner where that waits for them, and are
//! left alone where it is to leave them behind (upstream: `pkg/controller/garbagecollector`).

mod collect;
mod cross_namespace;
mod facts;
mod graph;
mod kinds;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, Object};
use pintle_registry::GroupVersionKind;
use pintle_value::Str;
use tokio::time::{Instant, sleep_until};

use self::collect::{OwnerState, Subject, current, fate_of, look};
use self::cross_namespace::{is_elsewhere, warn};
use self::facts::{Owner, OwnerReferences};
use self::graph::{Graph, Item};
use self::kinds::Kinds;
use crate::follow::{Change, Following};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, others};

/// How long others are left to it before it is seen whether they are still there.
const OTHERS: Duration = Duration::from_secs(1);

/// Collects the garbage of a cluster for as long as it is there.
pub async fn garbage(client: Weak<dyn ClusterClient>) {
    let Some(strong) = client.upgrade() else { return };
    let mut kinds = strong.kinds();
    let mut following = Following::new(&strong);
    let mut collector = Collector::default();
    drop(strong);
    loop {
        let happened = tokio::select! {
            change = following.next() => Some(Happened::Change(change)),
            changed = kinds.changed() => changed.ok().map(|()| Happened::Kinds),
            waits = collector.queue.ready() => Some(Happened::ReconcileResult(waits)),
            () = until(collector.rests_until) => Some(Happened::Rested),
        };
        let (Some(happened), Some(strong)) = (happened, client.upgrade()) else { return };
        match happened {
            Happened::Change(change) => collector.hear(&strong, change),
            Happened::Kinds => collector.look_again_at_puzzles(&strong),
            Happened::ReconcileResult(waits) => {
                waits.into_iter().for_each(|(item, kind)| collector.puzzle(&strong, item, kind))
            }
            Happened::Rested => collector.rests_until = None,
        }
        // Who depends on whom has to be known before anything goes.
        if following.has_read_all() {
            collector.begin(&strong, &following);
        }
    }
}

enum Happened {
    Change(Change),
    Kinds,
    /// An object was looked at, and may wait for a kind to be known.
    ReconcileResult(Option<(Item, GroupVersionKind)>),
    Rested,
}

#[derive(Default)]
struct Collector {
    graph: Graph,
    /// The revision up to which all is heard.
    heard: u64,
    kinds: Kinds,
    queue: WorkQueue<Item, GroupVersionKind>,
    /// What goes once its dependents are gone, by uid: references that name it wrongly hold it too.
    waiting: HashMap<Str, Item>,
    /// What depends on something of a kind that is not known yet, or is of no known kind itself.
    puzzles: HashMap<Item, Option<GroupVersionKind>>,
    /// Until when others are left to it.
    rests_until: Option<Instant>,
}

impl Collector {
    fn hear(&mut self, client: &Arc<dyn ClusterClient>, change: Change) {
        match change {
            Change::There(prefix, objects) => {
                objects.iter().for_each(|object| self.update(client, &prefix, None, Some(object)));
            }
            Change::Events(events) => {
                for (watch_cache, event) in events {
                    let Event { previous, object, .. } = &*event;
                    self.update(client, watch_cache.prefix(), previous.as_ref(), object.as_ref());
                }
            }
            Change::Gone(prefix) => {
                self.graph.forget(&prefix);
                self.waiting.retain(|_, item| item.prefix != prefix);
                self.puzzles.retain(|item, _| item.prefix != prefix);
            }
        }
    }

    /// An object has become another.
    fn update(
        &mut self,
        client: &Arc<dyn ClusterClient>,
        prefix: &Str,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) {
        self.heard = self.heard.max(after.map_or(0, |object| object.revision));
        let (old, new) = (before.and_then(|o| OwnerReferences::of(o)), after.and_then(|o| OwnerReferences::of(o)));
        if let (None, Some(gone)) = (after, before) {
            // Those who depended on it may have no owner left.
            let uid = old.as_ref().map_or_else(|| OwnerReferences::read(gone).uid, |facts| facts.uid.clone());
            self.look_at_dependents(&uid);
            self.graph.note_gone(&uid, &gone.key);
        }
        if old.is_none() && new.is_none() {
            return;
        }
        let (Some(key), Some(uid)) =
            (after.or(before).map(|o| o.key.clone()), new.as_ref().or(old.as_ref()).map(|facts| facts.uid.clone()))
        else {
            return;
        };
        let item = Item { prefix: prefix.clone(), key, uid };
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        self.graph.change(&item, &old.owners, &new.owners);
        if new.is_foreground {
            self.waiting.insert(item.uid.clone(), item.clone());
        } else if old.is_foreground {
            self.waiting.remove(&item.uid);
        }
        for owner in &old.owners {
            // A foreground deletion may have waited for this one.
            if !new.owners.contains(owner)
                && !self.graph.is_blocked(&owner.uid)
                && let Some(owner) = self.waiting.get(&owner.uid).cloned()
            {
                self.queue.push(owner);
            }
        }
        // One that has gone may have been what kept the others from being judged.
        let namespace = after.or(before).map_or("", |object| object.namespace());
        if new.owners != old.owners {
            for owner in &new.owners {
                let fate = fate_of(client, namespace, owner);
                if matches!(fate, OwnerState::Gone | OwnerState::CrossNamespace) && !old.owners.contains(owner) {
                    self.warn(client, &item, owner);
                }
                if !matches!(fate, OwnerState::Lives) {
                    self.queue.push(item.clone());
                }
            }
        }
        if new.is_foreground && !old.is_foreground {
            self.look_at_dependents(&new.uid);
        }
        if new.orphans || new.is_foreground {
            self.queue.push(item);
        }
    }

    /// Tells of an owner that is in another namespace, unless others do.
    fn warn(&mut self, client: &Arc<dyn ClusterClient>, item: &Item, owner: &Owner) {
        if others::are_there(client) || !is_elsewhere(client, item.place().0, owner) {
            return;
        }
        if let Some(resource) = self.kinds.of(client, &item.prefix) {
            tokio::spawn(warn(client.clone(), resource, item.clone(), owner.clone()));
        }
    }

    fn look_at_dependents(&mut self, owner: &str) {
        let items: Vec<Item> = self.graph.dependents(owner).cloned().collect();
        items.into_iter().for_each(|item| self.queue.push(item));
    }

    /// Looks again at what depends on something of a kind that is known now.
    fn look_again_at_puzzles(&mut self, client: &Arc<dyn ClusterClient>) {
        let is_solved = |kind: &Option<GroupVersionKind>| kind.as_ref().is_none_or(|kind| is_known(client, kind));
        let solved: Vec<Item> = self.puzzles.extract_if(|_, kind| is_solved(kind)).map(|(item, _)| item).collect();
        solved.into_iter().for_each(|item| self.queue.push(item));
    }

    /// Begins to look at as many objects as may be looked at at a time, unless others do.
    fn begin(&mut self, client: &Arc<dyn ClusterClient>, following: &Following) {
        if self.rests_until.is_some() || self.queue.is_empty() {
            return;
        }
        if others::are_there(client) {
            self.rests_until = Some(Instant::now() + OTHERS);
            return;
        }
        let Self { graph, heard, kinds, queue, puzzles, .. } = self;
        queue.begin(|item| {
            let Some(subject) = subject((graph, *heard), kinds, client, item) else {
                if following.follows(&item.prefix) {
                    puzzles.insert(item.clone(), None);
                }
                return None;
            };
            let client = Arc::downgrade(client);
            Some(async move {
                let Some(client) = client.upgrade() else { return ReconcileResult::Done };
                look(&client, &subject).await.unwrap_or_else(|error| {
                    let Item { prefix, key, .. } = &subject.item;
                    tracing::info!(%error, %prefix, %key, "garbage is not collected yet");
                    ReconcileResult::Failed
                })
            })
        });
    }

    /// Has an object wait until a kind is known.
    fn puzzle(&mut self, client: &Arc<dyn ClusterClient>, item: Item, kind: GroupVersionKind) {
        match is_known(client, &kind) {
            // It has become known meanwhile, or cannot be read.
            true => self.queue.push_later(item),
            false => drop(self.puzzles.insert(item, Some(kind))),
        }
    }
}

/// What is known of an object; `None` if its kind is not served.
fn subject(
    (graph, heard): (&Graph, u64),
    kinds: &mut Kinds,
    client: &Arc<dyn ClusterClient>,
    item: &Item,
) -> Option<Subject> {
    let mut of = |item: &Item| Some((item.clone(), kinds.of(client, &item.prefix)?));
    let (item, resource) = of(item)?;
    let dependents = graph.dependents(&item.uid).filter_map(of).collect();
    let gone = current(client, &item, &resource).map(|object| {
        let owners = OwnerReferences::read(&object).owners.into_iter();
        owners.filter(|owner| graph.is_gone(owner, object.namespace())).map(|owner| owner.uid).collect()
    });
    let gone = gone.unwrap_or_default();
    Some(Subject { is_blocked: graph.is_blocked(&item.uid), dependents, gone, heard, resource, item })
}

/// True if it can be said whether an object of a kind is there.
fn is_known(client: &Arc<dyn ClusterClient>, kind: &GroupVersionKind) -> bool {
    client.registry().kind(kind).is_some_and(|resource| client.watch_cache(resource).is_some())
}

/// Waits until a time, or for good.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
