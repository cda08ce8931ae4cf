//! Putting a configuration over a live value. Most of it is there already, so what is as it was is told apart from what
//! was made anew, and nothing is copied unless something around it changes.

use std::collections::BTreeSet;

use pintle_value::{Object, Str, Value};

use super::errors::{Collected, TypeErrors};
use super::shape::{Entries, Items, Place, Shape};
use crate::path::PathElement;

/// What comes of a live value.
#[derive(Debug, PartialEq)]
pub(super) enum Merged {
    /// It is as it was, or there is none still.
    AsItWas,
    /// Another value.
    New(Value),
}

impl Merged {
    /// The value, be it new or the live one.
    pub(super) fn or(self, live: Option<&Value>) -> Option<Value> {
        match self {
            Self::AsItWas => live.cloned(),
            Self::New(value) => Some(value),
        }
    }
}

/// What a configuration makes of a live value.
pub(super) fn merge(place: Place<'_>, live: &Value, config: &Value) -> Result<Merged, TypeErrors> {
    let mut errors = Collected::default();
    let merged = walk(place, Some(live), Some(config), &mut errors);
    errors.unless(merged)
}

fn walk(place: Place<'_>, live: Option<&Value>, config: Option<&Value>, errors: &mut Collected) -> Merged {
    let Some(config) = config else { return Merged::AsItWas };
    // A configuration fits its type, so that what is equal needs no closer look.
    if live == Some(config) {
        return Merged::AsItWas;
    }
    let shape = place.shape(Some(config));
    // A value of another shape than the live one replaces it, and so does what has no other side.
    let live = live.filter(|live| place.shape(Some(*live)).is_like(&shape));
    match shape {
        Shape::Scalar(leaf) => {
            if let (Err(l), Err(r)) = (leaf.check(live), leaf.check(Some(config))) {
                errors.add(format!("lhs: {l}"));
                errors.add(format!("rhs: {r}"));
            }
            Merged::New(config.clone())
        }
        Shape::List(items) if items.is_atomic() => Merged::New(config.clone()),
        Shape::List(items) => merge_lists(&items, live, config, errors),
        Shape::Map(entries) if entries.atomic => Merged::New(config.clone()),
        Shape::Map(entries) => merge_maps(&entries, live, config, errors),
    }
}

fn merge_maps(entries: &Entries<'_>, live: Option<&Value>, config: &Value, errors: &mut Collected) -> Merged {
    let empty = Object::new();
    let live_object = live.and_then(Value::as_object).unwrap_or(&empty);
    let Some(config_object) = config.as_object().filter(|o| !o.is_empty()) else {
        // Null and empty differ, but neither takes anything away.
        return if live_object.is_empty() { Merged::New(config.clone()) } else { Merged::AsItWas };
    };
    let mut changes: Vec<(&str, Value)> = Vec::new();
    for (key, value) in config_object.iter() {
        let mut below = Collected::default();
        let merged = match entries.entry(key) {
            Some(place) => walk(place, live_object.get(key), Some(value), &mut below),
            None => {
                below.add("schema error: invalid atom: inlined");
                Merged::AsItWas
            }
        };
        if !below.is_empty() {
            errors.add_below(&PathElement::field(key), below);
        }
        if let Merged::New(value) = merged {
            changes.push((key, value));
        }
    }
    if changes.is_empty() {
        return if live.is_some() { Merged::AsItWas } else { Merged::New(Value::Object(empty)) };
    }
    Merged::New(Value::Object(changed(live_object, changes)))
}

/// An object with these entries, sorted by key, changed or added.
fn changed(object: &Object, changes: Vec<(&str, Value)>) -> Object {
    let mut entries = Vec::with_capacity(object.len() + changes.len());
    let mut rest = object.iter().peekable();
    let copied = |(key, value): (&str, &Value)| (Str::from(key), value.clone());
    for (key, value) in changes {
        while let Some(before) = rest.next_if(|(other, _)| *other < key) {
            entries.push(copied(before));
        }
        rest.next_if(|(other, _)| *other == key);
        entries.push((Str::from(key), value));
    }
    entries.extend(rest.map(copied));
    Object::from_entries(entries)
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

fn merge_lists(items: &Items<'_>, live: Option<&Value>, config: &Value, errors: &mut Collected) -> Merged {
    let (left, right) = (items_of(live), items_of(Some(config)));
    if right.is_empty() {
        return if left.is_empty() { Merged::New(config.clone()) } else { Merged::AsItWas };
    }
    let mut problems = Collected::default();
    let right = Side::new(items, right, false, &mut problems);
    let left = Side::new(items, left, true, &mut problems);
    if !problems.is_empty() {
        errors.extend(problems);
        return Merged::AsItWas;
    }
    let merged = interleave(items, &left, &right, errors);
    let is_same = merged.len() == left.values.len()
        && merged.iter().zip(&left.values).all(|((live, merged), here)| {
            *merged == Merged::AsItWas && live.is_some_and(|live| std::ptr::eq(live, *here))
        });
    if is_same && live.is_some() {
        return Merged::AsItWas;
    }
    Merged::New(Value::Array(merged.into_iter().filter_map(|(live, merged)| merged.or(live)).collect()))
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Walks both lists so that live items stay where they are among those that both have, which come in the order of the
/// configuration. Gives the live items with what comes of them.
fn interleave<'v>(
    items: &Items<'_>,
    left: &Side<'v>,
    right: &Side<'v>,
    errors: &mut Collected,
) -> Vec<(Option<&'v Value>, Merged)> {
    let mut merged = Vec::with_capacity(left.order.len().max(right.order.len()));
    let mut shared = right.order.iter().filter(|element| left.has(element)).peekable();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut push = |element: &PathElement, live: Option<&'v Value>, config: Option<&Value>| {
        let mut below = Collected::default();
        merged.push((live, walk(items.item, live, config, &mut below)));
        if !below.is_empty() {
            errors.add_below(element, below);
        }
    };
    if left.order == right.order {
        let both = left.values.iter().zip(&right.values);
        left.order.iter().zip(both).for_each(|(here, (live, config))| push(here, Some(live), Some(config)));
        return merged;
    }
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
