//! The garbage collector: objects go when nobody owns them any more, before their owner where that waits for them, and are
//! left alone where it is to leave them behind (upstream: `pkg/controller/garbagecollector`).

mod collect;
mod facts;
mod graph;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, Object};
use pintle_value::Str;
use tokio::task::{Id, JoinSet};

use self::collect::{Fate, Looked, Subject, fate_of, look};
use self::facts::Facts;
use self::graph::{Graph, Item};
use crate::follow::{Change, Following};
use crate::{World, others};

/// Objects that are looked at at a time.
const AT_A_TIME: usize = 32;
/// How long a failure is waited out.
const AGAIN: Duration = Duration::from_secs(1);

/// Collects the garbage of a cluster for as long as it is there.
pub async fn garbage(world: Weak<dyn World>) {
    let Some(strong) = world.upgrade() else { return };
    let mut kinds = strong.kinds();
    let mut following = Following::new();
    following.update(&strong);
    drop(strong);
    let mut collector = Collector::default();
    loop {
        let happened = tokio::select! {
            change = following.next() => change.map(Happened::Change),
            changed = kinds.changed() => changed.ok().map(|()| Happened::Kinds),
            Some(ended) = collector.running.join_next_with_id() => {
                Some(Happened::Ended(ended.unwrap_or_else(|error| (error.id(), Outcome::Failed))))
            }
        };
        let (Some(happened), Some(strong)) = (happened, world.upgrade()) else { return };
        match happened {
            Happened::Change((prefix, change)) => collector.hear(&strong, &prefix, change),
            Happened::Kinds => {
                following.update(&strong).iter().for_each(|prefix| collector.graph.forget(prefix));
                collector.look_again_at_puzzles();
            }
            Happened::Ended((id, outcome)) => collector.end(id, outcome),
        }
        // Who depends on whom has to be known before anything goes.
        if !collector.waiting.is_empty() && following.has_read_all() {
            collector.begin(&strong, &following);
        }
    }
}

enum Happened {
    Change((Str, Change)),
    Kinds,
    Ended((Id, Outcome)),
}

/// What became of looking at an object.
#[derive(PartialEq, Eq)]
enum Outcome {
    Done,
    Failed,
    Puzzled,
}

#[derive(Default)]
struct Collector {
    graph: Graph,
    /// What is to be looked at, each once.
    waiting: VecDeque<Item>,
    queued: HashSet<Item>,
    running: JoinSet<Outcome>,
    items: HashMap<Id, Item>,
    /// What is being looked at and has changed since.
    changed: HashSet<Item>,
    /// What depends on something of a kind that is not known yet.
    puzzles: HashSet<Item>,
}

impl Collector {
    fn hear(&mut self, world: &Arc<dyn World>, prefix: &Str, change: Change) {
        match change {
            Change::There(object) => self.update(world, prefix, None, Some(&object)),
            Change::Events(events) => {
                for event in events {
                    let Event { previous, object, .. } = &*event;
                    self.update(world, prefix, previous.as_ref(), object.as_ref());
                }
            }
            Change::Read => {}
            Change::Anew => self.graph.forget(prefix),
        }
    }

    /// An object has become another.
    fn update(
        &mut self,
        world: &Arc<dyn World>,
        prefix: &Str,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) {
        let (old, new) = (before.and_then(|o| Facts::of(o)), after.and_then(|o| Facts::of(o)));
        if let (None, Some(gone)) = (after, before) {
            // Those who depended on it may have no owner left.
            let uid = old.as_ref().map_or_else(|| Facts::read(gone).uid, |facts| facts.uid.clone());
            self.look_at_dependents(&uid);
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
        let namespace = after.or(before).map_or("", |object| object.namespace());
        for owner in &old.owners {
            // A foreground deletion may have waited for this one.
            if !new.owners.contains(owner)
                && !self.graph.is_blocked(&owner.uid)
                && let Fate::Waits(place) = fate_of(world, namespace, owner)
            {
                self.queue(place);
            }
        }
        let is_new = |owner: &&facts::Owner| !old.owners.contains(owner);
        if new.owners.iter().filter(is_new).any(|owner| !matches!(fate_of(world, namespace, owner), Fate::Lives)) {
            self.queue(item.clone());
        }
        if new.is_foreground && !old.is_foreground {
            self.look_at_dependents(&new.uid);
        }
        if new.orphans || new.is_foreground {
            self.queue(item);
        }
    }

    fn look_at_dependents(&mut self, owner: &str) {
        let items: Vec<Item> = self.graph.dependents(owner).cloned().collect();
        items.into_iter().for_each(|item| self.queue(item));
    }

    fn queue(&mut self, item: Item) {
        if self.items.values().any(|running| *running == item) {
            self.changed.insert(item);
        } else if self.queued.insert(item.clone()) {
            self.waiting.push_back(item);
        }
    }

    fn look_again_at_puzzles(&mut self) {
        for item in std::mem::take(&mut self.puzzles) {
            self.queue(item);
        }
    }

    /// Begins to look at as many objects as may be looked at at a time.
    fn begin(&mut self, world: &Arc<dyn World>, following: &Following) {
        while self.running.len() < AT_A_TIME
            && let Some(item) = self.waiting.pop_front()
        {
            self.queued.remove(&item);
            let Some(subject) = self.subject(&item, following) else { continue };
            let world = Arc::downgrade(world);
            let task = self.running.spawn(async move {
                let Some(strong) = world.upgrade() else { return Outcome::Done };
                let looked = match others::are_there(&strong) {
                    true => None,
                    false => Some(look(&strong, &subject).await),
                };
                drop(strong);
                match looked {
                    Some(Ok(Looked::Done)) => return Outcome::Done,
                    Some(Ok(Looked::Puzzled)) => return Outcome::Puzzled,
                    Some(Err(error)) => {
                        let Item { prefix, key, .. } = &subject.item;
                        tracing::info!(%error, %prefix, %key, "garbage is not collected yet");
                    }
                    None => {}
                }
                tokio::time::sleep(AGAIN).await;
                Outcome::Failed
            });
            self.items.insert(task.id(), item);
        }
    }

    /// What is known of an object; `None` if its kind is gone.
    fn subject(&self, item: &Item, following: &Following) -> Option<Subject> {
        let of = |item: &Item| Some((item.clone(), following.resource(&item.prefix)?.clone()));
        let (item, resource) = of(item)?;
        let dependents = self.graph.dependents(&item.uid).filter_map(of).collect();
        Some(Subject { is_blocked: self.graph.is_blocked(&item.uid), dependents, resource, item })
    }

    fn end(&mut self, id: Id, outcome: Outcome) {
        let Some(item) = self.items.remove(&id) else { return };
        if self.changed.remove(&item) || outcome == Outcome::Failed {
            self.queue(item);
        } else if outcome == Outcome::Puzzled {
            self.puzzles.insert(item);
        }
    }
}
