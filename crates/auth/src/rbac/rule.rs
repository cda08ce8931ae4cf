//! Matches requests with rules, and prints rules and subjects as messages contain them (upstream:
//! `pkg/apis/rbac/v1/evaluation_helpers.go`, `plugin/pkg/auth/authorizer/rbac`).

use std::fmt::{self, Display};

use pintle_value::Str;
use pintle_value::print::quote;

use super::policy::{PolicyRule, Subject, SubjectKind};
use crate::AuthorizationAttributes;
use crate::text::quote_list;

/// Matches everything, in every list except object names.
const ALL: &str = "*";

/// The lists of a rule, or a part of them.
#[derive(Clone, Copy, Default)]
pub(super) struct RuleLists<'a> {
    pub(super) verbs: &'a [Str],
    pub(super) api_groups: &'a [Str],
    pub(super) resources: &'a [Str],
    pub(super) resource_names: &'a [Str],
    pub(super) non_resource_urls: &'a [Str],
}

impl<'a> From<&'a PolicyRule> for RuleLists<'a> {
    fn from(rule: &'a PolicyRule) -> Self {
        let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
        Self { verbs, api_groups, resources, resource_names, non_resource_urls }
    }
}

impl RuleLists<'_> {
    /// The number of strings.
    pub(super) fn len(&self) -> usize {
        let lists = [self.verbs, self.api_groups, self.resources, self.resource_names, self.non_resource_urls];
        lists.iter().map(|list| list.len()).sum()
    }

    pub(super) fn to_rule(self) -> PolicyRule {
        PolicyRule {
            verbs: self.verbs.to_vec(),
            api_groups: self.api_groups.to_vec(),
            resources: self.resources.to_vec(),
            resource_names: self.resource_names.to_vec(),
            non_resource_urls: self.non_resource_urls.to_vec(),
        }
    }

    /// Returns whether the rule allows the request of the attributes.
    pub(super) fn allows(&self, attributes: &AuthorizationAttributes<'_>) -> bool {
        if !includes(self.verbs, attributes.verb) {
            return false;
        }
        if attributes.is_resource_request() {
            includes(self.api_groups, attributes.group)
                && self.resource_matches(attributes.resource, attributes.subresource)
                && self.resource_name_matches(attributes.name)
        } else {
            self.non_resource_urls.iter().any(|rule| non_resource_url_covers(rule, attributes.path))
        }
    }

    /// Returns whether the rule is about a resource, or about its subresource if that is not empty. `*` in a rule
    /// stands for every resource and subresource. `*/scale` stands for the subresource `scale` of every resource.
    fn resource_matches(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == ALL {
                true
            } else if subresource.is_empty() {
                rule == resource
            } else {
                let Some(rest) = rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/')) else {
                    return false;
                };
                rest == resource || rest == ALL
            }
        })
    }

    /// Returns whether the rule is about an object of this name. The name is empty in requests for collections. A rule
    /// with names does not allow such requests.
    fn resource_name_matches(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|rule| rule == name)
    }
}

/// Returns whether a list of verbs or groups includes a value.
fn includes(list: &[Str], value: &str) -> bool {
    list.iter().any(|item| item == ALL || item == value)
}

impl PolicyRule {
    /// Returns whether the rule allows the request of the attributes.
    #[must_use]
    pub fn allows(&self, attributes: &AuthorizationAttributes<'_>) -> bool {
        RuleLists::from(self).allows(attributes)
    }

    /// The rule in the form that escalation errors contain (`CompactString`).
    #[must_use]
    pub fn compact_string(&self) -> String {
        let lists = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let lists = lists.iter().filter(|(_, values)| !values.is_empty());
        let parts: Vec<_> = lists.map(|(name, values)| format!("{name}:{}", quote_list(values))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// The rule as Go prints the API type.
impl Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "&PolicyRule{{Verbs:[{}],APIGroups:[{}],Resources:[{}],ResourceNames:[{}],NonResourceURLs:[{}],}}",
            self.verbs.join(" "),
            self.api_groups.join(" "),
            self.resources.join(" "),
            self.resource_names.join(" "),
            self.non_resource_urls.join(" ")
        )
    }
}

/// Returns whether a path or pattern `rule` includes all of `path`, which is a path or a pattern.
pub(super) fn non_resource_url_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

impl Subject {
    /// Appends the subject as reasons contain it: `Group "system:masters"`, `ServiceAccount "NAME/NAMESPACE"`.
    pub(super) fn describe(&self, out: &mut String, binding_namespace: &str) {
        out.push_str(self.kind.as_str());
        out.push(' ');
        if self.kind == SubjectKind::ServiceAccount {
            push_quoted(out, &[&self.name, "/", self.namespace_or(binding_namespace)]);
        } else {
            push_quoted(out, &[&self.name]);
        }
    }
}

/// Appends texts as one text that Go's `%q` quotes.
pub(super) fn push_quoted(out: &mut String, parts: &[&str]) {
    let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if parts.iter().all(|part| part.bytes().all(plain)) {
        out.push('"');
        parts.iter().for_each(|part| out.push_str(part));
        out.push('"');
    } else {
        out.push_str(&quote(&parts.concat()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::testing::{rule, subject};

    fn check_resource(rules: &str, resource: &str, subresource: &str, expect: bool) {
        let rule = rule("", "", rules, "", "");
        let found = RuleLists::from(&rule).resource_matches(resource, subresource);
        assert_eq!(found, expect, "{rules} / {resource} {subresource}");
    }

    #[test]
    fn resources_match_exactly_or_by_wildcard() {
        for (rules, resource, subresource, expect) in [
            ("*", "foo", "", true),
            ("*", "foo", "bar", true),
            ("other,*", "foo", "", true),
            ("foo", "foo", "", true),
            ("foo", "foo", "bar", false),
            ("foo/bar", "foo", "bar", true),
            ("foo/bar", "foo", "", false),
            ("foo/bar", "baz", "bar", false),
            ("*/scale", "foo", "scale", true),
            ("*/scale", "foo", "", false),
            ("*/scale", "scale", "", false),
            // A subresource may consist of several segments. They are compared as a whole.
            ("foo/bar,*/other", "foo", "other/segment", false),
            ("*/other/segment", "foo", "other/segment", true),
            ("*/segment", "foo", "other/segment", false),
            ("", "foo", "other/segment", false),
            ("/", "foo", "other/segment", false),
            ("*/", "foo", "other/segment", false),
            ("*/", "foo", "", false),
            ("*something/other/segment", "foo", "other/segment", false),
            ("something/other/segment", "foo", "other/segment", false),
            ("foo*", "foobar", "", false),
            ("é", "foo", "bar", false),
        ] {
            check_resource(rules, resource, subresource, expect);
        }
    }

    fn check(rule: &PolicyRule, verb: &str, group: &str, resource: &str, name: &str, expect: bool) {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes =
            AuthorizationAttributes { verb, group, resource, subresource, name, ..AuthorizationAttributes::default() };
        assert_eq!(rule.allows(&attributes), expect, "{rule}: {attributes:?}");
    }

    #[test]
    fn a_rule_allows_every_combination_of_its_lists_and_no_other() {
        // Each row is a rule, and the names that it includes: of the verbs v1 and v2, groups g1 and g2, and the
        // resources below.
        let resources = ["r1", "r2", "r1/s1", "r1/s2", "r2/s1"];
        for (rule, verbs, groups, included) in [
            (rule("*", "g1", "r1", "", ""), &["v1", "v2"][..], &["g1"][..], &["r1"][..]),
            (rule("v1", "*", "r1", "", ""), &["v1"], &["g1", "g2"], &["r1"]),
            (rule("v1", "g1", "*", "", ""), &["v1"], &["g1"], &resources),
            (rule("v1,v2", "g1,g2", "r1,r2", "", ""), &["v1", "v2"], &["g1", "g2"], &["r1", "r2"]),
            (rule("*", "*", "r1/s1", "", ""), &["v1", "v2"], &["g1", "g2"], &["r1/s1"]),
            (rule("v1", "g1", "*/s1", "", ""), &["v1"], &["g1"], &["r1/s1", "r2/s1"]),
            // A rule without verbs, groups or resources allows nothing, and neither does a rule for paths.
            (rule("", "*", "*", "", ""), &[], &["g1", "g2"], &resources),
            (PolicyRule { verbs: vec!["*".into()], ..PolicyRule::default() }, &["v1", "v2"], &[], &[]),
            (rule("*", "", "", "", "*"), &["v1", "v2"], &[], &[]),
        ] {
            for verb in ["v1", "v2"] {
                for group in ["g1", "g2"] {
                    for resource in resources {
                        let expect = verbs.contains(&verb) && groups.contains(&group) && included.contains(&resource);
                        check(&rule, verb, group, resource, "any", expect);
                    }
                }
            }
        }
    }

    #[test]
    fn names_restrict_a_rule_to_objects() {
        let named = rule("*", "*", "*", "a,b", "");
        for (name, expect) in [("a", true), ("b", true), ("c", false), ("", false)] {
            check(&named, "get", "", "pods", name, expect);
        }
        check(&rule("*", "*", "*", "*", ""), "get", "", "pods", "a", false);
        check(&rule("*", "*", "*", "", ""), "list", "", "pods", "", true);
    }

    #[test]
    fn attributes_without_resource_and_path_match_all_resources_only() {
        check(&rule("*", "*", "*", "", ""), "get", "", "", "", true);
        check(&rule("*", "*", "pods", "", ""), "get", "", "", "", false);
        check(&rule("*", "", "", "", "*"), "get", "", "", "", false);
    }

    #[test]
    fn paths_match_exactly_or_by_prefix() {
        for (urls, path, expect) in [
            ("*", "/", true),
            ("*", "/foo/bar", true),
            ("/foo/*", "/foo", false),
            ("/foo/*", "/foo/", true),
            ("/foo/*", "/foo/bar/one", true),
            ("/foo/*", "/notfoo/bar", false),
            ("/foo,/foo/bar/one", "/foo", true),
            ("/foo,/foo/bar/one", "/foo/bar", false),
            ("/foo,/foo/bar/one", "/foo/bar/one", true),
            ("/foo**", "/foobar", true),
            ("/*/bar", "/foo/bar", false),
            ("", "/foo", false),
        ] {
            let rule = rule("get", "", "", "", urls);
            let attributes = AuthorizationAttributes { verb: "get", path, ..AuthorizationAttributes::default() };
            assert_eq!(rule.allows(&attributes), expect, "{urls} {path}");
            let other = AuthorizationAttributes { verb: "post", ..attributes };
            assert!(!rule.allows(&other), "{urls} {path}");
        }
    }

    #[test]
    fn rules_and_subjects_are_printed_as_upstream_prints_them() {
        let resources = rule("get,list", ",apps", "pods,*/scale", "a\"b", "");
        assert_eq!(
            resources.compact_string(),
            r#"{APIGroups:["" "apps"], Resources:["pods" "*/scale"], ResourceNames:["a\"b"], Verbs:["get" "list"]}"#
        );
        assert_eq!(
            resources.to_string(),
            r#"&PolicyRule{Verbs:[get list],APIGroups:[ apps],Resources:[pods */scale],ResourceNames:[a"b],NonResourceURLs:[],}"#
        );
        let paths = PolicyRule { non_resource_urls: vec!["/x".into()], ..PolicyRule::default() };
        assert_eq!(paths.compact_string(), r#"{NonResourceURLs:["/x"]}"#);
        assert_eq!(PolicyRule::default().compact_string(), "{}");
        for (description, expect) in [
            ("User:jane", r#"User "jane""#),
            ("User:ja\"ne\n", r#"User "ja\"ne\n""#),
            ("Group:émile", r#"Group "émile""#),
            ("ServiceAccount:sa", r#"ServiceAccount "sa/own""#),
            ("ServiceAccount:ns/sa", r#"ServiceAccount "sa/ns""#),
        ] {
            let mut text = String::new();
            subject(description).describe(&mut text, "own");
            assert_eq!(text, expect);
        }
    }
}
