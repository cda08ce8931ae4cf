//! Validates the volume sources of legacy in-tree plugins (upstream: `validateISCSIVolumeSource` and similar). Most of
//! the plugins were removed, but the fields and their rules remain.

use pintle_value::{Errors, FieldPath, Value};

use super::options::PodOptions;
use crate::declarative::Rules;
use crate::validation::{require_fields, str_field};

static AZURE_DISK: Rules = Rules::own("core/v1", "AzureDiskVolumeSource");

/// Rejects a unit number outside of 0 to 255.
fn validate_lun(errors: &mut Errors, source: &Value, path: &FieldPath<'_>) {
    if let Some(number) = source.int_at(&["lun"]).filter(|n| !(0..=255).contains(n)) {
        errors.invalid(&path.child("lun"), number, "must be between 0 and 255, inclusive");
    }
}

pub(crate) fn validate_iscsi(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["targetPortal", "iqn"], path);
    let name = source.str_at(&["iqn"]);
    if !name.is_empty() {
        validate_iscsi_name(errors, &path.child("iqn"), name);
    }
    validate_lun(errors, source, path);
    let authenticates = source.bool_at(&["chapAuthDiscovery"]) || source.bool_at(&["chapAuthSession"]);
    if authenticates && source.get("secretRef").is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(initiator) = str_field(source, "initiatorName") {
        validate_iscsi_name(errors, &path.child("initiatorname"), initiator);
    }
}

fn validate_iscsi_name(errors: &mut Errors, path: &FieldPath<'_>, name: &str) {
    let alphanumerics = |rest: &str, count: usize| {
        // Any single character may follow the prefix.
        let mut rest = rest.chars();
        rest.next().is_some_and(|c| c != '\n')
            && rest.clone().count() == count
            && rest.all(|c| c.is_ascii_alphanumeric())
    };
    let valid = match name.get(..3) {
        Some("iqn") => is_qualified_iscsi_name(name),
        Some("eui") => alphanumerics(&name[3..], 16),
        Some("naa") => alphanumerics(&name[3..], 32),
        _ => {
            errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa");
            return;
        }
    };
    if !valid {
        errors.invalid(path, name, "must be valid format");
    }
}

/// Returns true if the text ends with `iqn.`, year and month, a domain, a colon and a name.
fn is_qualified_iscsi_name(name: &str) -> bool {
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    name.match_indices("iqn.").any(|(at, prefix)| {
        let rest = &name.as_bytes()[at + prefix.len()..];
        let dated = rest.len() > 8 && digits(&rest[..4]) && rest[4] == b'-' && digits(&rest[5..7]) && rest[7] == b'.';
        if !dated {
            return false;
        }
        let rest = &rest[8..];
        let domain = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')).count();
        let tail = &rest[domain..];
        domain > 0 && tail.len() > 1 && tail[0] == b':' && !tail[1..].iter().any(|b| b",;*&$|\t\n\x0c\r ".contains(b))
    })
}

pub(crate) fn validate_flocker(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    let name = source.str_at(&["datasetName"]);
    let uuid = source.str_at(&["datasetUUID"]);
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

pub(crate) fn validate_quobyte(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.str_at(&["registry"]);
    if registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if source.str_at(&["tenant"]).len() >= 65 {
        errors.required(&path.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(&path.child("registry"), registry, PAIRS);
        }
    }
    require_fields(errors, source, &["volume"], path);
}

/// Returns true if Go's `net.SplitHostPort` accepts the text: one colon, or an address in brackets before the last
/// colon.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(address) => address,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

pub(crate) fn validate_fibre_channel(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    let names = source.items_at(&["targetWWNs"]);
    let ids = source.items_at(&["wwids"]);
    if names.is_empty() && ids.is_empty() {
        errors.required(&path.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() {
        if !ids.is_empty() {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            errors.invalid(&path.child("targetWWNs"), Value::Array(names.to_vec()), detail);
        }
        if source.get("lun").is_none() {
            errors.required(&path.child("lun"), "lun is required if targetWWNs is specified");
        }
        validate_lun(errors, source, path);
    }
}

pub(crate) fn validate_flex(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["driver"], path);
    let options = path.child("options");
    for (key, _) in source.entries_at(&["options"]) {
        let namespace = key.split('/').next().unwrap_or_default().to_lowercase();
        let reserved = |domain: &str| namespace == domain || namespace.ends_with(&format!(".{domain}"));
        if reserved("kubernetes.io") || reserved("k8s.io") {
            errors.invalid(&options.key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(crate) fn validate_azure_disk(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    AZURE_DISK.validate_part(errors, source, path);
    let kind = str_field(source, "kind");
    let uri = source.str_at(&["diskURI"]);
    let (start, form) = match kind {
        None => return,
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.starts_with(start) {
        errors.not_supported(&path.child("diskURI"), uri, &[form]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(rule: fn(&mut Errors, &Value, &FieldPath<'_>, &PodOptions), source: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        rule(&mut errors, &object(source), &FieldPath::new("s"), &PodOptions::default());
        assert_eq!(messages(&errors), expect, "{source}");
    }

    #[test]
    fn legacy_volume_sources() {
        check(validate_iscsi, r#"{"targetPortal":"p","iqn":"iqn.2015-02.example.com:test"}"#, &[]);
        check(validate_iscsi, r#"{"targetPortal":"p","iqn":"eui.0123456789ABCDEF"}"#, &[]);
        check(
            validate_iscsi,
            r#"{"targetPortal":"p","iqn":"iqn.2015-2.example.com:test","lun":256,"chapAuthSession":true,"initiatorName":"x"}"#,
            &[
                "s.iqn: Invalid value: \"iqn.2015-2.example.com:test\": must be valid format",
                "s.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                "s.secretRef: Required value",
                "s.initiatorname: Invalid value: \"x\": must be valid format starting with iqn, eui, or naa",
            ],
        );
        check(validate_quobyte, r#"{"registry":"a:1,[::1]:2","volume":"v"}"#, &[]);
        check(
            validate_quobyte,
            r#"{"registry":"a:1,b"}"#,
            &[
                "s.registry: Invalid value: \"a:1,b\": must be a host:port pair or multiple pairs separated by commas",
                "s.volume: Required value",
            ],
        );
        check(
            validate_flex,
            r#"{"driver":"d","options":{"k8s.io/x":"","a.Kubernetes.io/y":"","notk8s.io/z":""}}"#,
            &[
                "s.options[a.Kubernetes.io/y]: Invalid value: \"a.Kubernetes.io/y\": kubernetes.io and k8s.io namespaces \
                 are reserved",
                "s.options[k8s.io/x]: Invalid value: \"k8s.io/x\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        );
        check(
            validate_azure_disk,
            r#"{"diskName":"d","diskURI":"x","kind":"Managed"}"#,
            &[
                "s.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        );
        check(
            validate_fibre_channel,
            r#"{"targetWWNs":["a"]}"#,
            &["s.lun: Required value: lun is required if targetWWNs is specified"],
        );
        check(
            |errors, source, path, _| {
                Rules::own("core/v1", "GCEPersistentDiskVolumeSource").validate_part(errors, source, path)
            },
            r#"{"pdName":"d","partition":-1}"#,
            &["s.partition: Invalid value: -1: must be between 1 and 255, inclusive"],
        );
    }
}
