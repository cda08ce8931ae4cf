//! What of a set counts. A resource keeps some fields from some requests (an update of the object does not write its
//! status), and so nobody comes to own them that way.

use super::{FieldSet, Node};
use crate::path::PathElement;

/// A choice of fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All fields but these and what is below them.
    Exclude(FieldSet),
    /// Only what one of the patterns matches.
    Include(Vec<Pattern>),
}

/// The beginning of paths. It matches a path that is its beginning or that begins with it.
pub type Pattern = Vec<Step>;

/// A step of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Any element.
    Any,
    /// This element.
    Is(PathElement),
}

impl Filter {
    /// The part of a set that counts.
    #[must_use]
    pub fn apply(&self, set: FieldSet) -> FieldSet {
        match self {
            Self::Exclude(fields) if set.is_apart_from(fields) => set,
            Self::Exclude(fields) => set.recursive_difference(fields),
            Self::Include(patterns) => {
                let patterns: Vec<&[Step]> = patterns.iter().map(Vec::as_slice).collect();
                include(&set, &patterns)
            }
        }
    }
}

fn include(set: &FieldSet, patterns: &[&[Step]]) -> FieldSet {
    if patterns.iter().any(|pattern| pattern.is_empty()) {
        return set.clone();
    }
    let nodes = set.nodes().iter().filter_map(|node| {
        let rests: Vec<&[Step]> = patterns.iter().filter_map(|pattern| after(pattern, &node.element)).collect();
        let children = if rests.is_empty() { return None } else { include(&node.children, &rests) };
        Some(Node { element: node.element.clone(), member: node.member, children }).filter(Node::is_needed)
    });
    FieldSet::from_nodes(nodes.collect())
}

/// The rest of a pattern after an element that its first step matches.
fn after<'p>(pattern: &'p [Step], element: &PathElement) -> Option<&'p [Step]> {
    let (first, rest) = pattern.split_first()?;
    let matches = match first {
        Step::Any => true,
        Step::Is(wanted) => wanted == element,
    };
    matches.then_some(rest)
}
