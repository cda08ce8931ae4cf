//! Validates annotations with a meaning for pods: seccomp and AppArmor profiles, deletion costs, mirror pods (upstream:
//! `ValidatePodSpecificAnnotations`, `applyAppArmorVersionSkew`). The profile annotations preceded the corresponding
//! fields.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::ops::Deref;

use pintle_value::print::quote;
use pintle_value::{Errors, FieldPath, Value};

use super::defaults::for_each_item;
use super::file_paths::validate_local_descending_path;
use super::options::{DELETION_COST, PodOptions, deletion_cost, has_no_errors};
use super::scheduling::validate_tolerations;
use super::security::validate_app_armor;
use super::spec::MIRROR_POD;
use super::visitor::{CONTAINER_LISTS, all_containers, visit_containers};
use crate::generic::same;
use crate::validation::str_field;

pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The JSON annotation that preceded the field `tolerations`.
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const LOCALHOST: &str = "localhost/";

/// Validates the annotations of a pod or a pod template. Few annotations need the options, so `options` may build them
/// on demand.
pub(crate) fn validate_pod_annotations(
    errors: &mut Errors,
    object: &Value,
    options: impl Deref<Target = PodOptions>,
    path: &FieldPath<'_>,
) {
    let spec = &object["spec"];
    if let Some(value) = object.annotation(MIRROR_POD)
        && spec.str_at(&["nodeName"]).is_empty()
    {
        errors.invalid(&path.key(MIRROR_POD), value, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(text) = object.annotation(TOLERATIONS).filter(|text| !text.is_empty()) {
        match pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default()) {
            Ok(decoded) => {
                let tolerations = decoded.value.as_array().map_or(&[][..], Vec::as_slice);
                validate_tolerations(errors, tolerations, &options, &path.child(TOLERATIONS));
            }
            Err(error) => errors.invalid(path, TOLERATIONS, error.to_string()),
        }
    }
    if deletion_cost(object).is_err() && !options.any_deletion_cost {
        let value = object.annotation(DELETION_COST).unwrap_or_default();
        errors.invalid(&path.key(DELETION_COST), value, "must be a 32bit integer");
    }
    if let Some(profile) = object.annotation(SECCOMP_POD) {
        validate_seccomp_profile(errors, profile, &path.child(SECCOMP_POD));
    }
    for (key, value) in object.entries_at(&["metadata", "annotations"]) {
        let value = value.as_str().unwrap_or_default();
        if key.starts_with(SECCOMP_CONTAINER) {
            validate_seccomp_profile(errors, value, &path.child(key));
        }
    }
    let containers = LazyCell::new(|| -> BTreeSet<&str> {
        all_containers(spec).map(|container| container.str_at(&["name"])).collect()
    });
    for (key, value) in object.entries_at(&["metadata", "annotations"]) {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        let value = value.as_str().unwrap_or_default();
        if !containers.contains(container) {
            errors.invalid(&path.key(key), container, "container not found");
        }
        if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with(LOCALHOST) {
            errors.invalid(&path.key(key), value, format!("invalid AppArmor profile name: {}", quote(value)));
        }
    }
}

fn validate_seccomp_profile(errors: &mut Errors, profile: &str, path: &FieldPath<'_>) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix(LOCALHOST) {
            Some(file) => validate_local_descending_path(errors, path, file),
            None => errors.invalid(path, profile, "must be a valid seccomp profile"),
        },
    }
}

/// Validates changes of annotations: annotations of AppArmor and of mirror pods are immutable.
pub(crate) fn validate_annotation_updates(errors: &mut Errors, new: &Value, old: &Value, path: &FieldPath<'_>) {
    let guarded = |key: &str| {
        let app_armor = key.starts_with(APP_ARMOR).then_some("AppArmor annotations");
        app_armor.or((key == MIRROR_POD).then_some("mirror pod annotation"))
    };
    for (key, value) in old.entries_at(&["metadata", "annotations"]) {
        if new.annotation(key) != value.as_str()
            && let Some(what) = guarded(key)
        {
            errors.forbidden(&path.key(key), format!("may not remove or update {what}"));
        }
    }
    for (key, _) in new.entries_at(&["metadata", "annotations"]) {
        if old.annotation(key).is_none()
            && let Some(what) = guarded(key)
        {
            errors.forbidden(&path.key(key), format!("may not add {what}"));
        }
    }
}

/// Validates that a profile that is set in an annotation and in a field is the same in both.
pub(crate) fn validate_annotations_and_fields(errors: &mut Errors, object: &Value, spec_path: &FieldPath<'_>) {
    let spec = &object["spec"];
    let of_pod = spec.at(&["securityContext", "seccompProfile"]);
    if let (Some(profile), Some(annotation)) = (of_pod, object.annotation(SECCOMP_POD)) {
        let path = spec_path.child("securityContext");
        validate_match(errors, "seccomp", profile, annotation, &path.child("seccompProfile"));
    }
    visit_containers(spec, spec_path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.str_at(&["name"]));
        let profile = container.at(&["securityContext", "seccompProfile"]);
        if let (Some(profile), Some(annotation)) = (profile, object.annotation(&key)) {
            let path = path.child("securityContext");
            validate_match(errors, "seccomp", profile, annotation, &path.child("seccompProfile"));
        }
    });
    if spec.str_at(&["os", "name"]) == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    visit_containers(spec, spec_path, |container, path| {
        let key = format!("{APP_ARMOR}{}", container.str_at(&["name"]));
        let profile = container.at(&["securityContext", "appArmorProfile"]).or(of_pod);
        if let (Some(profile), Some(annotation)) = (profile, object.annotation(&key)) {
            let path = path.child("securityContext");
            validate_match(errors, "apparmor", profile, annotation, &path.child("appArmorProfile"));
        }
    });
}

fn validate_match(errors: &mut Errors, what: &str, profile: &Value, annotation: &str, path: &FieldPath<'_>) {
    let mut type_matches = true;
    match profile.str_at(&["type"]) {
        "Unconfined" => type_matches = annotation == "unconfined",
        "RuntimeDefault" => {
            let docker = what == "seccomp" && annotation == "docker/default";
            type_matches = annotation == "runtime/default" || docker;
        }
        "Localhost" => match annotation.strip_prefix(LOCALHOST) {
            None => type_matches = false,
            Some(file) if str_field(profile, "localhostProfile") != Some(file) => {
                let detail = format!("{what} profile in annotation and field must match");
                errors.forbidden(&path.child("localhostProfile"), detail);
            }
            Some(_) => {}
        },
        _ => {}
    }
    if !type_matches {
        errors.forbidden(&path.child("type"), format!("{what} type in annotation and field must match"));
    }
}

/// Returns the AppArmor profile that an annotation describes.
pub(crate) fn app_armor_of_annotation(annotation: &str) -> Option<Value> {
    let mut profile = Value::object();
    match annotation {
        "unconfined" => profile.set("type", "Unconfined"),
        "runtime/default" => profile.set("type", "RuntimeDefault"),
        _ => {
            let file = annotation.strip_prefix(LOCALHOST).filter(|file| !file.is_empty())?;
            profile.set("type", "Localhost");
            profile.set("localhostProfile", file);
        }
    }
    Some(profile)
}

/// Copies AppArmor profiles from annotations to the fields of containers that have none.
pub(crate) fn copy_app_armor_annotations(pod: &mut Value) {
    if pod.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let annotations = pod.at(&["metadata", "annotations"]).cloned().unwrap_or_default();
    for list in CONTAINER_LISTS {
        for_each_item(pod, &["spec", list], |container| {
            if container.at(&["securityContext", "appArmorProfile"]).is_some() {
                return;
            }
            let key = format!("{APP_ARMOR}{}", container.str_at(&["name"]));
            let profile = str_field(&annotations, &key).and_then(app_armor_of_annotation);
            let Some(profile) = profile.filter(|profile| {
                has_no_errors(|errors, path| validate_app_armor(errors, Some(profile), path))
                    && !same(Some(profile), of_pod.as_ref())
            }) else {
                return;
            };
            container.set_at(&["securityContext", "appArmorProfile"], profile);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    fn check(pod: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        let pod = object(pod);
        validate_pod_annotations(&mut errors, &pod, &PodOptions::default(), &FieldPath::new("metadata.annotations"));
        validate_annotations_and_fields(&mut errors, &pod, &FieldPath::new("spec"));
        assert_eq!(messages(&errors), expect, "{pod:?}");
    }

    #[test]
    fn annotations_are_validated() {
        check(
            r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x",
                "controller.kubernetes.io/pod-deletion-cost":"+1","seccomp.security.alpha.kubernetes.io/pod":"y",
                "container.apparmor.security.beta.kubernetes.io/c":"z"}},"spec":{"containers":[{"name":"d"}]}}"#,
            &[
                "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror \
                 pod annotation is set",
                "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit \
                 integer",
                "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"y\": must be a valid \
                 seccomp profile",
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: \"c\": container \
                 not found",
                "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: \"z\": invalid \
                 AppArmor profile name: \"z\"",
            ],
        );
        check(
            r#"{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"localhost/a",
                "container.apparmor.security.beta.kubernetes.io/c":"unconfined"}},
                "spec":{"securityContext":{"seccompProfile":{"type":"Localhost","localhostProfile":"b"},
                "appArmorProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c"}]}}"#,
            &[
                "spec.securityContext.seccompProfile.localhostProfile: Forbidden: seccomp profile in annotation and field \
                 must match",
                "spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field \
                 must match",
            ],
        );
    }

    #[test]
    fn app_armor_annotations_become_fields() {
        let mut pod = object(
            r#"{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"localhost/x",
                "container.apparmor.security.beta.kubernetes.io/d":"nonsense"}},
                "spec":{"containers":[{"name":"c"},{"name":"d"}]}}"#,
        );
        copy_app_armor_annotations(&mut pod);
        let expect = r#"[{"name":"c","securityContext":{"appArmorProfile":{"type":"Localhost","localhostProfile":"x"}}},
            {"name":"d"}]"#;
        assert_eq!(pod["spec"]["containers"], object(expect));
    }
}
