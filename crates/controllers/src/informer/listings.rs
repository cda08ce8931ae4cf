//! The objects that informers have yet to report, by source.

use std::collections::VecDeque;
use std::sync::Arc;

use pintle_cache::{KeyRange, Object, WatchCache, WatchScope};

/// The maximum number of objects of a batch.
const BATCH: usize = 256;

type ObjectIter = Box<dyn Iterator<Item = Arc<Object>> + Send + Sync>;

pub(super) struct Listings<S>(VecDeque<(S, ObjectIter)>);

impl<S> Default for Listings<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<S: Clone> Listings<S> {
    pub(super) fn add(&mut self, source: S, watch_cache: &Arc<WatchCache>, scope: &WatchScope) {
        let objects: ObjectIter = match scope.clone() {
            WatchScope::All => Box::new(watch_cache.objects(KeyRange::All)),
            WatchScope::Namespace(namespace) => Box::new(watch_cache.objects(KeyRange::Namespace(namespace))),
            WatchScope::Key(key) => Box::new(watch_cache.get(&key, None).ok().flatten().into_iter()),
            WatchScope::Field(index, value) => {
                Box::new(watch_cache.objects(KeyRange::All).filter(move |object| object.field(index) == value))
            }
        };
        self.0.push_back((source, objects));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next objects of the first source. The last batch of a source has fewer objects than others, maybe none.
    pub(super) fn next_batch(&mut self) -> Option<(S, Vec<Arc<Object>>)> {
        let (source, objects) = self.0.front_mut()?;
        let batch: Vec<_> = objects.by_ref().take(BATCH).collect();
        let source = source.clone();
        if batch.len() < BATCH {
            self.0.pop_front();
        }
        Some((source, batch))
    }

    pub(super) fn remove(&mut self, is_removed: impl Fn(&S) -> bool) {
        self.0.retain(|(source, _)| !is_removed(source));
    }
}
