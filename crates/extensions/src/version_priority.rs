//! The priority of versions in a group (upstream: `version.CompareKubeAwareVersionStrings`). Stable versions come
//! before betas, and betas before alphas. Higher versions come before lower ones. Other names come last, by name.

use std::cmp::{Ordering, Reverse};

use pintle_registry::Resource;

/// The order of custom resources in discovery: groups by name, then versions by priority.
#[must_use]
pub fn discovery_order(a: &Resource, b: &Resource) -> Ordering {
    let by_version = || version_order(&a.version, &b.version);
    a.group.cmp(&b.group).then_with(by_version).then_with(|| a.plural.cmp(&b.plural))
}

/// The order of preference of two versions. The preferred version is less.
#[must_use]
pub fn version_order(a: &str, b: &str) -> Ordering {
    preference(a).cmp(&preference(b))
}

/// The stability of a version, its major number, and its alpha or beta number.
type Parsed = (u8, u64, u64);

/// The sort key of a version. Preferred versions sort first.
fn preference(version: &str) -> (Reverse<Option<Parsed>>, &str) {
    match parse(version) {
        Some(parsed) => (Reverse(Some(parsed)), ""),
        None => (Reverse(None), version),
    }
}

/// Parses a version such as `v2beta1`.
fn parse(version: &str) -> Option<Parsed> {
    let number = |digits: &str| {
        let plain = !digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let rest = version.strip_prefix('v')?;
    for (name, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(name) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_high_versions_come_first() {
        let mut versions =
            ["foo1", "v1alpha1", "v3beta1", "v12alpha1", "v2", "v11beta2", "foo10", "v10", "v11alpha2", "v1"];
        versions.sort_by(|a, b| version_order(a, b));
        let expect = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, expect);
    }
}
