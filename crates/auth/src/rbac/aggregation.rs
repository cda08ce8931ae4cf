//! Aggregation of cluster roles: an aggregated role has the rules of the roles that its selectors match (upstream:
//! `pkg/controller/clusterroleaggregation`).

use std::collections::HashSet;

use pintle_selector::{LabelSelector, SelectorParseError};
use pintle_value::Value;

use super::policy::{PolicyRule, Role};

/// The selectors of an aggregated cluster role; `None` if the role is not aggregated.
///
/// # Errors
/// A selector is invalid.
pub fn aggregation_selectors(role: &Value) -> Result<Option<Vec<LabelSelector>>, SelectorParseError> {
    let Some(rule) = role.get("aggregationRule") else { return Ok(None) };
    rule.items_at(&["clusterRoleSelectors"])
        .iter()
        .map(LabelSelector::from_label_selector)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The rules of cluster roles in their order, each rule once. A role that cannot be read has no rules.
pub fn combined_rules(roles: impl IntoIterator<Item = Value>) -> Vec<PolicyRule> {
    let mut seen = HashSet::new();
    let rules = roles.into_iter().flat_map(|role| Role::from_value(&role).unwrap_or_default().rules);
    rules.filter(|rule| seen.insert(rule.clone())).collect()
}

/// The configuration to apply to an aggregated cluster role so that it has these rules; `None` if the role already has
/// them. Without rules, the configuration has no field `rules`.
#[must_use]
pub fn aggregated_role(role: &Value, rules: &[PolicyRule]) -> Option<Value> {
    if Role::from_value(role).is_ok_and(|role| role.rules == rules) {
        return None;
    }
    let mut configuration = Value::object();
    for key in ["apiVersion", "kind"] {
        configuration.set(key, role[key].clone());
    }
    configuration.set_at(&["metadata", "name"], role.name());
    if !rules.is_empty() {
        configuration.set("rules", rules.iter().cloned().map(Value::from).collect::<Vec<_>>());
    }
    Some(configuration)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;
    use crate::rbac::testing::rule;

    /// A cluster role that may get the given resources, one rule each.
    fn role(name: &str, resources: &str) -> Value {
        let rules: Vec<Value> = resources.split_whitespace().map(|r| Value::from(rule("get", "", r, "", ""))).collect();
        object! {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": object! { "name": name },
            "rules": rules,
        }
    }

    #[test]
    fn a_rule_that_several_roles_have_comes_once_and_the_order_is_kept() {
        let roles = ["boards", "nails wedges", "boards nails"].map(|resources| role("", resources));
        let resources: Vec<_> = combined_rules(roles).iter().map(|rule| rule.resources.join(",")).collect();
        assert_eq!(resources, ["boards", "nails", "wedges"]);
        assert_eq!(combined_rules([object! { "rules": "unreadable" }]), []);
    }

    #[test]
    fn rules_are_applied_if_they_differ() {
        let check = |existing: &str, aggregated: &str, expect: Option<&str>| {
            let rules = combined_rules([role("", aggregated)]);
            let expect = expect.map(|resources| {
                let mut expect = role("combined", resources);
                if resources.is_empty() {
                    expect.remove("rules");
                }
                expect
            });
            assert_eq!(aggregated_role(&role("combined", existing), &rules), expect, "{existing} {aggregated}");
        };
        check("", "", None);
        check("boards", "boards", None);
        check("boards", "", Some(""));
        check("", "boards", Some("boards"));
        check("boards nails", "nails boards", Some("nails boards"));
        let mut without_rules = role("combined", "");
        without_rules.remove("rules");
        assert_eq!(aggregated_role(&without_rules, &[]), None);
    }

    #[test]
    fn selectors_are_those_of_the_aggregation_rule() {
        let mut combined = role("combined", "");
        assert!(aggregation_selectors(&combined).is_ok_and(|selectors| selectors.is_none()));
        let mut selector = Value::object();
        selector.set_at(&["matchLabels", "foo"], "bar");
        combined.set_at(&["aggregationRule", "clusterRoleSelectors"], vec![selector.clone(), Value::object()]);
        let selectors = aggregation_selectors(&combined).expect("valid").expect("aggregated");
        let matches = |label: Option<&'static str>| selectors.iter().map(|s| s.matches(|_| label)).collect::<Vec<_>>();
        assert_eq!(matches(Some("bar")), [true, true]);
        assert_eq!(matches(None), [false, true]);
        selector.set_at(&["matchLabels", "foo"], "not a label!");
        combined.set_at(&["aggregationRule", "clusterRoleSelectors"], vec![selector]);
        assert!(aggregation_selectors(&combined).is_err());
    }
}
