//! Validates the projections of pod certificates (KEP-4317; upstream: `validateProjectionSources`).

use pintle_value::{Errors, FieldPath, Value};

use super::file_paths::validate_local_non_reserved_path;
use crate::validation::{is_kubernetes_signer, validate_signer_name, validate_user_annotations};

/// The types of keys that kubelets generate.
const KEY_TYPES: [&str; 6] = ["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The fields with the paths of files.
pub(super) const CERTIFICATE_PATHS: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];

/// Validates a projection: signer, key, lifetime, and at least one file.
pub(super) fn validate_pod_certificate(errors: &mut Errors, projection: &Value, path: &FieldPath<'_>) {
    let signer = projection.str_at(&["signerName"]);
    validate_signer_name(errors, signer, &path.child("signerName"));
    let key_type = projection.str_at(&["keyType"]);
    if !KEY_TYPES.contains(&key_type) {
        errors.not_supported(&path.child("keyType"), key_type, &KEY_TYPES);
    }
    if let Some(seconds) = projection.int_at(&["maxExpirationSeconds"]) {
        validate_lifetime(errors, seconds, signer, &path.child("maxExpirationSeconds"));
    }
    let files = CERTIFICATE_PATHS.iter().filter(|field| !projection.str_at(&[field]).is_empty());
    if files.clone().next().is_none() {
        errors.required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
    for field in files {
        validate_local_non_reserved_path(errors, &path.child(field), projection.str_at(&[field]));
    }
    validate_user_annotations(errors, &projection["userAnnotations"], &path.child("userAnnotations"));
}

fn validate_lifetime(errors: &mut Errors, seconds: i64, signer: &str, path: &FieldPath<'_>) {
    // The signers of Kubernetes itself issue certificates for a day at most.
    let most = if is_kubernetes_signer(signer) { DAY } else { 91 * DAY };
    if seconds < HOUR {
        errors.invalid(path, seconds, format!("if provided, maxExpirationSeconds must be >= {HOUR}"));
    }
    if seconds > most {
        errors.invalid(path, seconds, format!("if provided, maxExpirationSeconds must be <= {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(projection: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_pod_certificate(&mut errors, &object(projection), &FieldPath::new("p"));
        assert_eq!(messages(&errors), expect, "{projection}");
    }

    #[test]
    fn certificates_have_a_signer_a_key_and_files() {
        check(r#"{"signerName":"example.com/s","keyType":"ED25519","credentialBundlePath":"a"}"#, &[]);
        check(
            r#"{"signerName":"example.com/s","keyType":"ECDSAP384","keyPath":"k","certificateChainPath":"c",
                "maxExpirationSeconds":7862400,"userAnnotations":{"example.com/a":"b"}}"#,
            &[],
        );
        check(
            r#"{"keyType":"RSA2048"}"#,
            &[
                "p.signerName: Required value",
                "p.keyType: Unsupported value: \"RSA2048\": supported values: \"ECDSAP256\", \"ECDSAP384\", \
                 \"ECDSAP521\", \"ED25519\", \"RSA3072\", \"RSA4096\"",
                "p: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
            ],
        );
        check(
            r#"{"signerName":"example.com/s","keyType":"ED25519","keyPath":"/k","maxExpirationSeconds":3599,
                "userAnnotations":{"a":"b"}}"#,
            &[
                "p.maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600",
                "p.keyPath: Invalid value: \"/k\": must be a relative path",
                "p.userAnnotations: Invalid value: \"a\": must be a domain-prefixed key (such as \"acme.io/foo\")",
            ],
        );
        let lifetime = |signer: &str, expect: &[&str]| {
            check(
                &format!(
                    r#"{{"signerName":"{signer}","keyType":"ED25519","keyPath":"k","maxExpirationSeconds":86401}}"#
                ),
                expect,
            );
        };
        lifetime("example.com/s", &[]);
        lifetime(
            "kubernetes.io/s",
            &["p.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400"],
        );
    }
}
