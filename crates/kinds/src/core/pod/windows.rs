//! Validates fields that depend on a pod's operating system: Windows options, host process containers, and fields that
//! one of the systems does not support. (Upstream: `validateWindowsSecurityContextOptions`,
//! `validateWindowsHostProcessPod`, `validateLinux`, `validateWindows`.)

use pintle_value::{Errors, FieldPath, Value, names};

use super::options::PodOptions;
use super::visitor::visit_containers;
use crate::validation::{invalid_each, str_field, validate_one_of};

/// The maximum size of a credential spec, in bytes.
const MAX_CREDENTIAL_SPEC: usize = 64 * 1024;
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

/// Validates the Windows options of a security context.
pub(crate) fn validate_windows_options(errors: &mut Errors, options: Option<&Value>, path: &FieldPath<'_>) {
    let Some(options) = options else { return };
    if let Some(name) = str_field(options, "gmsaCredentialSpecName") {
        invalid_each(errors, &path.child("gmsaCredentialSpecName"), name, names::dns1123_subdomain(name));
    }
    if let Some(spec) = str_field(options, "gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > MAX_CREDENTIAL_SPEC {
            errors.invalid(&path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = str_field(options, "runAsUserName") {
        let problems = user_name_errors(name);
        invalid_each(errors, &path.child("runAsUserName"), name, problems);
    }
}

/// Returns the errors of a user name, which may have a domain before a backslash.
fn user_name_errors(name: &str) -> Vec<String> {
    let one = |text: &str| vec![format!("runAsUserName{text}")];
    if name.is_empty() {
        return one(" cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return one(" cannot contain control characters");
    }
    let parts: Vec<&str> = name.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return one(" cannot contain more than one backslash"),
    };
    let mut problems = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_DOMAIN {
            problems.push(format!("runAsUserName's Domain length must be under {MAX_DOMAIN} characters"));
        }
        if !is_net_bios_name(domain) && !is_dns_domain(domain) {
            problems.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        problems.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER {
        problems.push(format!("runAsUserName's User length must not be longer than {MAX_USER} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        problems.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let text = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        problems.push(text.to_owned());
    }
    problems
}

fn is_net_bios_name(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
            && bytes[0] != b'-'
            && bytes[bytes.len() - 1] != b'-'
    })
}

/// Validates that host process containers are not mixed with others and use the host network.
pub(crate) fn validate_host_processes(errors: &mut Errors, spec: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    let host_process = |context: Option<&Value>| {
        context.and_then(|c| c.at(&["windowsOptions", "hostProcess"])).and_then(Value::as_bool)
    };
    let of_pod = host_process(spec.get("securityContext"));
    let (mut containers, mut host_processes) = (0, 0);
    visit_containers(spec, path, |container, path| {
        containers += 1;
        let own = host_process(container.get("securityContext"));
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let path = path.child("securityContext");
            let path = path.child("windowsOptions");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&path.child("hostProcess"), own, detail);
        }
        if own.or(of_pod) == Some(true) {
            host_processes += 1;
        }
    });
    if host_processes == 0 {
        return;
    }
    if host_processes != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if !spec.bool_at(&["hostNetwork"]) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, detail);
    }
    if !options.privileged {
        errors.forbidden(path, "hostProcess containers are disallowed by cluster policy");
    }
}

/// Validates the operating system of a pod, and that the pod sets no field that this system does not support.
pub(crate) fn validate_os(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(os) = spec.get("os") else { return };
    let os_path = path.child("os");
    match os.str_at(&["name"]) {
        "" => errors.required(&os_path.child("name"), ""),
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            let mut check = |object: &Value, path: &FieldPath<'_>| {
                if object.at(&["securityContext", "windowsOptions"]).is_some() {
                    errors.forbidden(&path.child("securityContext").child("windowsOptions"), detail);
                }
            };
            check(spec, path);
            visit_containers(spec, path, check);
        }
        "windows" => validate_windows(errors, spec, path),
        other => validate_one_of(errors, &os_path, Some(other), &["linux", "windows"]),
    }
}

/// The fields of a pod that Windows does not support, in upstream's order. The flag marks fields of the security
/// context.
const NOT_FOR_WINDOWS: &[(bool, &str)] = &[
    (true, "appArmorProfile"),
    (true, "seLinuxOptions"),
    (false, "hostUsers"),
    (false, "hostPID"),
    (false, "hostIPC"),
    (true, "seccompProfile"),
    (true, "fsGroup"),
    (true, "fsGroupChangePolicy"),
    (true, "sysctls"),
    (false, "shareProcessNamespace"),
    (true, "runAsUser"),
    (true, "runAsGroup"),
    (true, "supplementalGroups"),
    (true, "supplementalGroupsPolicy"),
    (true, "seLinuxChangePolicy"),
];

/// The fields of a container's security context that Windows does not support.
const NOT_FOR_WINDOWS_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn validate_windows(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let context = path.child("securityContext");
    for (in_context, field) in NOT_FOR_WINDOWS {
        let (holder, path) = if *in_context { (&spec["securityContext"], &context) } else { (spec, path) };
        // `hostPID` and `hostIPC` are plain booleans and `sysctls` is a list, so false and empty count as unset.
        let is_plain = matches!(*field, "hostPID" | "hostIPC" | "sysctls");
        if holder.get(field).is_some_and(|value| !is_plain || !value.is_empty()) {
            errors.forbidden(&path.child(field), DETAIL);
        }
    }
    visit_containers(spec, path, |container, path| {
        let path = path.child("securityContext");
        for field in NOT_FOR_WINDOWS_CONTAINERS {
            if container.at(&["securityContext", field]).is_some() {
                errors.forbidden(&path.child(field), DETAIL);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use pintle_registry::StrategyContext;

    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn user_names() {
        let check = |name: &str, expect: &[&str]| {
            let expect: Vec<String> = expect.iter().map(|text| format!("runAsUserName{text}")).collect();
            assert_eq!(user_name_errors(name), expect, "{name}");
        };
        check("ContainerUser", &[]);
        check("NT AUTHORITY\\NETWORK SERVICE", &[]);
        check("my-domain.example.com\\user", &[]);
        check("", &[" cannot be an empty string"]);
        check("a\\b\\c", &[" cannot contain more than one backslash"]);
        check(
            "-a-domain-that-is-long\\..",
            &[
                "'s Domain doesn't match the NetBios nor the DNS format",
                "'s User cannot contain only periods or spaces",
            ],
        );
        check("a@b", &[r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#]);
    }

    #[test]
    fn host_processes_need_that_privileged_containers_are_allowed() {
        let check = |allow_privileged: bool, spec: &str, expect: &[&str]| {
            let options = PodOptions::for_pod(&StrategyContext { allow_privileged, ..context() }, None);
            let mut errors = Errors::new();
            validate_host_processes(&mut errors, &object(spec), &options, &FieldPath::new("spec"));
            assert_eq!(messages(&errors), expect, "{spec}");
        };
        let spec =
            r#"{"hostNetwork":true,"containers":[{}],"securityContext":{"windowsOptions":{"hostProcess":true}}}"#;
        check(true, spec, &[]);
        check(false, spec, &["spec: Forbidden: hostProcess containers are disallowed by cluster policy"]);
        check(false, r#"{"containers":[{"securityContext":{"windowsOptions":{"hostProcess":false}}}]}"#, &[]);
    }

    #[test]
    fn fields_of_the_other_operating_system_are_rejected() {
        let check = |spec: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let spec = object(spec);
            validate_host_processes(
                &mut errors,
                &spec,
                &PodOptions::for_pod(&context(), None),
                &FieldPath::new("spec"),
            );
            validate_os(&mut errors, &spec, &FieldPath::new("spec"));
            assert_eq!(messages(&errors), expect, "{spec:?}");
        };
        check(r#"{"os":{"name":"linux"},"containers":[{}]}"#, &[]);
        check(
            r#"{"os":{"name":"linux"},"containers":[{"securityContext":{"windowsOptions":{}}}]}"#,
            &[
                "spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
            ],
        );
        check(
            r#"{"os":{"name":"windows"},"hostPID":true,"securityContext":{"fsGroup":1},
                "containers":[{"securityContext":{"privileged":false}}]}"#,
            &[
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
        );
        check(
            r#"{"os":{"name":"beos"}}"#,
            &["spec.os: Unsupported value: \"beos\": supported values: \"linux\", \"windows\""],
        );
        check(
            r#"{"containers":[{"securityContext":{"windowsOptions":{"hostProcess":true}}},{}]}"#,
            &[
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be \
                 HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ],
        );
    }
}
