//! Validates containers, init containers and ephemeral containers (upstream: `validateContainers`,
//! `validateInitContainers`, `validateEphemeralContainers`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::{Errors, FieldPath, Value, names};

use super::env::{validate_env, validate_env_from};
use super::mounts::{validate_devices, validate_mounts};
use super::options::{PodOptions, RESTART_ALL_CONTAINERS, is_sidecar};
use super::probes::validate_lifecycle_and_probes;
use super::resources::validate_container_resources;
use super::security::validate_security_context;
use crate::validation::{invalid_each, require_one_of, validate_dns_label, validate_one_of};

pub(crate) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// The context of a container: the facts about its pod that its rules need.
pub(crate) struct PodScope<'a> {
    /// The valid volumes, by name.
    pub(crate) volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of the pod's resource claims.
    pub(crate) claims: BTreeSet<&'a str>,
    /// The pod's grace period.
    pub(crate) grace: Option<i64>,
    /// The pod's restart policy.
    pub(crate) restart_policy: &'a str,
    /// The pod's operating system, if it is set.
    pub(crate) os: Option<&'a str>,
    /// True if the pod has no user namespace of its own.
    pub(crate) host_users: bool,
    /// The validation options.
    pub(crate) options: &'a PodOptions,
}

/// Validates the regular containers.
pub(crate) fn validate_containers(errors: &mut Errors, containers: &[Value], pod: &PodScope<'_>, list: &FieldPath<'_>) {
    if containers.is_empty() {
        errors.required(list, "");
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = list.index(i);
        validate_common(errors, container, pod, &path);
        let name = container.str_at(&["name"]);
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        validate_lifecycle_and_probes(errors, container, pod.grace, pod.os, &path);
        validate_restart_policy(errors, container, false, pod.options, &path);
    }
    validate_host_ports(errors, containers, list);
}

/// Validates the init containers.
pub(crate) fn validate_init_containers(errors: &mut Errors, spec: &Value, pod: &PodScope<'_>, list: &FieldPath<'_>) {
    let mut seen: BTreeSet<&str> = spec.items_at(&["containers"]).iter().map(|c| c.str_at(&["name"])).collect();
    for (i, container) in spec.items_at(&["initContainers"]).iter().enumerate() {
        let path = list.index(i);
        validate_common(errors, container, pod, &path);
        validate_restart_policy(errors, container, true, pod.options, &path);

        let name = container.str_at(&["name"]);
        if seen.contains(name) {
            errors.duplicate(&path.child("name"), name);
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // Init containers run one after the other, so their ports cannot conflict. As in upstream, the path names the
        // first container.
        validate_host_ports(errors, std::slice::from_ref(container), list);

        let sidecar = is_sidecar(container);
        if sidecar {
            validate_lifecycle_and_probes(errors, container, pod.grace, pod.os, &path);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.get(field).is_some() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&path.child(field), detail);
                }
            }
        }
        if !sidecar && !pod.options.restarting_init_resize {
            let list = path.child("resizePolicy");
            for (j, policy) in container.items_at(&["resizePolicy"]).iter().enumerate() {
                if policy.str_at(&["restartPolicy"]) == "RestartContainer" {
                    errors.invalid(
                        &list.index(j).child("restartPolicy"),
                        "RestartContainer",
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    );
                }
            }
        }
    }
}

/// The fields that are forbidden in ephemeral containers, in the order of their declaration.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates the ephemeral containers.
pub(crate) fn validate_ephemeral_containers(
    errors: &mut Errors,
    spec: &Value,
    pod: &PodScope<'_>,
    list: &FieldPath<'_>,
) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|l| spec.items_at(&[l]))
        .map(|c| c.str_at(&["name"]))
        .collect();
    let mut seen = others.clone();
    for (i, container) in spec.items_at(&["ephemeralContainers"]).iter().enumerate() {
        let path = list.index(i);
        validate_common(errors, container, pod, &path);
        validate_padding(errors, container, &path);
        let name = container.str_at(&["name"]);
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        let target = container.str_at(&["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.push(pintle_value::FieldError::not_found(&path.child("targetContainerName"), target));
        }
        for field in NOT_EPHEMERAL {
            // An empty list counts as unset; an empty struct behind a pointer counts as set.
            let is_set = container.get(field).is_some_and(|value| {
                !value.is_empty() || !matches!(*field, "ports" | "resources" | "resizePolicy" | "restartPolicyRules")
            });
            if is_set {
                errors.forbidden(&path.child(field), "cannot be set for an Ephemeral Container");
            }
        }
        let mounts = path.child("volumeMounts");
        for (j, mount) in container.items_at(&["volumeMounts"]).iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.str_at(&[field]).is_empty() {
                    errors.forbidden(&mounts.index(j).child(field), "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Rejects an image with leading or trailing white space, which is allowed in templates.
pub(crate) fn validate_padding(errors: &mut Errors, container: &Value, path: &FieldPath<'_>) {
    let image = container.str_at(&["image"]);
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

/// Validates the common fields of all types of containers.
fn validate_common(errors: &mut Errors, container: &Value, pod: &PodScope<'_>, path: &FieldPath<'_>) {
    let name = container.str_at(&["name"]);
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        validate_dns_label(errors, &path.child("name"), name);
    }
    // Some clients give a meaning to an image that consists of spaces, so only an empty one is rejected here.
    if container.str_at(&["image"]).is_empty() {
        errors.required(&path.child("image"), "");
    }
    let policy = container.str_at(&["terminationMessagePolicy"]);
    require_one_of(errors, &path.child("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    validate_ports(errors, container.items_at(&["ports"]), &path.child("ports"));
    validate_env(errors, container.items_at(&["env"]), &path.child("env"));
    validate_env_from(errors, container.items_at(&["envFrom"]), &path.child("envFrom"));
    validate_mounts(errors, container, &pod.volumes, &path.child("volumeMounts"));
    validate_devices(errors, container, &pod.volumes, &path.child("volumeDevices"));
    require_one_of(errors, &path.child("imagePullPolicy"), container.str_at(&["imagePullPolicy"]), PULL_POLICIES);
    if let Some(resources) = container.get("resources") {
        validate_container_resources(errors, resources, &pod.claims, pod.options, &path.child("resources"));
    }
    let resize = container.items_at(&["resizePolicy"]);
    validate_resize_policy(errors, resize, pod.restart_policy, &path.child("resizePolicy"));
    if let Some(context) = container.get("securityContext") {
        validate_security_context(errors, context, pod.host_users, pod.options, &path.child("securityContext"));
    }
}

fn validate_ports(errors: &mut Errors, ports: &[Value], list: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = list.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            let problems = names::port_name(name);
            if !problems.is_empty() {
                invalid_each(errors, &path.child("name"), name, problems);
            } else if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
        }
        for (field, required) in [("containerPort", true), ("hostPort", false)] {
            match port.int_at(&[field]).unwrap_or(0) {
                0 if required => errors.required(&path.child(field), ""),
                0 => {}
                number => {
                    invalid_each(errors, &path.child(field), number, names::port_number(number));
                }
            }
        }
        require_one_of(errors, &path.child("protocol"), port.str_at(&["protocol"]), &["SCTP", "TCP", "UDP"]);
    }
}

/// Rejects host ports that are used twice.
fn validate_host_ports(errors: &mut Errors, containers: &[Value], list: &FieldPath<'_>) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let ports = list.index(i);
        let ports = ports.child("ports");
        for (j, port) in container.items_at(&["ports"]).iter().enumerate() {
            let number = port.int_at(&["hostPort"]).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.str_at(&["protocol"]), port.str_at(&["hostIP"]));
            if taken.contains(&key) {
                errors.duplicate(&ports.index(j).child("hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn validate_resize_policy(errors: &mut Errors, policies: &[Value], pod_policy: &str, list: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for (i, policy) in policies.iter().enumerate() {
        let resource = policy.str_at(&["resourceName"]);
        if !seen.insert(resource) {
            errors.duplicate(&list.index(i), resource);
        }
        // Upstream reports the following errors at the list.
        require_one_of(errors, list, resource, &["cpu", "memory"]);
        let restart = policy.str_at(&["restartPolicy"]);
        require_one_of(errors, list, restart, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.invalid(list, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// Validates the restart policy and the restart rules of a container.
fn validate_restart_policy(
    errors: &mut Errors,
    container: &Value,
    init: bool,
    options: &PodOptions,
    path: &FieldPath<'_>,
) {
    let policy = container.get("restartPolicy").and_then(Value::as_str);
    let rules = container.items_at(&["restartPolicyRules"]);
    match policy {
        None if rules.is_empty() => return,
        None => {
            errors.required(&path.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
            // Upstream stops here for init containers, but validates the rules of regular containers.
            if init {
                return;
            }
        }
        Some(_) => validate_one_of(errors, &path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]),
    }
    let list = path.child("restartPolicyRules");
    let actions: &[&str] = if options.no_restart_of_all { &["Restart"] } else { &["Restart", RESTART_ALL_CONTAINERS] };
    if rules.len() > 20 {
        errors.push(pintle_value::FieldError::too_many(&list, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = list.index(i);
        let action = Some(rule.str_at(&["action"]));
        validate_one_of(errors, &path.child("action"), action, actions);
        let path = path.child("exitCodes");
        let Some(codes) = rule.get("exitCodes") else {
            errors.required(&path, "must be specified");
            continue;
        };
        validate_one_of(errors, &path.child("operator"), Some(codes.str_at(&["operator"])), &["In", "NotIn"]);
        let values = codes.items_at(&["values"]).len();
        if values > 255 {
            errors.push(pintle_value::FieldError::too_many(&path.child("values"), values, 255));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::pod::{set_template_defaults, validate_pod_template_spec};
    use crate::testing::{messages, object};

    fn check(spec: &str, expect: &[&str]) {
        let mut template = object(&format!(r#"{{"spec":{spec}}}"#));
        set_template_defaults(&mut template);
        let errors = validate_pod_template_spec(&template, &FieldPath::new("t"), &PodOptions::default());
        assert_eq!(messages(&errors), expect, "{spec}");
    }

    #[test]
    fn names_and_ports_are_unique() {
        check(
            r#"{"containers":[{"name":"a","image":"i","ports":[{"name":"p","containerPort":1,"protocol":"TCP","hostPort":9},
                {"name":"p","containerPort":0,"protocol":"tcp"}]},
                {"name":"a","image":"i","ports":[{"containerPort":70000,"protocol":"TCP","hostPort":9}]}],
                "initContainers":[{"name":"a","image":"i"}]}"#,
            &[
                "t.spec.containers[0].ports[1].name: Duplicate value: \"p\"",
                "t.spec.containers[0].ports[1].containerPort: Required value",
                "t.spec.containers[0].ports[1].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "t.spec.containers[1].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "t.spec.containers[1].name: Duplicate value: \"a\"",
                "t.spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//9\"",
                "t.spec.initContainers[0].name: Duplicate value: \"a\"",
            ],
        );
    }

    #[test]
    fn init_containers_and_sidecars() {
        let c = r#""containers":[{"name":"c","image":"i"}]"#;
        let probe = r#""readinessProbe":{"exec":{"command":["x"]}}"#;
        check(
            &format!(r#"{{{c},"initContainers":[{{"name":"s","image":"i","restartPolicy":"Always",{probe}}}]}}"#),
            &[],
        );
        check(
            &format!(
                r#"{{{c},"initContainers":[{{"name":"s","image":"i",{probe},"restartPolicy":"Sometimes",
                "resizePolicy":[{{"resourceName":"cpu","restartPolicy":"RestartContainer"}}]}}]}}"#
            ),
            &[
                "t.spec.initContainers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
                 \"Never\", \"OnFailure\"",
                "t.spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without \
                 restartPolicy=Always",
                "t.spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be \
                 set to 'RestartContainer' for non-sidecar initContainers",
            ],
        );
    }

    #[test]
    fn restart_rules() {
        check(
            r#"{"containers":[{"name":"c","image":"i","restartPolicyRules":[{"action":"Stop"},
                {"action":"Restart","exitCodes":{"operator":"Is","values":[1]}}]}]}"#,
            &[
                "t.spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
                "t.spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Stop\": supported values: \
                 \"Restart\", \"RestartAllContainers\"",
                "t.spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
                "t.spec.containers[0].restartPolicyRules[1].exitCodes.operator: Unsupported value: \"Is\": supported \
                 values: \"In\", \"NotIn\"",
            ],
        );
    }
}
