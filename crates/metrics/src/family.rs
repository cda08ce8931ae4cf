//! The series of one or several metrics by their labels.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use pintle_locks::RwLock;

/// Series by their labels. A series is created at its first use.
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
    /// The series with these labels. `labels` may borrow the strings that `L` owns, so looking up an existing series
    /// allocates nothing.
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

    /// All current series, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<(L, Arc<S>)> {
        self.series.read().iter().map(|(labels, series)| (labels.clone(), series.clone())).collect()
    }

    /// Removes all series. A holder of a series may still record in it, but the values are no longer visible.
    pub fn clear(&self) {
        self.series.write().clear();
    }
}
