//! A random workload of objects that own each other, with updates, deletions and restarts of the server. The remaining
//! objects must equal the model's, and no object with a live owner may be deleted. `PINTLE_GC_ROUNDS` is the number of
//! rounds (default 5), `PINTLE_SEED` the seed of the first round.

use std::time::Duration;

use pintle_integration::{Cluster, Response};
use serde_json::{Value, json};

use super::generator::{PlannedAction, generate, kinds_with};
use super::invariant::{ClientRequests, find_violations};
use super::model::{CompletedAction, ModelState, ObjectMap, OwnerEdit};
use super::object::{KINDS, KindLifetime, LABEL, NAMESPACES, OwnerRef, TestObject};
use super::observer::{Observer, revision_of};
use super::random::SeededRandom;

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The number of batches of client actions in a round.
const BATCHES: usize = 60;
/// The number of orders that the model tries first, and its maximum before the test fails.
const MAX_ORDERS: [usize; 2] = [32, 4000];
/// The maximum time between changes before the expected state is reached.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A round on a cluster of its own.
struct Round {
    seed: u64,
    cluster: Cluster,
    observer: Observer,
    state: ModelState,
    requests: ClientRequests,
    random: SeededRandom,
    /// The UID and revision of each write of the current batch.
    stored: Vec<(String, u64)>,
}

impl Round {
    async fn start(seed: u64) -> Self {
        let cluster = Cluster::durable().await;
        for namespace in NAMESPACES {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let _ = cluster.post("/api/v1/namespaces", body).await.expect(201);
        }
        for kind in kinds_with(KindLifetime::DefinedAtStart).chain(kinds_with(KindLifetime::DeletedLater)) {
            define(&cluster, kind).await;
        }
        let mut observer = Observer::default();
        for kind in (0..KINDS.len()).filter(|kind| ModelState::new().is_served(*kind)) {
            observer.watch_kind(&cluster, kind).await;
        }
        let (state, requests) = (ModelState::new(), ClientRequests::default());
        Self { seed, cluster, observer, state, requests, random: SeededRandom::new(seed), stored: Vec::new() }
    }

    /// Performs a batch of actions, and waits for a final state of the model.
    async fn run_batch(&mut self, batch: usize, actions: Vec<PlannedAction>) {
        let mut completed = Vec::new();
        self.stored.clear();
        for action in actions {
            completed.extend(self.perform(action).await);
        }
        let mut random = SeededRandom::new(self.seed ^ batch as u64);
        let before = self.state.clone();
        let mut final_states: Vec<ModelState> = Vec::new();
        for order in 0..MAX_ORDERS[0] {
            let state = self.state.final_state(&completed, order, &mut random);
            final_states.extend(state.filter(|state| final_states.iter().all(|other| other.objects != state.objects)));
        }
        self.state = self.wait_for_final_state(&before, (batch, &completed), &final_states, &mut random).await;
        // The server deletes the objects of a deleted CRD while the collector processes them. So there may be more
        // final states than in the tried orders.
        let is_ambiguous =
            final_states.len() > 1 || completed.iter().any(|action| matches!(action, CompletedAction::DeleteCrd(_)));
        if !is_ambiguous {
            if completed.iter().any(|action| matches!(action, CompletedAction::Restart)) {
                self.state.doubt_observed_deletes();
            }
            return;
        }
        loop {
            // The collector may still be working towards another final state. A restart ends this work.
            self.state.clear_collector_state();
            self.restart_server(false).await;
            let listed = self.list_objects().await;
            if self.state.objects == listed {
                break;
            }
            let mut count = self.observer.subscribe();
            let _ = tokio::time::timeout(TIMEOUT, count.wait_for(|_| self.observer.objects() == listed)).await;
            self.state = self.wait_for_final_state(&before, (batch, &completed), &final_states, &mut random).await;
        }
    }

    /// Waits until the kinds of deleted CRDs are no longer served.
    async fn wait_for_removed_kinds(&self) {
        for kind in self.requests.kinds.iter().filter(|kind| self.state.is_not_served(**kind)) {
            self.cluster.get_until_status(&KINDS[*kind].path(""), 404).await;
        }
    }

    /// Waits until the observed objects equal a final state, or the final state of another order.
    async fn wait_for_final_state(
        &self,
        before: &ModelState,
        (batch, completed): (usize, &[CompletedAction]),
        final_states: &[ModelState],
        random: &mut SeededRandom,
    ) -> ModelState {
        let mut count = self.observer.subscribe();
        loop {
            count.borrow_and_update();
            let objects = self.observer.objects();
            let is_behind = !self.stored.iter().all(|(uid, revision)| self.observer.has_observed(uid, *revision));
            if is_behind {
                let changed = tokio::time::timeout(TIMEOUT, count.changed()).await;
                assert!(changed.is_ok(), "seed {}: a watch misses a change", self.seed);
                continue;
            }
            if let Some(state) = final_states.iter().find(|state| state.objects == objects) {
                return state.clone();
            }
            if tokio::time::timeout(TIMEOUT, count.changed()).await.is_err() {
                let mut states =
                    (MAX_ORDERS[0]..MAX_ORDERS[1]).filter_map(|order| before.final_state(completed, order, random));
                let state = states.find(|state| state.objects == objects);
                return state
                    .unwrap_or_else(|| self.panic_with_difference(before, (batch, completed), final_states.first()));
            }
        }
    }

    /// Restarts the server.
    async fn restart_server(&self, kill: bool) {
        if kill {
            self.cluster.kill_server().await;
        } else {
            self.cluster.stop_server().await;
        }
        self.cluster.start_server().await;
    }

    /// Lists all objects.
    async fn list_objects(&self) -> ObjectMap {
        let mut objects = ObjectMap::new();
        for kind in (0..KINDS.len()).filter(|kind| !self.state.is_not_served(*kind)) {
            let path = format!("{}?labelSelector={LABEL}", KINDS[kind].path(""));
            let list = self.cluster.get(&path).await.expect(200).json();
            let items = list["items"].as_array().expect("items");
            objects.extend(items.iter().map(|item| (uid_of(item), TestObject::read(kind, item))));
        }
        objects
    }

    /// Panics with the difference between the expected and the observed state.
    fn panic_with_difference(
        &self,
        before: &ModelState,
        (batch, completed): (usize, &[CompletedAction]),
        expected: Option<&ModelState>,
    ) -> ! {
        let (found, history) = (self.observer.objects(), self.observer.history());
        let mut text = format!("seed {}, batch {batch}:\n", self.seed);
        completed.iter().for_each(|action| text += &format!("  {action:?}\n"));
        let empty = ModelState::new();
        let expected = &expected.unwrap_or(&empty).objects;
        let before = &before.objects;
        for uid in before.keys().chain(expected.keys()).chain(found.keys()).collect::<std::collections::BTreeSet<_>>() {
            let (before, expected, found) = (before.get(uid), expected.get(uid), found.get(uid));
            let mark = if expected == found { "" } else { "DIFFERS " };
            text += &format!("{mark}{uid}\n  before {before:?}\n  expected {expected:?}\n  found  {found:?}\n");
            for event in history.iter().filter(|event| event.uid == *uid && expected != found) {
                text += &format!("  {}: {:?}\n", event.revision, event.object);
            }
        }
        panic!("{text}")
    }

    /// Performs an action and returns its result; `None` if there was nothing to do.
    async fn perform(&mut self, action: PlannedAction) -> Option<CompletedAction> {
        match action {
            PlannedAction::Create(object) => {
                let path = KINDS[object.kind].path(&object.namespace);
                let created = self.cluster.post(&path, object.json().to_string()).await.expect(201).json();
                self.stored.push((uid_of(&created), revision_of(&created)));
                Some(CompletedAction::Create { uid: uid_of(&created), object })
            }
            PlannedAction::Delete { uid, policy } => {
                let object = &self.state.objects[&uid];
                let options = json!({"preconditions": {"uid": uid}, "propagationPolicy": policy});
                let request = self.cluster.request("DELETE", &object.path()).json(options.to_string());
                let found = is_found(&request.send().await);
                self.requests.deleted.extend(found.then(|| uid.clone()));
                Some(CompletedAction::Delete { uid, policy, found })
            }
            PlannedAction::Update { uid, edit } => self.update(uid, edit).await,
            PlannedAction::CreateCrd(kind) => {
                define(&self.cluster, kind).await;
                self.observer.watch_kind(&self.cluster, kind).await;
                Some(CompletedAction::CreateCrd(kind))
            }
            PlannedAction::DeleteCrd(kind) => {
                self.requests.kinds.insert(kind);
                self.observer.allow_removal(kind);
                let path = format!("{CRDS}/{}", KINDS[kind].crd_name());
                let _ = self.cluster.delete(&path).await.expect(200);
                Some(CompletedAction::DeleteCrd(kind))
            }
            PlannedAction::Restart { kill, after } => {
                let mut count = self.observer.subscribe();
                let until = *count.borrow() + after;
                // The timeout ends the wait if there are fewer changes.
                let happened = count.wait_for(|count| *count >= until);
                let _ = tokio::time::timeout(Duration::from_millis(5), happened).await;
                self.restart_server(kill).await;
                Some(CompletedAction::Restart)
            }
        }
    }

    /// Updates an object like a client: it gets and puts the object, and repeats this after each conflict.
    async fn update(&mut self, uid: String, edit: OwnerEdit) -> Option<CompletedAction> {
        let path = self.state.objects[&uid].path();
        loop {
            let response = self.cluster.get(&path).await;
            let is_this = is_found(&response) && uid_of(&response.json()) == uid;
            if !is_this {
                return Some(CompletedAction::Update { uid, edit, found: false });
            }
            let mut json_object = response.json();
            let mut object = TestObject::read(self.state.objects[&uid].kind, &json_object);
            if let OwnerEdit::AddOwner(owner) = &edit
                && object.owners.iter().any(|it| it.uid == owner.uid)
            {
                return None;
            }
            edit.apply(&mut object);
            let owners: Vec<Value> = object.owners.iter().map(OwnerRef::json).collect();
            json_object["metadata"]["ownerReferences"] = json!(owners);
            json_object["metadata"]["finalizers"] = json!(object.finalizers);
            if let OwnerEdit::RemoveOwner(owner) = &edit {
                self.requests.removed_owners.insert((uid.clone(), owner.clone()));
            }
            let response = self.cluster.put(&path, json_object.to_string()).await;
            match response.status.as_u16() {
                409 => {}
                404 => return Some(CompletedAction::Update { uid, edit, found: false }),
                _ => {
                    let put = response.expect(200).json();
                    // Removing the last finalizer of a terminating object deletes it, so no watch shows this version.
                    if object.finalizers.is_empty() && object.terminating {
                        return Some(CompletedAction::Update { uid, edit, found: true });
                    }
                    self.stored.push((uid.clone(), revision_of(&put)));
                    return Some(CompletedAction::Update { uid, edit, found: true });
                }
            }
        }
    }

    /// Checks that lists agree with the watches, and that the invariant holds for the whole history.
    async fn finish(self) {
        assert_eq!(self.list_objects().await, self.state.objects, "seed {}", self.seed);
        let violations = find_violations(&self.observer.history(), &self.requests);
        assert!(violations.is_empty(), "seed {}: {violations:#?}", self.seed);
        drop(self.observer);
        self.cluster.stop().await;
    }
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// True if the object was found.
fn is_found(response: &Response) -> bool {
    match response.status.as_u16() {
        404 => false,
        // Another object now has this name.
        409 => false,
        200 => true,
        status => panic!("{status}: {}", response.text()),
    }
}

/// Defines a kind, and waits until it is served.
pub(crate) async fn define(cluster: &Cluster, kind: usize) {
    let created = cluster.post(CRDS, KINDS[kind].crd().to_string()).await.expect(201).json();
    let revision = created["metadata"]["resourceVersion"].as_str().expect("a revision");
    let name = KINDS[kind].crd_name();
    let path = format!("{CRDS}?watch=1&fieldSelector=metadata.name={name}&resourceVersion={revision}");
    let mut watch = cluster.watch(&path).await;
    let mut crd = created;
    let is_established = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    while !is_established(&crd) {
        crd = watch.next().await.expect("an event")["object"].take();
    }
}

async fn check(seed: u64) {
    let mut round = Round::start(seed).await;
    let (mut to_define, mut to_delete) =
        (kinds_with(KindLifetime::DefinedLater), kinds_with(KindLifetime::DeletedLater));
    for batch in 0..BATCHES {
        let mut actions = generate(&round.state, &mut round.random);
        // In the middle of the round, CRDs are created and deleted.
        if batch > BATCHES / 4 && batch % 8 == 0 {
            actions.extend(to_define.next().map(PlannedAction::CreateCrd));
        }
        if batch > BATCHES / 2 && batch % 8 == 4 {
            actions.extend(to_delete.next().map(PlannedAction::DeleteCrd));
        }
        round.run_batch(batch, actions).await;
        round.wait_for_removed_kinds().await;
    }
    round.finish().await;
}

fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

#[test]
fn the_remaining_objects_are_those_of_the_model() {
    pintle_integration::run(async {
        let first = env_number("PINTLE_SEED").unwrap_or(1);
        for seed in first..first + env_number("PINTLE_GC_ROUNDS").unwrap_or(5) {
            check(seed).await;
        }
    });
}
