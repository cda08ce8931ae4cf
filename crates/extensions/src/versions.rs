//! Which version of a group clients should prefer (upstream: `version.CompareKubeAwareVersionStrings`): stable ones before
//! betas before alphas, higher before lower, and what is named otherwise last, by name.

use std::cmp::{Ordering, Reverse};

use pintle_registry::Resource;

/// The order in which discovery shows the resources of custom kinds: groups by name, in them versions by preference.
#[must_use]
pub fn discovery_order(a: &Resource, b: &Resource) -> Ordering {
    let by_version = || preference(&a.version).cmp(&preference(&b.version));
    a.group.cmp(&b.group).then_with(by_version).then_with(|| a.plural.cmp(&b.plural))
}

/// How stable a version is, its number, and that of its beta or alpha.
type Parsed = (u8, u64, u64);

/// Sorts before others what is preferred.
fn preference(version: &str) -> (Reverse<Option<Parsed>>, &str) {
    match parse(version) {
        Some(parsed) => (Reverse(Some(parsed)), ""),
        None => (Reverse(None), version),
    }
}

/// Reads a version such as `v2beta1`.
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
        versions.sort_by(|a, b| preference(a).cmp(&preference(b)));
        let expect = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, expect);
    }
}
