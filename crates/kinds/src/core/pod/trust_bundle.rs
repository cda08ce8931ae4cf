//! Validates the projections of cluster trust bundles (KEP-3257; upstream: `validateProjectionSources`,
//! `ValidateClusterTrustBundleName`).

use pintle_value::{Errors, FieldPath, Value, names};

use super::file_paths::validate_local_non_reserved_path;
use crate::go_json::{self, GoType};
use crate::labels::validate_selector;
use crate::validation::{invalid_each, require_fields, validate_signer_name};

/// How upstream's internal type prints a projection.
const PROJECTION: GoType = GoType::Of("core/v1.ClusterTrustBundleProjection");

/// Validates a projection: one bundle by its name, or all bundles of a signer.
pub(super) fn validate_trust_bundle(errors: &mut Errors, projection: &Value, path: &FieldPath<'_>) {
    let field = |name: &str| projection.get(name).and_then(Value::as_str);
    match (field("name"), field("signerName")) {
        (Some(_), Some(_)) => {
            let detail = "only one of name and signerName may be used";
            errors.push(go_json::invalid(path, projection, &PROJECTION, detail));
        }
        (Some(name), None) => {
            if name.is_empty() {
                errors.required(&path.child("name"), "must be a valid object name");
            }
            let problems = bundle_name_problems(name).into_iter();
            let problems = problems.map(|problem| format!("not a valid clustertrustbundlename: {problem}"));
            invalid_each(errors, &path.child("name"), name, problems);
            if let Some(selector) = projection.get("labelSelector") {
                let detail = "labelSelector must be unset if name is specified";
                errors.push(go_json::invalid_pointer(&path.child("labelSelector"), selector.clone(), detail));
            }
        }
        (None, Some(signer)) => {
            let signer_path = path.child("signerName");
            if signer.is_empty() {
                errors.required(&signer_path, "must be a valid signer name");
            }
            validate_signer_name(errors, signer, &signer_path);
            let selector = projection.get("labelSelector");
            errors.append(validate_selector(selector, false, &path.child("labelSelector")));
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
    require_fields(errors, projection, &["path"], path);
    validate_local_non_reserved_path(errors, &path.child("path"), projection.str_at(&["path"]));
}

/// The errors of a bundle's name. The name of a signer's bundle begins with the name of the signer, with colons instead
/// of slashes.
fn bundle_name_problems(name: &str) -> Vec<String> {
    names::dns1123_subdomain_name(name.rsplit_once(':').map_or(name, |(_, own)| own), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn projections_name_a_bundle_or_a_signer() {
        let check = |projection: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            validate_trust_bundle(&mut errors, &object(projection), &FieldPath::new("p"));
            assert_eq!(messages(&errors), expect, "{projection}");
        };
        check(r#"{"name":"a","path":"b"}"#, &[]);
        check(r#"{"name":"example.com:signer:a","path":"b"}"#, &[]);
        check(r#"{"signerName":"example.com/signer","labelSelector":{},"path":"b"}"#, &[]);
        check(
            r#"{"path":"../a"}"#,
            &[
                "p: Required value: either name or signerName must be specified",
                "p.path: Invalid value: \"../a\": must not contain '..'",
            ],
        );
        check(
            r#"{"name":"a","signerName":"b","path":"c"}"#,
            &[
                "p: Invalid value: {\"Name\":\"a\",\"SignerName\":\"b\",\"LabelSelector\":null,\"Optional\":null,\"Path\":\"c\"}: only one of name and signerName may be used",
            ],
        );
        check(
            r#"{"name":"example.com:","labelSelector":{"matchLabels":{"a":"b"}}}"#,
            &[
                "p.name: Invalid value: \"example.com:\": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "p.labelSelector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: labelSelector must be unset if name is specified",
                "p.path: Required value",
            ],
        );
        check(
            r#"{"signerName":"x","path":"c"}"#,
            &[
                "p.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ],
        );
    }
}
