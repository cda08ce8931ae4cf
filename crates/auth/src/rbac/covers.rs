//! Finds the permissions that some rules grant and others do not (upstream:
//! `component-helpers/auth/rbac/validation/policy_comparator.go`, `pkg/registry/rbac/validation/policy_compact.go`).

use std::collections::HashSet;
use std::slice::from_ref;

use pintle_value::Str;

use super::policy::PolicyRule;
use super::rule::{RuleLists, non_resource_url_covers};

/// The maximum number of permissions that are compared one by one. Upstream has no limit. But a small object can
/// contain more permissions than fit into memory, because their number is the product of the lengths of a rule's lists.
const MAX_PERMISSIONS: usize = 100_000;
/// The maximum number of comparisons of a permission with a held rule. They take a tenth or two tenths of a second.
const MAX_COMPARISONS: usize = 5_000_000;

/// The number of permissions that a part of a rule stands for.
fn count(part: &RuleLists<'_>) -> usize {
    let targets = if part.non_resource_urls.is_empty() {
        let targets = part.api_groups.len().saturating_mul(part.resources.len());
        targets.saturating_mul(part.resource_names.len().max(1))
    } else {
        part.non_resource_urls.len()
    };
    targets.saturating_mul(part.verbs.len())
}

/// The part of a rule that is about resources, and the part that is about paths. Verbs belong to both parts.
fn parts(rule: &PolicyRule) -> [RuleLists<'_>; 2] {
    let all = RuleLists::from(rule);
    let paths = RuleLists { verbs: all.verbs, non_resource_urls: all.non_resource_urls, ..RuleLists::default() };
    [RuleLists { non_resource_urls: &[], ..all }, paths]
}

/// Calls a function with every single permission of a part of a rule, in upstream's order.
fn for_each_permission<'a>(part: RuleLists<'a>, mut each: impl FnMut(RuleLists<'a>)) {
    for url in part.non_resource_urls {
        for verb in part.verbs {
            each(RuleLists { verbs: from_ref(verb), non_resource_urls: from_ref(url), ..RuleLists::default() });
        }
    }
    for group in part.api_groups {
        for resource in part.resources {
            for verb in part.verbs {
                let any_name = RuleLists {
                    verbs: from_ref(verb),
                    api_groups: from_ref(group),
                    resources: from_ref(resource),
                    ..RuleLists::default()
                };
                if part.resource_names.is_empty() {
                    each(any_name);
                }
                for name in part.resource_names {
                    each(RuleLists { resource_names: from_ref(name), ..any_name });
                }
            }
        }
    }
}

/// Splits a rule into rules with a single verb and a single resource, object name or path each (`BreakdownRule`).
#[cfg(test)]
fn breakdown_rule(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut permissions = Vec::new();
    for part in parts(rule) {
        for_each_permission(part, |permission| permissions.push(permission.to_rule()));
    }
    permissions
}

/// The permissions of the granted rules that the held rules do not include, each as a rule of its own (`Covers`). The
/// result is empty if everything is held.
///
/// At most 100,000 permissions are compared, with at most five million comparisons with held rules. Beyond these
/// limits, a rule whose resources or paths no single held rule includes counts as not held. It is returned undivided.
#[must_use]
pub fn uncovered_rules(held: &[PolicyRule], granted: &[PolicyRule]) -> Vec<PolicyRule> {
    let held: Vec<_> = held.iter().map(RuleLists::from).collect();
    let mut uncovered = Vec::new();
    let (mut permissions_left, mut comparisons_left) = (MAX_PERMISSIONS, MAX_COMPARISONS);
    for part in granted.iter().flat_map(parts) {
        let permissions = count(&part);
        if permissions == 0 || held.iter().any(|held| rule_covers(held, &part)) {
            continue;
        }
        let rest = permissions_left.checked_sub(permissions);
        let Some(rest) = rest.zip(comparisons_left.checked_sub(permissions.saturating_mul(held.len()))) else {
            uncovered.push(part.to_rule());
            continue;
        };
        (permissions_left, comparisons_left) = rest;
        for_each_permission(part, |permission| {
            if !held.iter().any(|held| rule_covers(held, &permission)) {
                uncovered.push(permission.to_rule());
            }
        });
    }
    uncovered
}

/// Returns whether one rule includes all of another, which is about resources or about paths.
fn rule_covers(held: &RuleLists<'_>, granted: &RuleLists<'_>) -> bool {
    let includes = |held: &[Str], granted: &[Str]| held.iter().any(|value| value == "*") || contains_all(held, granted);
    let names_cover = held.resource_names.is_empty()
        || (!granted.resource_names.is_empty() && contains_all(held.resource_names, granted.resource_names));
    names_cover
        && includes(held.verbs, granted.verbs)
        && includes(held.api_groups, granted.api_groups)
        && resources_cover(held.resources, granted.resources)
        && granted
            .non_resource_urls
            .iter()
            .all(|path| held.non_resource_urls.iter().any(|held| non_resource_url_covers(held, path)))
}

/// Whether a list has all values of another list. Long lists are searched by hash.
fn contains_all(held: &[Str], granted: &[Str]) -> bool {
    const SHORT: usize = 8;
    if held.len() <= SHORT || granted.len() <= SHORT {
        return granted.iter().all(|value| held.contains(value));
    }
    let held: HashSet<&str> = held.iter().map(Str::as_str).collect();
    granted.iter().all(|value| held.contains(value.as_str()))
}

fn resources_cover(held: &[Str], granted: &[Str]) -> bool {
    held.iter().any(|value| value == "*")
        || contains_all(held, granted)
        || granted.iter().all(|resource| {
            held.contains(resource)
                || resource.split_once('/').is_some_and(|(_, subresource)| {
                    held.iter().any(|value| value.strip_prefix("*/") == Some(subresource))
                })
        })
}

/// Joins the verbs of rules for the same resource or named object (`CompactRules`). Other rules stay as they are.
#[must_use]
pub fn compact_rules(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compact: Vec<PolicyRule> = Vec::with_capacity(rules.len());
    let mut simple: std::collections::HashMap<_, usize> = std::collections::HashMap::new();
    for rule in rules {
        if let ([group], [resource], [] | [_], []) =
            (&*rule.api_groups, &*rule.resources, &*rule.resource_names, &*rule.non_resource_urls)
        {
            let key = (group.clone(), resource.clone(), rule.resource_names.first().cloned());
            let index = *simple.entry(key).or_insert(compact.len());
            if let Some(existing) = compact.get_mut(index) {
                existing.verbs.extend(rule.verbs);
                continue;
            }
        }
        compact.push(rule);
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::testing::rule;

    fn compact_strings(rules: &[PolicyRule]) -> Vec<String> {
        rules.iter().map(PolicyRule::compact_string).collect()
    }

    fn check(held: &[PolicyRule], granted: &[PolicyRule], expect: &[PolicyRule]) {
        let found = uncovered_rules(held, granted);
        assert_eq!(compact_strings(&found), compact_strings(expect), "{held:?} {granted:?}");
    }

    #[test]
    fn a_held_rule_covers_the_same_rule_and_parts_of_it() {
        let all = rule("get,list", "g1,g2", "pods,nodes", "", "");
        check(from_ref(&all), from_ref(&all), &[]);
        check(from_ref(&all), &breakdown_rule(&all), &[]);
        check(&breakdown_rule(&all), from_ref(&all), &[]);
        check(&[], &[], &[]);
        check(&[], &[PolicyRule::default(), rule("get", "", "", "", ""), rule("", "", "pods", "", "/x")], &[]);
    }

    #[test]
    fn several_held_rules_cover_one_rule_together() {
        let held = [
            rule("delete", "g1", "deployments", "", ""),
            rule("delete", "g1", "builds", "", ""),
            rule("update", "g1", "builds,deployments", "", ""),
        ];
        let granted = rule("delete,update", "g1", "builds,deployments,pods", "", "");
        let missing = [rule("delete", "g1", "pods", "", ""), rule("update", "g1", "pods", "", "")];
        check(&held, &[granted], &missing);
    }

    #[test]
    fn wildcards_cover_everything_and_are_covered_by_wildcards_only() {
        // Each row tests one list of the rule at a time: the held values, the granted values, and whether the former
        // cover the latter.
        for (held, granted, covered) in [("*", "a", true), ("*", "a,b", true), ("*", "*", true), ("a,b", "*", false)] {
            let lists: [fn(&str) -> PolicyRule; 3] =
                [|v| rule(v, "g", "r", "", ""), |v| rule("v", v, "r", "", ""), |v| rule("v", "g", v, "", "")];
            for list in lists {
                let expect = if covered { vec![] } else { vec![list(granted)] };
                check(&[list(held)], &[list(granted)], &expect);
            }
        }
    }

    #[test]
    fn a_subresource_wildcard_covers_that_subresource() {
        let held = [rule("get", "g", "*/scale", "", "")];
        check(&held, &[rule("get", "g", "foo/scale,*/scale", "", "")], &[]);
        for resource in ["scale", "foo", "foo/status", "foo/scale/more", "*"] {
            let granted = rule("get", "g", resource, "", "");
            check(&held, from_ref(&granted), from_ref(&granted));
        }
        check(&[rule("get", "g", "*/a/b", "", "")], &[rule("get", "g", "foo/a/b", "", "")], &[]);
        // A resource does not cover its subresources, nor the reverse.
        let status = [rule("get", "g", "pods/status", "", "")];
        let pods = [rule("get", "g", "pods", "", "")];
        check(&pods, &status, &status);
        check(&status, &pods, &pods);
    }

    #[test]
    fn names_are_covered_by_themselves_and_by_rules_without_names() {
        let any = rule("get", "g", "pods", "", "");
        let named = rule("get", "g", "pods", "a,b", "");
        check(from_ref(&any), from_ref(&named), &[]);
        check(from_ref(&named), from_ref(&any), from_ref(&any));
        check(from_ref(&named), from_ref(&named), &[]);
        let other = rule("get", "g", "pods", "b,c", "");
        check(from_ref(&named), &[other], &[rule("get", "g", "pods", "c", "")]);
    }

    #[test]
    fn paths_are_covered_by_themselves_and_by_prefixes() {
        for (held, granted, covered) in [
            ("*", "", true),
            ("*", "/", true),
            ("*", "/api", true),
            ("/*", "", false),
            ("/*", "/", true),
            ("/*", "/foo", true),
            ("/api", "/api", true),
            ("/apis", "/api", false),
            ("/api/v1", "/api", false),
            ("/api/v1", "/api/v1", true),
            ("/api/*", "/api/v1", true),
            ("/api/*", "/api/*", true),
            ("/api/*", "/api/v1/*", true),
            ("/api/*", "*", false),
            ("/api/*", "/api", false),
            ("/api/*/*", "/api/v1", false),
            ("/*/v1/*", "/api/v1", false),
        ] {
            assert_eq!(non_resource_url_covers(held, granted), covered, "{held} {granted}");
            if !granted.is_empty() {
                let granted = rule("get", "", "", "", granted);
                let expect = if covered { &[] } else { from_ref(&granted) };
                check(&[rule("*", "", "", "", held)], from_ref(&granted), expect);
            }
        }
        let partly = rule("get", "", "", "", "/apis,/apis/v1");
        check(&[rule("*", "", "", "", "/apis/*")], &[partly], &[rule("get", "", "", "", "/apis")]);
    }

    #[test]
    fn resources_and_paths_of_one_rule_are_compared_apart() {
        let both = rule("get", "g", "builds", "", "/apis");
        check(from_ref(&both), from_ref(&both), &[]);
        check(&[rule("get", "g", "builds", "", "")], from_ref(&both), &[rule("get", "", "", "", "/apis")]);
        // The names of a held rule restrict its paths too.
        let named = rule("get", "g", "builds", "a", "/apis");
        check(from_ref(&named), from_ref(&named), &[rule("get", "", "", "", "/apis")]);
    }

    #[test]
    fn a_rule_with_too_many_permissions_is_not_divided() {
        let many: String = (0..400).map(|i| format!("{i},")).collect();
        let huge = rule(&many, &many, &many, &many, "");
        check(&[], from_ref(&huge), from_ref(&huge));
        check(from_ref(&huge), from_ref(&huge), &[]);
        check(&[rule("*", "*", "*", "", "")], from_ref(&huge), &[]);
        // The permissions alone are few enough, but not with so many held rules.
        let some: String = (0..25).map(|i| format!("{i},")).collect();
        let (granted, held) = (rule(&some, &some, &some, "", ""), rule(&some, &some, "a", "", ""));
        let held_parts: Vec<_> = (0..25).map(|i| rule(&some, &some, &format!("{i},"), "", "")).collect();
        check(&held_parts, from_ref(&granted), &[]);
        let many_held: Vec<_> = held_parts.iter().chain(std::iter::repeat_n(&held, 400)).cloned().collect();
        check(&many_held, from_ref(&granted), from_ref(&granted));
    }

    fn check_compact(rules: &[PolicyRule], expect: &[PolicyRule]) {
        let found = compact_rules(rules.to_vec());
        assert_eq!(compact_strings(&found), compact_strings(expect));
        check(&found, rules, &[]);
        check(rules, &found, &[]);
    }

    #[test]
    fn verbs_of_the_same_resource_or_object_are_joined() {
        check_compact(
            &[
                rule("get", "", "builds", "", ""),
                rule("create", "apps", "daemonsets", "", ""),
                rule("list", "", "builds", "", ""),
                rule("get", "apps", "daemonsets", "foo", ""),
                rule("update,patch", "", "builds", "", ""),
                rule("delete", "apps", "daemonsets", "", ""),
                rule("list", "apps", "daemonsets", "foo", ""),
                rule("get", "apps", "daemonsets", "bar", ""),
                PolicyRule { resource_names: vec!["".into()], ..rule("patch", "apps", "daemonsets", "", "") },
                rule("", "", "pirates", "", ""),
                rule("create", "", "pirates", "", ""),
            ],
            &[
                rule("get,list,update,patch", "", "builds", "", ""),
                rule("create,delete", "apps", "daemonsets", "", ""),
                rule("get,list", "apps", "daemonsets", "foo", ""),
                rule("get", "apps", "daemonsets", "bar", ""),
                PolicyRule { resource_names: vec!["".into()], ..rule("patch", "apps", "daemonsets", "", "") },
                rule("create", "", "pirates", "", ""),
            ],
        );
        check_compact(&[], &[]);
    }

    #[test]
    fn rules_with_several_groups_resources_names_or_with_paths_are_not_joined() {
        let lists: [fn(&str) -> PolicyRule; 6] = [
            |verb| rule(verb, "g1,g2", "builds", "", ""),
            |verb| rule(verb, "", "builds,images", "", ""),
            |verb| rule(verb, "", "builds", "a,b", ""),
            |verb| rule(verb, "", "builds", "", "/"),
            |verb| rule(verb, "", "", "", "/"),
            |verb| PolicyRule { api_groups: vec![], ..rule(verb, "", "builds", "", "") },
        ];
        for list in lists {
            check_compact(&[list("get"), list("list")], &[list("get"), list("list")]);
        }
    }
}
