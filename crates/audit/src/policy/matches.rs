//! The match of rules and requests (upstream: `ruleMatches`).

use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_value::Str;

use super::{GroupResources, Rule};

fn has(list: &[Str], text: &str) -> bool {
    list.iter().any(|item| item == text)
}

impl Rule {
    pub(super) fn matches(&self, user: Option<&UserInfo>, attributes: &AuthorizationAttributes<'_>) -> bool {
        let of_user = |matches: &dyn Fn(&UserInfo) -> bool| user.is_some_and(matches);
        if !self.users.is_empty() && !of_user(&|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &UserInfo| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !of_user(&in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, attributes.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return attributes.is_resource_request() && self.matches_resource(attributes);
        }
        self.non_resource_urls.is_empty()
            || (!attributes.is_resource_request()
                && self.non_resource_urls.iter().any(|url| path_matches(attributes.path, url)))
    }

    fn matches_resource(&self, attributes: &AuthorizationAttributes<'_>) -> bool {
        // Cluster-scoped resources have the namespace "".
        (self.namespaces.is_empty() || has(&self.namespaces, attributes.namespace))
            && (self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(attributes)))
    }
}

impl GroupResources {
    fn matches(&self, attributes: &AuthorizationAttributes<'_>) -> bool {
        if self.group != attributes.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        (self.resource_names.is_empty() || has(&self.resource_names, attributes.name))
            && self.resources.iter().any(|rule| resource_matches(rule, attributes.resource, attributes.subresource))
    }
}

/// Matches `*`, `resource`, `resource/subresource`, `resource/*` and `*/subresource`. As in upstream, `resource/*`
/// matches the resource itself, too.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" || (subresource.is_empty() && rule == resource) {
        return true;
    }
    let Some((of, part)) = rule.rsplit_once('/') else { return false };
    (part == "*" && of == resource) || (!subresource.is_empty() && part == subresource && (of == resource || of == "*"))
}

fn path_matches(path: &str, rule: &str) -> bool {
    rule == "*" || rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}
