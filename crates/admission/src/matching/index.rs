//! Finds the webhooks, policies or bindings whose rules may match a request, by the names in their rules. So rules for
//! other resources cost a request nothing, however many there are.

use std::hash::Hash;

use hashbrown::{Equivalent, HashMap};
use pintle_value::Str;

use super::RequestMatcher;
use super::rules::{NamedResources, ResourceNames};
use crate::AdmissionAttributes;

/// The maximum number of groups times resources of a rule for which each pair is a key of the index. A rule with more
/// pairs is looked up by its resources alone. So the index does not grow faster than the objects that it is made of.
const MAX_PAIRS: usize = 256;

/// The names in a rule: an operation, a group, and a resource with its subresource. `None` is the wildcard.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RuleNames {
    operation: u8,
    group: Option<Str>,
    plural: Option<Str>,
    subresource: Option<Str>,
}

impl RuleNames {
    /// Which names are wildcards, as a number below [`SHAPES`].
    fn shape(&self) -> u8 {
        let bit = |name: &Option<Str>, bit: u8| if name.is_none() { bit } else { 0 };
        bit(&self.group, 1) | bit(&self.plural, 2) | bit(&self.subresource, 4)
    }
}

/// The number of combinations of wildcards.
const SHAPES: u8 = 8;

/// The names of the rules of one shape that match a request.
#[derive(Hash)]
struct RequestNames<'a> {
    operation: u8,
    group: Option<&'a str>,
    plural: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl Equivalent<RuleNames> for RequestNames<'_> {
    fn equivalent(&self, rule: &RuleNames) -> bool {
        self.operation == rule.operation
            && self.group == rule.group.as_deref()
            && self.plural == rule.plural.as_deref()
            && self.subresource == rule.subresource.as_deref()
    }
}

/// The positions of matchers in a list, by the names in their rules.
#[derive(Debug, Default)]
pub(crate) struct MatcherIndex {
    by_names: HashMap<RuleNames, Vec<u32>>,
    /// The matchers that match requests for all resources.
    without_rules: Vec<u32>,
    /// The shapes of the keys, as a set of bits.
    shapes: u8,
    /// True if a matcher also matches requests for equivalent resources.
    finds_equivalents: bool,
}

impl MatcherIndex {
    /// Adds the matcher at a position, which is above all positions that were added before. A position without a
    /// matcher is found for every request.
    pub(crate) fn add(&mut self, position: u32, matcher: Option<&RequestMatcher>) {
        let Some((matcher, rules)) = matcher.and_then(|matcher| Some((matcher, matcher.rules.as_ref()?))) else {
            self.without_rules.push(position);
            return;
        };
        self.finds_equivalents |= matcher.finds_equivalents();
        for NamedResources { operation, groups, resources } in rules.iter().flat_map(|rule| rule.named()) {
            let groups = groups.filter(|groups| groups.len() * resources.len() <= MAX_PAIRS);
            let groups: Vec<Option<Str>> = match groups {
                Some(groups) => groups.iter().cloned().map(Some).collect(),
                None => vec![None],
            };
            for group in &groups {
                for resource in resources {
                    let (plural, subresource) = (resource.plural.clone(), resource.subresource.clone());
                    let names = RuleNames { operation, group: group.clone(), plural, subresource };
                    self.shapes |= 1 << names.shape();
                    let positions = self.by_names.entry(names).or_default();
                    if positions.last() != Some(&position) {
                        positions.push(position);
                    }
                }
            }
        }
    }

    /// The positions of all matchers with a rule that may match a request, in order. The other matchers have no such
    /// rule.
    pub(crate) fn candidates(&self, attributes: &AdmissionAttributes<'_>) -> Vec<u32> {
        let mut found = Vec::new();
        self.add_candidates(attributes, &mut found);
        sort(&mut found);
        found
    }

    /// Adds the positions of all matchers with a rule that may match a request, in any order. A position may be added
    /// several times.
    pub(crate) fn add_candidates(&self, attributes: &AdmissionAttributes<'_>, found: &mut Vec<u32>) {
        found.extend_from_slice(&self.without_rules);
        if self.shapes == 0 {
            return;
        }
        let requested = ResourceNames::of(attributes.resource);
        self.add_named(attributes, requested, found);
        if self.finds_equivalents {
            let equivalents = attributes.matching.equivalents(attributes).iter().map(ResourceNames::of_equivalent);
            // Other versions of the requested resource have the same names.
            for other in equivalents.filter(|other| !other.has_names_of(&requested)) {
                self.add_named(attributes, other, found);
            }
        }
    }

    fn add_named(&self, attributes: &AdmissionAttributes<'_>, resource: ResourceNames<'_>, found: &mut Vec<u32>) {
        for shape in (0..SHAPES).filter(|shape| self.shapes & 1 << shape != 0) {
            let name = |name, bit: u8| (shape & bit == 0).then_some(name);
            let names = RequestNames {
                operation: attributes.operation as u8,
                group: name(resource.group, 1),
                plural: name(resource.plural, 2),
                subresource: name(attributes.subresource, 4),
            };
            found.extend(self.by_names.get(&names).into_iter().flatten());
        }
    }
}

/// Sorts the positions that were found and removes duplicates.
pub(crate) fn sort(found: &mut Vec<u32>) {
    found.sort_unstable();
    found.dedup();
}

/// An item that requests match by rules.
pub(crate) trait Matching {
    /// The matcher of the requests; `None` if all requests match.
    fn matcher(&self) -> Option<&RequestMatcher>;
}

/// A list whose items are looked up by the requests that they may match.
#[derive(Debug)]
pub(crate) struct MatchingList<T> {
    items: Vec<T>,
    index: MatcherIndex,
}

impl<T: Matching> FromIterator<T> for MatchingList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let mut index = MatcherIndex::default();
        (0..).zip(&items).for_each(|(position, item)| index.add(position, item.matcher()));
        Self { items, index }
    }
}

impl<T> MatchingList<T> {
    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The items that may match a request, with their positions, in order.
    pub(crate) fn candidates(&self, attributes: &AdmissionAttributes<'_>) -> impl Iterator<Item = (usize, &T)> {
        let found = self.index.candidates(attributes).into_iter();
        found.filter_map(|position| Some((position as usize, self.items.get(position as usize)?)))
    }
}
