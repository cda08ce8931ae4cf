//! Field sets, stored as tries of path elements. A node records whether the path to it is a member, and holds the set
//! below it. Invariants: nodes are sorted and unique, and every node is a member or has children.

mod fields_v1;
mod filter;
mod operations;
mod text;

use std::fmt;

use crate::path::{Path, PathElement};

pub use fields_v1::FieldsV1Error;
pub use filter::{Filter, PathElementMatcher, PrefixPattern};
pub(crate) use text::SetWriter;
pub use text::encoded_field_set;

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

/// One node of the trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    /// True if the path that ends here is in the set.
    pub(crate) member: bool,
    /// The fields below this path.
    pub(crate) children: FieldSet,
}

impl Node {
    pub(crate) fn is_needed(&self) -> bool {
        self.member || !self.children.is_empty()
    }
}

impl FieldSet {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Creates a set from nodes that satisfy the invariants.
    pub(crate) fn from_nodes(nodes: Vec<Node>) -> Self {
        debug_assert!(nodes.is_sorted_by(|a, b| a.element < b.element), "{nodes:?}");
        debug_assert!(nodes.iter().all(Node::is_needed), "{nodes:?}");
        Self { nodes }
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.search(element).ok().map(|i| &self.nodes[i])
    }

    /// Adds a path. The empty path is never in a set, because nobody owns an object as a whole.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else { return };
        let i = match self.search(element) {
            Ok(i) => i,
            Err(i) => {
                let node = Node { element: element.clone(), member: false, children: FieldSet::new() };
                self.nodes.insert(i, node);
                i
            }
        };
        if rest.is_empty() {
            self.nodes[i].member = true;
        } else {
            self.nodes[i].children.insert(rest);
        }
    }

    /// Adds what is below an element, and the element itself if `member`. Not both may be empty. It costs least if the
    /// elements come in order.
    pub(crate) fn insert_subset(&mut self, element: &PathElement, member: bool, below: FieldSet) {
        let is_next = self.nodes.last().is_none_or(|last| last.element < *element);
        match if is_next { Err(self.nodes.len()) } else { self.search(element) } {
            Ok(at) => {
                let node = &mut self.nodes[at];
                node.member |= member;
                node.children.merge(below);
            }
            Err(at) => self.nodes.insert(at, Node { element: element.clone(), member, children: below }),
        }
    }

    /// True if the path is in the set.
    #[must_use]
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((element, rest)) = path.split_first() else { return false };
        self.node(element).is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
    }

    /// Returns the non-empty set below an element.
    #[must_use]
    pub fn with_prefix(&self, element: &PathElement) -> Option<&FieldSet> {
        self.node(element).map(|node| &node.children).filter(|set| !set.is_empty())
    }

    /// True if the set has no path.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Calls `visit` for every path. Each level visits its members first and then the levels below, the order in which
    /// upstream lists conflicts.
    pub fn for_each(&self, mut visit: impl FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), &mut visit);
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            path.push(node.element.clone());
            node.children.walk(path, visit);
            path.pop();
        }
    }

    /// All paths, in the order of [`FieldSet::for_each`].
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::with_capacity(self.len());
        self.for_each(|path| paths.push(Path::from(path)));
        paths
    }
}

impl<P: AsRef<[PathElement]>> FromIterator<P> for FieldSet {
    fn from_iter<T: IntoIterator<Item = P>>(paths: T) -> Self {
        let mut set = Self::new();
        paths.into_iter().for_each(|path| set.insert(path.as_ref()));
        set
    }
}

/// One path per line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, path) in self.paths().iter().enumerate() {
            write!(f, "{}{path}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}
