//! What is to be looked at: each thing once, some at a time, and again after a while where that failed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::hash::Hash;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Things that are looked at at a time.
const AT_A_TIME: usize = 32;
/// How long the first failure is waited out. Each one after it is waited out twice as long, up to the last.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(30);

/// What a look at something came to.
pub(crate) enum ReconcileResult<W = Infallible> {
    /// Nothing is left to do.
    Done,
    /// It has to be tried again.
    Failed,
    /// Nothing can be done before this has happened.
    Waits(W),
}

impl<W> From<bool> for ReconcileResult<W> {
    fn from(is_done: bool) -> Self {
        if is_done { ReconcileResult::Done } else { ReconcileResult::Failed }
    }
}

/// Things that wait to be looked at, and those that are.
pub(crate) struct WorkQueue<T, W = Infallible> {
    ready: VecDeque<T>,
    is_ready: HashSet<T>,
    running: JoinSet<ReconcileResult<W>>,
    items: HashMap<Id, T>,
    /// What is being looked at and has changed since.
    changed: HashSet<T>,
    /// What failed, by when it is tried again. The number tells apart what is tried at the same time.
    later: BTreeMap<(Instant, u64), T>,
    numbers: u64,
    /// How often looking at a thing failed without a success.
    failures: HashMap<T, u32>,
}

impl<T, W: 'static> Default for WorkQueue<T, W> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            is_ready: HashSet::new(),
            running: JoinSet::new(),
            items: HashMap::new(),
            changed: HashSet::new(),
            later: BTreeMap::new(),
            numbers: 0,
            failures: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash, W: Send + 'static> WorkQueue<T, W> {
    /// Has something looked at, after it has been if it is just being looked at.
    pub(crate) fn push(&mut self, item: T) {
        if self.items.values().any(|running| *running == item) {
            self.changed.insert(item);
        } else if self.is_ready.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    /// True if nothing is ready to be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Begins to look at what is ready. Nothing is done about what `look` has no future for.
    pub(crate) fn begin<F, L>(&mut self, mut look: impl FnMut(&T) -> Option<F>)
    where
        F: Future<Output = L> + Send + 'static,
        L: Into<ReconcileResult<W>>,
    {
        while self.running.len() < AT_A_TIME
            && let Some(item) = self.ready.pop_front()
        {
            self.is_ready.remove(&item);
            if let Some(look) = look(&item) {
                let task = self.running.spawn(async move { look.await.into() });
                self.items.insert(task.id(), item);
            }
        }
    }

    /// Waits until there may be something to begin with: a look has ended, or a failure was waited out. Without end if
    /// there is nothing to wait for. Gives what is not looked at again before something else has happened. Can be dropped
    /// at any time.
    pub(crate) async fn ready(&mut self) -> Option<(T, W)> {
        // With all places taken, what has been waited out can wait.
        let again = self.later.first_key_value().map(|((time, _), _)| *time);
        let again = again.filter(|_| self.running.len() < AT_A_TIME);
        tokio::select! {
            Some(ended) = self.running.join_next_with_id() => {
                let (id, looked) = ended.unwrap_or_else(|error| (error.id(), ReconcileResult::Failed));
                self.end(id, looked)
            }
            () = async { sleep_until(again.unwrap_or_else(Instant::now)).await }, if again.is_some() => {
                self.recall();
                None
            }
            else => std::future::pending().await,
        }
    }

    /// Waits for what is being looked at, and looks at nothing else.
    pub(crate) async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
    }

    fn end(&mut self, id: Id, looked: ReconcileResult<W>) -> Option<(T, W)> {
        let item = self.items.remove(&id)?;
        let failed = matches!(looked, ReconcileResult::Failed);
        if !failed {
            self.failures.remove(&item);
        }
        if self.changed.remove(&item) {
            self.push(item);
            return None;
        }
        if let ReconcileResult::Waits(what) = looked {
            return Some((item, what));
        }
        if failed {
            self.push_later(item);
        }
        None
    }

    /// Has what failed looked at again after a while.
    pub(crate) fn push_later(&mut self, item: T) {
        let failures = self.failures.entry(item.clone()).or_default();
        let wait = FIRST.saturating_mul(1 << (*failures).min(16)).min(LAST);
        *failures += 1;
        self.numbers += 1;
        self.later.insert((Instant::now() + wait, self.numbers), item);
    }

    /// Makes ready what has been waited out.
    fn recall(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A queue of names, and how often they were looked at.
    #[derive(Default)]
    struct Scene {
        queue: WorkQueue<&'static str, &'static str>,
        looks: Arc<AtomicUsize>,
    }

    impl Scene {
        fn push(&mut self, items: &[&'static str]) {
            items.iter().for_each(|item| self.queue.push(item));
        }

        /// Looks at what is ready, which comes to the same for all, and waits for it. Says how many were looked at.
        async fn look(&mut self, made: fn() -> ReconcileResult<&'static str>) -> usize {
            let before = self.looks.load(Ordering::Relaxed);
            self.queue.begin(|_| {
                self.looks.fetch_add(1, Ordering::Relaxed);
                Some(std::future::ready(made()))
            });
            let begun = self.looks.load(Ordering::Relaxed) - before;
            for _ in 0..begun {
                self.queue.ready().await;
            }
            begun
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_thing_is_looked_at_once_and_again_when_it_changes() {
        let mut scene = Scene::default();
        scene.push(&["a", "b", "a"]);
        scene.queue.begin(|_| Some(std::future::ready(true)));
        scene.push(&["a"]);
        for _ in 0..2 {
            scene.queue.ready().await;
        }
        assert_eq!(scene.look(|| ReconcileResult::Done).await, 1, "what changed meanwhile is looked at again");
        assert_eq!(scene.look(|| ReconcileResult::Done).await, 0);
        scene.push(&["c"]);
        scene.queue.begin(|_| None::<std::future::Ready<bool>>);
        assert_eq!(scene.look(|| ReconcileResult::Done).await, 0, "nothing was to be done about it");
        let idle = tokio::time::timeout(LAST * 2, scene.queue.ready()).await;
        assert!(idle.is_err(), "nothing is left to wait for");
        scene.queue.finish().await;
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_waited_out_longer_and_longer() {
        let mut scene = Scene::default();
        scene.push(&["a"]);
        for wait in [FIRST, FIRST * 2, FIRST * 4] {
            assert_eq!(scene.look(|| ReconcileResult::Failed).await, 1);
            let failed = Instant::now();
            scene.queue.ready().await;
            assert_eq!(failed.elapsed(), wait);
        }
        assert_eq!(scene.look(|| ReconcileResult::Done).await, 1);
        scene.push(&["a"]);
        assert_eq!(scene.look(|| ReconcileResult::Failed).await, 1);
        let failed = Instant::now();
        scene.queue.ready().await;
        assert_eq!(failed.elapsed(), FIRST, "a success makes up for all failures");
        for _ in 0..40 {
            assert_eq!(scene.look(|| ReconcileResult::Failed).await, 1);
            let failed = Instant::now();
            scene.queue.ready().await;
            assert!(failed.elapsed() <= LAST);
        }
    }

    #[tokio::test]
    async fn what_waits_for_something_else_is_given_back() {
        let mut scene = Scene::default();
        scene.push(&["a"]);
        scene.queue.begin(|_| Some(std::future::ready(ReconcileResult::Waits("rain"))));
        assert_eq!(scene.queue.ready().await, Some(("a", "rain")));
        scene.push(&["a"]);
        scene.queue.begin(|_| Some(std::future::ready(ReconcileResult::Waits("rain"))));
        scene.push(&["a"]);
        assert_eq!(scene.queue.ready().await, None, "it has changed meanwhile");
        assert_eq!(scene.look(|| ReconcileResult::Done).await, 1);
    }

    #[tokio::test]
    async fn some_are_looked_at_at_a_time() {
        let mut queue = WorkQueue::<usize>::default();
        (0..AT_A_TIME * 2).for_each(|item| queue.push(item));
        queue.begin(|_| Some(std::future::ready(true)));
        assert_eq!(queue.ready.len(), AT_A_TIME);
        queue.ready().await;
        queue.begin(|_| Some(std::future::ready(true)));
        assert_eq!(queue.ready.len(), AT_A_TIME - 1);
    }
}
