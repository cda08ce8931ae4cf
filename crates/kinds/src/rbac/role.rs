//! The strategies for Role and ClusterRole (upstream: `pkg/apis/rbac/validation`,
//! `pkg/registry/rbac/{role,clusterrole}`).

use pintle_registry::{EscalationCheck, Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, names};

use crate::labels;
use crate::labels::validate_selector;
use crate::validation::strings_at;

/// The strategy for Role and ClusterRole.
pub(crate) struct RoleStrategy {
    namespaced: bool,
}

pub(crate) const ROLE: RoleStrategy = RoleStrategy { namespaced: true };
pub(crate) const CLUSTER_ROLE: RoleStrategy = RoleStrategy { namespaced: false };

impl Strategy for RoleStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        self.check(object, old.is_some_and(|old| cluster_role_selectors(old).iter().any(labels::is_invalid_selector)))
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment_name(name, false)
    }

    fn escalation_check(&self) -> Option<EscalationCheck> {
        Some(EscalationCheck::Role)
    }
}

fn cluster_role_selectors(role: &Value) -> &[Value] {
    role.items_at(&["aggregationRule", "clusterRoleSelectors"])
}

impl RoleStrategy {
    /// Validates a role. With `any_value`, selectors may contain malformed label values.
    fn check(&self, role: &Value, any_value: bool) -> Errors {
        let mut errors = Errors::new();
        let rules = FieldPath::new("rules");
        for (i, rule) in role.items_at(&["rules"]).iter().enumerate() {
            self.check_rule(&mut errors, &rules.index(i), rule);
        }
        if !self.namespaced && role.get("aggregationRule").is_some() {
            let rule = FieldPath::new("aggregationRule");
            let path = rule.child("clusterRoleSelectors");
            if cluster_role_selectors(role).is_empty() {
                errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
            }
            for (i, selector) in cluster_role_selectors(role).iter().enumerate() {
                let path = path.index(i);
                errors.append(validate_selector(Some(selector), any_value, &path));
                // Upstream shows the selector that could not be built, which is nil.
                if labels::is_invalid_selector(selector) {
                    errors.invalid(&path, Value::Null, "invalid label selector.");
                }
            }
        }
        errors
    }

    fn check_rule(&self, errors: &mut Errors, path: &FieldPath<'_>, rule: &Value) {
        let empty = |field: &str| rule.items_at(&[field]).is_empty();
        if empty("verbs") {
            errors.required(&path.child("verbs"), "verbs must contain at least one value");
        }
        if !empty("nonResourceURLs") {
            let path = path.child("nonResourceURLs");
            let urls: Value =
                strings_at(rule, &["nonResourceURLs"]).into_iter().map(Value::from).collect::<Vec<_>>().into();
            if self.namespaced {
                errors.invalid(&path, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
            }
            if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
                errors.invalid(&path, urls, "rules cannot apply to both regular resources and non-resource URLs");
            }
            return;
        }
        if empty("apiGroups") {
            errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
        }
        if empty("resources") {
            errors.required(&path.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn check(role: &RoleStrategy, json: &str, expect: &[&str]) {
        assert_eq!(messages(&role.validate(&context(), &object(json))), expect, "{json}");
    }

    #[test]
    fn rules_require_resources_or_urls() {
        let pods = r#"{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}"#;
        let urls = r#"{"rules":[{"verbs":["get"],"nonResourceURLs":["/metrics"]}]}"#;
        check(&ROLE, pods, &[]);
        check(&CLUSTER_ROLE, pods, &[]);
        check(&CLUSTER_ROLE, urls, &[]);
        check(
            &ROLE,
            urls,
            &[
                "rules[0].nonResourceURLs: Invalid value: [\"/metrics\"]: namespaced rules cannot apply to non-resource URLs",
            ],
        );
        check(
            &ROLE,
            r#"{"rules":[{"verbs":[]}]}"#,
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        );
        check(
            &CLUSTER_ROLE,
            r#"{"rules":[{"verbs":["*"],"nonResourceURLs":["*"],"resources":["*"]}]}"#,
            &[
                "rules[0].nonResourceURLs: Invalid value: [\"*\"]: rules cannot apply to both regular resources and non-resource URLs",
            ],
        );
    }

    #[test]
    fn aggregation_rules_require_selectors() {
        check(
            &CLUSTER_ROLE,
            r#"{"rules":null,"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#,
            &[],
        );
        check(
            &CLUSTER_ROLE,
            r#"{"aggregationRule":{}}"#,
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        );
        let bad =
            r#"{"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"Is"}]}]}}"#;
        check(
            &CLUSTER_ROLE,
            bad,
            &[
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        );
    }

    #[test]
    fn role_names_are_path_segments() {
        assert!(ROLE.validate_name("system:node", false).is_empty());
        assert_eq!(ROLE.validate_name("a/b", false), ["may not contain '/'"]);
        assert_eq!(ROLE.validate_name("..", true), ["may not be '..'"]);
    }
}
