//! The annotations in which `autoscaling/v1` stores values that it has no fields for, and how to read them (upstream:
//! `pkg/apis/autoscaling/annotations.go`). Malformed annotations are ignored.

use pintle_value::{Quantity, Value};

/// Metrics other than CPU utilization.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// The status of metrics.
pub(super) const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The conditions of the status.
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// `spec.behavior`, in the form of the internal version.
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

const ALL: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Removes all of these annotations.
pub(super) fn drop_all(object: &mut Value) {
    let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !ALL.contains(&key));
    if annotations.is_empty() {
        object.remove_at(&["metadata", "annotations"]);
    }
}

/// Returns the JSON in an annotation.
pub(super) fn read(object: &Value, name: &str) -> Option<Value> {
    serde_json::from_str(object.annotation(name)?).ok()
}

/// Returns the items of a list in an annotation, each converted with `change`.
pub(super) fn read_list(object: &Value, name: &str, change: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    match read(object, name)? {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(change).collect(),
        _ => None,
    }
}

/// Reads the fields of a struct one by one. A field of the wrong type makes the whole struct invalid; null counts as
/// absent.
pub(super) struct FieldReader<'a>(&'a Value);

impl<'a> FieldReader<'a> {
    /// Creates a reader for an object. Null counts as an object without fields.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        matches!(value, Value::Object(_) | Value::Null).then_some(FieldReader(value))
    }

    /// Returns a reader for the object in a field, or `Some(None)` if the field is absent.
    pub(super) fn part(&self, field: &str) -> Option<Option<FieldReader<'a>>> {
        match self.present(field) {
            None => Some(None),
            Some(value) => FieldReader::of(value).map(Some),
        }
    }

    /// Returns a string, or the empty string if it is absent.
    pub(super) fn text(&self, field: &str) -> Option<Value> {
        match self.present(field) {
            None => Some(Value::from("")),
            Some(Value::String(text)) => Some(Value::from(text)),
            Some(_) => None,
        }
    }

    /// Returns a 32-bit integer, or null if it is absent.
    pub(super) fn int(&self, field: &str) -> Option<Value> {
        match self.present(field) {
            None => Some(Value::Null),
            Some(Value::Int(number)) if i32::try_from(*number).is_ok() => Some(Value::Int(*number)),
            Some(_) => None,
        }
    }

    /// Returns a 64-bit integer, or null if it is absent.
    pub(super) fn long(&self, field: &str) -> Option<Value> {
        match self.present(field) {
            None => Some(Value::Null),
            Some(Value::Int(number)) => Some(Value::Int(*number)),
            Some(_) => None,
        }
    }

    /// Returns a quantity in canonical form, or null if it is absent.
    pub(super) fn quantity(&self, field: &str) -> Option<Value> {
        match self.present(field) {
            None => Some(Value::Null),
            Some(value) => Quantity::from_value(value).ok().map(|q| Value::from(q.canonical())),
        }
    }

    /// Returns a quantity in canonical form, or zero if it is absent.
    pub(super) fn quantity_or_zero(&self, field: &str) -> Option<Value> {
        self.quantity(field).map(|value| if value.is_null() { Value::from("0") } else { value })
    }

    /// Returns a label selector, or null if it is absent.
    pub(super) fn label_selector(&self, field: &str) -> Option<Value> {
        let Some(selector) = self.present(field) else { return Some(Value::Null) };
        let selector = FieldReader::of(selector)?;
        let labels = match selector.present("matchLabels") {
            None => Value::Null,
            Some(labels) => {
                let labels = labels.as_object()?.iter().map(|(key, value)| Some((key, text_of(value)?)));
                Value::Object(labels.collect::<Option<_>>()?)
            }
        };
        let requirements = match selector.present("matchExpressions") {
            None => Value::Null,
            Some(list) => list.as_array()?.iter().map(label_requirement).collect::<Option<Vec<_>>>()?.into(),
        };
        Some(present([("matchLabels", labels), ("matchExpressions", requirements)]))
    }

    /// The value of a field that is neither absent nor null.
    fn present(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }
}

fn label_requirement(value: &Value) -> Option<Value> {
    let requirement = FieldReader::of(value)?;
    let values = match requirement.present("values") {
        None => Value::Null,
        Some(values) => values.as_array()?.iter().map(text_of).collect::<Option<Vec<_>>>()?.into(),
    };
    Some(present([("key", requirement.text("key")?), ("operator", requirement.text("operator")?), ("values", values)]))
}

/// A string, which is empty for null.
fn text_of(value: &Value) -> Option<Value> {
    match value {
        Value::Null => Some(Value::from("")),
        Value::String(text) => Some(Value::from(text)),
        _ => None,
    }
}

/// Returns an object with the entries that are not null.
pub(super) fn present<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().filter(|(_, value)| !value.is_null()).collect())
}
