//! The status of a CRD, one update after the other. Upstream's controllers `status`, `apiapproval` and `establish` of
//! apiextensions-apiserver make one update each.

use std::sync::Arc;

use pintle_kinds::{ApiApproval, api_approval, has_unreadable_bundle};
use pintle_value::Value;
use pintle_value::time::Time;

use crate::conditions::is_current_condition;
use crate::names::accept_names;
use crate::{Condition, is_condition_true, set_condition};

/// The CRD with the next update of its status, or `None` if the status is up to date. `others` are the group and the
/// accepted names of the other CRDs of the group.
#[must_use]
pub fn next_status(definition: &Value, others: &[Arc<Value>], now: Time) -> Option<Value> {
    let next = || {
        let condition = approval_condition(definition).or_else(|| established_condition(definition))?;
        let mut definition = definition.clone();
        set_condition(&mut definition, &condition, now);
        Some(definition)
    };
    accept_names(definition, others, now).or_else(next)
}

/// True if the condition about the API approval is up to date.
#[must_use]
pub fn is_approval_current(definition: &Value) -> bool {
    approval_condition(definition).is_none()
}

/// The new condition about the API approval of a CRD, `None` if it does not change.
fn approval_condition(definition: &Value) -> Option<Condition> {
    let (approval, description) = api_approval(definition)?;
    let (status, reason) = match approval {
        ApiApproval::Given => (true, "ApprovedAnnotation"),
        ApiApproval::Bypassed => (false, "UnapprovedAnnotation"),
        ApiApproval::Invalid => (false, "InvalidAnnotation"),
        ApiApproval::Missing => (false, "MissingAnnotation"),
    };
    let condition = Condition::new("KubernetesAPIApprovalPolicyConformant", status, reason, description);
    (!is_current_condition(definition, &condition)).then_some(condition)
}

/// The new condition `Established`, `None` if it does not change. A CRD whose names were accepted is served even if it
/// is not established.
fn established_condition(definition: &Value) -> Option<Condition> {
    if !is_condition_true(definition, "NamesAccepted") || is_condition_true(definition, "Established") {
        return None;
    }
    let condition = if has_unreadable_bundle(definition) {
        Condition::new("Established", false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        Condition::new("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
    };
    (!is_current_condition(definition, &condition)).then_some(condition)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    /// Applies all updates. Returns the condition that each update sets last.
    fn updates(definition: &mut Value, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(next) = next_status(definition, &[], NOW) {
            let conditions = next.items_at(&["status", "conditions"]).iter();
            let texts = conditions
                .filter(|c| c.str_at(&["type"]) == kind)
                .map(|c| ["status", "reason", "message"].map(|key| c.str_at(&[key])).join(" "));
            found.extend(texts);
            *definition = next;
        }
        found
    }

    fn definition(group: &str) -> Value {
        object! {
            "metadata": object! { "name": format!("widgets.{group}") },
            "spec": object! { "group": group, "names": object! { "plural": "widgets", "kind": "Widget" } },
        }
    }

    #[test]
    fn a_definition_is_established_after_its_names_are_accepted() {
        let expect = [
            "False Installing the initial names have been accepted",
            "True InitialNamesAccepted the initial names have been accepted",
        ];
        assert_eq!(updates(&mut definition("example.com"), "Established"), expect);
    }

    #[test]
    fn a_definition_is_not_established_while_its_ca_bundle_is_unreadable() {
        let mut found = definition("example.com");
        let bundle = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
        found.set_at(&bundle, "bm8gcGVt");
        let expect = [
            "False Installing the initial names have been accepted",
            "False InvalidCABundle The conversion webhook CABundle is invalid",
        ];
        assert_eq!(updates(&mut found, "Established"), expect);
        found.remove_at(&bundle);
        let expect = ["True InitialNamesAccepted the initial names have been accepted"];
        assert_eq!(updates(&mut found, "Established"), expect);
    }

    #[test]
    fn definitions_of_protected_groups_report_their_approval() {
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
        let kind = "KubernetesAPIApprovalPolicyConformant";
        for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "a.kubernetes.io"] {
            let mut found = definition(group);
            assert_eq!(updates(&mut found, kind).pop(), Some(format!("False MissingAnnotation {must}, {see}")));
            for (annotation, expect) in [
                ("unapproved, \"a\"", "False UnapprovedAnnotation not approved: \"unapproved, \\\"a\\\"\"".to_owned()),
                ("https://example.com/1", "True ApprovedAnnotation approved in https://example.com/1".to_owned()),
                ("yes", {
                    let either = "with either a URL or a reason starting with \"unapproved\"";
                    format!("False InvalidAnnotation {must} {either}, {see}")
                }),
            ] {
                found.set_at(&["metadata", "annotations", "api-approved.kubernetes.io"], annotation);
                assert!(!is_approval_current(&found), "{annotation}");
                assert_eq!(updates(&mut found, kind), [expect]);
                assert!(is_approval_current(&found), "{annotation}");
            }
        }
        assert_eq!(updates(&mut definition("notk8s.io"), kind), [""; 0]);
    }
}
