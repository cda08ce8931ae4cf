//! What a set means after the schema has changed. Where something was granular and is atomic now, whoever owned a part
//! owns all of it. The other way round is taken as if it had always been granular.

use super::shape::{Place, Shape};
use crate::path::PathElement;
use crate::set::FieldSet;

pub(super) fn reconcile(place: Place<'_>, set: &FieldSet) -> Option<FieldSet> {
    let mut walker = Walker { path: Vec::new(), atomic: FieldSet::new() };
    walker.walk(place, Some(set), false);
    // An object that is atomic as a whole has no path, and so changes nothing.
    let atomic = walker.atomic;
    (!atomic.is_empty()).then(|| set.recursive_difference(&atomic).union(&atomic))
}

struct Walker<'s> {
    path: Vec<&'s PathElement>,
    /// The paths that have become atomic.
    atomic: FieldSet,
}

impl<'s> Walker<'s> {
    /// Looks at what a set has below the path. `leaf` says that the path is a member with nothing below, as atomic values
    /// are.
    fn walk(&mut self, place: Place<'_>, below: Option<&'s FieldSet>, leaf: bool) {
        match place.shape(None) {
            Shape::Scalar(_) => {}
            Shape::List(items) if !leaf && items.is_atomic() => self.found(),
            Shape::List(items) => self.walk_below(below, |_| Some(items.item)),
            // Deduced types do not say what is atomic.
            Shape::Map(entries) if entries.is_open() => {}
            Shape::Map(entries) if !leaf && entries.atomic => {
                if below.is_some_and(|set| !set.is_empty()) {
                    self.found();
                }
            }
            Shape::Map(entries) => self.walk_below(below, |element| match element {
                PathElement::Field(name) => entries.entry(name),
                _ => entries.other(),
            }),
        }
    }

    fn found(&mut self) {
        let path: Vec<PathElement> = self.path.iter().map(|element| (*element).clone()).collect();
        self.atomic.insert(&path);
    }

    fn walk_below<'t>(&mut self, below: Option<&'s FieldSet>, place: impl Fn(&PathElement) -> Option<Place<'t>>) {
        for node in below.into_iter().flat_map(FieldSet::nodes) {
            let Some(place) = place(&node.element) else { continue };
            self.path.push(&node.element);
            let children = Some(&node.children).filter(|children| !children.is_empty());
            self.walk(place, children, node.member && children.is_none());
            self.path.pop();
        }
    }
}
