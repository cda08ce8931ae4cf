//! Validates volume mounts and block devices of a container (upstream: `ValidateVolumeMounts`,
//! `ValidateVolumeDevices`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::file_paths::validate_local_descending_path;
use crate::validation::validate_one_of;

/// Validates the volume mounts of a container.
pub(crate) fn validate_mounts(
    errors: &mut Errors,
    container: &Value,
    volumes: &BTreeMap<&str, &Value>,
    list: &FieldPath<'_>,
) {
    let devices = paths_by_name(container, "volumeDevices", "devicePath");
    let device_paths: BTreeSet<&str> = devices.values().copied().collect();
    let privileged = container.bool_at(&["securityContext", "privileged"]);
    let mut seen = BTreeSet::new();
    for (i, mount) in container.items_at(&["volumeMounts"]).iter().enumerate() {
        let path = list.index(i);
        let name_path = path.child("name");
        let target_path = path.child("mountPath");
        let name = mount.str_at(&["name"]);
        let target = mount.str_at(&["mountPath"]);
        if name.is_empty() {
            errors.required(&name_path, "");
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(&name_path, name));
        }
        if target.is_empty() {
            errors.required(&target_path, "");
        }
        if !seen.insert(target) {
            errors.invalid(&target_path, target, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            errors.invalid(&target_path, target, "must not already exist as a path in volumeDevices");
        }
        // Upstream reports the following errors at the list, except the conflict of `subPath` and `subPathExpr`.
        let sub_path = mount.str_at(&["subPath"]);
        if !sub_path.is_empty() {
            validate_local_descending_path(errors, &list.child("subPath"), sub_path);
        }
        let expression = mount.str_at(&["subPathExpr"]);
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let path = path.child("subPathExpr");
                errors.invalid(&path, expression, "subPathExpr and subPath are mutually exclusive");
            }
            validate_local_descending_path(errors, &list.child("subPathExpr"), expression);
        }
        let propagation = mount.get("mountPropagation").and_then(Value::as_str);
        let propagation_path = list.child("mountPropagation");
        validate_one_of(errors, &propagation_path, propagation, &["Bidirectional", "HostToContainer", "None"]);
        if propagation == Some("Bidirectional") && !privileged {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(&propagation_path, detail);
        }
        validate_recursive_read_only(errors, mount, propagation, &list.child("recursiveReadOnly"));
        let is_image = volumes.get(name).is_some_and(|volume| volume.get("image").is_some());
        validate_bind_options(errors, mount, is_image, &path.child("bindMountOptions"));
    }
}

/// Validates the options of a bind mount. Images have none.
fn validate_bind_options(errors: &mut Errors, mount: &Value, is_image: bool, list: &FieldPath<'_>) {
    let options = mount.items_at(&["bindMountOptions"]);
    if is_image && !options.is_empty() {
        errors.invalid(list, Value::Array(options.to_vec()), "not allowed in image volume sources");
    }
    let mut seen = BTreeSet::new();
    for (i, option) in options.iter().enumerate() {
        let (path, option) = (list.index(i), option.as_str().unwrap_or_default());
        validate_one_of(errors, &path, Some(option), &["nodev", "noexec", "nosuid"]);
        if !seen.insert(option) {
            errors.duplicate(&path, option);
        }
    }
}

fn validate_recursive_read_only(errors: &mut Errors, mount: &Value, propagation: Option<&str>, path: &FieldPath<'_>) {
    match mount.get("recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.bool_at(&["readOnly"]) {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if propagation.is_some_and(|p| p != "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Validates the block devices of a container.
pub(crate) fn validate_devices(
    errors: &mut Errors,
    container: &Value,
    volumes: &BTreeMap<&str, &Value>,
    list: &FieldPath<'_>,
) {
    let mounts = paths_by_name(container, "volumeMounts", "mountPath");
    let mount_paths: BTreeSet<&str> = mounts.values().copied().collect();
    let mut seen_paths = BTreeSet::new();
    let mut seen_names = BTreeSet::new();
    for (i, device) in container.items_at(&["volumeDevices"]).iter().enumerate() {
        let path = list.index(i);
        let name_path = path.child("name");
        let target_path = path.child("devicePath");
        let name = device.str_at(&["name"]);
        let target = device.str_at(&["devicePath"]);
        if name.is_empty() {
            errors.required(&name_path, "");
        }
        if seen_names.contains(name) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match volumes.get(name) {
            Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_path, name, detail);
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(&name_path, name)),
        }
        if target.is_empty() {
            errors.required(&target_path, "");
        }
        if seen_paths.contains(target) {
            errors.invalid(&target_path, target, "must be unique");
        }
        if target.split('/').any(|part| part == "..") {
            errors.invalid(&target_path, target, "can not contain backsteps ('..')");
        } else {
            seen_paths.insert(target);
        }
        if mounts.contains_key(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(target) {
            errors.invalid(&target_path, target, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            seen_names.insert(name);
        }
    }
}

fn paths_by_name<'v>(container: &'v Value, list: &str, field: &str) -> BTreeMap<&'v str, &'v str> {
    container.items_at(&[list]).iter().map(|item| (item.str_at(&["name"]), item.str_at(&[field]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(container: &str, expect: &[&str]) {
        let claim = object(r#"{"persistentVolumeClaim":{}}"#);
        let empty = object(r#"{"emptyDir":{}}"#);
        let image = object(r#"{"image":{}}"#);
        let volumes = BTreeMap::from([("claim", &claim), ("empty", &empty), ("image", &image)]);
        let container = object(container);
        let mut errors = Errors::new();
        validate_mounts(&mut errors, &container, &volumes, &FieldPath::new("m"));
        validate_devices(&mut errors, &container, &volumes, &FieldPath::new("d"));
        assert_eq!(messages(&errors), expect);
    }

    #[test]
    fn mounts_and_devices() {
        check(
            r#"{"volumeMounts":[{"name":"empty","mountPath":"/a"}],"volumeDevices":[{"name":"claim","devicePath":"/b"}]}"#,
            &[],
        );
        check(
            r#"{"volumeMounts":[{"name":"empty","mountPath":"/a","subPath":"../x"},{"name":"gone","mountPath":"/a",
                "mountPropagation":"Bidirectional"}]}"#,
            &[
                "m.subPath: Invalid value: \"../x\": must not contain '..'",
                "m[1].name: Not found: \"gone\"",
                "m[1].mountPath: Invalid value: \"/a\": must be unique",
                "m.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        );
        check(
            r#"{"volumeDevices":[{"name":"empty","devicePath":"/dev/x"},{"name":"claim","devicePath":"/../x"}]}"#,
            &[
                "d[0].name: Invalid value: \"empty\": can only use volume source type of PersistentVolumeClaim or \
                 Ephemeral for block mode",
                "d[1].devicePath: Invalid value: \"/../x\": can not contain backsteps ('..')",
            ],
        );
        check(
            r#"{"volumeMounts":[{"name":"claim","mountPath":"/a","recursiveReadOnly":"Enabled"}],
                "volumeDevices":[{"name":"claim","devicePath":"/a"}]}"#,
            &[
                "m[0].name: Invalid value: \"claim\": must not already exist in volumeDevices",
                "m[0].mountPath: Invalid value: \"/a\": must not already exist as a path in volumeDevices",
                "m.recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "d[0].name: Invalid value: \"claim\": must not already exist in volumeMounts",
                "d[0].devicePath: Invalid value: \"/a\": must not already exist as a path in volumeMounts",
            ],
        );
    }

    #[test]
    fn options_of_bind_mounts() {
        let mount = |name: &str, options: &str| {
            format!(r#"{{"volumeMounts":[{{"name":"{name}","mountPath":"/a","bindMountOptions":[{options}]}}]}}"#)
        };
        check(&mount("empty", r#""noexec","nodev","nosuid""#), &[]);
        check(
            &mount("empty", r#""ro","noexec","noexec""#),
            &[
                "m[0].bindMountOptions[0]: Unsupported value: \"ro\": supported values: \"nodev\", \"noexec\", \"nosuid\"",
                "m[0].bindMountOptions[2]: Duplicate value: \"noexec\"",
            ],
        );
        check(
            &mount("image", r#""noexec""#),
            &["m[0].bindMountOptions: Invalid value: [\"noexec\"]: not allowed in image volume sources"],
        );
    }
}
