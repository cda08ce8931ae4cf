//! The garbage collector: objects go when nobody owns them any more, before their owner where that waits for them, and are
//! left alone where it is to leave them behind (upstream: `pkg/controller/garbagecollector`).

mod collect;
mod facts;
mod graph;
mod kinds;
mod queue;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, Object};
use pintle_registry::GroupVersionKind;
use pintle_value::Str;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use self::collect::{Fate, Looked, Subject, current, fate_of, look};
use self::facts::Facts;
use self::graph::{Graph, Item};
use self::kinds::Kinds;
use self::queue::Queue;
use crate::follow::{Change, Following};
use crate::{World, others};

/// Objects that are looked at at a time.
const AT_A_TIME: usize = 32;
/// How long others are left to it before it is seen whether they are still there.
const OTHERS: Duration = Duration::from_secs(1);

/// Collects the garbage of a cluster for as long as it is there.
pub async fn garbage(world: Weak<dyn World>) {
    let Some(strong) = world.upgrade() else { return };
    let mut kinds = strong.kinds();
    let mut following = Following::new(&strong);
    let mut collector = Collector::default();
    drop(strong);
    loop {
        let time = collector.next_time().filter(|_| following.has_read_all());
        let happened = tokio::select! {
            change = following.next() => Some(Happened::Change(change)),
            changed = kinds.changed() => changed.ok().map(|()| Happened::Kinds),
            Some(ended) = collector.running.join_next_with_id() => {
                Some(Happened::Ended(ended.unwrap_or_else(|error| (error.id(), Outcome::Failed))))
            }
            () = until(time) => Some(Happened::Time),
        };
        let (Some(happened), Some(strong)) = (happened, world.upgrade()) else { return };
        match happened {
            Happened::Change(change) => collector.hear(&strong, change),
            Happened::Kinds => collector.look_again_at_puzzles(&strong),
            Happened::Ended((id, outcome)) => collector.end(&strong, id, outcome),
            Happened::Time => {}
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
    Ended((Id, Outcome)),
    Time,
}

/// What became of looking at an object.
enum Outcome {
    Done,
    Failed,
    Puzzled(GroupVersionKind),
}

#[derive(Default)]
struct Collector {
    graph: Graph,
    kinds: Kinds,
    queue: Queue,
    running: JoinSet<Outcome>,
    items: HashMap<Id, Item>,
    /// What is being looked at and has changed since.
    changed: HashSet<Item>,
    /// What goes once its dependents are gone, by uid: references that name it wrongly hold it too.
    waiting: HashMap<Str, Item>,
    /// What depends on something of a kind that is not known yet, or is of no known kind itself.
    puzzles: HashMap<Item, Option<GroupVersionKind>>,
    /// Until when others are left to it.
    rests_until: Option<Instant>,
}

impl Collector {
    fn hear(&mut self, world: &Arc<dyn World>, change: Change) {
        match change {
            Change::There(prefix, objects) => {
                objects.iter().for_each(|object| self.update(world, &prefix, None, Some(object)));
            }
            Change::Events(events) => {
                for (log, event) in events {
                    let Event { previous, object, .. } = &*event;
                    self.update(world, log.prefix(), previous.as_ref(), object.as_ref());
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
                self.queue(owner);
            }
        }
        // One that has gone may have been what kept the others from being judged.
        let namespace = after.or(before).map_or("", |object| object.namespace());
        let lives = |owner: &facts::Owner| matches!(fate_of(world, namespace, owner), Fate::Lives);
        if new.owners != old.owners && !new.owners.iter().all(lives) {
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
        match self.items.values().any(|running| *running == item) {
            true => drop(self.changed.insert(item)),
            false => self.queue.push(item),
        }
    }

    /// Looks again at what depends on something of a kind that is known now.
    fn look_again_at_puzzles(&mut self, world: &Arc<dyn World>) {
        let is_solved = |kind: &Option<GroupVersionKind>| kind.as_ref().is_none_or(|kind| is_known(world, kind));
        let solved: Vec<Item> = self.puzzles.extract_if(|_, kind| is_solved(kind)).map(|(item, _)| item).collect();
        solved.into_iter().for_each(|item| self.queue(item));
    }

    /// Begins to look at as many objects as may be looked at at a time.
    fn begin(&mut self, world: &Arc<dyn World>, following: &Following) {
        let now = Instant::now();
        if self.rests_until.is_some_and(|until| until > now) {
            return;
        }
        self.rests_until = None;
        while self.running.len() < AT_A_TIME
            && let Some(item) = self.queue.pop(now)
        {
            if others::are_there(world) {
                self.queue.push(item);
                self.rests_until = Some(now + OTHERS);
                return;
            }
            let Some(subject) = self.subject(world, &item) else {
                if following.follows(&item.prefix) {
                    self.puzzles.insert(item, None);
                }
                continue;
            };
            let world = Arc::downgrade(world);
            let task = self.running.spawn(async move {
                let Some(world) = world.upgrade() else { return Outcome::Done };
                look(&world, &subject).await.map_or_else(
                    |error| {
                        let Item { prefix, key, .. } = &subject.item;
                        tracing::info!(%error, %prefix, %key, "garbage is not collected yet");
                        Outcome::Failed
                    },
                    |looked| match looked {
                        Looked::Done => Outcome::Done,
                        Looked::Puzzled(kind) => Outcome::Puzzled(kind),
                    },
                )
            });
            self.items.insert(task.id(), item);
        }
    }

    /// What is known of an object; `None` if its kind is not served.
    fn subject(&mut self, world: &Arc<dyn World>, item: &Item) -> Option<Subject> {
        let mut of = |item: &Item| Some((item.clone(), self.kinds.of(world, &item.prefix)?));
        let (item, resource) = of(item)?;
        let dependents = self.graph.dependents(&item.uid).filter_map(of).collect();
        let gone = current(world, &item, &resource).map(|object| {
            let owners = Facts::read(&object).owners.into_iter();
            owners.filter(|owner| self.graph.is_gone(owner, object.namespace())).map(|owner| owner.uid).collect()
        });
        let gone = gone.unwrap_or_default();
        Some(Subject { is_blocked: self.graph.is_blocked(&item.uid), dependents, gone, resource, item })
    }

    fn end(&mut self, world: &Arc<dyn World>, id: Id, outcome: Outcome) {
        let Some(item) = self.items.remove(&id) else { return };
        let outcome = match outcome {
            // It has become known meanwhile, or cannot be read.
            Outcome::Puzzled(kind) if is_known(world, &kind) => Outcome::Failed,
            outcome => outcome,
        };
        if !matches!(outcome, Outcome::Failed) {
            self.queue.succeed(&item);
        }
        match outcome {
            _ if self.changed.remove(&item) => self.queue.push(item),
            Outcome::Done => {}
            Outcome::Failed => self.queue.push_later(item, Instant::now()),
            Outcome::Puzzled(kind) => drop(self.puzzles.insert(item, Some(kind))),
        }
    }

    /// When there is something to be tried again, and room for it.
    fn next_time(&self) -> Option<Instant> {
        let again = || self.queue.next_time().filter(|_| self.running.len() < AT_A_TIME);
        self.rests_until.or_else(again)
    }
}

/// True if it can be said whether an object of a kind is there.
fn is_known(world: &Arc<dyn World>, kind: &GroupVersionKind) -> bool {
    world.registry().kind(kind).is_some_and(|resource| world.log(resource).is_some())
}

/// Waits until a time, or for good.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
