//! Validates a decoded configuration (upstream: `apis/apiserver/validation/validation_encryption.go`). No error repeats
//! a key.

use std::collections::HashSet;

use pintle_registry::GroupResource;
use pintle_schema::base64;
use pintle_value::field::{Errors, FieldPath};
use pintle_value::print::{json_ordered, quote};
use pintle_value::url::parse_reference;
use pintle_value::{FieldError, Value, object};
use zeroize::Zeroizing;

use super::providers::{Kms, provider_fields};
use super::rules::{ANY, parse_resource};

/// The lengths of keys, in bytes, as messages show them.
const AES_LENGTHS: (&[usize], &str) = (&[16, 24, 32], "[16 24 32]");
const SECRETBOX_LENGTHS: (&[usize], &str) = (&[32], "[32]");
/// Resources that have no REST API.
const NOT_SERVED: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];
/// The order of the fields in Go's structs.
const FIELD_ORDER: &[&str] = &[
    "AESGCM",
    "AESCBC",
    "Secretbox",
    "Identity",
    "KMS",
    "Keys",
    "APIVersion",
    "Name",
    "Secret",
    "CacheSize",
    "Endpoint",
    "Timeout",
];
const REDACTED: &str = "REDACTED";

/// The errors of a configuration. `reload` tells whether the file is read again when it changes.
pub(super) fn validate(configuration: &Value, reload: bool) -> Errors {
    let mut errors = Errors::new();
    let root = FieldPath::new("resources");
    let entries = configuration.items_at(&["resources"]);
    if entries.is_empty() {
        errors.required(&root, "at least one resources is required");
    }
    let mut kms_names = HashSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let entry_path = root.index(index);
        let (resources_path, providers_path) = (entry_path.child("resources"), entry_path.child("providers"));
        let resources = entry.items_at(&["resources"]).iter().map(|name| name.as_str().unwrap_or_default());
        let resources: Vec<&str> = resources.collect();
        if resources.is_empty() {
            errors.required(&resources_path, format!("at least one {resources_path} is required"));
        }
        validate_overlap(&resources, &resources_path, &mut errors);
        for (index, name) in resources.iter().enumerate() {
            if let Some(detail) = name_error(name) {
                errors.invalid(&resources_path.index(index), *name, detail);
            }
        }
        let providers = entry.items_at(&["providers"]);
        if providers.is_empty() {
            errors.required(&providers_path, format!("at least one {providers_path} is required"));
        }
        for (index, provider) in providers.iter().enumerate() {
            validate_provider(provider, &providers_path.index(index), reload, &mut kms_names, &mut errors);
        }
    }
    errors
}

fn validate_overlap(names: &[&str], path: &FieldPath<'_>, errors: &mut Errors) {
    let resources: Vec<GroupResource> = names.iter().map(|name| parse_resource(name)).collect();
    let has_duplicate = resources.iter().collect::<HashSet<_>>().len() < resources.len();
    let mut all =
        |detail| errors.invalid(path, Value::Array(names.iter().map(|name| Value::from(*name)).collect()), detail);
    if has_duplicate {
        all("the same resource cannot be specified multiple times");
    }
    if overlaps(&resources) {
        all(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will \
             be masked",
        );
    }
}

/// Upstream compares each pair in both orders. The first pair of equal resources counts as a duplicate only.
fn overlaps(resources: &[GroupResource]) -> bool {
    let mut has_duplicate = false;
    for (i, one) in resources.iter().enumerate() {
        for (j, other) in resources.iter().enumerate() {
            if i == j {
                continue;
            }
            if one == other && !has_duplicate {
                has_duplicate = true;
                continue;
            }
            let in_one_group = one.group == other.group;
            if *one == ANY || in_one_group && (one.resource == "*" || other.resource == "*") {
                return true;
            }
        }
    }
    false
}

fn name_error(name: &str) -> Option<&'static str> {
    if name.to_lowercase() != name {
        return Some("resource name should not contain capital letters");
    }
    if name == "*" {
        return Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources");
    }
    if NOT_SERVED.contains(&name) {
        return Some("resources which do not have REST API/s cannot be encrypted");
    }
    let resource = parse_resource(name);
    match resource.group.as_str() {
        "events.k8s.io" => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file",
        ),
        "extensions" => Some("'extensions' group has been removed and cannot be used for encryption"),
        "*" if resource.resource != "*" => Some("encrypting the same resource across groups is not supported"),
        _ => None,
    }
}

fn validate_provider<'v>(
    provider: &'v Value,
    path: &FieldPath<'_>,
    reload: bool,
    kms_names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    let fields = provider_fields(provider);
    let detail = match fields.len() {
        0 => Some("provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"),
        1 => None,
        _ => Some("more than one provider specified in a single element, should split into different list elements"),
    };
    if let Some(detail) = detail {
        errors.push(FieldError::invalid(path, Value::Null, detail).showing(shown(provider)));
    }
    // Of several providers, upstream validates only the first one in this order.
    let first =
        ["kms", "aesgcm", "aescbc", "secretbox"].iter().find_map(|name| fields.iter().find(|(field, _)| field == name));
    match first {
        Some(("kms", value)) => {
            let kms = Kms::of(value);
            validate_kms(&kms, &path.child("kms"), reload, kms_names, errors);
            kms_names.insert(kms.name);
        }
        Some((name, value)) => {
            let lengths = if *name == "secretbox" { SECRETBOX_LENGTHS } else { AES_LENGTHS };
            validate_keys(value.items_at(&["keys"]), &path.child(name).child("keys"), lengths, errors);
        }
        None => {}
    }
}

/// A provider as Go encodes its internal struct, without keys.
fn shown(provider: &Value) -> String {
    let null_or = |name: &str, shown: fn(&Value) -> Value| match provider.get(name) {
        Some(value) if !value.is_null() => shown(value),
        _ => Value::Null,
    };
    fn keys(value: &Value) -> Value {
        let key = |key: &Value| {
            let secret = if key.str_at(&["secret"]).is_empty() { "" } else { REDACTED };
            object! {"Name": key.str_at(&["name"]), "Secret": secret}
        };
        match value.get("keys").and_then(Value::as_array) {
            Some(keys) => object! {"Keys": Value::Array(keys.iter().map(key).collect())},
            None => object! {"Keys": Value::Null},
        }
    }
    fn kms(value: &Value) -> Value {
        let kms = Kms::of(value);
        object! {
            "APIVersion": kms.api_version,
            "Name": kms.name,
            "CacheSize": kms.cache_size.map_or(Value::Null, |size| Value::Int(size.into())),
            "Endpoint": kms.endpoint,
            "Timeout": kms.timeout.to_string(),
        }
    }
    let value = object! {
        "AESGCM": null_or("aesgcm", keys),
        "AESCBC": null_or("aescbc", keys),
        "Secretbox": null_or("secretbox", keys),
        "Identity": null_or("identity", |_| Value::object()),
        "KMS": null_or("kms", kms),
    };
    json_ordered(&value, FIELD_ORDER, &[])
}

fn validate_keys(keys: &[Value], path: &FieldPath<'_>, lengths: (&[usize], &str), errors: &mut Errors) {
    if keys.is_empty() {
        errors.required(path, "at least one keys is required");
    }
    for (index, key) in keys.iter().enumerate() {
        let path = path.index(index);
        if key.str_at(&["name"]).is_empty() {
            errors.required(&path.child("name"), "name is a mandatory field for a key");
        }
        let (text, path) = (key.str_at(&["secret"]), path.child("secret"));
        if text.is_empty() {
            errors.required(&path, "secret is a mandatory field for a key");
            continue;
        }
        let Ok(secret) = base64::decode(text.as_bytes()).map(Zeroizing::new) else {
            errors.invalid(&path, REDACTED, "secrets must be base64 encoded");
            continue;
        };
        let ((allowed, shown), length) = (lengths, secret.len());
        if !allowed.contains(&length) {
            let detail = format!("secret is not of the expected length, got {length}, expected one of {shown}");
            errors.invalid(&path, REDACTED, detail);
        }
    }
}

fn validate_kms(kms: &Kms<'_>, path: &FieldPath<'_>, reload: bool, names: &HashSet<&str>, errors: &mut Errors) {
    let is_v1 = kms.api_version == "v1";
    validate_kms_name(kms.name, is_v1, &path.child("name"), reload, names, errors);
    if kms.timeout.0 <= 0 {
        errors.invalid(&path.child("timeout"), kms.timeout.to_string(), "timeout should be a positive value");
    }
    if let Some(detail) = endpoint_error(kms.endpoint) {
        errors.invalid(&path.child("endpoint"), kms.endpoint, detail);
    }
    let cache_size = path.child("cachesize");
    match kms.cache_size {
        Some(size) if !is_v1 => errors.invalid(&cache_size, i64::from(size), "cachesize is not supported in v2"),
        Some(0) => {
            errors.invalid(&cache_size, 0, "cachesize should be a positive value, or negative to disable");
        }
        _ => {}
    }
    if !is_v1 && kms.api_version != "v2" {
        let detail = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.invalid(&path.child("apiVersion"), kms.api_version, detail);
    }
}

fn validate_kms_name(
    name: &str,
    is_v1: bool,
    path: &FieldPath<'_>,
    reload: bool,
    names: &HashSet<&str>,
    errors: &mut Errors,
) {
    if name.is_empty() {
        errors.required(path, "name is a mandatory field for a provider");
    }
    if !is_v1 && name.contains(':') {
        errors.invalid(path, name, format!("invalid KMS provider name {name}, must not contain ':'"));
    }
    if (reload || !is_v1) && names.contains(name) {
        errors.invalid(path, name, format!("duplicate KMS provider name {name}, names must be unique"));
    }
}

fn endpoint_error(endpoint: &str) -> Option<String> {
    if endpoint.is_empty() {
        return Some("endpoint is a mandatory field for a kms".to_owned());
    }
    match parse_reference(endpoint) {
        Err(error) => Some(format!("invalid endpoint for kms provider, error: {error}")),
        Ok((url, _)) if url.scheme != "unix" => {
            let scheme = quote(&url.scheme);
            Some(format!("unsupported scheme {scheme} for KMS provider, only unix is supported"))
        }
        Ok(_) => None,
    }
}
