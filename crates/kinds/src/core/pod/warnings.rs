//! Warnings about pods and pod templates: deprecated, ineffective or shadowing fields (upstream: `GetWarningsForPod`,
//! `GetWarningsForPodTemplate`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::ip::ip_warnings;
use pintle_value::print::quote;
use pintle_value::{FieldPath, Value, names};

use super::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, app_armor_of_annotation};
use super::overlapping_paths::warnings_for_overlapping_paths;
use super::resources::{is_fractional, quantity};
use super::visitor::{CONTAINER_LISTS, visit_containers};
use crate::core::node::deprecated_node_label;
use crate::core::persistentvolumeclaim::spec::warnings_for_claim_spec;
use crate::generic::same;

/// The maximum number of collected warnings. A response contains at most 4 KiB of them. Some warnings are about pairs
/// of items, so their number may grow with the square of the size of the object.
pub(crate) const MAX_WARNINGS: usize = 256;

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
];

/// Removed volume plugins: the field, the path that upstream reports, the text.
const REMOVED_PLUGINS: [(&str, &str, &str); 7] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];
const CEPH_REMOVED: &str = "deprecated in v1.28, non-functional in v1.31+";

/// Returns the warnings for a pod.
pub(crate) fn warnings_for_pod(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    add_warnings(&mut warnings, pod, &FieldPath::root(), false);
    warnings
}

/// Returns the warnings for a pod template at `path`.
pub(crate) fn warnings_for_pod_template(template: &Value, path: &FieldPath<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    add_warnings(&mut warnings, template, path, true);
    warnings
}

fn add_warnings(warnings: &mut Vec<String>, object: &Value, path: &FieldPath<'_>, is_template: bool) {
    let spec = &object["spec"];
    let spec_path = path.child("spec");
    let metadata_path = path.child("metadata");
    let annotations_path = metadata_path.child("annotations");

    add_node_label_warnings(warnings, spec, &spec_path);
    for (key, text) in ANNOTATIONS {
        if object.annotation(key).is_some() {
            warnings.push(format!("{}: {text}", annotations_path.key(key)));
        }
    }
    add_volume_warnings(warnings, spec, &spec_path);
    warnings_for_overlapping_paths(warnings, spec.items_at(&["volumes"]));
    add_duplicate_warnings(warnings, spec, &spec_path);
    let overhead = spec_path.child("overhead");
    for name in ["memory", "ephemeral-storage"] {
        add_fraction_warning(warnings, spec.at(&["overhead", name]), &overhead.key(name));
    }
    if object.annotation(SECCOMP_POD).is_some() && spec.at(&["securityContext", "seccompProfile"]).is_none() {
        let path = annotations_path.key(SECCOMP_POD);
        warnings.push(format!(r#"{path}: non-functional in v1.27+; use the "seccompProfile" field instead"#));
    }
    visit_containers(spec, &spec_path, |container, path| {
        add_profile_warnings(warnings, object, container, &annotations_path, is_template);
        let resources = path.child("resources");
        for name in ["memory", "ephemeral-storage"] {
            for kind in ["limits", "requests"] {
                let list = resources.child(kind);
                add_fraction_warning(warnings, container.at(&["resources", kind, name]), &list.key(name));
            }
        }
        add_shadowed_variable_warnings(warnings, container, path);
    });
    add_port_warnings(warnings, spec, &spec_path);
    if spec.int_at(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        let path = spec_path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    add_null_selector_warnings(warnings, spec, &spec_path);

    let dns = spec_path.child("dnsConfig");
    let servers = dns.child("nameservers");
    for (i, server) in spec.items_at(&["dnsConfig", "nameservers"]).iter().enumerate() {
        warnings.extend(ip_warnings(&servers.index(i), server.as_str().unwrap_or_default()));
    }
    let aliases = spec_path.child("hostAliases");
    for (i, alias) in spec.items_at(&["hostAliases"]).iter().enumerate() {
        let path = aliases.index(i);
        warnings.extend(ip_warnings(&path.child("ip"), alias.str_at(&["ip"])));
    }
}

/// Adds the warnings about deprecated node labels in node selectors, node affinity and topology spread.
fn add_node_label_warnings(warnings: &mut Vec<String>, spec: &Value, spec_path: &FieldPath<'_>) {
    let selector = spec_path.child("nodeSelector");
    for (key, _) in spec.entries_at(&["nodeSelector"]) {
        if let Some(text) = deprecated_node_label(key) {
            warnings.push(format!("{}: {text}", selector.key(key)));
        }
    }
    let affinity = spec_path.child("affinity");
    let affinity = affinity.child("nodeAffinity");
    let (required, preferred) =
        ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution");
    let required_path = affinity.child(required);
    let terms_path = required_path.child("nodeSelectorTerms");
    let terms = spec.items_at(&["affinity", "nodeAffinity", required, "nodeSelectorTerms"]);
    for (i, term) in terms.iter().enumerate() {
        add_node_term_warnings(warnings, term, false, &terms_path.index(i));
    }
    let preferred_path = affinity.child(preferred);
    for (i, term) in spec.items_at(&["affinity", "nodeAffinity", preferred]).iter().enumerate() {
        let path = preferred_path.index(i);
        add_node_term_warnings(warnings, &term["preference"], true, &path.child("preference"));
    }
    let spread = spec_path.child("topologySpreadConstraints");
    for (i, constraint) in spec.items_at(&["topologySpreadConstraints"]).iter().enumerate() {
        let path = spread.index(i);
        let key = constraint.str_at(&["topologyKey"]);
        if let Some(text) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {text}", path.child("topologyKey")));
        }
        add_null_selector_warning(warnings, constraint, &path);
    }
}

/// Adds the warnings for a `NodeSelectorTerm`. With `check_values`, includes malformed label values, which validation
/// tolerates in preferences.
pub(crate) fn add_node_term_warnings(
    warnings: &mut Vec<String>,
    term: &Value,
    check_values: bool,
    path: &FieldPath<'_>,
) {
    let list = path.child("matchExpressions");
    for (i, expression) in term.items_at(&["matchExpressions"]).iter().enumerate() {
        let path = list.index(i);
        let key = expression.str_at(&["key"]);
        if let Some(text) = deprecated_node_label(key) {
            warnings.push(format!("{}: {key} is {text}", path.child("key")));
        }
        let values = path.child("values");
        for (j, value) in expression.items_at(&["values"]).iter().enumerate().filter(|_| check_values) {
            let value = value.as_str().unwrap_or_default();
            for text in names::label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {text}", values.index(j)));
            }
        }
    }
}

fn add_null_selector_warning(warnings: &mut Vec<String>, object: &Value, path: &FieldPath<'_>) {
    if object.get("labelSelector").is_none() {
        warnings.push(format!("{}: a null labelSelector results in matching no pod", path.child("labelSelector")));
    }
}

fn add_null_selector_warnings(warnings: &mut Vec<String>, spec: &Value, spec_path: &FieldPath<'_>) {
    let path = spec_path.child("affinity");
    for field in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(field);
        let name = "requiredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(name);
        for (i, term) in spec.items_at(&["affinity", field, name]).iter().enumerate() {
            add_null_selector_warning(warnings, term, &list.index(i));
        }
        let name = "preferredDuringSchedulingIgnoredDuringExecution";
        let list = path.child(name);
        for (i, term) in spec.items_at(&["affinity", field, name]).iter().enumerate() {
            let path = list.index(i);
            add_null_selector_warning(warnings, &term["podAffinityTerm"], &path.child("podAffinityTerm"));
        }
    }
}

fn add_volume_warnings(warnings: &mut Vec<String>, spec: &Value, spec_path: &FieldPath<'_>) {
    let list = spec_path.child("volumes");
    for (i, volume) in spec.items_at(&["volumes"]).iter().enumerate() {
        let path = list.index(i);
        for (field, shown, text) in REMOVED_PLUGINS {
            if volume.get(field).is_some() {
                warnings.push(format!("{}: {text}", path.child(shown)));
            }
        }
        if let Some(claim) = volume.at(&["ephemeral", "volumeClaimTemplate"]) {
            let path = path.child("ephemeral");
            let path = path.child("volumeClaimTemplate");
            warnings.extend(warnings_for_claim_spec(&claim["spec"], &path.child("spec")));
        }
        for field in ["cephfs", "rbd"] {
            if volume.get(field).is_some() {
                warnings.push(format!("{}: {CEPH_REMOVED}", path.child(field)));
            }
        }
    }
}

fn add_duplicate_warnings(warnings: &mut Vec<String>, spec: &Value, spec_path: &FieldPath<'_>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let path = spec_path.child(list);
        let mut seen = BTreeSet::new();
        for (i, item) in spec.items_at(&[list]).iter().enumerate() {
            let value = item.str_at(&[field]);
            if !seen.insert(value) {
                let path = path.index(i);
                warnings.push(format!("{}: duplicate {field} {}", path.child(field), quote(value)));
            }
        }
    }
    let path = spec_path.child("imagePullSecrets");
    for (i, secret) in spec.items_at(&["imagePullSecrets"]).iter().enumerate() {
        if secret.str_at(&["name"]).is_empty() {
            let path = path.index(i);
            warnings.push(format!("{}: invalid empty name \"\"", path.child("name")));
        }
    }
}

fn add_fraction_warning(warnings: &mut Vec<String>, amount: Option<&Value>, path: &FieldPath<'_>) {
    if let Some(amount) = amount.filter(|amount| is_fractional(amount)) {
        let amount = quantity(amount);
        warnings.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

/// Adds the warnings about seccomp and AppArmor annotations of a container without the corresponding field.
fn add_profile_warnings(
    warnings: &mut Vec<String>,
    object: &Value,
    container: &Value,
    annotations: &FieldPath<'_>,
    is_template: bool,
) {
    let name = container.str_at(&["name"]);
    let key = format!("{SECCOMP_CONTAINER}{name}");
    if object.annotation(&key).is_some() && container.at(&["securityContext", "seccompProfile"]).is_none() {
        let path = annotations.key(&key);
        warnings.push(format!(r#"{path}: non-functional in v1.27+; use the "seccompProfile" field instead"#));
    }
    let key = format!("{APP_ARMOR}{name}");
    let Some(annotation) = object.annotation(&key) else { return };
    let meant = app_armor_of_annotation(annotation);
    let of_pod = object.at(&["spec", "securityContext", "appArmorProfile"]);
    let own = container.at(&["securityContext", "appArmorProfile"]);
    // The annotation of a pod has been copied to the field by now. It is redundant only if the pod's profile equals it.
    let warns = if is_template {
        own.is_none() && (of_pod.is_none() || !same(of_pod, meant.as_ref()))
    } else {
        meant.is_none() && own.is_none() || meant.is_some() && same(own, meant.as_ref())
    };
    if warns && (is_template || object.str_at(&["spec", "os", "name"]) != "windows") {
        let path = annotations.key(&key);
        warnings.push(format!(r#"{path}: deprecated since v1.30; use the "appArmorProfile" field instead"#));
    }
}

/// Adds the warnings about variables that are redefined without a reference to their earlier value.
fn add_shadowed_variable_warnings(warnings: &mut Vec<String>, container: &Value, path: &FieldPath<'_>) {
    let list = path.child("env");
    let mut seen = BTreeSet::new();
    for (i, variable) in container.items_at(&["env"]).iter().enumerate() {
        let name = variable.str_at(&["name"]);
        if seen.insert(name) {
            continue;
        }
        let value = variable.str_at(&["value"]);
        let reference = format!("$({name})");
        if variable.get("valueFrom").is_some() || value == reference || !value.contains(&reference) {
            let path = list.index(i);
            warnings.push(format!(
                "{path}: hides previous definition of {name}, which may be dropped when using apply",
                name = quote(name)
            ));
        }
    }
}

/// Where a port of a container is declared. Its path is built for warnings only.
#[derive(Clone, Copy)]
struct PortPlace {
    list: &'static str,
    container: usize,
    port: usize,
}

impl PortPlace {
    fn path(self, spec_path: &FieldPath<'_>) -> String {
        let list = spec_path.child(self.list);
        let container = list.index(self.container);
        container.child("ports").index(self.port).to_string()
    }
}

/// Iterates over the ports of all containers, in the order of [`visit_containers`].
fn all_ports(spec: &Value) -> impl Iterator<Item = (PortPlace, &Value)> {
    CONTAINER_LISTS.into_iter().flat_map(move |list| {
        spec.items_at(&[list]).iter().enumerate().flat_map(move |(container, object)| {
            let ports = object.items_at(&["ports"]).iter().enumerate();
            ports.map(move |(port, object)| (PortPlace { list, container, port }, object))
        })
    })
}

fn add_port_warnings(warnings: &mut Vec<String>, spec: &Value, spec_path: &FieldPath<'_>) {
    struct HostPortUse<'v> {
        place: PortPlace,
        address: &'v str,
        host: i64,
    }
    let mut seen: BTreeMap<(i64, &str), Vec<HostPortUse<'_>>> = BTreeMap::new();
    for (place, port) in all_ports(spec) {
        let address = port.str_at(&["hostIP"]);
        let host = port.int_at(&["hostPort"]).unwrap_or(0);
        let own = port.int_at(&["containerPort"]).unwrap_or(0);
        let protocol = port.str_at(&["protocol"]);
        if !address.is_empty() && host == 0 {
            let (path, name) = (place.path(spec_path), port.str_at(&["name"]));
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} \
                 Protocol:{protocol} HostIP:{address}}}"
            ));
        }
        if warnings.len() >= MAX_WARNINGS {
            break;
        }
        let others = seen.entry((own, protocol)).or_default();
        for other in others.iter() {
            let what = if address == other.address && host == other.host {
                "duplicate"
            } else if host == 0 || other.host == 0 {
                "overlapping"
            } else if host == other.host && address.is_empty() != other.address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            let (path, other) = (place.path(spec_path), other.place.path(spec_path));
            warnings.push(format!("{path}: {what} port definition with {other}"));
        }
        others.push(HostPortUse { place, address, host });
    }
    let mut named: BTreeMap<&str, PortPlace> = BTreeMap::new();
    for (place, port) in all_ports(spec) {
        let name = port.str_at(&["name"]);
        if name.is_empty() {
            continue;
        }
        match named.get(name) {
            Some(other) => {
                let (path, other) = (place.path(spec_path), other.path(spec_path));
                warnings.push(format!(
                    "{path}: duplicate port name {name} with {other}, services and probes that select ports by name \
                     will use {other}",
                    name = quote(name)
                ));
            }
            None => {
                named.insert(name, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn check(pod: &str, expect: &[&str]) {
        assert_eq!(warnings_for_pod(&object(pod)), expect, "{pod}");
    }

    #[test]
    fn deprecated_and_ineffective_fields_warn() {
        check(r#"{"spec":{"containers":[{"name":"c"}]}}"#, &[]);
        check(
            r#"{"spec":{"nodeSelector":{"beta.kubernetes.io/os":"linux"},"containers":[{"name":"c",
                "resources":{"limits":{"memory":"100m"}},"env":[{"name":"A","value":"1"},{"name":"A","value":"2"}],
                "ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":80,"protocol":"TCP","hostPort":80}]}],
                "imagePullSecrets":[{"name":"a"},{"name":"a"},{}],"volumes":[{"name":"v","rbd":{}}]}}"#,
            &[
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
                "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            ],
        );
        check(
            r#"{"spec":{"hostAliases":[{"ip":"::FF"}],"terminationGracePeriodSeconds":-1,
                "topologySpreadConstraints":[{"topologyKey":"zone"}],"containers":[
                {"name":"a","ports":[{"name":"p","containerPort":1,"protocol":"TCP","hostIP":"1.2.3.4"}]},
                {"name":"b","ports":[{"name":"p","containerPort":2,"protocol":"TCP"}]}]}}"#,
            &[
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                "spec.containers[0].ports[0]: hostIP set without hostPort: {Name:p HostPort:0 ContainerPort:1 Protocol:TCP \
                 HostIP:1.2.3.4}",
                "spec.containers[1].ports[0]: duplicate port name \"p\" with spec.containers[0].ports[0], services and \
                 probes that select ports by name will use spec.containers[0].ports[0]",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                "spec.hostAliases[0].ip: IPv6 address \"::FF\" should be in RFC 5952 canonical format (\"::ff\")",
            ],
        );
    }
}
