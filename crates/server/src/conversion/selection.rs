//! Which objects of a collection a list or watch is about: labels, fields, and the scope that follows from them.

use pintle_cache::{Event, KeyRange, Object, WatchScope};
use pintle_registry::{ApiError, Resource};
use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::names::dns1123_label;
use pintle_value::{Str, Value};

use super::VersionView;

/// The type of a watch event (`metav1.WatchEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEventType {
    /// The object is new to the watcher.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or is no longer selected.
    Deleted,
    /// Nothing that the watcher selects has changed up to a revision.
    Bookmark,
    /// The watch ends with an error.
    Error,
}

impl WatchEventType {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            WatchEventType::Added => "ADDED",
            WatchEventType::Modified => "MODIFIED",
            WatchEventType::Deleted => "DELETED",
            WatchEventType::Bookmark => "BOOKMARK",
            WatchEventType::Error => "ERROR",
        }
    }
}

/// A field that can be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// The place in the fields that are kept of the kind's objects.
    Kind(usize),
}

/// A compiled selection.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: Option<LabelSelector>,
    fields: Vec<(Field, bool, Str)>,
    namespace: Str,
}

impl Selection {
    /// Compiles the selectors of a request. `namespace` is empty for all.
    ///
    /// # Errors
    /// It selects by a field that the kind does not offer.
    pub(crate) fn compile(
        resource: &Resource,
        namespace: &str,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Self, ApiError> {
        let mut compiled = Vec::new();
        for requirement in fields.requirements() {
            let field = field(resource, &requirement.field)?;
            compiled.push((field, !requirement.negated, requirement.value.clone()));
        }
        let labels = (!labels.is_everything()).then(|| labels.clone());
        Ok(Self { labels, fields: compiled, namespace: namespace.into() })
    }

    /// True if every object of the namespace is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// True if it is known only of an object as it is shown whether it is selected: who converts it may give it other
    /// labels, and the fields of custom kinds may have values by default, or at one version alone.
    pub(crate) fn is_late(&self, view: &VersionView) -> bool {
        let by_field = || self.fields.iter().any(|(field, ..)| matches!(field, Field::Kind(_)));
        !self.is_everything() && (view.uses_webhook() || !view.has_single_version() && by_field())
    }

    /// True if the object is selected.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        let field = |field| match field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Kind(index) => object.field(index),
        };
        self.holds(field, |key| object.label(key))
    }

    /// The same for the tree of an object of a kind without selectable fields of its own.
    pub(crate) fn matches_tree(&self, object: &Value) -> bool {
        let field = |field| match field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Kind(_) => "",
        };
        self.holds(field, |key| object.at(&["metadata", "labels", key]).and_then(Value::as_str))
    }

    fn holds<'o>(&self, field: impl Fn(Field) -> &'o str, label: impl Fn(&str) -> Option<&'o str>) -> bool {
        self.fields.iter().all(|(name, equal, value)| (field(*name) == value) == *equal)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(label))
    }

    /// What an event is to someone who watches this selection: a change that makes an object match or stop matching is
    /// an addition or a deletion.
    pub(crate) fn event_type(&self, event: &Event) -> Option<WatchEventType> {
        let before = event.previous.as_ref().is_some_and(|o| self.matches(o));
        let after = event.object.as_ref().is_some_and(|o| self.matches(o));
        match (before, after) {
            (false, true) => Some(WatchEventType::Added),
            (true, true) => Some(WatchEventType::Modified),
            (true, false) => Some(WatchEventType::Deleted),
            (false, false) => None,
        }
    }

    /// The only value with which a field matches, if there is one.
    fn required(&self, field: Field) -> Option<&Str> {
        self.fields.iter().find(|(of, equal, _)| *of == field && *equal).map(|(_, _, value)| value)
    }

    /// The namespace that everything selected is in: that of the path or else of the fields. Empty for all.
    fn only_namespace(&self) -> Str {
        match self.required(Field::Namespace) {
            Some(namespace) if self.namespace.is_empty() && dns1123_label(namespace).is_empty() => namespace.clone(),
            _ => self.namespace.clone(),
        }
    }

    /// The keys that can match.
    pub(crate) fn range(&self, namespaced: bool) -> KeyRange {
        match (self.required(Field::Name), self.collection(namespaced)) {
            (Some(name), KeyRange::Namespace(namespace)) => KeyRange::Key(crate::cluster::object_key(&namespace, name)),
            (Some(name), KeyRange::All) if !namespaced => KeyRange::Key(name.clone()),
            (_, collection) => collection,
        }
    }

    /// The keys of the collection that is selected from: a namespace, or all.
    pub(crate) fn collection(&self, namespaced: bool) -> KeyRange {
        match self.only_namespace() {
            namespace if namespaced && !namespace.is_empty() => KeyRange::Namespace(namespace),
            _ => KeyRange::All,
        }
    }

    /// The field's place and the value by which an index finds what is selected, if there is one.
    pub(crate) fn index(&self, hub: &Resource) -> Option<(usize, Str)> {
        let indexed = hub.strategy.indexed_field()?;
        let index = hub.selectable.iter().find(|field| field.name == indexed)?.index;
        Some((index, self.required(Field::Kind(index))?.clone()))
    }

    /// The events to be woken for.
    pub(crate) fn scope(&self, namespaced: bool, hub: &Resource) -> WatchScope {
        match self.range(namespaced) {
            KeyRange::Key(key) => WatchScope::Key(key),
            KeyRange::Namespace(namespace) => WatchScope::Namespace(namespace),
            KeyRange::All => self.index(hub).map_or(WatchScope::All, |(index, value)| WatchScope::Field(index, value)),
        }
    }
}

/// The field that a label of a field selector means.
fn field(resource: &Resource, label: &str) -> Result<Field, ApiError> {
    match label {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if resource.strategy.is_selected_by_namespace() => return Ok(Field::Namespace),
        _ => {}
    }
    let found = resource.selectable.iter().find(|field| field.name == label);
    let refused = || ApiError::BadRequest(resource.strategy.field_not_supported(label));
    found.map(|field| Field::Kind(field.index)).ok_or_else(refused)
}
