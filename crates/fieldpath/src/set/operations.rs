//! Set operations: union, intersection, differences. Each merges two sorted lists of nodes.

use std::cmp::Ordering;

use super::{FieldSet, Node};

/// An element of the left set, the right set or both.
enum NodePair<'s> {
    Left(&'s Node),
    Right(&'s Node),
    Both(&'s Node, &'s Node),
}

/// Iterates over the elements of both sets, in order.
fn pairs<'s>(left: &'s FieldSet, right: &'s FieldSet) -> impl Iterator<Item = NodePair<'s>> {
    let (mut left, mut right) = (left.nodes().iter().peekable(), right.nodes().iter().peekable());
    std::iter::from_fn(move || {
        let order = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => l.element.cmp(&r.element),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => left.next().map(NodePair::Left),
            Ordering::Greater => right.next().map(NodePair::Right),
            Ordering::Equal => left.next().zip(right.next()).map(|(l, r)| NodePair::Both(l, r)),
        }
    })
}

/// From this ratio of their sizes on, the nodes of a small set are searched for in a large one.
const SEARCH_RATIO: usize = 8;

/// Whether a set is so much larger than the small set that it is searched.
fn is_searched(large: &FieldSet, small: &FieldSet) -> bool {
    large.nodes().len() / SEARCH_RATIO > small.nodes().len()
}

impl FieldSet {
    /// Creates a set, dropping empty nodes.
    fn from_needed(nodes: impl Iterator<Item = Node>) -> Self {
        Self::from_nodes(nodes.filter(Node::is_needed).collect())
    }

    /// The paths that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() || self.shares_nodes_with(other) {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let merge = |pair| match pair {
            NodePair::Left(node) | NodePair::Right(node) => node.clone(),
            NodePair::Both(l, r) => {
                let children = l.children.union(&r.children);
                Node { element: l.element.clone(), member: l.member || r.member, children }
            }
        };
        Self::from_nodes(pairs(self, other).map(merge).collect())
    }

    /// The paths that are in any of the sets. Sets of about the same size are united first, so that each path is copied
    /// a few times only, however many sets there are.
    #[must_use]
    pub fn union_all(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let union = |pair: &[Self]| pair.iter().skip(1).fold(pair[0].clone(), |all, set| all.union(set));
            sets = sets.chunks(2).map(union).collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// Adds the paths of another set. The result equals [`FieldSet::union`].
    pub fn merge(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            *self = self.union(&other);
        }
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.shares_nodes_with(other) {
            return self.clone();
        }
        let both = |l: &Node, r: &Node| {
            let children = l.children.intersection(&r.children);
            Node { element: l.element.clone(), member: l.member && r.member, children }
        };
        if is_searched(other, self) {
            let found = self.nodes().iter().filter_map(|l| Some(both(l, other.node(&l.element)?)));
            return Self::from_needed(found);
        }
        if is_searched(self, other) {
            let found = other.nodes().iter().filter_map(|r| Some(both(self.node(&r.element)?, r)));
            return Self::from_needed(found);
        }
        Self::from_needed(pairs(self, other).filter_map(|pair| match pair {
            NodePair::Both(l, r) => Some(both(l, r)),
            NodePair::Left(_) | NodePair::Right(_) => None,
        }))
    }

    /// The paths that are in this set and not in the other. Paths below a removed path stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let rest = |l: &Node, r: &Node| {
            let children = l.children.difference(&r.children);
            Node { element: l.element.clone(), member: l.member && !r.member, children }
        };
        if is_searched(other, self) {
            let rest = |l: &Node| other.node(&l.element).map_or_else(|| l.clone(), |r| rest(l, r));
            return Self::from_needed(self.nodes().iter().map(rest));
        }
        Self::from_needed(pairs(self, other).filter_map(|pair| match pair {
            NodePair::Left(node) => Some(node.clone()),
            NodePair::Right(_) => None,
            NodePair::Both(l, r) => Some(rest(l, r)),
        }))
    }

    /// Removes the paths of the other set in place. The result equals [`FieldSet::difference`].
    pub fn subtract(&mut self, other: &Self) {
        let mut is_reduced = false;
        for theirs in other.nodes() {
            let Ok(at) = self.search(&theirs.element) else { continue };
            let node = &mut self.nodes_mut()[at];
            node.member &= !theirs.member;
            node.children.subtract(&theirs.children);
            is_reduced |= !node.is_needed();
        }
        if is_reduced {
            self.nodes_mut().retain(Node::is_needed);
            self.drop_if_empty();
        }
    }

    /// The paths of this set that are neither in the other set nor below one of its paths.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let left = pairs(self, other).filter_map(|pair| match pair {
            NodePair::Left(node) => Some(node.clone()),
            NodePair::Both(l, r) if !r.member => {
                let children = l.children.recursive_difference(&r.children);
                Some(Node { element: l.element.clone(), member: l.member, children })
            }
            NodePair::Right(_) | NodePair::Both(..) => None,
        });
        Self::from_needed(left)
    }

    /// True if neither difference would remove anything: no path of the other set is in this set or above one of its
    /// paths.
    #[must_use]
    pub fn is_unaffected_by(&self, other: &Self) -> bool {
        pairs(self, other).all(|pair| match pair {
            NodePair::Left(_) | NodePair::Right(_) => true,
            NodePair::Both(l, r) => !r.member && l.children.is_unaffected_by(&r.children),
        })
    }

    /// True if every path of this set is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        pairs(self, other).all(|pair| match pair {
            NodePair::Left(_) => false,
            NodePair::Right(_) => true,
            NodePair::Both(l, r) => (r.member || !l.member) && l.children.is_subset(&r.children),
        })
    }

    /// The paths that have no other path below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes().iter().map(|node| {
            let member = node.member && node.children.is_empty();
            Node { element: node.element.clone(), member, children: node.children.leaves() }
        });
        Self::from_needed(nodes)
    }
}
