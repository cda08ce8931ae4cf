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
pub fn next_status(crd: &Value, others: &[Arc<Value>], now: Time) -> Option<Value> {
    let next = || {
        let condition = approval_condition(crd).or_else(|| established_condition(crd))?;
        let mut crd = crd.clone();
        set_condition(&mut crd, &condition, now);
        Some(crd)
    };
    accept_names(crd, others, now).or_else(next)
}

/// True if the condition about the API approval is up to date.
#[must_use]
pub fn is_approval_current(crd: &Value) -> bool {
    approval_condition(crd).is_none()
}

/// The new condition about the API approval of a CRD, `None` if it does not change.
fn approval_condition(crd: &Value) -> Option<Condition> {
    let (approval, description) = api_approval(crd)?;
    let (status, reason) = match approval {
        ApiApproval::Given => (true, "ApprovedAnnotation"),
        ApiApproval::Bypassed => (false, "UnapprovedAnnotation"),
        ApiApproval::Invalid => (false, "InvalidAnnotation"),
        ApiApproval::Missing => (false, "MissingAnnotation"),
    };
    let condition = Condition::new("KubernetesAPIApprovalPolicyConformant", status, reason, description);
    (!is_current_condition(crd, &condition)).then_some(condition)
}

/// The new condition `Established`, `None` if it does not change. A CRD whose names were accepted is served even if it
/// is not established.
fn established_condition(crd: &Value) -> Option<Condition> {
    if !is_condition_true(crd, "NamesAccepted") || is_condition_true(crd, "Established") {
        return None;
    }
    let condition = if has_unreadable_bundle(crd) {
        Condition::new("Established", false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        Condition::new("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
    };
    (!is_current_condition(crd, &condition)).then_some(condition)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    /// Applies all updates. Returns the condition that each update sets last.
    fn updates(crd: &mut Value, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(next) = next_status(crd, &[], NOW) {
            let conditions = next.items_at(&["status", "conditions"]).iter();
            let texts = conditions
                .filter(|c| c.str_at(&["type"]) == kind)
                .map(|c| ["status", "reason", "message"].map(|key| c.str_at(&[key])).join(" "));
            found.extend(texts);
            *crd = next;
        }
        found
    }

    fn crd(group: &str) -> Value {
        object! {
            "metadata": object! { "name": format!("widgets.{group}") },
            "spec": object! { "group": group, "names": object! { "plural": "widgets", "kind": "Widget" } },
        }
    }

    #[test]
    fn a_crd_is_established_after_its_names_are_accepted() {
        let expect = [
            "False Installing the initial names have been accepted",
            "True InitialNamesAccepted the initial names have been accepted",
        ];
        assert_eq!(updates(&mut crd("example.com"), "Established"), expect);
    }

    #[test]
    fn a_crd_is_not_established_while_its_ca_bundle_is_unreadable() {
        let mut found = crd("example.com");
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
    fn crds_of_protected_groups_report_their_approval() {
        let see = "see https://github.com/kubernetes/enhancements/pull/1111";
        let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
        let kind = "KubernetesAPIApprovalPolicyConformant";
        for group in ["k8s.io", "x.k8s.io", "kubernetes.io", "a.kubernetes.io"] {
            let mut found = crd(group);
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
        assert_eq!(updates(&mut crd("notk8s.io"), kind), [""; 0]);
    }
}
