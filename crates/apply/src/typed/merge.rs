//! Merging a configuration into a live value. Unchanged subtrees are never copied, because a configuration mostly
//! repeats the live value (upstream: structured-merge-diff's `typed/merge.go`).

use std::collections::BTreeSet;

use pintle_value::{Object, Str, Value};

use super::atom::{Atom, ListSchema, MapSchema, TypeRef};
use super::errors::{ErrorCollector, ValidationErrors};
use super::is_compared;
use pintle_fieldpath::path::PathElement;

/// The outcome of merging into a live value.
#[derive(Debug, PartialEq)]
pub(super) enum MergeOutcome {
    /// The live value stays, or is still absent.
    Unchanged,
    /// The value is replaced.
    Changed(Value),
}

impl MergeOutcome {
    /// Returns the new value, or else the live one.
    pub(super) fn or_live(self, live: Option<&Value>) -> Option<Value> {
        match self {
            Self::Unchanged => live.cloned(),
            Self::Changed(value) => Some(value),
        }
    }
}

/// Merges a configuration into a live value.
pub(super) fn merge(type_ref: TypeRef<'_>, live: &Value, config: &Value) -> Result<MergeOutcome, ValidationErrors> {
    let mut errors = ErrorCollector::default();
    let merged = walk(type_ref, Some(live), Some(config), 0, &mut errors);
    errors.into_result(merged)
}

fn walk(
    type_ref: TypeRef<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    depth: usize,
    errors: &mut ErrorCollector,
) -> MergeOutcome {
    let Some(config) = config else { return MergeOutcome::Unchanged };
    let atom = type_ref.atom(Some(config));
    let is_leaf = match &atom {
        Atom::Scalar(_) => true,
        Atom::List(items) => items.is_atomic(),
        Atom::Map(entries) => entries.atomic,
    };
    // A configuration is valid, so an equal live value needs no check.
    if (is_leaf || is_compared(depth)) && live == Some(config) {
        return MergeOutcome::Unchanged;
    }
    // A configuration of another kind of type than the live value replaces it.
    let live = live.filter(|live| type_ref.atom(Some(*live)).is_same_kind(&atom));
    match atom {
        Atom::Scalar(leaf) => {
            if let (Err(l), Err(r)) = (leaf.check(live), leaf.check(Some(config))) {
                errors.add(format!("lhs: {l}"));
                errors.add(format!("rhs: {r}"));
            }
            MergeOutcome::Changed(config.clone())
        }
        Atom::List(items) if items.is_atomic() => MergeOutcome::Changed(config.clone()),
        Atom::List(items) => merge_lists(&items, live, config, depth, errors),
        Atom::Map(entries) if entries.atomic => MergeOutcome::Changed(config.clone()),
        Atom::Map(entries) => merge_maps(&entries, live, config, depth, errors),
    }
}

fn merge_maps(
    entries: &MapSchema<'_>,
    live: Option<&Value>,
    config: &Value,
    depth: usize,
    errors: &mut ErrorCollector,
) -> MergeOutcome {
    let empty = Object::new();
    let live_object = live.and_then(Value::as_object).unwrap_or(&empty);
    let Some(config_object) = config.as_object().filter(|o| !o.is_empty()) else {
        // Null and empty differ, but neither removes anything.
        return if live_object.is_empty() { MergeOutcome::Changed(config.clone()) } else { MergeOutcome::Unchanged };
    };
    let mut changes: Vec<(&str, Value)> = Vec::new();
    for (key, value) in config_object.iter() {
        let mut below = ErrorCollector::default();
        let merged = match entries.entry(key) {
            Some(type_ref) => walk(type_ref, live_object.get(key), Some(value), depth + 1, &mut below),
            None => {
                below.add("schema error: invalid atom: inlined");
                MergeOutcome::Unchanged
            }
        };
        if !below.is_empty() {
            errors.add_prefixed(&PathElement::field(key), below);
        }
        if let MergeOutcome::Changed(value) = merged {
            changes.push((key, value));
        }
    }
    if changes.is_empty() {
        return if live.is_some() { MergeOutcome::Unchanged } else { MergeOutcome::Changed(Value::Object(empty)) };
    }
    MergeOutcome::Changed(Value::Object(with_changes(live_object, changes)))
}

/// Returns the object with these changed or added entries, which are sorted by key.
fn with_changes(object: &Object, changes: Vec<(&str, Value)>) -> Object {
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

/// The items of one list, indexed by path element.
struct IndexedList<'v> {
    /// The elements in list order.
    order: Vec<PathElement>,
    values: Vec<&'v Value>,
    /// Indexes into `order`, sorted by element. Only the first of a group of duplicates is listed, with the flag set.
    index: Vec<(usize, bool)>,
}

impl<'v> IndexedList<'v> {
    fn new(items: &ListSchema<'_>, values: &'v [Value], duplicates: bool, errors: &mut ErrorCollector) -> Self {
        let mut side = Self { order: Vec::with_capacity(values.len()), values: Vec::new(), index: Vec::new() };
        let (mut positions, mut problems) = (Vec::with_capacity(values.len()), Vec::new());
        for (i, value) in values.iter().enumerate() {
            match items.element(value) {
                Ok(element) => {
                    side.order.push(element);
                    side.values.push(value);
                    positions.push(i);
                }
                Err(problem) => problems.push((i, format!("element {i}: {problem}"))),
            }
        }
        let mut sorted: Vec<usize> = (0..side.order.len()).collect();
        // The sort is stable, so the first of duplicates stays the first.
        sorted.sort_by(|a, b| side.order[*a].cmp(&side.order[*b]));
        let groups = sorted.chunk_by(|a, b| side.order[*a] == side.order[*b]);
        side.index = groups.map(|group| (group[0], group.len() > 1)).collect();
        if !duplicates && side.index.len() < side.order.len() {
            let first: BTreeSet<usize> = side.index.iter().map(|(i, _)| *i).collect();
            let repeated = side.order.iter().enumerate().filter(|(i, _)| !first.contains(i));
            problems
                .extend(repeated.map(|(i, element)| (positions[i], format!("duplicate entries for key {element}"))));
            problems.sort_by_key(|(position, _)| *position);
        }
        problems.into_iter().for_each(|(_, problem)| errors.add(problem));
        side
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.index.binary_search_by(|(i, _)| self.order[*i].cmp(element))
    }

    fn has(&self, element: &PathElement) -> bool {
        self.search(element).is_ok()
    }

    /// Returns the item with this element. Null stands for duplicates, which are not merged.
    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        const NULL: &Value = &Value::Null;
        let (i, duplicated) = self.index[self.search(element).ok()?];
        Some(if duplicated { NULL } else { self.values[i] })
    }
}

fn merge_lists(
    items: &ListSchema<'_>,
    live: Option<&Value>,
    config: &Value,
    depth: usize,
    errors: &mut ErrorCollector,
) -> MergeOutcome {
    let (left, right) = (items_of(live), items_of(Some(config)));
    if right.is_empty() {
        return if left.is_empty() { MergeOutcome::Changed(config.clone()) } else { MergeOutcome::Unchanged };
    }
    let mut problems = ErrorCollector::default();
    let right = IndexedList::new(items, right, false, &mut problems);
    let left = IndexedList::new(items, left, true, &mut problems);
    if !problems.is_empty() {
        errors.extend(problems);
        return MergeOutcome::Unchanged;
    }
    let merged = interleave(items, &left, &right, depth, errors);
    let is_same = merged.len() == left.values.len()
        && merged.iter().zip(&left.values).all(|((live, merged), here)| {
            *merged == MergeOutcome::Unchanged && live.is_some_and(|live| std::ptr::eq(live, *here))
        });
    if is_same && live.is_some() {
        return MergeOutcome::Unchanged;
    }
    MergeOutcome::Changed(Value::Array(merged.into_iter().filter_map(|(live, merged)| merged.or_live(live)).collect()))
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Merges the order of two lists: live items stay in place relative to the shared items, and shared items take the
/// order of the configuration. Returns each live item with its outcome.
fn interleave<'v>(
    items: &ListSchema<'_>,
    left: &IndexedList<'v>,
    right: &IndexedList<'v>,
    depth: usize,
    errors: &mut ErrorCollector,
) -> Vec<(Option<&'v Value>, MergeOutcome)> {
    let mut merged = Vec::with_capacity(left.order.len().max(right.order.len()));
    let mut shared = right.order.iter().filter(|element| left.has(element)).peekable();
    let mut done: BTreeSet<&PathElement> = BTreeSet::new();
    let mut push = |element: &PathElement, live: Option<&'v Value>, config: Option<&Value>| {
        let mut below = ErrorCollector::default();
        merged.push((live, walk(items.item, live, config, depth + 1, &mut below)));
        if !below.is_empty() {
            errors.add_prefixed(element, below);
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
            // A shared item whose position in the configuration is later or already passed.
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
