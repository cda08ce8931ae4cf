//! Things that own each other in every way, deleted and changed by the dice while the server comes and goes: what is left
//! is what the model says, and nothing with a live owner ever goes. `PINTLE_GARBAGE` is a number of rounds (5 without it),
//! `PINTLE_SEED` the seed of the first.

use std::time::Duration;

use pintle_testkit::{Cluster, Response};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::judge::{Asked, offences};
use crate::mirror::{Mirror, revision};
use crate::model::{Act, Edit, State, Things};
use crate::plan::{Intent, kinds, roll};
use crate::thing::{KINDS, LABEL, Life, NAMESPACES, Reference, Thing};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// How many times clients do something in a round.
const TURNS: usize = 60;
/// Orders that are tried before something is taken for settled, and before it is taken for wrong.
const ORDERS: [usize; 2] = [32, 4000];
/// How long nothing may happen while something is still to.
const PATIENCE: Duration = Duration::from_secs(10);

/// A round.
struct Round {
    seed: u64,
    cluster: Cluster,
    mirror: Mirror,
    state: State,
    asked: Asked,
    dice: Dice,
    /// What was stored in this turn: the uid of each thing, and the revision.
    stored: Vec<(String, u64)>,
}

impl Round {
    async fn begin(seed: u64) -> Self {
        let cluster = Cluster::durable().await;
        for namespace in NAMESPACES {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let _ = cluster.post("/api/v1/namespaces", body).await.expect(201);
        }
        for kind in kinds(Life::Defined).chain(kinds(Life::Early)) {
            define(&cluster, kind).await;
        }
        let mut mirror = Mirror::default();
        for kind in (0..KINDS.len()).filter(|kind| State::new().serves(*kind)) {
            mirror.listen(&cluster, kind).await;
        }
        let (state, asked) = (State::new(), Asked::default());
        Self { seed, cluster, mirror, state, asked, dice: Dice::of(seed), stored: Vec::new() }
    }

    /// Clients do something, and then there is what the model says.
    async fn turn(&mut self, turn: usize, intents: Vec<Intent>) {
        let mut acts = Vec::new();
        self.stored.clear();
        for intent in intents {
            acts.extend(self.act(intent).await);
        }
        let mut dice = Dice::of(self.seed ^ turn as u64);
        let before = self.state.clone();
        let mut ends: Vec<State> = Vec::new();
        for order in 0..ORDERS[0] {
            let end = self.state.end(&acts, order, &mut dice);
            ends.extend(end.filter(|end| ends.iter().all(|other| other.things != end.things)));
        }
        self.state = self.settle(&before, (turn, &acts), &ends, &mut dice).await;
        // Objects of a definition that goes are deleted while they are looked at: more may come of that than was tried.
        let is_open = ends.len() > 1 || acts.iter().any(|act| matches!(act, Act::Undefine(_)));
        if !is_open {
            return;
        }
        loop {
            // Something may still be under way to another end: it is not any more when the server was away.
            self.state.forget();
            self.stop(false).await;
            let listed = self.listed().await;
            if self.state.things == listed {
                break;
            }
            let mut count = self.mirror.count();
            let _ = tokio::time::timeout(PATIENCE, count.wait_for(|_| self.mirror.things() == listed)).await;
            self.state = self.settle(&before, (turn, &acts), &ends, &mut dice).await;
        }
    }

    /// Waits until no kind is served any more whose definition has gone.
    async fn kinds_go(&self) {
        for kind in self.asked.kinds.iter().filter(|kind| self.state.lacks(**kind)) {
            while self.cluster.get(&KINDS[*kind].path("")).await.status != 404 {}
        }
    }

    /// Waits until there is what one of these ends is, or another order leads to.
    async fn settle(&self, before: &State, (turn, acts): (usize, &[Act]), ends: &[State], dice: &mut Dice) -> State {
        let mut count = self.mirror.count();
        loop {
            count.borrow_and_update();
            let things = self.mirror.things();
            let is_behind = !self.stored.iter().all(|(uid, revision)| self.mirror.has_heard_of(uid, *revision));
            if is_behind {
                let heard = tokio::time::timeout(PATIENCE, count.changed()).await;
                assert!(heard.is_ok(), "seed {}: a change is not told", self.seed);
                continue;
            }
            if let Some(end) = ends.iter().find(|end| end.things == things) {
                return end.clone();
            }
            if tokio::time::timeout(PATIENCE, count.changed()).await.is_err() {
                let mut found = (ORDERS[0]..ORDERS[1]).filter_map(|order| before.end(acts, order, dice));
                let end = found.find(|end| end.things == things);
                return end.unwrap_or_else(|| self.differs(before, (turn, acts), ends.first()));
            }
        }
    }

    /// The server goes, and comes back.
    async fn stop(&self, kill: bool) {
        if kill {
            self.cluster.kill_server().await;
        } else {
            self.cluster.stop_server().await;
        }
        self.cluster.start_server().await;
    }

    /// All things as lists show them.
    async fn listed(&self) -> Things {
        let mut listed = Things::new();
        for kind in (0..KINDS.len()).filter(|kind| !self.state.lacks(*kind)) {
            let path = format!("{}?labelSelector={LABEL}", KINDS[kind].path(""));
            let list = self.cluster.get(&path).await.expect(200).json();
            let items = list["items"].as_array().expect("items");
            listed.extend(items.iter().map(|item| (uid(item), Thing::read(kind, item))));
        }
        listed
    }

    /// Says what is not as it should be.
    fn differs(&self, before: &State, (turn, acts): (usize, &[Act]), expect: Option<&State>) -> ! {
        let (found, history) = (self.mirror.things(), self.mirror.history());
        let mut text = format!("seed {}, turn {turn}:\n", self.seed);
        acts.iter().for_each(|act| text += &format!("  {act:?}\n"));
        let empty = State::new();
        let expect = &expect.unwrap_or(&empty).things;
        let before = &before.things;
        for uid in before.keys().chain(expect.keys()).chain(found.keys()).collect::<std::collections::BTreeSet<_>>() {
            let (before, expect, found) = (before.get(uid), expect.get(uid), found.get(uid));
            let mark = if expect == found { "" } else { "DIFFERS " };
            text += &format!("{mark}{uid}\n  before {before:?}\n  expect {expect:?}\n  found  {found:?}\n");
            for event in history.iter().filter(|event| event.uid == *uid && expect != found) {
                text += &format!("  {}: {:?}\n", event.revision, event.thing);
            }
        }
        panic!("{text}")
    }

    /// Does something, and notes what came of it; nothing if nothing was to be done.
    async fn act(&mut self, intent: Intent) -> Option<Act> {
        match intent {
            Intent::Create(thing) => {
                let path = KINDS[thing.kind].path(&thing.namespace);
                let made = self.cluster.post(&path, thing.json().to_string()).await.expect(201).json();
                self.stored.push((uid(&made), revision(&made)));
                Some(Act::Create { uid: uid(&made), thing })
            }
            Intent::Delete { uid, policy } => {
                let thing = &self.state.things[&uid];
                let options = json!({"preconditions": {"uid": uid}, "propagationPolicy": policy});
                let ask = self.cluster.request("DELETE", &thing.path()).json(options.to_string());
                let found = is_found(&ask.send().await);
                self.asked.deleted.extend(found.then(|| uid.clone()));
                Some(Act::Delete { uid, policy, found })
            }
            Intent::Change { uid, edit } => self.change(uid, edit).await,
            Intent::Define(kind) => {
                define(&self.cluster, kind).await;
                self.mirror.listen(&self.cluster, kind).await;
                Some(Act::Define(kind))
            }
            Intent::Undefine(kind) => {
                self.asked.kinds.insert(kind);
                self.mirror.may_end(kind);
                let path = format!("{DEFINITIONS}/{}", KINDS[kind].definition_name());
                let _ = self.cluster.delete(&path).await.expect(200);
                Some(Act::Undefine(kind))
            }
            Intent::Stop { kill, after } => {
                let mut count = self.mirror.count();
                let until = *count.borrow() + after;
                // Less may happen.
                let happened = count.wait_for(|count| *count >= until);
                let _ = tokio::time::timeout(Duration::from_millis(5), happened).await;
                self.stop(kill).await;
                Some(Act::Stop)
            }
        }
    }

    /// Changes a thing as a client does: it gets it, and puts it back unless someone else was faster.
    async fn change(&mut self, uid: String, edit: Edit) -> Option<Act> {
        let path = self.state.things[&uid].path();
        loop {
            let answer = self.cluster.get(&path).await;
            let is_this = is_found(&answer) && self::uid(&answer.json()) == uid;
            if !is_this {
                return Some(Act::Change { uid, edit, found: false });
            }
            let mut object = answer.json();
            let mut thing = Thing::read(self.state.things[&uid].kind, &object);
            if let Edit::Adopt(owner) = &edit
                && thing.owners.iter().any(|it| it.uid == owner.uid)
            {
                return None;
            }
            edit.apply(&mut thing);
            let owners: Vec<Value> = thing.owners.iter().map(Reference::json).collect();
            object["metadata"]["ownerReferences"] = json!(owners);
            object["metadata"]["finalizers"] = json!(thing.finalizers);
            if let Edit::Disown(owner) = &edit {
                self.asked.disowned.insert((uid.clone(), owner.clone()));
            }
            let answer = self.cluster.put(&path, object.to_string()).await;
            match answer.status.as_u16() {
                409 => {}
                404 => return Some(Act::Change { uid, edit, found: false }),
                _ => {
                    let put = answer.expect(200).json();
                    // What was held by a finalizer alone is gone with it.
                    if thing.finalizers.is_empty() && thing.terminating {
                        return Some(Act::Change { uid, edit, found: true });
                    }
                    self.stored.push((uid.clone(), revision(&put)));
                    return Some(Act::Change { uid, edit, found: true });
                }
            }
        }
    }

    /// What is listed is what was told, and no rule was broken on the way.
    async fn end(self) {
        assert_eq!(self.listed().await, self.state.things, "seed {}", self.seed);
        let offences = offences(&self.mirror.history(), &self.asked);
        assert!(offences.is_empty(), "seed {}: {offences:#?}", self.seed);
        drop(self.mirror);
        self.cluster.stop().await;
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// True if what was asked for is there, or was.
fn is_found(answer: &Response) -> bool {
    match answer.status.as_u16() {
        404 => false,
        // Another has its name by now.
        409 => false,
        200 => true,
        status => panic!("{status}: {}", answer.text()),
    }
}

/// Defines a kind, and waits until it is served.
pub(crate) async fn define(cluster: &Cluster, kind: usize) {
    let made = cluster.post(DEFINITIONS, KINDS[kind].definition().to_string()).await.expect(201).json();
    let revision = made["metadata"]["resourceVersion"].as_str().expect("a revision");
    let name = KINDS[kind].definition_name();
    let path = format!("{DEFINITIONS}?watch=1&fieldSelector=metadata.name={name}&resourceVersion={revision}");
    let mut watch = cluster.watch(&path).await;
    let mut definition = made;
    let is = |definition: &Value| {
        let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    while !is(&definition) {
        definition = watch.next().await.expect("an event")["object"].take();
    }
}

async fn check(seed: u64) {
    let mut round = Round::begin(seed).await;
    let (mut late, mut early) = (kinds(Life::Late), kinds(Life::Early));
    for turn in 0..TURNS {
        let mut intents = roll(&round.state, &mut round.dice);
        // In the middle, each time.
        if turn > TURNS / 4 && turn % 8 == 0 {
            intents.extend(late.next().map(Intent::Define));
        }
        if turn > TURNS / 2 && turn % 8 == 4 {
            intents.extend(early.next().map(Intent::Undefine));
        }
        round.turn(turn, intents).await;
        round.kinds_go().await;
    }
    round.end().await;
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

#[test]
fn whatever_is_done_a_model_knows_what_stays() {
    pintle_testkit::run(async {
        let first = number("PINTLE_SEED").unwrap_or(1);
        for seed in first..first + number("PINTLE_GARBAGE").unwrap_or(5) {
            check(seed).await;
        }
    });
}
