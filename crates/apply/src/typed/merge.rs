//! Putting a configuration over a live value.

use std::collections::BTreeSet;

use pintle_value::{Object, Str, Value};

use super::errors::{Collected, TypeErrors};
use super::shape::{Entries, Items, Place, Shape};
use crate::path::PathElement;

/// The merged value; `None` where neither side has one.
pub(super) fn merge(
    place: Place<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Result<Option<Value>, TypeErrors> {
    let mut errors = Collected::default();
    let merged = walk(place, live, config, &mut errors);
    errors.unless(merged)
}

fn walk(place: Place<'_>, live: Option<&Value>, config: Option<&Value>, errors: &mut Collected) -> Option<Value> {
    let Some(config) = config else { return live.cloned() };
    let shape = place.shape(Some(config));
    // A value of another shape than the live one replaces it, and so does what has no other side.
    let live = live.filter(|live| place.shape(Some(*live)).is_like(&shape));
    match shape {
        Shape::Scalar(leaf) => {
            if let (Err(l), Err(r)) = (leaf.check(live), leaf.check(Some(config))) {
                errors.add(format!("lhs: {l}"));
                errors.add(format!("rhs: {r}"));
            }
            Some(config.clone())
        }
        Shape::List(items) if items.is_atomic() => Some(config.clone()),
        Shape::List(items) => merge_lists(&items, live, config, errors),
        Shape::Map(entries) if entries.atomic => Some(config.clone()),
        Shape::Map(entries) => merge_maps(&entries, live, config, errors),
    }
}

fn merge_maps(entries: &Entries<'_>, live: Option<&Value>, config: &Value, errors: &mut Collected) -> Option<Value> {
    let empty = Object::new();
    let live = live.and_then(Value::as_object).unwrap_or(&empty);
    let Some(config_object) = config.as_object().filter(|o| !o.is_empty()) else {
        // Null and empty differ, but neither takes anything away.
        return Some(if live.is_empty() { config.clone() } else { Value::Object(live.clone()) });
    };
    let mut merged = Vec::with_capacity(live.len().max(config_object.len()));
    let mut rest = live.iter().peekable();
    for (key, value) in config_object.iter() {
        while let Some((key, value)) = rest.next_if(|(live_key, _)| *live_key < key) {
            merged.push((Str::from(key), value.clone()));
        }
        let live_value = rest.next_if(|(live_key, _)| *live_key == key).map(|(_, value)| value);
        let mut below = Collected::default();
        let out = match entries.entry(key) {
            Some(place) => walk(place, live_value, Some(value), &mut below),
            None => {
                below.add("schema error: invalid atom: inlined");
                None
            }
        };
        if !below.is_empty() {
            errors.add_below(&PathElement::field(key), below);
        }
        merged.extend(out.map(|out| (Str::from(key), out)));
    }
    merged.extend(rest.map(|(key, value)| (Str::from(key), value.clone())));
    Some(Value::Object(Object::from_entries(merged)))
}

/// The items of one side, by element.
struct Side<'v> {
    /// The elements in the order of the list.
    order: Vec<PathElement>,
    values: Vec<&'v Value>,
    /// The places in `order`, sorted by element. Of duplicates only the first is here, marked.
    index: Vec<(usize, bool)>,
}

impl<'v> Side<'v> {
    fn new(items: &Items<'_>, values: &'v [Value], duplicates: bool, errors: &mut Collected) -> Self {
        let mut side = Self { order: Vec::with_capacity(values.len()), values: Vec::new(), index: Vec::new() };
        for (i, value) in values.iter().enumerate() {
            let element = match items.element(value) {
                Ok(element) => element,
                Err(problem) => {
                    errors.add(format!("element {i}: {problem}"));
                    continue;
                }
            };
            match side.search(&element) {
                Ok(_) if !duplicates => {
                    errors.add(format!("duplicate entries for key {element}"));
                    continue;
                }
                Ok(at) => side.index[at].1 = true,
                Err(at) => side.index.insert(at, (side.order.len(), false)),
            }
            side.order.push(element);
            side.values.push(value);
        }
        side
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.index.binary_search_by(|(i, _)| self.order[*i].cmp(element))
    }

    fn has(&self, element: &PathElement) -> bool {
        self.search(element).is_ok()
    }

    /// The one item with this element. Duplicates are not merged with; null stands for them.
    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        const NULL: &Value = &Value::Null;
        let (i, duplicated) = self.index[self.search(element).ok()?];
        Some(if duplicated { NULL } else { self.values[i] })
    }
}

fn merge_lists(items: &Items<'_>, live: Option<&Value>, config: &Value, errors: &mut Collected) -> Option<Value> {
    let (left, right) = (items_of(live), items_of(Some(config)));
    if right.is_empty() {
        return live.filter(|_| !left.is_empty()).or(Some(config)).cloned();
    }
    let mut problems = Collected::default();
    let right = Side::new(items, right, false, &mut problems);
    let left = Side::new(items, left, true, &mut problems);
    if !problems.is_empty() {
        errors.extend(problems);
        return None;
    }
    Some(Value::Array(interleave(items, &left, &right, errors)))
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Walks both lists so that live items stay where they are among those that both have, which come in the order of the
/// configuration.
fn interleave(items: &Items<'_>, left: &Side<'_>, right: &Side<'_>, errors: &mut Collected) -> Vec<Value> {
    let mut merged = Vec::with_capacity(left.order.len().max(right.order.len()));
    let mut shared = right.order.iter().filter(|element| left.has(element)).peekable();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut push = |element: &PathElement, live: Option<&Value>, config: Option<&Value>| {
        let mut below = Collected::default();
        merged.extend(walk(items.item, live, config, &mut below));
        if !below.is_empty() {
            errors.add_below(element, below);
        }
    };
    let (mut l, mut r) = (0, 0);
    while l < left.order.len() || r < right.order.len() {
        if let (Some(here), Some(wanted)) = (left.order.get(l), right.order.get(r)) {
            if here == wanted {
                done.insert(here);
                push(here, left.get(here), right.get(here));
                (l, r) = (l + 1, r + 1);
                shared.next();
                continue;
            }
            // An item of both, but its turn has not come or is over.
            if right.has(here) && shared.peek().is_some_and(|next| *next != here) {
                l += 1;
                continue;
            }
        }
        if let Some(here) = left.order.get(l) {
            if !right.has(here) {
                push(here, Some(left.values[l]), None);
                l += 1;
                continue;
            }
            if done.contains(here) {
                l += 1;
            }
        }
        if let Some(here) = right.order.get(r) {
            done.insert(here);
            push(here, left.get(here), right.get(here));
            r += 1;
            shared.next_if(|next| *next == here);
        }
    }
    merged
}
