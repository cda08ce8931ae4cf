//! Selection of the objects of a list or watch by namespace, labels and fields, and the resulting watch scope.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_cache::{Event, KeyRange, Object, WatchScope};
use pintle_metrics::Counter;
use pintle_registry::{ApiError, Resource};
use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::names::dns1123_label;
use pintle_value::{Str, Value};

use super::{ShardSelector, VersionView};

/// Maximum number of requirements and values of selectors that are checked before other tasks may run.
const CHECKS_PER_TURN: usize = 1 << 16;
/// The number of requirements from which on the labels of an object are read once for all requirements.
const MANY_REQUIREMENTS: usize = 16;

/// The type of a watch event (`metav1.WatchEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEventType {
    /// The object is new to the watcher: created, or newly selected.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or is no longer selected.
    Deleted,
    /// Reports a revision up to which nothing else has changed.
    Bookmark,
    /// Reports an error. The watch ends.
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

/// A selectable field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// A field of the kind, by its position among the indexed fields.
    Indexed(usize),
}

/// A part of a collection.
#[derive(Clone, Debug)]
struct Shard {
    selector: Arc<ShardSelector>,
    /// Counts the objects of other parts, if the caller wants them counted.
    filtered: Option<Arc<Counter>>,
}

impl Shard {
    fn matches(&self, object: &Object) -> bool {
        let matches = self.selector.matches(object);
        if let Some(filtered) = self.filtered.as_ref().filter(|_| !matches) {
            filtered.inc();
        }
        matches
    }
}

/// A compiled selection.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: Option<LabelSelector>,
    fields: Vec<(Field, bool, Str)>,
    namespace: Str,
    /// The selected part of the collection, if the client wants only a part.
    shard: Option<Shard>,
    /// Maximum number of requirements and values that are checked for one object.
    cost: usize,
}

impl Selection {
    /// Compiles the selectors of a request. An empty `namespace` selects all namespaces.
    ///
    /// # Errors
    /// Returns an error for a field that the kind does not support.
    pub(crate) fn compile(
        resource: &Resource,
        namespace: &str,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Self, ApiError> {
        let mut compiled = Vec::new();
        for requirement in fields.requirements() {
            let field = resolve_field(resource, &requirement.field)?;
            compiled.push((field, !requirement.negated, requirement.value.clone()));
        }
        let labels = (!labels.is_everything()).then(|| labels.clone());
        let label_cost =
            labels.iter().flat_map(LabelSelector::requirements).map(|r| 1 + r.values().len()).sum::<usize>();
        let cost = label_cost + compiled.len();
        Ok(Self { labels, fields: compiled, namespace: namespace.into(), shard: None, cost })
    }

    /// Restricts the selection to the objects of a part. `filtered` counts the objects that this excludes.
    pub(crate) fn with_shard(self, selector: ShardSelector, filtered: Option<Arc<Counter>>) -> Self {
        let cost = self.cost + selector.len();
        Self { shard: Some(Shard { selector: Arc::new(selector), filtered }), cost, ..self }
    }

    /// The selector of the selected part.
    pub(crate) fn shard(&self) -> Option<&ShardSelector> {
        self.shard.as_ref().map(|shard| &*shard.selector)
    }

    /// True if the selection contains all objects of the namespace, or all objects of a part.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// The number of objects that can be matched before other tasks of the thread should run. A selector can be as long
    /// as a URL, 64 KiB, which is enough for 20,000 requirements.
    pub(crate) fn objects_per_turn(&self) -> usize {
        (CHECKS_PER_TURN / self.cost.max(1)).max(1)
    }

    /// True if objects can only be selected after conversion. A webhook may change labels. Selectable fields of custom
    /// resources may be defaulted, or exist only at one version.
    pub(crate) fn needs_conversion(&self, view: &VersionView) -> bool {
        let by_field = || self.fields.iter().any(|(field, ..)| matches!(field, Field::Indexed(_)));
        !self.is_everything() && (view.uses_webhook() || !view.has_single_version() && by_field())
    }

    /// True if the object is selected.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        if self.shard.as_ref().is_some_and(|shard| !shard.matches(object)) {
            return false;
        }
        let field = |field| match field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Indexed(index) => object.field(index),
        };
        if self.labels.as_ref().is_none_or(|labels| labels.requirements().len() < MANY_REQUIREMENTS) {
            return self.matches_with(field, |key| object.label(key));
        }
        let labels: HashMap<&str, &str> = object.labels().collect();
        self.matches_with(field, |key| labels.get(key).copied())
    }

    /// Like `matches`, for the tree of an object of a kind without selectable fields of its own.
    pub(crate) fn matches_tree(&self, object: &Value) -> bool {
        let field = |field| match field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Indexed(_) => "",
        };
        self.matches_with(field, |key| object.at(&["metadata", "labels", key]).and_then(Value::as_str))
    }

    fn matches_with<'o>(&self, field: impl Fn(Field) -> &'o str, label: impl Fn(&str) -> Option<&'o str>) -> bool {
        self.fields.iter().all(|(name, equal, value)| (field(*name) == value) == *equal)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(label))
    }

    /// The type of an event for a watcher with this selection. A change that makes an object match or stop matching is
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

    /// The value that the selector requires of a field, if any.
    fn required_value(&self, field: Field) -> Option<&Str> {
        self.fields.iter().find(|(of, equal, _)| *of == field && *equal).map(|(_, _, value)| value)
    }

    /// The namespace of all selected objects: the namespace of the path, or the namespace that the field selector
    /// requires. Empty for all namespaces.
    fn only_namespace(&self) -> Str {
        match self.required_value(Field::Namespace) {
            Some(namespace) if self.namespace.is_empty() && dns1123_label(namespace).is_empty() => namespace.clone(),
            _ => self.namespace.clone(),
        }
    }

    /// The range of keys that can match.
    pub(crate) fn range(&self, namespaced: bool) -> KeyRange {
        match (self.required_value(Field::Name), self.collection(namespaced)) {
            (Some(name), KeyRange::Namespace(namespace)) => KeyRange::Key(crate::cluster::object_key(&namespace, name)),
            (Some(name), KeyRange::All) if !namespaced => KeyRange::Key(name.clone()),
            (_, collection) => collection,
        }
    }

    /// The range of keys of the collection: one namespace, or all keys.
    pub(crate) fn collection(&self, namespaced: bool) -> KeyRange {
        match self.only_namespace() {
            namespace if namespaced && !namespace.is_empty() => KeyRange::Namespace(namespace),
            _ => KeyRange::All,
        }
    }

    /// The index of the indexed field, and the value that it is required to have, if any.
    pub(crate) fn index(&self, hub: &Resource) -> Option<(usize, Str)> {
        let indexed = hub.strategy.indexed_field()?;
        let index = hub.selectable.iter().find(|field| field.name == indexed)?.index;
        Some((index, self.required_value(Field::Indexed(index))?.clone()))
    }

    /// The scope of events that wake a watcher.
    pub(crate) fn scope(&self, namespaced: bool, hub: &Resource) -> WatchScope {
        match self.range(namespaced) {
            KeyRange::Key(key) => WatchScope::Key(key),
            KeyRange::Namespace(namespace) => WatchScope::Namespace(namespace),
            KeyRange::All => self.index(hub).map_or(WatchScope::All, |(index, value)| WatchScope::Field(index, value)),
        }
    }
}

/// Resolves a field label.
fn resolve_field(resource: &Resource, label: &str) -> Result<Field, ApiError> {
    match label {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if resource.strategy.is_selectable_by_namespace() => return Ok(Field::Namespace),
        _ => {}
    }
    let found = resource.selectable.iter().find(|field| field.name == label);
    let unsupported = || ApiError::BadRequest(resource.strategy.unsupported_field_message(label));
    found.map(|field| Field::Indexed(field.index)).ok_or_else(unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_selector_the_fewer_objects_are_matched_in_one_go() {
        let resources = pintle_kinds::resources(pintle_catalog::shared());
        let maps = resources.iter().find(|resource| resource.plural == "configmaps").expect("configmaps");
        let check = |labels: &str, fields: &str, expect: usize| {
            let (labels, fields) = (LabelSelector::parse(labels), FieldSelector::parse(fields));
            let (labels, fields) = (labels.expect("a selector"), fields.expect("a selector"));
            let selection = Selection::compile(maps, "", &labels, &fields).expect("a selection");
            assert_eq!(selection.objects_per_turn(), expect);
        };
        check("", "", CHECKS_PER_TURN);
        check("a=b", "", CHECKS_PER_TURN / 2);
        check("!a,b in (c,d,e)", "metadata.name!=x", CHECKS_PER_TURN / 6);
        check(&format!("a in ({})", (0..200_000).map(|n| format!("{n},")).collect::<String>()), "", 1);
    }
}
