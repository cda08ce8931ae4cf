//! The selection of a list or watch request: a kind, all namespaces or one, and selectors. A query yields both the
//! request that a client sends and the result that the model expects.

use crate::history::{Change, EventType, History};
use crate::kind::{COMMON_SELECTORS, KINDS, NAMESPACED_SELECTORS, NAMESPACES, Selector, TestKind};
use crate::object::{ObjectAttributes, ObjectVersion};

/// A collection of objects that a client lists or watches.
#[derive(Clone, Copy)]
pub(crate) struct ResourceQuery {
    /// The kind's index in [`KINDS`].
    pub(crate) kind_index: usize,
    /// The namespace's index in [`NAMESPACES`]; `None` for all namespaces.
    namespace: Option<u8>,
    selector: Selector,
}

impl ResourceQuery {
    /// All objects of a kind.
    pub(crate) fn all(kind_index: usize) -> Self {
        Self { kind_index, namespace: None, selector: COMMON_SELECTORS[0] }
    }

    /// Every combination of kind and selector, each for all namespaces and for one namespace.
    pub(crate) fn every() -> Vec<Self> {
        let mut queries = Vec::new();
        for (kind_index, kind) in KINDS.iter().enumerate() {
            let namespaced = if kind.namespaced { NAMESPACED_SELECTORS } else { &[] };
            for selector in COMMON_SELECTORS.iter().chain(namespaced).chain(kind.selectors) {
                queries.push(Self { kind_index, namespace: None, selector: *selector });
                if kind.namespaced {
                    let namespace = Some((queries.len() % NAMESPACES.len()) as u8);
                    queries.push(Self { kind_index, namespace, selector: *selector });
                }
            }
        }
        queries
    }

    pub(crate) fn kind(&self) -> &'static TestKind {
        &KINDS[self.kind_index]
    }

    /// The path and query string of a request, with more parameters.
    pub(crate) fn request(&self, parameters: &str) -> String {
        let path = self.kind().path(self.namespace.map(|index| NAMESPACES[usize::from(index)]));
        let parts = [self.selector.query, parameters];
        let query = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        if query.is_empty() { path } else { format!("{path}?{query}") }
    }

    /// Whether the request has no selectors.
    pub(crate) fn is_unselected(&self) -> bool {
        self.selector.query.is_empty()
    }

    fn matches(&self, attributes: &ObjectAttributes) -> bool {
        self.namespace.is_none_or(|namespace| namespace == attributes.key.namespace)
            && (self.selector.matches)(attributes)
    }

    /// The objects that a list at a revision has to return.
    pub(crate) fn objects_at(&self, history: &History, revision: u64) -> Vec<ObjectVersion> {
        let mut objects = history.objects_at(revision);
        objects.retain(|object| self.matches(&object.attributes));
        objects
    }

    /// The event that a watch has to receive for a change.
    fn event_for(&self, history: &History, change: &Change) -> Option<(EventType, ObjectVersion)> {
        let before = history.version_before(change).filter(|object| self.matches(&object.attributes));
        let after = change.after.filter(|object| self.matches(&object.attributes));
        match (before, after) {
            (None, Some(after)) => Some((EventType::Added, after)),
            (Some(_), Some(after)) => Some((EventType::Modified, after)),
            (Some(before), None) => Some((EventType::Deleted, ObjectVersion { revision: change.revision, ..*before })),
            (None, None) => None,
        }
    }

    /// The events that a watch has to receive after a revision.
    pub(crate) fn events_after<'h>(
        &'h self,
        history: &'h History,
        revision: u64,
    ) -> impl Iterator<Item = (EventType, ObjectVersion)> + 'h {
        let changes = history.changes_from(history.index_after(revision));
        changes.iter().filter_map(|change| self.event_for(history, change))
    }
}
