//! The formats of strings that rules name (upstream: `apimachinery/pkg/api/validate/strfmt.go`).

use pintle_value::{Errors, FieldError, FieldPath, metadata, names};

use crate::core::persistentvolume::validate_csi_driver_name;
use crate::core::pod::file_paths::{validate_local_descending_path, validate_no_backsteps};
use crate::core::pod::validate_container_resource_name;
use crate::resource::validate_pool_name;
use crate::validation::{
    invalid_each, validate_dns_label, validate_dns_subdomain, validate_object_name, validate_qualified_name,
};

/// Adds the errors of a string.
pub(super) type Format = fn(&mut Errors, &FieldPath<'_>, &str);

const MAX_POOL_NAME: usize = 253;
const MAX_DOMAIN: usize = 63;
const MAX_IDENTIFIER: usize = 32;

/// The format with a name.
pub(super) fn of(name: &str) -> Option<Format> {
    Some(match name {
        // Upstream's code has other texts than its tags for these.
        "absolute-path" => |errors, path, text| {
            if !text.starts_with('/') {
                errors.invalid(path, text, "must be an absolute path");
            }
        },
        "config-map-key" => |errors, path, text| invalid_each(errors, path, text, names::config_map_key(text)),
        "container-resource-name" => |errors, path, text| validate_container_resource_name(errors, text, path),
        "csi-driver-name" => |errors, path, text| validate_csi_driver_name(errors, text, path),
        "dns-label" => validate_dns_label,
        "dns-subdomain" => validate_dns_subdomain,
        "label-name" => |errors, path, text| errors.append(metadata::validate_label_name(text, path)),
        "local-path" => validate_local_descending_path,
        "namespace-name" => |errors, path, text| invalid_each(errors, path, text, names::namespace_name(text, false)),
        "no-backsteps" => validate_no_backsteps,
        "object-name" => validate_object_name,
        "object-name-prefix" => {
            |errors, path, text| invalid_each(errors, path, text, names::dns1123_subdomain_name(text, true))
        }
        "qualified-name" => validate_qualified_name,
        "relaxed-env-var-name" => {
            |errors, path, text| invalid_each(errors, path, text, names::relaxed_env_var_name(text))
        }
        "resource-pool-name" => |errors, path, text| validate_pool_name(errors, text, path),
        "service-account-name" => {
            |errors, path, text| invalid_each(errors, path, text, names::service_account_name(text, false))
        }
        "k8s-extended-resource-name" => extended_resource_name,
        "k8s-label-key" => |errors, path, text| invalid_each(errors, path, text, names::label_key(text)),
        "k8s-label-value" => |errors, path, text| invalid_each(errors, path, text, names::label_value(text)),
        "k8s-long-name" => |errors, path, text| invalid_each(errors, path, text, names::long_name(text)),
        "k8s-long-name-caseless" => {
            |errors, path, text| invalid_each(errors, path, text, names::long_name_caseless(text))
        }
        "k8s-path-segment-name" => {
            |errors, path, text| invalid_each(errors, path, text, names::path_segment_name(text, false))
        }
        "k8s-prefixed-label-key" => prefixed_label_key,
        "k8s-resource-fully-qualified-name" => fully_qualified_name,
        "k8s-resource-pool-name" => pool_name,
        "k8s-short-name" => |errors, path, text| invalid_each(errors, path, text, names::short_name(text)),
        "k8s-uuid" => uuid,
        _ => return None,
    })
}

/// A label key that has a prefix.
fn prefixed_label_key(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let problems = names::label_key(text);
    if problems.is_empty() && !text.contains('/') {
        return errors.invalid(path, text, "must include a prefix (e.g. 'example.com/key')");
    }
    invalid_each(errors, path, text, problems);
}

fn uuid(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let is_uuid = text.len() == 36
        && text.bytes().enumerate().all(|(i, byte)| match i {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        });
    if !is_uuid {
        errors.invalid(path, text, "must be a lowercase UUID in 8-4-4-4-12 format");
    }
}

/// DNS subdomains separated by slashes.
fn pool_name(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    if text.len() > MAX_POOL_NAME {
        errors.push(FieldError::too_long(path, MAX_POOL_NAME));
    }
    for (i, part) in text.split('/').enumerate() {
        if part.is_empty() {
            errors.invalid(path, text, format!("segment {i}: must not be empty"));
            continue;
        }
        for problem in names::long_name(part) {
            errors.invalid(path, part, format!("segment {i}: {problem}"));
        }
    }
}

fn extended_resource_name(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    if !text.contains('/') {
        errors.invalid(path, text, "a name must be a domain-prefixed path, such as 'example.com/my-prop'");
    } else if text.contains("kubernetes.io/") {
        errors.invalid(path, text, "must not have \"kubernetes.io/\" domain");
    }
    if text.starts_with("requests.") {
        errors.invalid(path, text, "must not have \"requests.\" prefix");
    }
    invalid_each(errors, path, text, names::label_key(&format!("requests.{text}")));
}

/// A domain and a C identifier.
fn fully_qualified_name(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        [name] => identifier(errors, path, name),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(path, "", "prefix must not be empty");
            } else {
                if domain.len() > MAX_DOMAIN {
                    errors.push(FieldError::too_long(path, MAX_DOMAIN));
                }
                for problem in names::long_name(domain) {
                    errors.invalid(path, domain, format!("prefix: {problem}"));
                }
            }
            if name.is_empty() {
                errors.invalid(path, "", "name must not be empty");
            } else {
                identifier(errors, path, name);
            }
        }
        _ => {}
    }
    if parts.len() == 1 {
        errors.invalid(path, text, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(errors: &mut Errors, path: &FieldPath<'_>, name: &str) {
    if name.len() > MAX_IDENTIFIER {
        errors.push(FieldError::too_long(path, MAX_IDENTIFIER));
    }
    invalid_each(errors, path, name, names::c_identifier(name));
}
