//! The series of one or several metrics by their labels.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use pintle_locks::RwLock;

/// Series by their labels. A series is created when it is first asked for.
#[derive(Debug)]
pub struct Family<L, S> {
    series: RwLock<HashMap<L, Arc<S>>>,
}

impl<L, S> Default for Family<L, S> {
    fn default() -> Self {
        Self { series: RwLock::default() }
    }
}

impl<L: Eq + Hash + Clone, S> Family<L, S> {
    /// The series with these labels. `labels` may borrow what `L` owns, so that looking up an existing series allocates
    /// nothing.
    pub fn get<Q>(&self, labels: &Q, create: impl FnOnce() -> S) -> Arc<S>
    where
        Q: Hash + Equivalent<L> + ?Sized,
        for<'q> L: From<&'q Q>,
    {
        if let Some(series) = self.series.read().get(labels) {
            return series.clone();
        }
        self.series.write().entry(L::from(labels)).or_insert_with(|| Arc::new(create())).clone()
    }

    /// All series now, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<(L, Arc<S>)> {
        self.series.read().iter().map(|(labels, series)| (labels.clone(), series.clone())).collect()
    }

    /// Forgets all series. Whoever holds one goes on recording in it, but nobody sees that any more.
    pub fn clear(&self) {
        self.series.write().clear();
    }
}
