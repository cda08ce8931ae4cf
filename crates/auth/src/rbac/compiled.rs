//! The rules of a role in the form that decisions read. It has few allocations, and bit sets reject most rules before
//! their strings are compared.

use pintle_value::Str;

use super::policy::{PolicyRule, Role};
use super::rule::RuleLists;
use crate::AuthorizationAttributes;

/// The rules of a role.
#[derive(Debug)]
pub(super) struct CompiledRole {
    /// The union of the masks of the rules.
    mask: Mask,
    /// The mask of each rule.
    masks: Box<[Mask]>,
    rules: Box<[CompiledRule]>,
    /// The strings of all rules, one list after the other.
    strings: Box<[Str]>,
}

#[derive(Debug)]
struct CompiledRule {
    /// The index of the first string, and the index after the last string of each list.
    bounds: [u32; 6],
}

impl CompiledRole {
    pub(super) fn new(role: Role) -> Self {
        let masks: Box<[_]> = role.rules.iter().map(Mask::of_rule).collect();
        let mask = masks.iter().copied().fold(Mask::default(), Mask::union);
        let mut strings = Vec::with_capacity(role.rules.iter().map(|rule| RuleLists::from(rule).len()).sum());
        let rules = role.rules.into_iter().map(|rule| {
            let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
            let mut bounds = [end(&strings); 6];
            let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
            for (bound, list) in bounds.iter_mut().skip(1).zip(lists) {
                strings.extend(list);
                *bound = end(&strings);
            }
            CompiledRule { bounds }
        });
        let rules = rules.collect();
        Self { mask, masks, rules, strings: strings.into() }
    }

    /// Returns whether a rule allows a request with this mask.
    #[inline]
    pub(super) fn allows(&self, request: &Mask, attributes: &AuthorizationAttributes<'_>) -> bool {
        // The loop has no branch for each mask. Most rules do not allow the request, but it is hard to predict which
        // ones do not.
        self.mask.may_allow(request)
            && self.masks.iter().fold(false, |any, mask| any | mask.may_allow(request))
            && self.any_rule_allows(request, attributes)
    }

    #[inline(never)]
    fn any_rule_allows(&self, request: &Mask, attributes: &AuthorizationAttributes<'_>) -> bool {
        self.masks.iter().zip(&self.rules).any(|(mask, rule)| {
            mask.may_allow(request) && self.lists(rule).is_some_and(|lists| lists.allows(attributes))
        })
    }

    /// The rules in the form of objects.
    pub(super) fn rules(&self) -> impl Iterator<Item = PolicyRule> {
        self.rules.iter().filter_map(|rule| self.lists(rule)).map(RuleLists::to_rule)
    }

    /// The lists of a rule. The result is never `None`. An empty list as a fallback would grant access to all names.
    fn lists(&self, rule: &CompiledRule) -> Option<RuleLists<'_>> {
        let list = |from: u32, to: u32| self.strings.get(from as usize..to as usize);
        let [start, verbs, api_groups, resources, names, urls] = rule.bounds;
        Some(RuleLists {
            verbs: list(start, verbs)?,
            api_groups: list(verbs, api_groups)?,
            resources: list(api_groups, resources)?,
            resource_names: list(resources, names)?,
            non_resource_urls: list(names, urls)?,
        })
    }
}

/// The number of strings. An object is too small for 2^32 strings. If it had as many, its rules would not be found.
fn end(strings: &[Str]) -> u32 {
    u32::try_from(strings.len()).unwrap_or(u32::MAX)
}

/// The values of a rule, of all rules of a role, or of a request, as sets. Each value is one bit, by its hash. A rule
/// that allows a request shares a bit of every kind with it. A rule that shares these bits may still not allow the
/// request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mask {
    /// Verbs in the lower half, groups in the upper half. One comparison checks both, because a request has one verb
    /// and one group.
    verbs_and_groups: u64,
    /// Resources in the lower bits, paths in the upper bits. A request has either a resource or a path.
    targets: u64,
    names: u64,
}

/// The bits of verbs and groups.
const VERBS: Bits = Bits { first: 0, count: 32 };
const GROUPS: Bits = Bits { first: 32, count: 32 };
/// The bits of targets.
const RESOURCES: Bits = Bits { first: 0, count: 48 };
const PATHS: Bits = Bits { first: 48, count: 16 };
const NAMES: Bits = Bits { first: 0, count: 64 };

/// The bits of a word that belong to a set.
#[derive(Clone, Copy)]
struct Bits {
    first: u32,
    count: u32,
}

impl Bits {
    /// All bits.
    const fn all(self) -> u64 {
        (u64::MAX >> (64 - self.count)) << self.first
    }

    /// The bit of a value.
    fn of(self, value: &[u8]) -> u64 {
        1 << (self.first as u64 + (((hash(value) >> 32) * self.count as u64) >> 32))
    }

    /// The bits of a list of values, in which `*` stands for all values.
    fn of_list(self, values: &[Str]) -> u64 {
        let bits = |value: &Str| if value == "*" { self.all() } else { self.of(value.as_bytes()) };
        values.iter().fold(0, |mask, value| mask | bits(value))
    }
}

impl Mask {
    fn of_rule(rule: &PolicyRule) -> Self {
        let resources = rule.resources.iter().fold(0, |mask, resource| {
            mask | if resource == "*" { RESOURCES.all() } else { resource_bits(resource, "") }
        });
        Self {
            verbs_and_groups: VERBS.of_list(&rule.verbs) | GROUPS.of_list(&rule.api_groups),
            targets: rule.non_resource_urls.iter().fold(resources, |mask, url| mask | url_bits(url)),
            names: match &*rule.resource_names {
                [] => NAMES.all(),
                names => names.iter().fold(0, |mask, name| mask | NAMES.of(name.as_bytes())),
            },
        }
    }

    /// The values that a rule has to mention, one of each kind, to allow a request.
    pub(super) fn of_request(attributes: &AuthorizationAttributes<'_>) -> Self {
        let verb = VERBS.of(attributes.verb.as_bytes());
        if !attributes.is_resource_request() {
            return Self { verbs_and_groups: verb, targets: segment_bit(attributes.path), names: 0 };
        }
        Self {
            verbs_and_groups: verb | GROUPS.of(attributes.group.as_bytes()),
            targets: match (attributes.resource, attributes.subresource) {
                (resource, "") => resource_bits(resource, ""),
                (resource, subresource) => resource_bits(resource, subresource) | resource_bits("*", subresource),
            },
            names: NAMES.of(attributes.name.as_bytes()),
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            verbs_and_groups: self.verbs_and_groups | other.verbs_and_groups,
            targets: self.targets | other.targets,
            names: self.names | other.names,
        }
    }

    /// Returns whether rules with this mask may allow a request with the other mask.
    fn may_allow(&self, request: &Self) -> bool {
        let missing = (!self.verbs_and_groups & request.verbs_and_groups) | (!self.names & request.names);
        (missing == 0) & (self.targets & request.targets != 0)
    }
}

/// The bits of the paths that a path or pattern includes. All these paths have the same first segment, unless the
/// pattern ends within that segment.
fn url_bits(url: &str) -> u64 {
    let prefix = url.trim_end_matches('*');
    let has_segment = prefix.len() == url.len() || prefix.bytes().skip(1).any(|byte| byte == b'/');
    if has_segment { segment_bit(prefix) } else { PATHS.all() }
}

/// The bit of the first segment of a path.
fn segment_bit(path: &str) -> u64 {
    let bytes = path.as_bytes();
    let end = bytes.iter().skip(1).position(|byte| *byte == b'/').map_or(bytes.len(), |at| at + 1);
    PATHS.of(bytes.get(..end).unwrap_or(bytes))
}

/// The bit of a resource or subresource as rules name it; all bits for long names.
fn resource_bits(resource: &str, subresource: &str) -> u64 {
    if subresource.is_empty() && resource.len() <= MAX_RESOURCE {
        return RESOURCES.of(resource.as_bytes());
    }
    let parts = resource.bytes().chain([b'/']).chain(subresource.bytes());
    let mut name = [0; MAX_RESOURCE];
    let length = resource.len() + 1 + subresource.len();
    let Some(own) = name.get_mut(..length) else { return RESOURCES.all() };
    own.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
    RESOURCES.of(own)
}

/// The maximum length of a resource with its subresource that has a bit of its own.
const MAX_RESOURCE: usize = 128;

/// A hash whose upper bits depend on all bytes. With this seed, all common verbs have different bits, and so have all
/// common groups.
fn hash(bytes: &[u8]) -> u64 {
    const SEED: u64 = 1461;
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = bytes.len() as u64 ^ SEED;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(byte, own)| *byte = *own);
        hash = (hash.rotate_left(29) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    hash.wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::testing::rule;

    fn request<'a>(verb: &'a str, resource: &'a str, subresource: &'a str, path: &'a str) -> Mask {
        let name = "a";
        Mask::of_request(&AuthorizationAttributes { verb, resource, subresource, path, name, ..Default::default() })
    }

    #[test]
    fn sets_of_one_word_do_not_overlap() {
        for (a, b) in [(VERBS, GROUPS), (RESOURCES, PATHS)] {
            assert_eq!((a.all() & b.all(), a.all() | b.all()), (0, u64::MAX));
        }
        for set in [VERBS, GROUPS, RESOURCES, PATHS, NAMES] {
            let bits = (0..10_000).fold(0, |bits, i| bits | set.of(format!("value-{i}").as_bytes()));
            assert_eq!(bits, set.all());
        }
    }

    #[test]
    fn rules_are_rejected_by_verb_resource_name_and_path() {
        let any = Mask::of_rule(&rule("*", "*", "*", "", ""));
        let pods = Mask::of_rule(&rule("get,list", "", "pods,*/scale", "", ""));
        let paths = Mask::of_rule(&rule("get", "", "", "", "/apis/*,/healthz"));
        for (mask, verb, resource, subresource, path, expect) in [
            (any, "get", "pods", "status", "", true),
            (any, "get", "", "", "/apis", false),
            (pods, "get", "pods", "", "", true),
            (pods, "update", "pods", "", "", false),
            (pods, "get", "secrets", "", "", false),
            (pods, "list", "secrets", "scale", "", true),
            (pods, "get", "", "", "/apis", false),
            (paths, "get", "", "", "/apis/v1", true),
            (paths, "get", "", "", "/healthz", true),
            (paths, "post", "", "", "/healthz", false),
            (paths, "get", "", "", "/metrics", false),
            (paths, "get", "pods", "", "", false),
        ] {
            let found = mask.may_allow(&request(verb, resource, subresource, path));
            assert_eq!(found, expect, "{verb} {resource}/{subresource} {path}");
        }
        let named = |names| Mask::of_rule(&rule("get", "", "pods", names, ""));
        let request = request("get", "pods", "", "");
        assert!(named("").may_allow(&request) && named("b,a").may_allow(&request) && !named("b").may_allow(&request));
        assert!(pods.union(paths).may_allow(&request) && !Mask::default().may_allow(&request));
    }

    #[test]
    fn long_resources_are_not_rejected() {
        let long = "x".repeat(200);
        for length in [1, 100, MAX_RESOURCE - 2, MAX_RESOURCE - 1, MAX_RESOURCE, MAX_RESOURCE + 1, 200] {
            let resource = &long[..length];
            for subresource in ["", "s", "status", resource] {
                let name =
                    if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
                let mask = Mask::of_rule(&rule("get", "", &name, "", ""));
                assert!(mask.may_allow(&request("get", resource, subresource, "")), "{name}");
            }
        }
    }

    #[test]
    fn usual_verbs_and_groups_have_different_bits() {
        let verbs =
            "get list watch create update patch delete deletecollection use bind escalate impersonate approve sign";
        let groups = " apps batch autoscaling policy networking.k8s.io rbac.authorization.k8s.io storage.k8s.io";
        for (set, values) in [(VERBS, verbs), (GROUPS, groups)] {
            let values: Vec<_> = values.split(' ').collect();
            let bits = values.iter().fold(0, |bits, value| bits | set.of(value.as_bytes()));
            assert_eq!(bits.count_ones() as usize, values.len());
        }
    }
}
