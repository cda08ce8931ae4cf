//! Validates the spec of a pod as a whole, and pod templates (upstream: `ValidatePodSpec`, `ValidatePodTemplateSpec`).
//! Other files validate the parts of the spec.

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::annotations::{validate_annotations_and_fields, validate_pod_annotations};
use super::containers::{PodScope, validate_containers, validate_ephemeral_containers, validate_init_containers};
use super::options::{PodOptions, user_namespaces};
use super::resources::{validate_overhead, validate_pod_resources};
use super::scheduling::{validate_affinity, validate_gates, validate_labels, validate_spread, validate_tolerations};
use super::security::validate_pod_security_context;
use super::visitor::visit_containers;
use super::volumes::validate_volumes;
use super::windows::{validate_host_processes, validate_os};
use crate::declarative::Rules;
use crate::validation::{
    invalid_each, require_one_of, str_field, validate_dns_label, validate_dns_subdomain, validate_object_name,
    validate_qualified_name,
};

static SPEC: Rules = Rules::own("core/v1", "PodSpec");

/// The annotation of mirror pods: static pods of a node, which the API server only displays.
pub(crate) const MIRROR_POD: &str = "kubernetes.io/config.mirror";

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCH_PATHS: usize = 32;
const MAX_SEARCH_CHARS: usize = 2048;
const MAX_HOSTNAME_OVERRIDE: usize = 64;

/// Validates a pod template.
pub(crate) fn validate_pod_template_spec(template: &Value, path: &FieldPath<'_>, options: &PodOptions) -> Errors {
    let mut errors = Errors::new();
    let spec = &template["spec"];
    let spec_path = path.child("spec");
    let annotations_path = path.child("annotations");
    validate_labels(&mut errors, template.at(&["metadata", "labels"]), &path.child("labels"));
    let annotations = &template["metadata"]["annotations"];
    errors.append(pintle_value::metadata::validate_annotations(annotations, &annotations_path));
    validate_pod_annotations(&mut errors, template, options, &annotations_path);
    errors.append(validate_pod_spec(spec, None, &spec_path, options));
    validate_annotations_and_fields(&mut errors, template, &spec_path);
    if !spec.items_at(&["ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&spec_path.child("ephemeralContainers"), detail);
    }
    errors
}

/// Validates a pod's spec. `pod` is the whole pod, or `None` for a template.
pub(crate) fn validate_pod_spec(
    spec: &Value,
    pod: Option<&Value>,
    path: &FieldPath<'_>,
    options: &PodOptions,
) -> Errors {
    let mut errors = Errors::new();
    let grace = spec.int_at(&["terminationGracePeriodSeconds"]);
    if grace.is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = pod.map_or("", Value::name);
    let volumes = spec.items_at(&["volumes"]);
    let volumes = validate_volumes(&mut errors, volumes, pod_name, &path.child("volumes"), options);
    let claims = spec.items_at(&["resourceClaims"]);
    validate_resource_claims(&mut errors, claims, pod, &path.child("resourceClaims"));

    let restart_policy = spec.str_at(&["restartPolicy"]);
    let scope = PodScope {
        volumes,
        claims: claims.iter().map(|claim| claim.str_at(&["name"])).filter(|name| !name.is_empty()).collect(),
        grace,
        restart_policy,
        os: spec.get("os").map(|os| os.str_at(&["name"])),
        host_users: !user_namespaces(spec),
        options,
    };
    validate_containers(&mut errors, spec.items_at(&["containers"]), &scope, &path.child("containers"));
    validate_init_containers(&mut errors, spec, &scope, &path.child("initContainers"));
    validate_ephemeral_containers(&mut errors, spec, &scope, &path.child("ephemeralContainers"));
    validate_pod_resources(&mut errors, spec, &scope.claims, options, path);

    validate_host_network(&mut errors, spec, options, path);
    require_one_of(&mut errors, &path.child("restartPolicy"), restart_policy, &["Always", "OnFailure", "Never"]);
    let dns_policy = spec.str_at(&["dnsPolicy"]);
    let dns_policies = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    require_one_of(&mut errors, &path.child("dnsPolicy"), dns_policy, dns_policies);
    validate_labels(&mut errors, spec.get("nodeSelector"), &path.child("nodeSelector"));
    if let Some(context) = spec.get("securityContext") {
        validate_pod_security_context(&mut errors, context, spec, options, &path.child("securityContext"));
    }
    if let Some(affinity) = spec.get("affinity") {
        validate_affinity(&mut errors, affinity, options, &path.child("affinity"));
    }
    validate_dns(&mut errors, spec.get("dnsConfig"), dns_policy, options, &path.child("dnsConfig"));
    let gates = path.child("readinessGates");
    for (i, gate) in spec.items_at(&["readinessGates"]).iter().enumerate() {
        let path = gates.index(i);
        validate_qualified_name(&mut errors, &path.child("conditionType"), gate.str_at(&["conditionType"]));
    }
    validate_gates(&mut errors, spec.items_at(&["schedulingGates"]), &path.child("schedulingGates"));
    validate_spread(&mut errors, spec, options, &path.child("topologySpreadConstraints"));
    validate_host_processes(&mut errors, spec, options, path);
    validate_user_namespaces(&mut errors, spec, options, path);
    validate_hostname_override(&mut errors, spec, path);
    validate_simple_fields(&mut errors, spec, options, path);
    validate_file_keys(&mut errors, spec, path);
    validate_scheduling_group(&mut errors, spec, path);
    errors
}

/// Validates the fields at the end of upstream's list, each with a rule of its own.
fn validate_simple_fields(errors: &mut Errors, spec: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    SPEC.validate_part(errors, spec, path);
    validate_tolerations(errors, spec.items_at(&["tolerations"]), options, &path.child("tolerations"));
    let aliases = path.child("hostAliases");
    for (i, alias) in spec.items_at(&["hostAliases"]).iter().enumerate() {
        let path = aliases.index(i);
        options.address_rules.validate_ip(errors, &path.child("ip"), alias.str_at(&["ip"]), &BTreeSet::new());
        let list = path.child("hostnames");
        for (j, name) in alias.items_at(&["hostnames"]).iter().enumerate() {
            validate_dns_subdomain(errors, &list.index(j), name.as_str().unwrap_or_default());
        }
    }
    let name = spec.str_at(&["priorityClassName"]);
    if !name.is_empty() {
        validate_object_name(errors, &path.child("priorityClassName"), name);
    }
    if let Some(name) = str_field(spec, "runtimeClassName") {
        validate_object_name(errors, &path.child("runtimeClassName"), name);
    }
    if let Some(policy) = str_field(spec, "preemptionPolicy") {
        let policies = &["PreemptLowerPriority", "Never"];
        require_one_of(errors, &path.child("preemptionPolicy"), policy, policies);
    }
    if let Some(overhead) = spec.get("overhead") {
        validate_overhead(errors, overhead, options, &path.child("overhead"));
    }
    validate_os(errors, spec, path);
}

fn validate_resource_claims(errors: &mut Errors, claims: &[Value], pod: Option<&Value>, list: &FieldPath<'_>) {
    let is_mirror = pod.is_some_and(|pod| pod.annotation(MIRROR_POD).is_some());
    let mut seen = BTreeSet::new();
    for (i, claim) in claims.iter().enumerate() {
        if is_mirror {
            errors.forbidden(&FieldPath::new(""), "static pods do not support resource claims");
            continue;
        }
        let path = list.index(i);
        let name_path = path.child("name");
        let name = claim.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&name_path, "");
        } else if !seen.insert(name) {
            errors.duplicate(&name_path, name);
        } else {
            validate_dns_label(errors, &name_path, name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = sources.iter().filter(|field| claim.get(field).is_some()).count();
        // Upstream prints the internal type here, which has no JSON names.
        let shown = || {
            ["Name", "ResourceClaimName", "ResourceClaimTemplateName"]
                .into_iter()
                .zip(["name", sources[0], sources[1]])
                .map(|(name, field)| (name, claim[field].clone()))
                .collect::<pintle_value::Object>()
        };
        if given == 2 {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid(&path, shown(), detail);
        }
        if given == 0 {
            let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid(&path, shown(), detail);
        }
        for field in sources {
            if let Some(name) = str_field(claim, field) {
                validate_object_name(errors, &path.child(field), name);
            }
        }
    }
}

/// With `hostNetwork`, container ports must equal host ports. In templates, host ports may be left to the defaults.
fn validate_host_network(errors: &mut Errors, spec: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    if !spec.bool_at(&["hostNetwork"]) {
        return;
    }
    let list = path.child("containers");
    for (i, container) in spec.items_at(&["containers"]).iter().enumerate() {
        let ports = list.index(i);
        let ports = ports.child("ports");
        for (j, port) in container.items_at(&["ports"]).iter().enumerate() {
            let host = port.int_at(&["hostPort"]).unwrap_or(0);
            let own = port.int_at(&["containerPort"]).unwrap_or(0);
            if (options.is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports.index(j).child("hostPort"), host, detail);
            }
        }
    }
}

fn validate_dns(errors: &mut Errors, config: Option<&Value>, policy: &str, options: &PodOptions, path: &FieldPath<'_>) {
    let none = policy == "None";
    let Some(config) = config else {
        if none {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    let servers = config.items_at(&["nameservers"]);
    let list = path.child("nameservers");
    if none && servers.is_empty() {
        errors.required(&list, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        return;
    }
    if servers.len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&list, Value::Array(servers.to_vec()), detail);
    }
    for (i, server) in servers.iter().enumerate() {
        options.address_rules.validate_ip(
            errors,
            &list.index(i),
            server.as_str().unwrap_or_default(),
            &BTreeSet::new(),
        );
    }
    let searches = config.items_at(&["searches"]);
    let list = path.child("searches");
    if searches.len() > MAX_SEARCH_PATHS {
        let detail = format!("must not have more than {MAX_SEARCH_PATHS} search paths");
        errors.invalid(&list, Value::Array(searches.to_vec()), detail);
    }
    let characters: usize = searches.iter().map(|search| search.as_str().unwrap_or_default().len() + 1).sum();
    if characters.saturating_sub(1) > MAX_SEARCH_CHARS {
        let detail =
            format!("must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list");
        errors.invalid(&list, Value::Array(searches.to_vec()), detail);
    }
    for (i, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or_default();
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            invalid_each(errors, &list.index(i), search, names::dns1123_subdomain_with_underscore(search));
        }
    }
    let list = path.child("options");
    for (i, option) in config.items_at(&["options"]).iter().enumerate() {
        if option.str_at(&["name"]).is_empty() {
            errors.required(&list.index(i), "must not be empty");
        }
    }
}

fn validate_user_namespaces(errors: &mut Errors, spec: &Value, options: &PodOptions, path: &FieldPath<'_>) {
    const DETAIL: &str = "when `hostUsers` is false";
    if !user_namespaces(spec) {
        return;
    }
    if spec.bool_at(&["hostNetwork"]) && !options.user_namespaces_with_host_network {
        errors.forbidden(&path.child("hostNetwork"), DETAIL);
    }
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.bool_at(&[field]) {
            errors.forbidden(&path.child(shown), DETAIL);
        }
    }
    if !options.user_namespaces_with_devices {
        visit_containers(spec, path, |container, path| {
            if !container.items_at(&["volumeDevices"]).is_empty() {
                errors.forbidden(&path.child("volumeDevices"), DETAIL);
            }
        });
    }
}

fn validate_hostname_override(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(name) = str_field(spec, "hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.bool_at(&[field]) {
            errors.forbidden(&path, format!("may not be specified when {field} is true"));
        }
    }
    if name.len() > MAX_HOSTNAME_OVERRIDE {
        errors.push(FieldError::too_long(&path, MAX_HOSTNAME_OVERRIDE));
    }
    validate_dns_subdomain(errors, &path, name);
}

/// Validates the group with which the pod is scheduled. The group need not exist.
fn validate_scheduling_group(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(group) = spec.get("schedulingGroup") else { return };
    let path = path.child("schedulingGroup");
    match str_field(group, "podGroupName") {
        Some(name) => validate_dns_subdomain(errors, &path.child("podGroupName"), name),
        None => {
            let shown = pintle_value::object! { "PodGroupName": Value::Null };
            errors.invalid(&path, shown, "must specify one of: `podGroupName`");
        }
    }
}

/// Validates that file key references point to `emptyDir` volumes.
fn validate_file_keys(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    // If several volumes have the same name, the last one counts.
    let volumes: BTreeMap<&str, &Value> =
        spec.items_at(&["volumes"]).iter().map(|volume| (volume.str_at(&["name"]), volume)).collect();
    visit_containers(spec, path, |container, path| {
        let list = path.child("env");
        for (i, variable) in container.items_at(&["env"]).iter().enumerate() {
            let Some(reference) = variable.at(&["valueFrom", "fileKeyRef"]) else { continue };
            let path = list.index(i);
            let path = path.child("valueFrom");
            let path = path.child("fileKeyRef");
            let path = path.child("volumeName");
            let name = reference.str_at(&["volumeName"]);
            match volumes.get(name) {
                None => errors.push(FieldError::not_found(&path, name)),
                Some(volume) if volume.get("emptyDir").is_none() => {
                    errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::pod::defaults::set_pod_spec_defaults;
    use crate::testing::{context, messages, object};

    fn check(fields: &str, expect: &[&str]) {
        let mut spec = object(&format!(r#"{{"containers":[{{"name":"c","image":"i"}}],{fields}}}"#));
        set_pod_spec_defaults(&mut spec);
        let pod = object(r#"{"metadata":{"name":"p"}}"#);
        let errors =
            validate_pod_spec(&spec, Some(&pod), &FieldPath::new("spec"), &PodOptions::for_pod(&context(), None));
        assert_eq!(messages(&errors), expect, "{fields}");
    }

    #[test]
    fn policies_and_names() {
        check(r#""restartPolicy":"Never","hostname":"h","serviceAccountName":"s","os":{"name":"linux"}"#, &[]);
        check(
            r#""restartPolicy":"Perhaps","dnsPolicy":"Mine","activeDeadlineSeconds":0,"preemptionPolicy":"Now""#,
            &[
                "spec.restartPolicy: Unsupported value: \"Perhaps\": supported values: \"Always\", \"OnFailure\", \"Never\"",
                "spec.dnsPolicy: Unsupported value: \"Mine\": supported values: \"ClusterFirstWithHostNet\", \
                 \"ClusterFirst\", \"Default\", \"None\"",
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                "spec.preemptionPolicy: Unsupported value: \"Now\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ],
        );
    }

    #[test]
    fn dns() {
        check(
            r#""dnsPolicy":"None""#,
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        );
        check(
            r#""dnsPolicy":"None","dnsConfig":{}"#,
            &[
                "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
            ],
        );
        check(r#""dnsConfig":{"searches":[".","_x.example.com."],"nameservers":["10.0.0.1"]}"#, &[]);
        check(
            r#""dnsConfig":{"nameservers":["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"],"options":[{}]}"#,
            &[
                "spec.dnsConfig.nameservers: Invalid value: [\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\",\"1.1.1.1\"]: must not \
                 have more than 3 nameservers",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
            ],
        );
    }

    #[test]
    fn claims_namespaces_and_host_names() {
        check(
            r#""resourceClaims":[{"name":"a"},{"name":"a","resourceClaimName":"x"}],"hostUsers":false,"hostPID":true,
                "hostnameOverride":"A","setHostnameAsFQDN":true"#,
            &[
                "spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\
                 \"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                "spec.resourceClaims[1].name: Duplicate value: \"a\"",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
                "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
                "spec.hostnameOverride: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
        check(
            r#""hostNetwork":true,"containers":[{"name":"c","image":"i","ports":[{"containerPort":1,"protocol":"TCP"}]}]"#,
            &[
                "spec.containers[0].ports[0].hostPort: Invalid value: 0: must match `containerPort` when `hostNetwork` is true",
            ],
        );
    }

    #[test]
    fn scheduling_groups_have_a_name() {
        check(r#""schedulingGroup":{"podGroupName":"a.b"}"#, &[]);
        check(
            r#""schedulingGroup":{}"#,
            &["spec.schedulingGroup: Invalid value: {\"PodGroupName\":null}: must specify one of: `podGroupName`"],
        );
        check(
            r#""schedulingGroup":{"podGroupName":"A"}"#,
            &[
                "spec.schedulingGroup.podGroupName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of \
                 lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        );
    }

    #[test]
    fn file_key_refs_require_empty_dir_volumes() {
        let env = |volume: &str| {
            format!(
                r#""containers":[{{"name":"c","image":"i","env":[{{"name":"A","valueFrom":{{"fileKeyRef":
                {{"volumeName":"{volume}","path":"p","key":"k"}}}}}}]}}],
                "volumes":[{{"name":"e","emptyDir":{{}}}},{{"name":"h","hostPath":{{"path":"/"}}}}]"#
            )
        };
        let path = "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName";
        check(&env("e"), &[]);
        check(&env("h"), &[&format!("{path}: Invalid value: \"h\": referenced volume must be of type emptyDir")]);
        check(&env("x"), &[&format!("{path}: Not found: \"x\"")]);
    }
}
