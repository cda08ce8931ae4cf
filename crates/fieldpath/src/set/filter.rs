//! Filters for field sets (upstream: `fieldpath.Filter`). A resource ignores some fields of some requests: an update of
//! the main resource does not write the status. Ignored fields are not owned.

use super::{FieldSet, Node};
use crate::path::PathElement;

/// A filter of fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Excludes these fields and everything below them.
    Exclude(FieldSet),
    /// Includes only paths that match one of the patterns.
    Include(Vec<PrefixPattern>),
}

/// A path prefix. It matches its own prefixes and every path that starts with it.
pub type PrefixPattern = Vec<PathElementMatcher>;

/// One step of a prefix pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum PathElementMatcher {
    /// Matches any element.
    Wildcard,
    /// Matches this element.
    Element(PathElement),
}

impl Filter {
    /// Returns the part of a set that passes the filter.
    #[must_use]
    pub fn apply(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Exclude(fields) if set.is_unaffected_by(fields) => set,
            Self::Exclude(fields) => set.recursive_difference(fields),
            Self::Include(patterns) => {
                let patterns: Vec<&[PathElementMatcher]> = patterns.iter().map(Vec::as_slice).collect();
                include(&set, &patterns)
            }
        }
    }
}

fn include(set: &FieldSet, patterns: &[&[PathElementMatcher]]) -> FieldSet {
    if patterns.iter().any(|pattern| pattern.is_empty()) {
        return set.clone();
    }
    let nodes = set.nodes().iter().filter_map(|node| {
        let rests: Vec<&[PathElementMatcher]> =
            patterns.iter().filter_map(|pattern| match_first(pattern, &node.element)).collect();
        let children = if rests.is_empty() { return None } else { include(&node.children, &rests) };
        Some(Node { element: node.element.clone(), member: node.member, children }).filter(Node::is_needed)
    });
    FieldSet::from_nodes(nodes.collect())
}

/// Returns the rest of a pattern if its first step matches the element.
fn match_first<'p>(pattern: &'p [PathElementMatcher], element: &PathElement) -> Option<&'p [PathElementMatcher]> {
    let (first, rest) = pattern.split_first()?;
    let matches = match first {
        PathElementMatcher::Wildcard => true,
        PathElementMatcher::Element(wanted) => wanted == element,
    };
    matches.then_some(rest)
}
