//! Which objects are to be looked at, and when.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::graph::Item;

/// How long the first failure is waited out. Each one after it is waited out twice as long, up to the last.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(60);

/// What is to be looked at: each object once, and not before its time.
#[derive(Default)]
pub(super) struct Queue {
    ready: VecDeque<Item>,
    is_ready: HashSet<Item>,
    /// What failed, by when it is tried again. The number tells apart what is tried at the same time.
    later: BTreeMap<(Instant, u64), Item>,
    numbers: u64,
    /// How often looking at an object failed without a success.
    failures: HashMap<Item, u32>,
}

impl Queue {
    /// Adds what is to be looked at as soon as may be.
    pub(super) fn push(&mut self, item: Item) {
        if self.is_ready.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    /// Adds what failed, to be looked at after a while.
    pub(super) fn push_later(&mut self, item: Item, now: Instant) {
        let failures = self.failures.entry(item.clone()).or_default();
        let wait = FIRST.saturating_mul(1 << (*failures).min(16)).min(LAST);
        *failures += 1;
        self.numbers += 1;
        self.later.insert((now + wait, self.numbers), item);
    }

    /// Forgets the failures of what succeeded.
    pub(super) fn succeed(&mut self, item: &Item) {
        self.failures.remove(item);
    }

    /// The next one to be looked at.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Item> {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.push(item);
        }
        let item = self.ready.pop_front()?;
        self.is_ready.remove(&item);
        Some(item)
    }

    /// When the next of those that failed is to be tried again.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((time, _), _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item { prefix: "things".into(), key: name.into(), uid: name.into() }
    }

    fn names(queue: &mut Queue, now: Instant) -> String {
        std::iter::from_fn(|| queue.pop(now)).map(|item| item.key.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_comes_once_and_in_turn() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["a", "b", "a"] {
            queue.push(item(name));
        }
        assert_eq!(names(&mut queue, now), "a b");
        queue.push(item("a"));
        assert_eq!(names(&mut queue, now), "a");
    }

    #[test]
    fn failures_are_waited_out_longer_and_longer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for _ in 0..3 {
            queue.push_later(item("a"), now);
        }
        queue.push_later(item("b"), now);
        assert_eq!(queue.next_time(), Some(now + FIRST));
        let after = |queue: &mut Queue, times: u32| names(queue, now + FIRST * times);
        assert_eq!(names(&mut queue, now), "");
        assert_eq!(after(&mut queue, 1), "a b");
        assert_eq!(after(&mut queue, 2), "a");
        assert_eq!(after(&mut queue, 3), "");
        assert_eq!(after(&mut queue, 4), "a");
        assert_eq!(queue.next_time(), None);
        (0..40).for_each(|_| queue.push_later(item("c"), now));
        assert_eq!(names(&mut queue, now + LAST), "c");
        queue.succeed(&item("c"));
        queue.push_later(item("c"), now);
        assert_eq!(queue.next_time(), Some(now + FIRST));
    }
}
