//! Paths of the table `fields.txt`, whose head describes them.

use pintle_value::Value;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The fields of this step. Any of them is meant.
    fields: Vec<&'static str>,
    /// True for each item of a list.
    items: bool,
    /// True for each value of a map.
    values: bool,
    /// True if the field is removed with its last field.
    drops_empty: bool,
    /// The value that does not count.
    except: Option<&'static str>,
    /// The field that must be set.
    with: Option<&'static str>,
}

impl Step {
    fn parse(text: &'static str) -> Option<Self> {
        let (text, except) = text.split_once("!=").map_or((text, None), |(text, value)| (text, Some(value)));
        let (text, with) = match text.split_once('(') {
            Some((text, rest)) => (text, Some(rest.strip_suffix(')')?)),
            None => (text, None),
        };
        let (text, drops_empty) = text.strip_suffix('?').map_or((text, false), |text| (text, true));
        let (text, items) = text.strip_suffix("[]").map_or((text, false), |text| (text, true));
        let (text, values) = text.strip_suffix("{}").map_or((text, false), |text| (text, true));
        let fields: Vec<_> = text.split('|').collect();
        let is_name = |field: &&str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_alphanumeric());
        fields.iter().all(is_name).then_some(Self { fields, items, values, drops_empty, except, with })
    }

    /// True if a value counts as a use of the last field.
    fn counts(&self, value: &Value) -> bool {
        // An empty list or map is none in Go; zero behind a pointer is a value.
        let is_set = match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) | Value::Object(_) => true,
        };
        is_set
            && self.except.is_none_or(|except| value.as_str() != Some(except))
            && self.with.is_none_or(|field| value.get(field).is_some_and(|value| !value.is_empty()))
    }
}

/// A path to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

impl Path {
    /// Parses a path; `None` if it is malformed.
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        text.split('.').map(Step::parse).collect::<Option<_>>().map(Self)
    }

    /// True if an object has a value at this path.
    pub(super) fn is_used(&self, object: &Value) -> bool {
        is_used(&self.0, object)
    }

    /// An object that has values at all fields of this path.
    #[cfg(test)]
    pub(super) fn example(&self) -> Value {
        self.0.iter().rev().fold(Value::Null, |inner, step| {
            let mut value = if inner.is_null() { Value::from("x") } else { inner };
            if let Some(field) = step.with {
                value = Value::object();
                value.set(field, "x");
            }
            let value = if step.items { Value::Array(vec![value]) } else { value };
            let value = if step.values {
                pintle_value::object! { "key": value }
            } else {
                value
            };
            let mut object = Value::object();
            step.fields.iter().for_each(|field| object.set(field, value.clone()));
            object
        })
    }

    /// Removes the fields at this path.
    pub(super) fn remove(&self, object: &mut Value) {
        remove(&self.0, object);
    }
}

fn is_used(steps: &[Step], object: &Value) -> bool {
    let Some((step, rest)) = steps.split_first() else { return false };
    step.fields.iter().filter_map(|field| object.get(field)).any(|value| match value {
        Value::Array(items) if step.items => items.iter().any(|item| is_used(rest, item)),
        Value::Object(map) if step.values => map.values().any(|value| is_used(rest, value)),
        _ if step.items || step.values => false,
        value if rest.is_empty() => step.counts(value),
        value => is_used(rest, value),
    })
}

fn remove(steps: &[Step], object: &mut Value) {
    let Some((step, rest)) = steps.split_first() else { return };
    for field in &step.fields {
        let Some(value) = object.get(field) else { continue };
        if rest.is_empty() {
            if step.except.is_none() && step.with.is_none() || step.counts(value) {
                object.remove(field);
            }
            continue;
        }
        let was_empty = value.is_empty();
        // Objects without the fields are not touched, so that they stay shared.
        object.change_at(&[field], &mut |value| match value {
            Value::Array(items) if step.items => items.iter_mut().for_each(|item| remove(rest, item)),
            Value::Object(map) if step.values => map.iter_mut().for_each(|(_, value)| remove(rest, value)),
            _ if step.items || step.values => {}
            value => remove(rest, value),
        });
        if step.drops_empty && !was_empty && object.get(field).is_some_and(Value::is_empty) {
            object.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn check(path: &'static str, given: &str, used: bool, rest: &str) {
        let path = Path::parse(path).expect("a path");
        let mut value = object(given);
        assert_eq!(path.is_used(&value), used, "{given}");
        path.remove(&mut value);
        assert_eq!(value, object(rest), "{given}");
    }

    #[test]
    fn paths_find_and_remove_fields() {
        check("a", r#"{"a":0,"b":1}"#, true, r#"{"b":1}"#);
        check("a", r#"{"a":[]}"#, false, "{}");
        check("a", r#"{"a":{}}"#, true, "{}");
        check("a.b", r#"{"a":{"b":1}}"#, true, r#"{"a":{}}"#);
        check("a?.b", r#"{"a":{"b":1}}"#, true, "{}");
        check("a?.b", r#"{"a":{"b":1,"c":1}}"#, true, r#"{"a":{"c":1}}"#);
        check("a?.b", r#"{"a":{}}"#, false, r#"{"a":{}}"#);
        check("a|b[].c", r#"{"a":[{"d":1}],"b":[{},{"c":1}]}"#, true, r#"{"a":[{"d":1}],"b":[{},{}]}"#);
        check("a[].b", r#"{"a":{"b":1}}"#, false, r#"{"a":{"b":1}}"#);
        check("a{}.b", r#"{"a":{"k":{"b":1,"c":1},"b":{}}}"#, true, r#"{"a":{"k":{"c":1},"b":{}}}"#);
        check("a{}.b", r#"{"a":[{"b":1}]}"#, false, r#"{"a":[{"b":1}]}"#);
        check("a[].b!=X", r#"{"a":[{"b":"X"}]}"#, false, r#"{"a":[{"b":"X"}]}"#);
        check("a[].b!=X", r#"{"a":[{"b":"X"},{"b":"Y"}]}"#, true, r#"{"a":[{"b":"X"},{}]}"#);
        check("a(b)", r#"{"a":{"b":"","c":1}}"#, false, r#"{"a":{"b":"","c":1}}"#);
        check("a(b)", r#"{"a":{"b":"x","c":1}}"#, true, "{}");
        check("a.b", r#""text""#, false, r#""text""#);
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for text in ["", "a..b", "a[", "a(b", "a|", "a b"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }
}
