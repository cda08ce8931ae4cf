//! Validates security contexts: users and groups, sysctls, seccomp, AppArmor, SELinux (upstream:
//! `ValidateSecurityContext`, `validatePodSpecSecurityContext`). The rules for Windows are in `windows`.

use std::collections::BTreeSet;

use pintle_value::{Errors, FieldPath, Value, names};

use super::file_paths::validate_local_descending_path;
use super::go_types::{PROFILE, SECURITY_CONTEXT};
use super::options::PodOptions;
use super::visitor::all_containers;
use super::windows::validate_windows_options;
use crate::go_json;
use crate::validation::{invalid_each, str_field, validate_one_of};

/// The maximum length of an AppArmor profile's path: `PATH_MAX` without the terminating NUL.
const MAX_PROFILE_PATH: usize = 4095;
const SYS_ADMIN: &str = "CAP_SYS_ADMIN";
const MAX_SYSCTL: usize = 253;
const SYSCTL_FORMAT: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Validates a container's security context.
pub(crate) fn validate_security_context(
    errors: &mut Errors,
    context: &Value,
    host_users: bool,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    if context.bool_at(&["privileged"]) && !options.privileged {
        errors.forbidden(&path.child("privileged"), "disallowed by cluster policy");
    }
    validate_ids(errors, context, &["runAsUser", "runAsGroup"], path);
    let mount = str_field(context, "procMount");
    validate_one_of(errors, &path.child("procMount"), mount, &["Default", "Unmasked"]);
    if host_users && mount == Some("Unmasked") {
        errors.invalid(&path.child("procMount"), "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    validate_seccomp(errors, context.get("seccompProfile"), &path.child("seccompProfile"));
    if context.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false) {
        if context.bool_at(&["privileged"]) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(go_json::invalid(path, context, &SECURITY_CONTEXT, detail));
        }
        let mut added = context.items_at(&["capabilities", "add"]).iter().filter_map(Value::as_str);
        // Report this once, because the error contains the whole context.
        if added.any(|capability| capability == SYS_ADMIN) && !options.any_sys_admin {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(go_json::invalid(path, context, &SECURITY_CONTEXT, detail));
        }
    }
    validate_windows_options(errors, context.get("windowsOptions"), &path.child("windowsOptions"));
    validate_app_armor(errors, context.get("appArmorProfile"), &path.child("appArmorProfile"));
}

/// Returns true if a container adds CAP_SYS_ADMIN although its context forbids the escalation of privileges.
pub(crate) fn has_sys_admin_without_escalation(spec: &Value) -> bool {
    all_containers(spec).filter_map(|container| container.get("securityContext")).any(|context| {
        let forbids = context.get("allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false);
        let mut added = context.items_at(&["capabilities", "add"]).iter();
        forbids && added.any(|capability| capability.as_str() == Some(SYS_ADMIN))
    })
}

/// Validates a pod's security context, and the host namespaces, which are fields of the spec itself.
pub(crate) fn validate_pod_security_context(
    errors: &mut Errors,
    context: &Value,
    spec: &Value,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    validate_ids(errors, context, &["fsGroup", "runAsUser", "runAsGroup"], path);
    let groups = path.child("supplementalGroups");
    for (i, group) in context.items_at(&["supplementalGroups"]).iter().enumerate() {
        let group = group.as_int().unwrap_or(0);
        invalid_each(errors, &groups.index(i), group, names::group_id(group));
    }
    if spec.bool_at(&["shareProcessNamespace"]) && spec.bool_at(&["hostPID"]) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    validate_sysctls(errors, context.items_at(&["sysctls"]), spec, options, &path.child("sysctls"));
    let policy = str_field(context, "fsGroupChangePolicy");
    validate_one_of(errors, &path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    validate_seccomp(errors, context.get("seccompProfile"), &path.child("seccompProfile"));
    validate_windows_options(errors, context.get("windowsOptions"), &path.child("windowsOptions"));
    validate_app_armor(errors, context.get("appArmorProfile"), &path.child("appArmorProfile"));
    let policy = str_field(context, "supplementalGroupsPolicy");
    validate_one_of(errors, &path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    // `MountOption` belongs to a disabled feature; objects that have it keep it.
    let known: &[&str] = if options.any_selinux_change_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    validate_one_of(errors, &path.child("seLinuxChangePolicy"), str_field(context, "seLinuxChangePolicy"), known);
}

fn validate_ids(errors: &mut Errors, context: &Value, fields: &[&str], path: &FieldPath<'_>) {
    for field in fields {
        let Some(id) = context.int_at(&[field]) else { continue };
        let problems = if *field == "runAsUser" { names::user_id(id) } else { names::group_id(id) };
        invalid_each(errors, &path.child(field), id, problems);
    }
}

fn validate_sysctls(errors: &mut Errors, sysctls: &[Value], spec: &Value, options: &PodOptions, list: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = list.index(i);
        let path = path.child("name");
        let name = sysctl.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl_name(name) {
            let detail = format!("must have at most {MAX_SYSCTL} characters and match regex {SYSCTL_FORMAT}");
            errors.invalid(&path, name, detail);
        } else if seen.contains(name) {
            errors.duplicate(&path, name);
        }
        if let Some(field) = host_namespace(name, spec).filter(|_| !options.host_sysctls) {
            errors.invalid(&path, name, format!("may not be specified when '{field}' is true"));
        }
        seen.insert(name);
    }
}

/// Returns the field through which the pod shares the namespace of a sysctl with the host.
fn host_namespace(sysctl: &str, spec: &Value) -> Option<&'static str> {
    // Either a dot or a slash separates the parts; the first separator decides which.
    let slashes = sysctl.find(['.', '/']).is_some_and(|i| sysctl[i..].starts_with('/'));
    let name = if slashes {
        sysctl
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect()
    } else {
        sysctl.to_owned()
    };
    let field = if name.starts_with("net.") {
        "hostNetwork"
    } else if name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
    {
        "hostIPC"
    } else {
        return None;
    };
    spec.bool_at(&[field]).then_some(field)
}

/// Returns true if a pod sets a sysctl in a namespace that it shares with the host.
pub(crate) fn has_host_sysctl(spec: &Value) -> bool {
    let sysctls = spec.items_at(&["securityContext", "sysctls"]);
    sysctls.iter().any(|sysctl| host_namespace(sysctl.str_at(&["name"]), spec).is_some())
}

fn is_sysctl_name(name: &str) -> bool {
    let is_word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= MAX_SYSCTL
        && name.split(['.', '/']).all(|part| {
            let bytes = part.as_bytes();
            bytes.first().is_some_and(is_word)
                && bytes.last().is_some_and(is_word)
                && bytes.iter().all(|b| is_word(b) || matches!(b, b'-' | b'_'))
        })
}

fn validate_seccomp(errors: &mut Errors, profile: Option<&Value>, path: &FieldPath<'_>) {
    let Some(profile) = profile else { return };
    let kind = profile.str_at(&["type"]);
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else {
        validate_one_of(errors, &path.child("type"), Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let path = path.child("localhostProfile");
    match str_field(profile, "localhostProfile") {
        None if kind == "Localhost" => errors.required(&path, "must be set when seccomp type is Localhost"),
        Some(file) if kind == "Localhost" => validate_local_descending_path(errors, &path, file),
        Some(_) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(go_json::invalid(&path, profile, &PROFILE, detail));
        }
        None => {}
    }
}

/// Validates an AppArmor profile.
pub(crate) fn validate_app_armor(errors: &mut Errors, profile: Option<&Value>, path: &FieldPath<'_>) {
    let Some(profile) = profile else { return };
    let file = str_field(profile, "localhostProfile");
    let file_path = path.child("localhostProfile");
    match profile.str_at(&["type"]) {
        "Localhost" => {
            const REQUIRED: &str = "must be set when AppArmor type is Localhost";
            let Some(file) = file else {
                errors.required(&file_path, REQUIRED);
                return;
            };
            if file.trim() != file {
                errors.invalid(&file_path, file, "must not be padded with whitespace");
            } else if file.is_empty() {
                errors.required(&file_path, REQUIRED);
            }
            if file.len() > MAX_PROFILE_PATH {
                errors.push(pintle_value::FieldError::too_long(&file_path, MAX_PROFILE_PATH));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(file) = file {
                errors.invalid(&file_path, file, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn containers() {
        let check = |context: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let options = PodOptions { privileged: true, ..PodOptions::default() };
            validate_security_context(&mut errors, &object(context), true, &options, &FieldPath::new("c"));
            assert_eq!(messages(&errors), expect, "{context}");
        };
        check(r#"{"privileged":true,"runAsUser":0,"seccompProfile":{"type":"RuntimeDefault"}}"#, &[]);
        check(
            r#"{"runAsUser":-1,"procMount":"Unmasked","seccompProfile":{"type":"Localhost"},
                "appArmorProfile":{"type":"Localhost","localhostProfile":" x"}}"#,
            &[
                "c.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "c.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`",
                "c.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
                "c.appArmorProfile.localhostProfile: Invalid value: \" x\": must not be padded with whitespace",
            ],
        );
        check(
            r#"{"privileged":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},
                "seccompProfile":{"type":"Unconfined","localhostProfile":"x"}}"#,
            &[
                "c.seccompProfile.localhostProfile: Invalid value: {\"Type\":\"Unconfined\",\"LocalhostProfile\":\"x\"}: can \
                 only be set when seccomp type is Localhost",
                "c: Invalid value: {\"Capabilities\":{\"Add\":null,\"Drop\":[\"ALL\"]},\"Privileged\":true,\
                 \"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\"RunAsGroup\":null,\
                 \"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\
                 \"ProcMount\":null,\"SeccompProfile\":{\"Type\":\"Unconfined\",\"LocalhostProfile\":\"x\"},\
                 \"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        );
        check(
            r#"{"seccompProfile":{},"appArmorProfile":{"type":"X"}}"#,
            &[
                "c.seccompProfile.type: Required value: type is required when seccompProfile is set",
                "c.appArmorProfile.type: Unsupported value: \"X\": supported values: \"Localhost\", \"RuntimeDefault\", \
                 \"Unconfined\"",
            ],
        );
    }

    #[test]
    fn pods() {
        let check = |spec: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let spec = object(spec);
            let path = FieldPath::new("p");
            let options = PodOptions::default();
            validate_pod_security_context(&mut errors, &spec["securityContext"], &spec, &options, &path);
            assert_eq!(messages(&errors), expect);
        };
        check(r#"{"securityContext":{"sysctls":[{"name":"net/ipv4/ip.forward"}],"fsGroup":0}}"#, &[]);
        check(
            r#"{"hostNetwork":true,"hostPID":true,"shareProcessNamespace":true,"securityContext":{"sysctls":[
                {"name":"net/ipv4/x"},{"name":"a..b"},{"name":"net/ipv4/x"}],"seLinuxChangePolicy":"MountOption"}}"#,
            &[
                "p.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
                "p.sysctls[0].name: Invalid value: \"net/ipv4/x\": may not be specified when 'hostNetwork' is true",
                "p.sysctls[1].name: Invalid value: \"a..b\": must have at most 253 characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
                "p.sysctls[2].name: Duplicate value: \"net/ipv4/x\"",
                "p.sysctls[2].name: Invalid value: \"net/ipv4/x\": may not be specified when 'hostNetwork' is true",
                "p.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported values: \"Recursive\"",
            ],
        );
    }
}
