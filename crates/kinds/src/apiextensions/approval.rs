//! The API approval that CustomResourceDefinitions in API groups of the Kubernetes community must carry (upstream:
//! `validateAPIApproval` and `GetAPIApprovalState` of apiextensions-apiserver).

use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Whether a CRD has an API approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiApproval {
    /// It has no annotation.
    Missing,
    /// The annotation says that the API is not approved.
    Bypassed,
    /// The annotation names the URL of the approval.
    Given,
    /// The annotation is neither of these.
    Invalid,
}

/// The API approval of a CRD and its description; `None` if the group needs no approval.
#[must_use]
pub fn api_approval(crd: &Value) -> Option<(ApiApproval, String)> {
    if !is_protected(crd.str_at(&["spec", "group"])) {
        return None;
    }
    let (approval, text) = (approval(crd), annotation(crd));
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    let description = match approval {
        ApiApproval::Missing => format!("{must}, {SEE}"),
        ApiApproval::Invalid => format!("{must} with either a URL or a reason starting with \"unapproved\", {SEE}"),
        ApiApproval::Bypassed => format!("not approved: {}", quote(text)),
        ApiApproval::Given => format!("approved in {text}"),
    };
    Some((approval, description))
}

/// Validates the approval annotation. An update may keep the approval state of the old object.
pub(super) fn validate(errors: &mut Errors, object: &Value, old: Option<&Value>) {
    let Some((found, description)) = api_approval(object) else { return };
    if old.is_some_and(|old| approval(old) == found) {
        return;
    }
    let annotations = FieldPath::new("metadata.annotations");
    let path = annotations.key(ANNOTATION);
    match found {
        ApiApproval::Given | ApiApproval::Bypassed => {}
        ApiApproval::Missing => errors.required(&path, description),
        ApiApproval::Invalid => errors.invalid(&path, annotation(object), description),
    }
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|owner| group.strip_suffix(owner).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

fn annotation(object: &Value) -> &str {
    object.str_at(&["metadata", "annotations", ANNOTATION])
}

fn approval(object: &Value) -> ApiApproval {
    match annotation(object) {
        "" => ApiApproval::Missing,
        text if text.starts_with("unapproved") => ApiApproval::Bypassed,
        text if is_url(text) => ApiApproval::Given,
        _ => ApiApproval::Invalid,
    }
}

/// Returns true if a text has the scheme and the host of a URL.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let Some(rest) = rest.strip_prefix("//") else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !host.is_empty()
        && !host.contains(|c: char| c.is_ascii_control() || " \"\\^`{|}".contains(c))
        && !rest.contains(|c: char| c.is_ascii_control())
}
