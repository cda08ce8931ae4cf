//! Adapting field sets to schema changes. If something granular has become atomic, the owner of a part owns all of it.
//! The other direction needs no change (upstream: structured-merge-diff's `typed/reconcile_schema.go`).

use super::atom::{Atom, TypeRef};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::FieldSet;

pub(super) fn reconcile(type_ref: TypeRef<'_>, set: &FieldSet) -> Option<FieldSet> {
    // The same sets are decoded again and again.
    let key = type_ref.key();
    if key.is_some_and(|key| set.fits(key)) {
        return None;
    }
    let mut walker = ReconcileWalker { path: Vec::new(), atomic: FieldSet::new() };
    walker.walk(type_ref, Some(set), false);
    // An object that is atomic as a whole has an empty path, so the set stays.
    let atomic = walker.atomic;
    if atomic.is_empty() {
        key.inspect(|key| set.note_fit(*key));
        return None;
    }
    Some(set.recursive_difference(&atomic).union(&atomic))
}

struct ReconcileWalker<'s> {
    path: Vec<&'s PathElement>,
    /// The paths that have become atomic.
    atomic: FieldSet,
}

impl<'s> ReconcileWalker<'s> {
    /// Walks the set below the current path. `leaf` is true if the path is a member without children, like an atomic
    /// value.
    fn walk(&mut self, type_ref: TypeRef<'_>, below: Option<&'s FieldSet>, leaf: bool) {
        match type_ref.atom(None) {
            Atom::Scalar(_) => {}
            Atom::List(items) if !leaf && items.is_atomic() => self.record_atomic(),
            Atom::List(items) => self.walk_children(below, |_| Some(items.item)),
            // A deduced type does not say whether its parts are atomic.
            Atom::Map(entries) if entries.is_deduced() => {}
            Atom::Map(entries) if !leaf && entries.atomic => {
                if below.is_some_and(|set| !set.is_empty()) {
                    self.record_atomic();
                }
            }
            Atom::Map(entries) => self.walk_children(below, |element| match element {
                PathElement::Field(name) => entries.entry(name),
                _ => entries.element_type(),
            }),
        }
    }

    fn record_atomic(&mut self) {
        let path: Vec<PathElement> = self.path.iter().map(|element| (*element).clone()).collect();
        self.atomic.insert(&path);
    }

    fn walk_children<'t>(
        &mut self,
        below: Option<&'s FieldSet>,
        type_ref: impl Fn(&PathElement) -> Option<TypeRef<'t>>,
    ) {
        for node in below.into_iter().flat_map(FieldSet::nodes) {
            let Some(type_ref) = type_ref(&node.element) else { continue };
            self.path.push(&node.element);
            let children = Some(&node.children).filter(|children| !children.is_empty());
            self.walk(type_ref, children, node.member && children.is_none());
            self.path.pop();
        }
    }
}
