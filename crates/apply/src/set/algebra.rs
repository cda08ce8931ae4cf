//! Union, intersection, differences and the like. Each walks two sorted lists of nodes side by side.

use std::cmp::Ordering;

use super::{FieldSet, Node};

/// An element that is in the left set, the right set or both.
enum Pair<'s> {
    Left(&'s Node),
    Right(&'s Node),
    Both(&'s Node, &'s Node),
}

/// The elements of two sets, in order.
fn pairs<'s>(left: &'s FieldSet, right: &'s FieldSet) -> impl Iterator<Item = Pair<'s>> {
    let (mut left, mut right) = (left.nodes.iter().peekable(), right.nodes.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => l.element.cmp(&r.element),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => left.next().map(Pair::Left),
            Ordering::Greater => right.next().map(Pair::Right),
            Ordering::Equal => left.next().zip(right.next()).map(|(l, r)| Pair::Both(l, r)),
        }
    })
}

impl FieldSet {
    /// A set of the nodes that are needed.
    fn of_needed(nodes: impl Iterator<Item = Node>) -> Self {
        Self::from_nodes(nodes.filter(Node::is_needed).collect())
    }

    /// The paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let merge = |pair| match pair {
            Pair::Left(node) | Pair::Right(node) => node.clone(),
            Pair::Both(l, r) => {
                let children = l.children.union(&r.children);
                Node { element: l.element.clone(), member: l.member || r.member, children }
            }
        };
        Self::from_nodes(pairs(self, other).map(merge).collect())
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = pairs(self, other).filter_map(|pair| match pair {
            Pair::Both(l, r) => {
                let children = l.children.intersection(&r.children);
                Some(Node { element: l.element.clone(), member: l.member && r.member, children })
            }
            Pair::Left(_) | Pair::Right(_) => None,
        });
        Self::of_needed(both)
    }

    /// The paths that are in this set and not in the other. What is below a path stays even if the path goes.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let left = pairs(self, other).filter_map(|pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Right(_) => None,
            Pair::Both(l, r) => {
                let children = l.children.difference(&r.children);
                Some(Node { element: l.element.clone(), member: l.member && !r.member, children })
            }
        });
        Self::of_needed(left)
    }

    /// Leaves the paths that are not in the other set, as [`FieldSet::difference`].
    pub fn subtract(&mut self, other: &Self) {
        for theirs in &other.nodes {
            let Ok(at) = self.search(&theirs.element) else { continue };
            let node = &mut self.nodes[at];
            node.member &= !theirs.member;
            node.children.subtract(&theirs.children);
            if !node.is_needed() {
                self.nodes.remove(at);
            }
        }
    }

    /// The paths of this set that are neither in the other nor below any path in it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let left = pairs(self, other).filter_map(|pair| match pair {
            Pair::Left(node) => Some(node.clone()),
            Pair::Both(l, r) if !r.member => {
                let children = l.children.recursive_difference(&r.children);
                Some(Node { element: l.element.clone(), member: l.member, children })
            }
            Pair::Right(_) | Pair::Both(..) => None,
        });
        Self::of_needed(left)
    }

    /// True if no path of the other set is in this one or above one of it, so that neither difference takes anything.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        pairs(self, other).all(|pair| match pair {
            Pair::Left(_) | Pair::Right(_) => true,
            Pair::Both(l, r) => !r.member && l.children.is_apart_from(&r.children),
        })
    }

    /// True if every path of this set is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        pairs(self, other).all(|pair| match pair {
            Pair::Left(_) => false,
            Pair::Right(_) => true,
            Pair::Both(l, r) => (r.member || !l.member) && l.children.is_subset(&r.children),
        })
    }

    /// The paths that have no other path below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().map(|node| {
            let member = node.member && node.children.is_empty();
            Node { element: node.element.clone(), member, children: node.children.leaves() }
        });
        Self::of_needed(nodes)
    }
}
