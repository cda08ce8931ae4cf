//! Names in dynamic resource allocation: pools, attributes and capacities with their domains, versions, and the
//! identifiers of shares (upstream: `validatePoolName`, `validateQualifiedName`, `validateUID`, …).

use pintle_value::print::quote;
use pintle_value::{Errors, FieldError, FieldPath, names};

pub(super) use crate::core::persistentvolume::validate_csi_driver_name as validate_driver_name;
use crate::go_json::invalid_pointer;
use crate::validation::{invalid_each, validate_dns_subdomain};

/// The maximum length of a pool's name.
const MAX_POOL_NAME: usize = 253;
/// The maximum length of the domain of a qualified name.
const MAX_DOMAIN: usize = 63;
/// The maximum length of the identifier of a qualified name.
const MAX_IDENTIFIER: usize = 32;
/// The maximum length of a qualified name.
pub(super) const MAX_QUALIFIED_NAME: usize = MAX_DOMAIN + 1 + MAX_IDENTIFIER;

/// Validates the name of a pool: DNS subdomains separated by slashes.
pub(crate) fn validate_pool_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    if name.len() > MAX_POOL_NAME {
        errors.push(FieldError::too_long(path, MAX_POOL_NAME));
    }
    for part in name.split('/') {
        validate_dns_subdomain(errors, path, part);
    }
}

/// Validates the name of a node.
pub(super) fn validate_node_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    invalid_each(errors, path, name, names::dns1123_subdomain_name(name, false));
}

/// Validates the name of an attribute or a capacity: an identifier, with or without a domain.
pub(super) fn validate_qualified_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    match *name.split('/').collect::<Vec<_>>() {
        [identifier] => validate_identifier(errors, identifier, path),
        [domain, identifier] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                validate_driver_name(errors, domain, path);
            }
            if identifier.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                validate_identifier(errors, identifier, path);
            }
        }
        // Upstream accepts everything with more slashes.
        _ => {}
    }
}

/// Validates the name of an attribute with its domain.
pub(super) fn validate_fully_qualified_name(errors: &mut Errors, name: &str, path: &FieldPath<'_>) {
    validate_qualified_name(errors, name, path);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(invalid_pointer(path, name, detail));
    }
}

fn validate_identifier(errors: &mut Errors, identifier: &str, path: &FieldPath<'_>) {
    if identifier.len() > MAX_IDENTIFIER {
        errors.push(FieldError::too_long(path, MAX_IDENTIFIER));
    }
    invalid_each(errors, path, identifier, names::c_identifier(identifier));
}

/// Validates the identifier of a share of a device: a UUID in its usual form, in lower case.
pub(super) fn validate_share_id(errors: &mut Errors, id: &str, path: &FieldPath<'_>) {
    if let Err(why) = parse_uuid(id) {
        errors.invalid(path, id, format!("error validating uid: {why}"));
    } else if id.len() != 36 || id.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                      hexadecimal characters";
        errors.invalid(path, id, detail);
    }
}

/// Checks that a text is a UUID in one of the forms that `github.com/google/uuid` reads, with its errors.
fn parse_uuid(text: &str) -> Result<(), String> {
    const URN: &str = "urn:uuid:";
    let bytes = text.as_bytes();
    let malformed = || Err("invalid UUID format".to_owned());
    let standard = match bytes.len() {
        36 => bytes,
        45 if bytes[..URN.len()].eq_ignore_ascii_case(URN.as_bytes()) => &bytes[URN.len()..],
        45 => {
            let prefix = String::from_utf8_lossy(&bytes[..URN.len()]);
            return Err(format!("invalid urn prefix: {}", quote(&prefix)));
        }
        38 if bytes.first() == Some(&b'{') && bytes.last() == Some(&b'}') => &bytes[1..37],
        38 => return Err("invalid bracketed UUID format".to_owned()),
        32 if bytes.iter().all(u8::is_ascii_hexdigit) => return Ok(()),
        32 => return malformed(),
        length => return Err(format!("invalid UUID length: {length}")),
    };
    let is_valid = |(i, byte): (usize, &u8)| match i {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if standard.iter().enumerate().all(is_valid) { Ok(()) } else { malformed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::semantic_version::SemanticVersion;
    use crate::testing::messages;

    fn check(rule: fn(&mut Errors, &str, &FieldPath<'_>), rows: &[(&str, &[&str])]) {
        for (text, expect) in rows {
            let mut errors = Errors::new();
            rule(&mut errors, text, &FieldPath::new("p"));
            assert_eq!(messages(&errors), *expect, "{text:?}");
        }
    }

    #[test]
    fn pools() {
        let long = "a".repeat(254);
        check(
            validate_pool_name,
            &[
                ("", &["p: Required value"]),
                ("node-1/gpu.example.com", &[]),
                (
                    "a//b",
                    &[
                        "p: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                       characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
                       regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                    ],
                ),
            ],
        );
        let mut errors = Errors::new();
        validate_pool_name(&mut errors, &long, &FieldPath::new("p"));
        let limits = ["p: Too long: may not be more than 253 bytes"];
        assert_eq!(messages(&errors)[..1], limits);
    }

    #[test]
    fn qualified_names() {
        const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
             alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
             '[A-Za-z_][A-Za-z0-9_]*')";
        check(
            validate_qualified_name,
            &[
                ("model", &[]),
                ("Vendor.example.com/model_1", &[]),
                ("a/b/c", &[]),
                ("a-b", &[&format!("p: Invalid value: \"a-b\": {IDENTIFIER}")]),
                ("", &[&format!("p: Invalid value: \"\": {IDENTIFIER}")]),
                (
                    "/",
                    &[
                        "p: Invalid value: \"\": the domain must not be empty",
                        "p: Invalid value: \"\": the name must not be empty",
                    ],
                ),
                ("d/abcdefghijklmnopqrstuvwxyz0123456", &["p: Too long: may not be more than 32 bytes"]),
            ],
        );
        check(
            validate_fully_qualified_name,
            &[
                ("d/a", &[]),
                (
                    "a",
                    &[
                        "p: Invalid value: \"a\": a fully qualified name must be a domain and a name separated by a slash",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn shares() {
        const NORMALIZED: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with \
                                  lowercase hexadecimal characters";
        let upper = "0000000A-0000-0000-0000-000000000000";
        let urn = "urn:uuid:00000000-0000-0000-0000-000000000000";
        let braces = "{00000000-0000-0000-0000-000000000000}";
        let bare = "00000000000000000000000000000000";
        let normalized = |id: &str| format!("p: Invalid value: \"{id}\": {NORMALIZED}");
        check(
            validate_share_id,
            &[
                ("00000000-0000-0000-0000-00000000000a", &[]),
                (upper, &[&normalized(upper)]),
                (urn, &[&normalized(urn)]),
                (braces, &[&normalized(braces)]),
                (bare, &[&normalized(bare)]),
                ("", &["p: Invalid value: \"\": error validating uid: invalid UUID length: 0"]),
                (
                    "urn:uuuu:00000000-0000-0000-0000-000000000000",
                    &["p: Invalid value: \"urn:uuuu:00000000-0000-0000-0000-000000000000\": error validating uid: \
                       invalid urn prefix: \"urn:uuuu:\""],
                ),
                (
                    "[00000000-0000-0000-0000-000000000000}",
                    &["p: Invalid value: \"[00000000-0000-0000-0000-000000000000}\": error validating uid: invalid \
                       bracketed UUID format"],
                ),
                (
                    "00000000x0000-0000-0000-000000000000",
                    &[
                        "p: Invalid value: \"00000000x0000-0000-0000-000000000000\": error validating uid: invalid UUID \
                       format",
                    ],
                ),
                (
                    "0000000000000000000000000000000g",
                    &[
                        "p: Invalid value: \"0000000000000000000000000000000g\": error validating uid: invalid UUID format",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn versions() {
        for version in ["0.0.0", "1.2.3", "1.2.3-alpha.1", "1.2.3-0a.-", "1.2.3+build.01", "1.2.3-a+b-c", "10.20.30"] {
            assert!(SemanticVersion::parse(version).is_some(), "{version}");
        }
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3+a+b",
            "v1.2.3",
            "1.2.x",
            "1.2.3-a..b",
            "1.2.3 ",
        ] {
            assert!(SemanticVersion::parse(text).is_none(), "{text}");
        }
    }
}
