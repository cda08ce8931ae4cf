//! Compares the entries with a `BTreeMap` that receives the same changes.

use std::collections::BTreeMap;
use std::ops::Bound;

use pintle_sorted::{SortedEntries, SortedEntry};
use proptest::prelude::*;

/// The row is large, so that a chunk has few entries.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    key: String,
    value: u32,
    _padding: [u64; 60],
}

impl Row {
    fn new(key: String, value: u32) -> Self {
        Self { key, value, _padding: [0; 60] }
    }
}

impl SortedEntry for Row {
    fn key(&self) -> &str {
        &self.key
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16),
    /// Inserts ascending keys from a key on.
    InsertAscending(u16, u8),
    Remove(u16),
    RemoveFrom(u16, u8),
    Change(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..500_u16;
    prop_oneof![
        4 => key().prop_map(Step::Insert),
        2 => (key(), 0..60_u8).prop_map(|(key, count)| Step::InsertAscending(key, count)),
        2 => key().prop_map(Step::Remove),
        1 => (key(), 0..80_u8).prop_map(|(key, count)| Step::RemoveFrom(key, count)),
        1 => key().prop_map(Step::Change),
    ]
}

/// Keys with long and with short common prefixes. Some keys are prefixes of others, and some have characters of several
/// bytes.
fn text(key: u16) -> String {
    match key / 50 % 4 {
        0 => format!("{key:04}"),
        1 => format!("namespace-{}/a-name-of-some-length-{key}", key % 3),
        2 => "\0a".repeat(usize::from(key % 50)),
        // Characters that begin with the same byte.
        _ => format!("{}{}{}", "ä€".repeat(usize::from(key % 7)), ["ä", "ö", "ü"][usize::from(key % 3)], key),
    }
}

fn same(one: Option<Row>, other: Option<u32>) -> bool {
    one.map(|row| row.value) == other
}

proptest! {
    #[test]
    fn entries_are_those_of_a_map(steps in prop::collection::vec(step(), 0..60)) {
        let (mut rows, mut model) = (SortedEntries::default(), BTreeMap::new());
        for (value, step) in (0_u32..).zip(steps) {
            let (inserted, removed) = match step {
                Step::Insert(key) => (key..key + 1, 0..0),
                Step::InsertAscending(key, count) => (key..key + u16::from(count), 0..0),
                Step::Remove(key) => (0..0, key..key + 1),
                Step::RemoveFrom(key, count) => (0..0, key..key + u16::from(count)),
                Step::Change(key) => {
                    let changed = rows.get_mut(&text(key)).map(|row: &mut Row| std::mem::replace(&mut row.value, value));
                    prop_assert_eq!(changed, model.get_mut(&text(key)).map(|found| std::mem::replace(found, value)));
                    (0..0, 0..0)
                }
            };
            for key in inserted.map(text) {
                prop_assert!(same(rows.insert(Row::new(key.clone(), value)), model.insert(key, value)));
            }
            for key in removed.map(text) {
                prop_assert!(same(rows.remove(&key), model.remove(&key)));
            }
            prop_assert_eq!((rows.len(), rows.is_empty()), (model.len(), model.is_empty()));
        }
        let shown = |row: &Row| (row.key.clone(), row.value);
        let all: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), all.clone());
        let collected: SortedEntries<Row> = all.iter().rev().map(|(key, value)| Row::new(key.clone(), *value)).collect();
        prop_assert_eq!(collected.iter().map(shown).collect::<Vec<_>>(), all);
        for key in (0..520).step_by(7).map(text) {
            prop_assert_eq!(rows.get(&key).map(|row| row.value), model.get(&key).copied());
            for start in [Bound::Included(&*key), Bound::Excluded(&*key), Bound::Unbounded] {
                let expected: Vec<_> = model.range::<str, _>((start, Bound::Unbounded)).collect();
                let found: Vec<_> = rows.range_from(start).map(|row| (&row.key, &row.value)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
