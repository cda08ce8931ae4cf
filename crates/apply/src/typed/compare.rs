//! What changed from one value to another, as three sets of fields.

use pintle_value::{Object, Value};

use super::errors::{Collected, TypeErrors};
use super::shape::{Entries, Items, Place, Shape};
use crate::path::{PathElement, same_value};
use crate::set::{FieldSet, Filter};

/// What changed from one value to another. No path is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What only the new value has.
    pub added: FieldSet,
    /// What both have and is different.
    pub modified: FieldSet,
    /// What only the old value has.
    pub removed: FieldSet,
}

impl Comparison {
    /// True if nothing changed.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Leaves out the changes that do not count.
    #[must_use]
    pub fn filtered(self, filter: Option<&Filter>) -> Self {
        match filter {
            None => self,
            Some(filter) => Self {
                added: filter.apply(self.added),
                modified: filter.apply(self.modified),
                removed: filter.apply(self.removed),
            },
        }
    }
}

pub(super) fn compare(place: Place<'_>, old: &Value, new: &Value) -> Result<Comparison, TypeErrors> {
    let mut walker = Walker { path: Vec::new(), found: Comparison::default(), errors: Collected::default() };
    walker.walk(place, Some(old), Some(new));
    walker.errors.unless(walker.found)
}

struct Walker {
    path: Vec<PathElement>,
    found: Comparison,
    errors: Collected,
}

/// Whether a walk ended at the value itself, which then is recorded already.
type IsLeaf = bool;

impl Walker {
    /// Compares what is at the path. At least one side has a value. Most of what is below did not change, and equal values
    /// differ in nothing: those are not walked.
    fn walk(&mut self, place: Place<'_>, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match (old, new) {
            (Some(_), Some(_)) => {
                let (was, is) = (place.shape(old), place.shape(new));
                if !was.is_like(&is) {
                    self.walk_shape(was, old, new);
                }
                self.walk_shape(is, old, new)
            }
            _ => self.walk_shape(place.shape(old.or(new)), old, new),
        };
        if !leaf && old.is_none() {
            self.found.added.insert(&self.path);
        } else if !leaf && new.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    fn walk_shape(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> IsLeaf {
        match shape {
            Shape::Scalar(leaf) => {
                if let (Err(l), Err(r)) = (leaf.check(old), leaf.check(new)) {
                    self.errors.add(format!("lhs: {l}"));
                    self.errors.add(format!("rhs: {r}"));
                    return false;
                }
                self.leaf(old, new)
            }
            Shape::List(items) => {
                let array =
                    |value: Option<&'_ Value>| value.and_then(Value::as_array).filter(|a| !a.is_empty()).is_some();
                if items.is_atomic() || !(array(old) || array(new)) {
                    return self.leaf(old, new);
                }
                self.walk_items(&items, old, new);
                false
            }
            Shape::Map(entries) => {
                let object = |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(|o| !o.is_empty());
                if entries.atomic || !(object(old) || object(new)) {
                    return self.leaf(old, new);
                }
                self.walk_entries(&entries, old, new);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> IsLeaf {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if same_value(old, new) => {}
            (Some(_), Some(_)) => self.found.modified.insert(&self.path),
        }
        true
    }

    fn walk_entries(&mut self, entries: &Entries<'_>, old: Option<&Value>, new: Option<&Value>) {
        let empty = Object::new();
        let old = old.and_then(Value::as_object).unwrap_or(&empty);
        let new = new.and_then(Value::as_object).unwrap_or(&empty);
        for (key, value) in old.iter() {
            self.walk_entry(entries, key, Some(value), new.get(key));
        }
        for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(key)) {
            self.walk_entry(entries, key, None, Some(value));
        }
    }

    fn walk_entry(&mut self, entries: &Entries<'_>, key: &str, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        let element = PathElement::field(key);
        match entries.entry(key) {
            Some(place) => self.below(element, |walker| walker.walk(place, old, new)),
            None => self.below(element, |walker| walker.errors.add("schema error: invalid atom: inlined")),
        }
    }

    /// Goes one step down.
    fn below(&mut self, element: PathElement, walk: impl FnOnce(&mut Self)) {
        let above = std::mem::take(&mut self.errors);
        self.path.push(element);
        walk(self);
        let below = std::mem::replace(&mut self.errors, above);
        if let Some(element) = self.path.pop() {
            self.errors.add_below(&element, below);
        }
    }

    fn walk_items(&mut self, items: &Items<'_>, old: Option<&Value>, new: Option<&Value>) {
        let old = self.grouped(items, old);
        let new = self.grouped(items, new);
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some((l, _)), Some((r, _))) => l.cmp(r),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return,
            };
            let from = if order.is_le() { old.next() } else { None };
            let to = if order.is_ge() { new.next() } else { None };
            match (from, to) {
                (Some((element, from)), Some((_, to))) => self.walk_group(items.item, element, &from, &to),
                (Some((element, from)), None) => self.walk_group(items.item, element, &from, &[]),
                (None, Some((element, to))) => self.walk_group(items.item, element, &[], &to),
                (None, None) => return,
            }
        }
    }

    /// The items of a list by element, sorted. Items that share an element are together, in the order of the list.
    fn grouped<'v>(&mut self, items: &Items<'_>, list: Option<&'v Value>) -> Vec<(PathElement, Vec<&'v Value>)> {
        let values = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut groups: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            match items.element(value) {
                Ok(element) => match groups.binary_search_by(|(other, _)| other.cmp(&element)) {
                    Ok(at) => groups[at].1.push(value),
                    Err(at) => groups.insert(at, (element, vec![value])),
                },
                Err(problem) => self.errors.add(format!("element {i}: {problem}")),
            }
        }
        groups
    }

    /// Compares the items that share an element. Duplicates are one thing that is there or not, and is the same or not.
    fn walk_group(&mut self, place: Place<'_>, element: PathElement, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                let (old, new) = (old.first().copied(), new.first().copied());
                if old != new {
                    self.below(element, |walker| walker.walk(place, old, new));
                }
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same_value(old, new));
                if !same {
                    self.below(element, |walker| walker.found.modified.insert(&walker.path));
                }
            }
            ([_, _, ..], _) => self.below(element, |walker| {
                if let Some(new) = new.first() {
                    walker.walk(place, None, Some(new));
                }
                walker.found.removed.insert(&walker.path);
            }),
            (_, [_, _, ..]) => self.below(element, |walker| {
                if let Some(old) = old.first() {
                    walker.walk(place, Some(old), None);
                }
                walker.found.added.insert(&walker.path);
            }),
        }
    }
}
