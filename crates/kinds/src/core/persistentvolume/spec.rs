//! Validates the spec of a PersistentVolume, which a VolumeAttachment may contain too (upstream:
//! `ValidatePersistentVolumeSpec`). Sources that pods support as well share the rules in `core::pod`.

use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::core::pod::legacy_volumes as legacy;
use crate::core::pod::options::PodOptions;
use crate::core::pod::resources::quantity;
use crate::core::pod::scheduling::validate_node_selector;
use crate::core::pod::volumes;
use crate::core::pod::volumes::SourceRule::{self, Code};
use crate::core::pod::volumes::{VolumeSource, volume_source};
use crate::validation::{invalid_each, require_fields, validate_object_name, validate_one_of};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const INLINE: &str = "in the context of inline volumes";

/// The maximum length of `<volume name>:<portal>` for iSCSI.
const MAX_ISCSI_NAME: usize = 64;

/// The sources in upstream's order.
pub(super) static SOURCES: [VolumeSource; 22] = [
    volume_source("hostPath", Code(volumes::validate_host_path)),
    volume_source("gcePersistentDisk", SourceRule::data("GCEPersistentDiskVolumeSource")).with_path("persistentDisk"),
    volume_source("awsElasticBlockStore", SourceRule::data("AWSElasticBlockStoreVolumeSource")),
    volume_source("glusterfs", Code(validate_glusterfs)),
    volume_source("flocker", Code(legacy::validate_flocker)),
    volume_source("nfs", SourceRule::data("NFSVolumeSource")),
    volume_source("rbd", SourceRule::data("RBDVolumeSource")),
    volume_source("quobyte", Code(legacy::validate_quobyte)),
    volume_source("cephfs", SourceRule::data("CephFSVolumeSource")).with_path_if_surplus("cephFS"),
    volume_source("iscsi", Code(validate_iscsi_source)),
    volume_source("cinder", SourceRule::data("CinderPersistentVolumeSource")),
    volume_source("fc", Code(legacy::validate_fibre_channel)),
    volume_source("flexVolume", Code(legacy::validate_flex)),
    volume_source("azureFile", Code(validate_azure_file)),
    volume_source("vsphereVolume", SourceRule::data("VsphereVirtualDiskVolumeSource")),
    volume_source("photonPersistentDisk", SourceRule::data("PhotonPersistentDiskVolumeSource")),
    volume_source("portworxVolume", SourceRule::data("PortworxVolumeSource")),
    volume_source("azureDisk", Code(legacy::validate_azure_disk)),
    volume_source("scaleIO", SourceRule::data("ScaleIOVolumeSource")),
    volume_source("local", SourceRule::data("LocalVolumeSource")),
    volume_source("storageos", SourceRule::data("StorageOSPersistentVolumeSource")),
    volume_source("csi", SourceRule::data("CSIPersistentVolumeSource")),
];

/// Validates the spec of the volume `name`.
pub(super) fn validate_volume_spec(
    errors: &mut Errors,
    spec: &Value,
    name: &str,
    any_affinity_value: bool,
    path: &FieldPath<'_>,
) {
    validate_access_modes(errors, spec, path);
    validate_capacity(errors, spec, path);
    let policy = spec.get("persistentVolumeReclaimPolicy").and_then(Value::as_str).filter(|p| !p.is_empty());
    validate_one_of(errors, &path.child("persistentVolumeReclaimPolicy"), policy, &RECLAIM_POLICIES);
    if let Some(affinity) = spec.get("nodeAffinity") {
        let path = path.child("nodeAffinity");
        match affinity.get("required") {
            Some(selector) => validate_node_selector(errors, selector, any_affinity_value, &path.child("required")),
            None => errors.required(&path.child("required"), "must specify required node constraints"),
        }
    }
    validate_sources(errors, spec, name, path);
    let class = spec.str_at(&["storageClassName"]);
    if !class.is_empty() {
        validate_object_name(errors, &path.child("storageClassName"), class);
    }
    let mode = spec.get("volumeMode").and_then(Value::as_str);
    validate_one_of(errors, &path.child("volumeMode"), mode, &VOLUME_MODES);
    if let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) {
        let class_path = path.child("volumeAttributesClassName");
        if class.is_empty() {
            errors.required(&class_path, "an empty string is disallowed");
        } else {
            validate_object_name(errors, &class_path, class);
        }
        if spec.get("csi").is_none() {
            errors.required(&path.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// Validates the inline spec of a VolumeAttachment, which must be a CSI volume.
pub(crate) fn validate_inline_volume_spec(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let given = |field: &str| spec.get(field).is_some_and(|value| !value.is_empty());
    let not_here = format!("may not be specified {INLINE}");
    if spec.get("claimRef").is_some() {
        errors.forbidden(&path.child("claimRef"), not_here.as_str());
    }
    if given("capacity") {
        errors.forbidden(&path.child("capacity"), not_here.as_str());
    }
    if spec.get("csi").is_none() {
        errors.required(&path.child("csi"), format!("has to be specified {INLINE}"));
    }
    validate_access_modes(errors, spec, path);
    if given("persistentVolumeReclaimPolicy") && spec.str_at(&["persistentVolumeReclaimPolicy"]) != "Retain" {
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), format!("may only be Retain {INLINE}"));
    }
    if spec.get("nodeAffinity").is_some() {
        errors.forbidden(&path.child("nodeAffinity"), not_here.as_str());
    }
    validate_sources(errors, spec, "", path);
    if given("storageClassName") {
        errors.forbidden(&path.child("storageClassName"), not_here.as_str());
    }
    if spec.get("volumeMode").and_then(Value::as_str).is_some_and(|mode| mode != "Filesystem") {
        let detail = format!("may not specify volumeMode other than Filesystem {INLINE}");
        errors.forbidden(&path.child("volumeMode"), detail);
    }
}

fn validate_access_modes(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let path = path.child("accessModes");
    let modes: Vec<&str> = spec.items_at(&["accessModes"]).iter().filter_map(Value::as_str).collect();
    if modes.is_empty() {
        errors.required(&path, "");
    }
    for mode in &modes {
        validate_one_of(errors, &path, Some(mode), &ACCESS_MODES);
    }
    let others = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if others && modes.contains(&"ReadWriteOncePod") {
        errors.forbidden(&path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_capacity(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let path = path.child("capacity");
    let capacity = spec.get("capacity").cloned().unwrap_or_default();
    let count = capacity.entries_at(&[]).count();
    if count == 0 {
        errors.required(&path, "");
    }
    if capacity.get("storage").is_none() || count > 1 {
        errors.push(FieldError::not_supported(&path, capacity.clone(), ["storage"]));
    }
    for (name, amount) in capacity.entries_at(&[]) {
        let (path, amount) = (path.key(name), quantity(amount));
        if amount.value() < 0 {
            errors.invalid(&path, amount.value(), "must be a valid resource quantity");
        }
        if amount.sign() <= 0 {
            errors.invalid(&path, amount.to_string(), "must be greater than zero");
        }
    }
}

fn validate_sources(errors: &mut Errors, spec: &Value, name: &str, path: &FieldPath<'_>) {
    let options = PodOptions::default();
    let mut found = false;
    for source in &SOURCES {
        let Some(value) = spec.get(source.field) else { continue };
        // Upstream validates a surplus `flexVolume` without reporting that it is one too many.
        if found && source.field != "flexVolume" {
            errors.forbidden(&path.child(source.path_if_surplus), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let source_path = path.child(source.path);
        match source.field {
            "iscsi" => validate_iscsi(errors, value, name, &source_path),
            _ => source.rule.validate(errors, value, &source_path, &options),
        }
        if source.field == "local" && spec.get("nodeAffinity").is_none() {
            errors.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
    let recycles = spec.str_at(&["persistentVolumeReclaimPolicy"]) == "Recycle";
    if recycles && spec.get("hostPath").is_some() && is_root(spec.str_at(&["hostPath", "path"])) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
}

/// Returns true if Go's `path.Clean` reduces the path to the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn validate_glusterfs(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["endpoints", "path"], path);
    let Some(namespace) = source.get("endpointsNamespace").and_then(Value::as_str) else { return };
    let path = path.child("endpointsNamespace");
    if namespace.is_empty() {
        errors.invalid(&path, namespace, "if the endpointnamespace is set, it must be a valid namespace name");
    } else {
        invalid_each(errors, &path, namespace, names::namespace_name(namespace, false));
    }
}

fn validate_azure_file(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    require_fields(errors, source, &["secretName", "shareName"], path);
    if source.get("secretNamespace").is_some() {
        require_fields(errors, source, &["secretNamespace"], path);
    }
}

fn validate_iscsi_source(errors: &mut Errors, source: &Value, path: &FieldPath<'_>, _: &PodOptions) {
    validate_iscsi(errors, source, "", path);
}

/// Validates an iSCSI source as in a pod, and the length of the volume's name. The message about an invalid name is
/// shorter here.
fn validate_iscsi(errors: &mut Errors, source: &Value, name: &str, path: &FieldPath<'_>) {
    require_fields(errors, source, &["targetPortal"], path);
    let portal = source.str_at(&["targetPortal"]);
    if source.get("initiatorName").is_some() && name.len() + 1 + portal.len() > MAX_ISCSI_NAME {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        errors.invalid(&path.child("targetportal"), portal, detail);
    }
    let mut source_errors = Errors::new();
    legacy::validate_iscsi(&mut source_errors, source, path, &PodOptions::default());
    let portal_path = path.child("targetPortal").to_string();
    source_errors.retain(|error| error.field != portal_path);
    for error in source_errors.iter_mut().filter(|error| error.detail.starts_with("must be valid format")) {
        "must be valid format".clone_into(&mut error.detail);
    }
    errors.append(source_errors);
    if let Some(reference) = source.get("secretRef") {
        require_fields(errors, reference, &["name"], &path.child("secretRef"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(spec: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_volume_spec(&mut errors, &object(spec), "v", false, &FieldPath::new("spec"));
        assert_eq!(messages(&errors), expect);
    }

    fn check_source(source: &str, expect: &[&str]) {
        check(&format!(r#"{{"capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],{source}}}"#), expect);
    }

    #[test]
    fn secrets_of_sources_have_a_namespace() {
        check_source(
            r#""cinder":{"secretRef":{}}"#,
            &[
                "spec.cinder.volumeID: Required value",
                "spec.cinder.secretRef.name: Required value",
                "spec.cinder.secretRef.namespace: Required value",
            ],
        );
        check_source(
            r#""storageos":{"volumeName":"v","secretRef":{"name":"n"}}"#,
            &["spec.storageos.secretRef.namespace: Required value"],
        );
        check_source(
            r#""csi":{"driver":"d","nodePublishSecretRef":{"name":"n","namespace":"a/b"},"controllerExpandSecretRef":{}}"#,
            &[
                "spec.csi.volumeHandle: Required value",
                "spec.csi.controllerExpandSecretRef.name: Required value",
                "spec.csi.controllerExpandSecretRef.namespace: Required value",
                "spec.csi.nodePublishSecretRef.namespace: Invalid value: \"a/b\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
    }

    #[test]
    fn specs() {
        check(
            r#"{"nodeAffinity":{},"persistentVolumeReclaimPolicy":"x","volumeMode":"y","volumeAttributesClassName":""}"#,
            &[
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"x\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
                "spec: Required value: must specify a volume type",
                "spec.volumeMode: Unsupported value: \"y\": supported values: \"Block\", \"Filesystem\"",
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        );
        check(
            r#"{"capacity":{"storage":"-1"},"accessModes":["ReadWriteOncePod","ReadOnlyMany"],"hostPath":{"path":"/a/.."},
                "persistentVolumeReclaimPolicy":"Recycle","nfs":{}}"#,
            &[
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
                "spec.capacity[storage]: Invalid value: \"-1\": must be greater than zero",
                "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        );
    }

    #[test]
    fn sources() {
        check_source(r#""nfs":{"server":"s","path":"/x"}"#, &[]);
        check_source(
            r#""nfs":{"path":"x"}"#,
            &["spec.nfs.server: Required value", "spec.nfs.path: Invalid value: \"x\": must be an absolute path"],
        );
        check_source(
            r#""local":{"path":"/mnt"}"#,
            &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        );
        check_source(
            r#""csi":{"driver":"","nodePublishSecretRef":{"name":"A"}}"#,
            &[
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
                "spec.csi.nodePublishSecretRef.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.csi.nodePublishSecretRef.namespace: Required value",
            ],
        );
        check_source(
            r#""iscsi":{"iqn":"x","secretRef":{}}"#,
            &[
                "spec.iscsi.targetPortal: Required value",
                "spec.iscsi.iqn: Invalid value: \"x\": must be valid format",
                "spec.iscsi.secretRef.name: Required value",
            ],
        );
        check_source(
            r#""glusterfs":{"endpoints":"e","path":"p","endpointsNamespace":""}"#,
            &[
                "spec.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a valid namespace name",
            ],
        );
    }

    #[test]
    fn inline_volumes() {
        let mut errors = Errors::new();
        let spec = object(
            r#"{"capacity":{"storage":"1"},"storageClassName":"a","volumeMode":"Block","nfs":{"server":"s","path":"/"}}"#,
        );
        validate_inline_volume_spec(&mut errors, &spec, &FieldPath::new("s"));
        assert_eq!(
            messages(&errors),
            [
                "s.capacity: Forbidden: may not be specified in the context of inline volumes",
                "s.csi: Required value: has to be specified in the context of inline volumes",
                "s.accessModes: Required value",
                "s.storageClassName: Forbidden: may not be specified in the context of inline volumes",
                "s.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
            ]
        );
    }
}
