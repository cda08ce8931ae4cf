//! What a list or a watch is about: a kind, all of it or a namespace, all objects or selected ones. A view says both
//! what a client asks for and what it has to be shown.

use crate::journal::{Change, Journal, Turn};
use crate::kind::{COMMON, KINDS, Kind, NAMESPACED, NAMESPACES, Selection};
use crate::object::{Item, Shape};

/// What a client looks at.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// The kind's place in [`KINDS`].
    pub(crate) at: usize,
    /// The namespace's place in [`NAMESPACES`]; `None` for all.
    namespace: Option<u8>,
    selection: Selection,
}

impl View {
    /// All objects of a kind.
    pub(crate) fn all(at: usize) -> Self {
        Self { at, namespace: None, selection: COMMON[0] }
    }

    /// Every view that there is.
    pub(crate) fn every() -> Vec<Self> {
        let mut views = Vec::new();
        for (at, kind) in KINDS.iter().enumerate() {
            let scoped = if kind.namespaced { NAMESPACED } else { &[] };
            for selection in COMMON.iter().chain(scoped).chain(kind.selections) {
                views.push(Self { at, namespace: None, selection: *selection });
                if kind.namespaced {
                    let namespace = Some((views.len() % NAMESPACES.len()) as u8);
                    views.push(Self { at, namespace, selection: *selection });
                }
            }
        }
        views
    }

    pub(crate) fn kind(&self) -> &'static Kind {
        &KINDS[self.at]
    }

    /// The path and query of a request about the view.
    pub(crate) fn request(&self, options: &str) -> String {
        let path = self.kind().path(self.namespace.map(|at| NAMESPACES[usize::from(at)]));
        let parts = [self.selection.query, options];
        let query = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    /// Whether nothing of the path's objects is left out.
    pub(crate) fn is_unselected(&self) -> bool {
        self.selection.query.is_empty()
    }

    fn shows(&self, shape: &Shape) -> bool {
        self.namespace.is_none_or(|namespace| namespace == shape.key.namespace) && (self.selection.matches)(shape)
    }

    /// What the view shows at a revision.
    pub(crate) fn state(&self, journal: &Journal, revision: u64) -> Vec<Item> {
        let mut state = journal.state(revision);
        state.retain(|item| self.shows(&item.shape));
        state
    }

    /// What a change is to who watches the view.
    fn turn(&self, journal: &Journal, change: &Change) -> Option<(Turn, Item)> {
        let before = journal.before(change).filter(|item| self.shows(&item.shape));
        let after = change.after.filter(|item| self.shows(&item.shape));
        match (before, after) {
            (None, Some(after)) => Some((Turn::Added, after)),
            (Some(_), Some(after)) => Some((Turn::Modified, after)),
            (Some(before), None) => Some((Turn::Deleted, Item { revision: change.revision, ..*before })),
            (None, None) => None,
        }
    }

    /// What who watches the view is told after a revision.
    pub(crate) fn turns<'j>(&'j self, journal: &'j Journal, after: u64) -> impl Iterator<Item = (Turn, Item)> + 'j {
        journal.from(journal.after(after)).iter().filter_map(|change| self.turn(journal, change))
    }
}
