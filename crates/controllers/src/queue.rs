//! What is to be looked at: each thing once, some at a time, and again after a while where that failed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Things that are looked at at a time.
const AT_A_TIME: usize = 32;
/// How long a failure is waited out.
const AGAIN: Duration = Duration::from_secs(1);

/// Things that wait to be looked at, and those that are.
pub(crate) struct Queue<T> {
    waiting: VecDeque<T>,
    /// What waits.
    queued: HashSet<T>,
    running: JoinSet<bool>,
    items: HashMap<Id, T>,
    /// What is being looked at and has changed since.
    changed: HashSet<T>,
    /// What failed, and when all of it is looked at again.
    failed: HashSet<T>,
    again: Option<Instant>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            queued: HashSet::new(),
            running: JoinSet::new(),
            items: HashMap::new(),
            changed: HashSet::new(),
            failed: HashSet::new(),
            again: None,
        }
    }
}

impl<T: Clone + Eq + Hash> Queue<T> {
    /// Has something looked at, after it has been if it is just being looked at.
    pub(crate) fn push(&mut self, item: T) {
        if self.items.values().any(|running| *running == item) {
            self.changed.insert(item);
        } else if self.queued.insert(item.clone()) {
            self.waiting.push_back(item);
        }
    }

    /// Begins to look at what waits. `look` ends with false where it has to be tried again.
    pub(crate) fn begin<F: Future<Output = bool> + Send + 'static>(&mut self, look: impl Fn(T) -> F) {
        while self.running.len() < AT_A_TIME
            && let Some(item) = self.waiting.pop_front()
        {
            self.queued.remove(&item);
            let task = self.running.spawn(look(item.clone()));
            self.items.insert(task.id(), item);
        }
    }

    /// Waits until there may be something to begin with: a look has ended, or failures were waited out. Without end if
    /// there is nothing to wait for. Can be dropped at any time.
    pub(crate) async fn ready(&mut self) {
        let again = self.again;
        tokio::select! {
            Some(ended) = self.running.join_next_with_id() => {
                let (id, is_done) = ended.unwrap_or_else(|error| (error.id(), false));
                let Some(item) = self.items.remove(&id) else { return };
                if self.changed.remove(&item) {
                    self.push(item);
                } else if !is_done {
                    self.failed.insert(item);
                    self.again.get_or_insert_with(|| Instant::now() + AGAIN);
                }
            }
            () = async { sleep_until(again.unwrap_or_else(Instant::now)).await }, if again.is_some() => {
                self.again = None;
                std::mem::take(&mut self.failed).into_iter().for_each(|item| self.push(item));
            }
            else => std::future::pending().await,
        }
    }

    /// Waits for what is being looked at, and looks at nothing else.
    pub(crate) async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_thing_is_looked_at_once_and_again_where_it_failed_or_changed() {
        let mut queue = Queue::default();
        let looks = Arc::new(AtomicUsize::new(0));
        let look = |result: bool| {
            let looks = looks.clone();
            move |_: &str| {
                looks.fetch_add(1, Ordering::Relaxed);
                std::future::ready(result)
            }
        };
        let count = || looks.load(Ordering::Relaxed);
        for item in ["a", "b", "a"] {
            queue.push(item);
        }
        queue.begin(look(true));
        assert_eq!(count(), 2);
        queue.push("a");
        queue.ready().await;
        queue.ready().await;
        queue.begin(look(false));
        assert_eq!(count(), 3, "what changed meanwhile is looked at again");
        queue.ready().await;
        let failed = Instant::now();
        queue.ready().await;
        assert_eq!(failed.elapsed(), AGAIN);
        queue.begin(look(true));
        assert_eq!(count(), 4, "what failed is tried again");
        queue.ready().await;
        assert!(tokio::time::timeout(AGAIN * 10, queue.ready()).await.is_err(), "nothing is left to wait for");
        queue.finish().await;
    }

    #[tokio::test]
    async fn some_are_looked_at_at_a_time() {
        let mut queue = Queue::default();
        (0..AT_A_TIME * 2).for_each(|item| queue.push(item));
        queue.begin(|_| std::future::ready(true));
        assert_eq!(queue.waiting.len(), AT_A_TIME);
        queue.ready().await;
        queue.begin(|_| std::future::ready(true));
        assert_eq!(queue.waiting.len(), AT_A_TIME - 1);
    }
}
