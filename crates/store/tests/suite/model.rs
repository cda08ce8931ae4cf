//! A property test: random operations on every engine, compared with a model that keeps every past state.

use std::collections::BTreeMap;

use bytes::Bytes;
use pintle_store::{
    Change, Compare, Condition, Error, HistoryRetention, Key, KeyInterval, Record, Revision, Store, StoredChange,
};
use proptest::prelude::*;

use crate::script::EngineUnderTest;

/// One operation. Numbers are taken modulo the number of candidates.
#[derive(Clone, Debug)]
enum Operation {
    Write { key: u8, compare: Comparison, value: Option<u16>, condition: Option<(u8, Option<u8>, u16)> },
    Get { key: u8, at: Option<u16> },
    Range { from: u8, to: u8, at: Option<u16>, limit: Option<u8> },
    Feed { from: u16 },
    Compact { before: u16 },
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Absent,
    Newest,
    Outdated(u16),
    Any,
}

fn operation() -> impl Strategy<Value = Operation> {
    let expected = prop_oneof![
        2 => Just(Comparison::Absent),
        3 => Just(Comparison::Newest),
        1 => any::<u16>().prop_map(Comparison::Outdated),
        3 => Just(Comparison::Any),
    ];
    prop_oneof![
        20 => (any::<u8>(), expected, prop::option::weighted(0.7, any::<u16>()), prop::option::weighted(0.3, any::<(u8, Option<u8>, u16)>()))
            .prop_map(|(key, compare, value, condition)| Operation::Write { key, compare, value, condition }),
        4 => (any::<u8>(), any::<Option<u16>>()).prop_map(|(key, at)| Operation::Get { key, at }),
        4 => (any::<u8>(), any::<u8>(), any::<Option<u16>>(), prop::option::of(0..5_u8))
            .prop_map(|(from, to, at, limit)| Operation::Range { from, to, at, limit }),
        2 => any::<u16>().prop_map(|from| Operation::Feed { from }),
        1 => any::<u16>().prop_map(|before| Operation::Compact { before }),
        1 => Just(Operation::Reopen),
    ]
}

/// The history of all changes and states.
#[derive(Debug)]
struct Model {
    /// The states at the revisions 1, 2, …
    states: Vec<BTreeMap<Key, Record>>,
    changes: Vec<StoredChange>,
    compacted: Revision,
}

impl Model {
    fn current(&self) -> Revision {
        Revision(self.states.len() as u64)
    }

    /// A revision from slightly below the oldest to slightly above the newest.
    fn pick_revision(&self, number: u16) -> Revision {
        Revision(u64::from(number) % (self.current().0 + 3))
    }

    fn state(&self, at: Option<Revision>) -> Result<(&BTreeMap<Key, Record>, Revision), String> {
        let at = at.unwrap_or(self.current());
        match at {
            at if at < self.compacted => Err(format!("compacted {}", self.compacted)),
            at if at > self.current() => Err(format!("future {}", self.current())),
            at => Ok((&self.states[at.0 as usize - 1], at)),
        }
    }

    fn write(
        &mut self,
        key: Key,
        compare: Compare,
        value: Option<Bytes>,
        condition: Option<&Condition>,
    ) -> Result<String, String> {
        let mut state = self.states.last().cloned().unwrap();
        let previous = state.get(&key).cloned();
        let holds = match compare {
            Compare::Absent => previous.is_none(),
            Compare::ModRevision(revision) => previous.as_ref().is_some_and(|record| record.mod_revision == revision),
            Compare::Any => true,
        };
        if !holds || (previous.is_none() && value.is_none()) {
            return Err(format!("conflict {previous:?}"));
        }
        let meets_condition = match condition {
            None => true,
            Some(Condition::Unchanged(key, revision)) => {
                state.get(key).is_some_and(|record| record.mod_revision == *revision)
            }
            Some(Condition::NotWrittenSince(interval, revision)) => {
                !state.values().any(|record| interval.contains(&record.key) && record.mod_revision > *revision)
            }
        };
        if !meets_condition {
            return Err("condition failed".to_owned());
        }
        let revision = self.current().next();
        let create_revision = previous.as_ref().map_or(revision, |record| record.create_revision);
        match value.clone() {
            Some(value) => {
                let record = Record { key: key.clone(), value, mod_revision: revision, create_revision, stale: false };
                drop(state.insert(key.clone(), record));
            }
            None => drop(state.remove(&key)),
        }
        self.states.push(state);
        self.changes.push(StoredChange { revision, key, value, stale: false });
        Ok(revision.to_string())
    }
}

fn describe_error(error: Error) -> String {
    match error {
        Error::Conflict { current } => format!("conflict {:?}", current.map(|record| *record)),
        Error::ConditionFailed => "condition failed".to_owned(),
        Error::Compacted { oldest } => format!("compacted {oldest}"),
        Error::FutureRevision { current } => format!("future {current}"),
        other => panic!("unexpected: {other}"),
    }
}

fn key_name(key: u8) -> Key {
    Key::from(format!("/things/{}", key % 9))
}

/// Runs the operations on a store and on the model.
async fn check(mut engine: EngineUnderTest, operations: &[Operation]) {
    let mut model = Model { states: vec![BTreeMap::new()], changes: Vec::new(), compacted: Revision::EMPTY };
    // A feed that stays open as long as the store.
    let mut live = engine.store.changes(Revision::EMPTY).await.unwrap();
    for operation in operations {
        let store = engine.store.clone();
        let (actual, expected) = match operation.clone() {
            Operation::Write { key, compare, value, condition } => {
                let key = key_name(key);
                let condition = condition.map(|(from, to, revision)| {
                    // The newest revision is the most interesting one.
                    let newest = model.states.last().unwrap().get(&key_name(from)).map(|record| record.mod_revision);
                    let revision =
                        newest.filter(|_| revision % 2 == 0).unwrap_or_else(|| model.pick_revision(revision));
                    match to {
                        Some(to) => {
                            Condition::NotWrittenSince(KeyInterval::between(key_name(from), key_name(to)), revision)
                        }
                        None => Condition::Unchanged(key_name(from), revision),
                    }
                });
                let compare = match compare {
                    Comparison::Absent => Compare::Absent,
                    Comparison::Any => Compare::Any,
                    Comparison::Newest => {
                        let record = model.states.last().unwrap().get(&key);
                        record.map_or(Compare::Absent, |record| Compare::ModRevision(record.mod_revision))
                    }
                    Comparison::Outdated(number) => Compare::ModRevision(model.pick_revision(number)),
                };
                let value = value.map(|value| Bytes::from(vec![value as u8; usize::from(value % 6000)]));
                let change = match value.clone() {
                    Some(value) => Change { compare, ..Change::put(key.clone(), value) },
                    None => Change::delete(key.clone(), compare),
                };
                let actual = store.commit(change.under(condition.clone().into_iter().collect())).await;
                let actual = actual.map(|revision| revision.to_string()).map_err(describe_error);
                (actual, model.write(key, compare, value, condition.as_ref()))
            }
            Operation::Get { key, at } => {
                let (key, at) = (key_name(key), at.map(|at| model.pick_revision(at)));
                let actual =
                    store.get(key.clone(), at).await.map(|record| format!("{record:?}")).map_err(describe_error);
                (actual, model.state(at).map(|(state, _)| format!("{:?}", state.get(&key))))
            }
            Operation::Range { from, to, at, limit } => {
                let (from, to, at) = (key_name(from), key_name(to), at.map(|at| model.pick_revision(at)));
                let limit = limit.map(usize::from);
                let interval = KeyInterval::between(from, to);
                let range = store.range(interval.clone(), at, limit).await;
                let page = store.page(interval.clone(), at, limit.unwrap_or(usize::MAX)).await;
                let page = page.map(|page| (page.records, page.is_last)).map_err(describe_error);
                let of_range = range.clone().map(|range| (range.records, range.remaining == 0));
                assert_eq!(page, of_range.map_err(describe_error));
                let actual = range.map(|range| format!("{:?} {} {}", range.records, range.remaining, range.revision));
                let expected = model.state(at).map(|(state, at)| {
                    let inside: Vec<&Record> = state.values().filter(|record| interval.contains(&record.key)).collect();
                    let shown = limit.unwrap_or(usize::MAX).min(inside.len());
                    format!("{:?} {} {at}", &inside[..shown], inside.len() - shown)
                });
                (actual.map_err(describe_error), expected)
            }
            Operation::Feed { from } => {
                let from = model.pick_revision(from);
                let actual = collect(&*store, from, model.current()).await.map(|changes| format!("{changes:?}"));
                let expected = model.state(Some(from)).map(|_| {
                    let after: Vec<_> = model.changes.iter().filter(|change| change.revision > from).collect();
                    format!("{after:?}")
                });
                (actual.map_err(describe_error), expected)
            }
            Operation::Compact { before } => {
                let before = model.pick_revision(before);
                let expected = model.state(Some(before)).map(|_| String::new());
                if expected.is_ok() {
                    model.compacted = before;
                }
                (store.compact(before).await.map(|()| String::new()).map_err(describe_error), expected)
            }
            Operation::Reopen => {
                if live.complete_to() >= model.compacted {
                    let changes = drain(&mut live, model.current()).await.unwrap();
                    assert!(changes.iter().all(|change| model.changes.contains(change)));
                }
                drop(store);
                engine.reopen().await;
                live = engine.store.changes(model.current()).await.unwrap();
                (Ok(String::new()), Ok(String::new()))
            }
        };
        assert_eq!(actual, expected, "{operation:?}");
        assert_eq!(engine.store.current_revision().await.unwrap(), model.current());
        assert_eq!(engine.store.oldest_revision().await.unwrap(), model.compacted);
    }
    engine.store.close().await.unwrap();
}

async fn collect(store: &dyn Store, from: Revision, until: Revision) -> Result<Vec<StoredChange>, Error> {
    drain(&mut store.changes(from).await?, until).await
}

async fn drain(feed: &mut Box<dyn pintle_store::ChangeFeed>, until: Revision) -> Result<Vec<StoredChange>, Error> {
    let mut changes = Vec::new();
    while feed.complete_to() < until {
        changes.extend(feed.next_batch().await?.changes);
    }
    Ok(changes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_engine_behaves_like_the_model(operations in prop::collection::vec(operation(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            check(EngineUnderTest::memory(HistoryRetention::default()), &operations).await;
            check(EngineUnderTest::embedded(HistoryRetention::default()), &operations).await;
            check(EngineUnderTest::encrypted(HistoryRetention::default()), &operations).await;
        });
    }
}

proptest! {
    // Each case starts an etcd.
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn etcd_behaves_like_the_model(operations in prop::collection::vec(operation(), 60..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { check(EngineUnderTest::etcd(), &operations).await });
    }
}
