//! Validates that CustomResourceDefinitions in API groups of the Kubernetes community carry an API approval (upstream:
//! `validateAPIApproval` and `GetAPIApprovalState` of apiextensions-apiserver).

use pintle_value::{Errors, FieldPath, Value};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Given,
    Invalid,
}

/// Validates the approval annotation. An update may keep the approval state of the old object.
pub(super) fn validate(errors: &mut Errors, object: &Value, old: Option<&Value>) {
    if !is_protected(object.str_at(&["spec", "group"])) {
        return;
    }
    let found = approval(object);
    if old.is_some_and(|old| approval(old) == found) {
        return;
    }
    let annotations = FieldPath::new("metadata.annotations");
    let path = annotations.key(ANNOTATION);
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    match found {
        Approval::Given | Approval::Bypassed => {}
        Approval::Missing => errors.required(&path, format!("{must}, {SEE}")),
        Approval::Invalid => {
            let detail = format!("{must} with either a URL or a reason starting with \"unapproved\", {SEE}");
            errors.invalid(&path, annotation(object), detail);
        }
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

fn approval(object: &Value) -> Approval {
    match annotation(object) {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if is_url(text) => Approval::Given,
        _ => Approval::Invalid,
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
