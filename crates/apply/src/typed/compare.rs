//! Comparison of two values, as three field sets (upstream: structured-merge-diff's `typed/compare.go`).

use pintle_value::{Object, Value};

use super::atom::{Atom, ListSchema, MapSchema, TypeRef};
use super::errors::{ErrorCollector, ValidationErrors};
use super::is_compared;
use super::validate::{Duplicates, validate};
use pintle_fieldpath::path::{PathElement, values_equal};
use pintle_fieldpath::set::{FieldSet, Filter, Node};

/// The differences between two values. The three sets are disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new value has.
    pub added: FieldSet,
    /// Fields that both values have with different content.
    pub modified: FieldSet,
    /// Fields that only the old value has.
    pub removed: FieldSet,
}

impl Comparison {
    /// True if nothing changed.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Drops the changes that do not pass the filter.
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

pub(super) fn compare(
    type_ref: TypeRef<'_>,
    old: &Value,
    new: &Value,
    ignored: &FieldSet,
) -> Result<Comparison, ValidationErrors> {
    let mut walker =
        CompareWalker { found: Differences::default(), errors: ErrorCollector::default(), ignored, depth: 0 };
    walker.walk(type_ref, Some(old), Some(new));
    let Differences { added, modified, removed } = walker.found;
    let comparison = Comparison { added: added.below, modified: modified.below, removed: removed.below };
    walker.errors.into_result(comparison)
}

/// The part of a set that begins at the current path.
#[derive(Default)]
struct Subset {
    /// True if the path itself is in the set. The object as a whole never is.
    has_path: bool,
    /// The fields below the path.
    below: FieldSet,
}

impl Subset {
    fn is_empty(&self) -> bool {
        !self.has_path && self.below.is_empty()
    }
}

/// The differences at the current path and below it.
#[derive(Default)]
struct Differences {
    added: Subset,
    modified: Subset,
    removed: Subset,
}

struct CompareWalker<'i> {
    found: Differences,
    errors: ErrorCollector,
    /// Fields below the current path that are not compared.
    ignored: &'i FieldSet,
    depth: usize,
}

/// The ignored fields below most paths.
static NOTHING: FieldSet = FieldSet::new();

/// The error of a field that its struct does not have.
const NO_TYPE: &str = "schema error: invalid atom: inlined";

impl CompareWalker<'_> {
    /// Compares the values at the current path, at least one of which exists. Equal subtrees are skipped. Upstream
    /// validates both values as a whole before; here only differing values are validated.
    fn walk(&mut self, type_ref: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(before), Some(after)) => {
                let (was, is) = (type_ref.atom(old), type_ref.atom(new));
                self.check(&was, type_ref, before);
                self.check(&is, type_ref, after);
                if !was.is_same_kind(&is) {
                    self.walk_atom(was, old, new);
                }
                self.walk_atom(is, old, new);
            }
            (Some(old), None) => self.found.removed = self.all_of(type_ref, old),
            (None, Some(new)) => self.found.added = self.all_of(type_ref, new),
            (None, None) => {}
        }
    }

    /// The fields of a value that the other object does not have, with the paths that lead to them.
    fn all_of(&mut self, type_ref: TypeRef<'_>, value: &Value) -> Subset {
        let atom = type_ref.atom(Some(value));
        self.check(&atom, type_ref, value);
        let below = match (atom, value) {
            (Atom::List(items), Value::Array(_)) if !items.is_atomic() => {
                let groups = self.group_by_element(&items, Some(value));
                let nodes = groups.into_iter().map(|(element, group)| match group.as_slice() {
                    [only] => self.node_of(element, Some(items.item), only),
                    // Duplicates are one unit.
                    _ => Node { element, member: true, children: FieldSet::new() },
                });
                FieldSet::from_nodes(nodes.collect())
            }
            (Atom::Map(entries), Value::Object(object)) if !entries.atomic => {
                let nodes = object.iter();
                let nodes = nodes.map(|(key, value)| self.node_of(PathElement::field(key), entries.entry(key), value));
                FieldSet::from_nodes(nodes.collect())
            }
            _ => FieldSet::new(),
        };
        Subset { has_path: true, below }
    }

    /// The part of a set for an item or entry and everything below it.
    fn node_of(&mut self, element: PathElement, type_ref: Option<TypeRef<'_>>, value: &Value) -> Node {
        let errors_above = self.errors.len();
        let Subset { has_path, below } = match type_ref {
            Some(type_ref) => self.all_of(type_ref, value),
            None => {
                self.errors.add(NO_TYPE);
                Subset { has_path: true, below: FieldSet::new() }
            }
        };
        self.errors.prefix_after(errors_above, &element);
        Node { element, member: has_path, children: below }
    }

    /// Checks whether a value fits its type. The walk checks the content of granular lists and maps when it reaches it.
    fn check(&mut self, atom: &Atom<'_>, type_ref: TypeRef<'_>, value: &Value) {
        match (atom, value) {
            (Atom::Scalar(leaf), value) => {
                if let Err(problem) = leaf.check(Some(value)) {
                    self.errors.add(problem);
                }
            }
            (Atom::List(items), Value::Array(_)) if !items.is_atomic() => {}
            (Atom::Map(entries), Value::Object(_)) if !entries.atomic => {}
            _ => {
                if let Err(errors) = validate(type_ref, value, Duplicates::Allowed) {
                    self.errors.extend(errors.into());
                }
            }
        }
    }

    fn walk_atom(&mut self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>) {
        match atom {
            Atom::Scalar(leaf) => {
                if let (Err(l), Err(r)) = (leaf.check(old), leaf.check(new)) {
                    self.errors.add(format!("lhs: {l}"));
                    self.errors.add(format!("rhs: {r}"));
                } else {
                    self.leaf(old, new);
                }
            }
            Atom::List(items) => {
                let array =
                    |value: Option<&'_ Value>| value.and_then(Value::as_array).filter(|a| !a.is_empty()).is_some();
                if items.is_atomic() || !(array(old) || array(new)) {
                    return self.leaf(old, new);
                }
                self.walk_items(&items, old, new);
            }
            Atom::Map(entries) => {
                let object = |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(|o| !o.is_empty());
                if entries.atomic || !(object(old) || object(new)) {
                    return self.leaf(old, new);
                }
                self.walk_entries(&entries, old, new);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.has_path = true,
            (_, None) => self.found.removed.has_path = true,
            (Some(old), Some(new)) if values_equal(old, new) => {}
            (Some(_), Some(_)) => self.found.modified.has_path = true,
        }
    }

    fn walk_entries(&mut self, entries: &MapSchema<'_>, old: Option<&Value>, new: Option<&Value>) {
        let empty = Object::new();
        let old = old.and_then(Value::as_object).unwrap_or(&empty);
        let new = new.and_then(Value::as_object).unwrap_or(&empty);
        for (key, value, changed) in old.iter_beside(new) {
            self.walk_entry(entries, key, Some(value), changed);
        }
        // The common entries may have added fields, too. Each pass finds them in order.
        let added = std::mem::take(&mut self.found.added.below);
        for (key, value, _) in new.iter_beside(old).filter(|(_, _, old)| old.is_none()) {
            self.walk_entry(entries, key, None, Some(value));
        }
        self.found.added.below.merge(added);
    }

    fn walk_entry(&mut self, entries: &MapSchema<'_>, key: &str, old: Option<&Value>, new: Option<&Value>) {
        if is_compared(self.depth) && old == new {
            return;
        }
        let element = PathElement::field(key);
        if self.ignored.node(&element).is_some_and(|node| node.member) {
            return;
        }
        match entries.entry(key) {
            Some(type_ref) => self.descend(element, |walker| walker.walk(type_ref, old, new)),
            None => self.descend(element, |walker| walker.errors.add(NO_TYPE)),
        }
    }

    /// Walks one step down.
    fn descend(&mut self, element: PathElement, walk: impl FnOnce(&mut Self)) {
        let (found_above, errors_above) = (std::mem::take(&mut self.found), self.errors.len());
        let ignored_above = self.ignored;
        self.ignored = ignored_above.with_prefix(&element).unwrap_or(&NOTHING);
        self.depth += 1;
        walk(self);
        self.depth -= 1;
        self.ignored = ignored_above;
        let found = std::mem::replace(&mut self.found, found_above);
        self.errors.prefix_after(errors_above, &element);
        let sets = &mut self.found;
        let subsets =
            [(&mut sets.added, found.added), (&mut sets.modified, found.modified), (&mut sets.removed, found.removed)];
        for (set, Subset { has_path, below }) in subsets.into_iter().filter(|(_, subset)| !subset.is_empty()) {
            set.below.insert_subset(&element, has_path, below);
        }
    }

    fn walk_items(&mut self, items: &ListSchema<'_>, old: Option<&Value>, new: Option<&Value>) {
        let old = self.group_by_element(items, old);
        let new = self.group_by_element(items, new);
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

    /// Groups the items of a list by path element, sorted. Items that share an element stay in list order.
    fn group_by_element<'v>(
        &mut self,
        items: &ListSchema<'_>,
        list: Option<&'v Value>,
    ) -> Vec<(PathElement, Vec<&'v Value>)> {
        let values = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut groups: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            match items.element(value) {
                Ok(element) => groups.push((element, vec![value])),
                Err(problem) => self.errors.add(format!("element {i}: {problem}")),
            }
        }
        groups.sort_by(|(a, _), (b, _)| a.cmp(b));
        groups.dedup_by(|(later, values), (earlier, group)| {
            let is_same = later == earlier;
            if is_same {
                group.append(values);
            }
            is_same
        });
        groups
    }

    /// Compares the items that share an element. Duplicates are compared as a unit.
    fn walk_group(&mut self, type_ref: TypeRef<'_>, element: PathElement, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                let (old, new) = (old.first().copied(), new.first().copied());
                if !is_compared(self.depth) || old != new {
                    self.descend(element, |walker| walker.walk(type_ref, old, new));
                }
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| values_equal(old, new));
                if !same {
                    self.descend(element, |walker| walker.found.modified.has_path = true);
                }
            }
            ([_, _, ..], _) => self.descend(element, |walker| {
                if let Some(new) = new.first() {
                    walker.walk(type_ref, None, Some(new));
                }
                walker.found.removed.has_path = true;
            }),
            (_, [_, _, ..]) => self.descend(element, |walker| {
                if let Some(old) = old.first() {
                    walker.walk(type_ref, Some(old), None);
                }
                walker.found.added.has_path = true;
            }),
        }
    }
}
