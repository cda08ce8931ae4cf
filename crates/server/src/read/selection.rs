//! Which objects of a collection a list or watch is about: labels, fields, and the scope that follows from them.

use pintle_cache::{Event, KeyRange, Object, Scope};
use pintle_registry::{ApiError, Resource};
use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::{Str, Value};

use crate::represent::EventKind;

/// A field that can be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// The place in the kind's list of selectable fields.
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
    /// Compiles the selectors of a request. `namespace` is empty for all; `name` selects a single object.
    ///
    /// # Errors
    /// A selector is malformed or selects by a field that the kind does not offer.
    pub(crate) fn compile(
        resource: &Resource,
        hub: &Resource,
        namespace: &str,
        labels: &str,
        fields: &str,
    ) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(labels).map_err(|e| ApiError::BadRequest(e.to_string()))?;
        let fields = FieldSelector::parse(fields).map_err(|e| ApiError::BadRequest(e.to_string()))?;
        let mut compiled = Vec::new();
        for requirement in fields.requirements() {
            let field = match &*requirement.field {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                other => Field::Kind(place(resource, hub, other)?),
            };
            compiled.push((field, !requirement.negated, requirement.value.clone()));
        }
        Ok(Self { labels: (!labels.is_everything()).then_some(labels), fields: compiled, namespace: namespace.into() })
    }

    /// True if every object of the namespace is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// True if the object is selected.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        let field = |field| match field {
            Field::Name => object.name(),
            Field::Namespace => object.namespace(),
            Field::Kind(place) => object.outline.fields.get(place).map_or("", Str::as_str),
        };
        self.holds(field, |key| object.outline.label(key))
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
    pub(crate) fn kind_of(&self, event: &Event) -> Option<EventKind> {
        let before = event.previous.as_ref().is_some_and(|o| self.matches(o));
        let after = event.object.as_ref().is_some_and(|o| self.matches(o));
        match (before, after) {
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
            (false, false) => None,
        }
    }

    /// The single name that is selected, if there is one.
    fn name(&self) -> Option<&Str> {
        self.fields.iter().find(|(field, equal, _)| *field == Field::Name && *equal).map(|(_, _, value)| value)
    }

    /// The keys that can match.
    pub(crate) fn range(&self, namespaced: bool) -> KeyRange {
        match (namespaced, self.namespace.is_empty(), self.name()) {
            (true, false, Some(name)) => KeyRange::Key(crate::cluster::object_key(&self.namespace, name)),
            (true, false, None) => KeyRange::Namespace(self.namespace.clone()),
            (false, _, Some(name)) => KeyRange::Key(name.clone()),
            _ => KeyRange::All,
        }
    }

    /// The events to be woken for.
    pub(crate) fn scope(&self, namespaced: bool, hub: &Resource) -> Scope {
        match self.range(namespaced) {
            KeyRange::Key(key) => Scope::Key(key),
            KeyRange::Namespace(namespace) => Scope::Namespace(namespace),
            KeyRange::All => {
                let indexed = hub.behaviour.indexed_field();
                let place = hub.behaviour.selectable_field_names().iter().position(|name| Some(*name) == indexed);
                let wanted = self
                    .fields
                    .iter()
                    .find(|(field, equal, _)| *equal && matches!(field, Field::Kind(at) if Some(*at) == place));
                match (place, wanted) {
                    (Some(place), Some((_, _, value))) => Scope::Field(place, value.clone()),
                    _ => Scope::All,
                }
            }
        }
    }
}

fn place(resource: &Resource, hub: &Resource, field: &str) -> Result<usize, ApiError> {
    // A view has its own names for the same fields; they stand in the hub's order.
    let own = resource.behaviour.selectable_field_names();
    let names = if own.is_empty() { hub.behaviour.selectable_field_names() } else { own };
    if let Some(place) = names.iter().position(|name| *name == field) {
        return Ok(place);
    }
    let quoted = pintle_value::field::quote(field);
    Err(ApiError::BadRequest(if names.is_empty() && resource.typed {
        format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    }))
}
