//! Bit sets that reject most rules before their strings are compared. A rule that allows a request always passes; a rule
//! that passes may still not allow it.

use super::policy::PolicyRule;
use super::rule::is_resource_request;
use crate::AuthorizationAttributes;

/// The sets of a rule or of all rules of a role, or the values of a request. Each value is one bit, by its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    resources: u128,
    verbs: u64,
    groups: u64,
    names: u64,
    urls: u64,
}

impl Mask {
    /// The values that a rule mentions.
    pub(super) fn of_rule(rule: &PolicyRule) -> Self {
        let names = rule.resource_names.iter().fold(0, |mask, name| mask | bit(hash(&[name])));
        Self {
            resources: rule
                .resources
                .iter()
                .fold(0, |mask, resource| mask | if resource == "*" { u128::MAX } else { wide_bit(hash(&[resource])) }),
            verbs: set(&rule.verbs),
            groups: set(&rule.api_groups),
            names: if rule.resource_names.is_empty() { u64::MAX } else { names },
            urls: if rule.non_resource_urls.is_empty() { 0 } else { u64::MAX },
        }
    }

    /// The values that a rule has to mention, one of each kind, to allow a request.
    pub(super) fn of_request(attributes: &AuthorizationAttributes<'_>) -> Self {
        let verbs = bit(hash(&[attributes.verb]));
        if !is_resource_request(attributes) {
            return Self { verbs, urls: u64::MAX, ..Self::default() };
        }
        let (resource, subresource) = (attributes.resource, attributes.subresource);
        let resources = if subresource.is_empty() {
            wide_bit(hash(&[resource]))
        } else {
            wide_bit(hash(&[resource, "/", subresource])) | wide_bit(hash(&["*/", subresource]))
        };
        let groups = bit(hash(&[attributes.group]));
        Self { resources, verbs, groups, names: bit(hash(&[attributes.name])), urls: 0 }
    }

    /// The values that any rule of a role mentions.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            resources: self.resources | other.resources,
            verbs: self.verbs | other.verbs,
            groups: self.groups | other.groups,
            names: self.names | other.names,
            urls: self.urls | other.urls,
        }
    }

    /// Returns whether rules with this mask may allow a request with that mask.
    pub(super) fn may_allow(&self, request: &Self) -> bool {
        let resource = self.resources & request.resources != 0
            && self.groups & request.groups != 0
            && self.names & request.names != 0;
        self.verbs & request.verbs != 0 && (resource || self.urls & request.urls != 0)
    }
}

/// The bits of values of which `*` stands for all.
fn set(values: &[pintle_value::Str]) -> u64 {
    values.iter().fold(0, |mask, value| mask | if value == "*" { u64::MAX } else { bit(hash(&[value])) })
}

fn bit(hash: u64) -> u64 {
    1 << (hash >> 58)
}

fn wide_bit(hash: u64) -> u128 {
    1 << (hash >> 57)
}

/// The FNV-1a hash of a string that consists of parts.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    // The upper bits of short strings differ little without this.
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
