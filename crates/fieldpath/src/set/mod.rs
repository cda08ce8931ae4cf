//! Field sets, stored as tries of path elements. A node records whether the path to it is a member, and holds the set
//! below it. Invariants: nodes are sorted and unique, and every node is a member or has children. Sets that are made of
//! others share their common nodes, because most writes change few of the owned fields.

mod decoded;
mod fields_v1;
mod filter;
mod operations;
mod text;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::path::{Path, PathElement};

pub use fields_v1::FieldsV1Error;
pub use filter::{Filter, PathElementMatcher, PrefixPattern};
pub use text::{SetWriter, encoded_field_set, is_sorted_text};

/// A set of field paths. A clone shares the nodes.
#[derive(Clone, Debug, Default)]
pub struct FieldSet {
    /// `None` if the set is empty.
    level: Option<Arc<Level>>,
}

/// The nodes of a set that is not empty.
#[derive(Debug, Default)]
struct Level {
    nodes: Vec<Node>,
    /// The last type that the set was found to fit, see [`FieldSet::fits`]. Derived, so it is ignored when comparing
    /// sets.
    fits: AtomicU64,
}

/// A clone is about to be changed, so it may not fit any more.
impl Clone for Level {
    fn clone(&self) -> Self {
        Self { nodes: self.nodes.clone(), fits: AtomicU64::default() }
    }
}

/// One node of the trie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The last step of the path.
    pub element: PathElement,
    /// True if the path that ends here is in the set.
    pub member: bool,
    /// The fields below this path.
    pub children: FieldSet,
}

impl Node {
    /// True if the node is a member or has children.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.member || !self.children.is_empty()
    }
}

impl FieldSet {
    /// Creates an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { level: None }
    }

    /// Creates a set from nodes that are sorted and unique.
    fn of(nodes: Vec<Node>) -> Self {
        Self { level: (!nodes.is_empty()).then(|| Arc::new(Level { nodes, fits: AtomicU64::default() })) }
    }

    /// Creates a set from nodes that satisfy the invariants.
    pub fn from_nodes(nodes: Vec<Node>) -> Self {
        debug_assert!(nodes.is_sorted_by(|a, b| a.element < b.element), "{nodes:?}");
        debug_assert!(nodes.iter().all(Node::is_needed), "{nodes:?}");
        Self::of(nodes)
    }

    /// The nodes, sorted by their elements.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        self.level.as_deref().map_or(&[], |level| &level.nodes)
    }

    /// The nodes, after other sets have stopped sharing them. A caller that removes all nodes calls
    /// [`Self::drop_if_empty`].
    fn nodes_mut(&mut self) -> &mut Vec<Node> {
        let level = Arc::make_mut(self.level.get_or_insert_default());
        *level.fits.get_mut() = 0;
        &mut level.nodes
    }

    fn drop_if_empty(&mut self) {
        self.level.take_if(|level| level.nodes.is_empty());
    }

    /// Whether the set is known to fit the type with this key, which is not zero.
    pub fn fits(&self, type_key: u64) -> bool {
        self.level.as_deref().is_none_or(|level| level.fits.load(Ordering::Relaxed) == type_key)
    }

    /// Records that the set fits a type, so that nobody has to find out again. Clones share the record.
    pub fn note_fit(&self, type_key: u64) {
        if let Some(level) = self.level.as_deref() {
            level.fits.store(type_key, Ordering::Relaxed);
        }
    }

    /// True if both sets share the same nodes in memory, so that they are equal without a comparison.
    fn shares_nodes_with(&self, other: &Self) -> bool {
        match (&self.level, &other.level) {
            (Some(own), Some(theirs)) => Arc::ptr_eq(own, theirs),
            (own, theirs) => own.is_none() && theirs.is_none(),
        }
    }

    fn search(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes().binary_search_by(|node| node.element.cmp(element))
    }

    /// The node of an element.
    #[must_use]
    pub fn node(&self, element: &PathElement) -> Option<&Node> {
        self.search(element).ok().map(|i| &self.nodes()[i])
    }

    /// Adds a path. The empty path is never in a set, because nobody owns an object as a whole.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else { return };
        let found = self.search(element);
        let nodes = self.nodes_mut();
        let i = found.unwrap_or_else(|i| {
            nodes.insert(i, Node { element: element.clone(), member: false, children: FieldSet::new() });
            i
        });
        if rest.is_empty() {
            nodes[i].member = true;
        } else {
            nodes[i].children.insert(rest);
        }
    }

    /// Adds the set below an element, and the element itself if `member`. One of the two must be there. It costs least
    /// if the elements come in order.
    pub fn insert_subset(&mut self, element: &PathElement, member: bool, below: FieldSet) {
        let nodes = self.nodes();
        let is_next = nodes.last().is_none_or(|last| last.element < *element);
        let found = if is_next { Err(nodes.len()) } else { self.search(element) };
        let nodes = self.nodes_mut();
        match found {
            Ok(at) => {
                let node = &mut nodes[at];
                node.member |= member;
                node.children.merge(below);
            }
            Err(at) => nodes.insert(at, Node { element: element.clone(), member, children: below }),
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
        self.level.is_none()
    }

    /// The number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes().iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Calls `visit` for every path. Each level visits its members first and then the levels below, the order in which
    /// upstream lists conflicts.
    pub fn for_each(&self, mut visit: impl FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), &mut visit);
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes().iter().filter(|node| node.member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes().iter().filter(|node| !node.children.is_empty()) {
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

impl PartialEq for FieldSet {
    fn eq(&self, other: &Self) -> bool {
        self.shares_nodes_with(other) || self.nodes() == other.nodes()
    }
}

impl Eq for FieldSet {}

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
