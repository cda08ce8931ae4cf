//! The labels of nodes (upstream: `kubelet/pkg/apis`, `well_known_labels.go`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_value::Value;

/// The labels of Kubernetes that a node may set on itself.
const NODE_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// The domains whose labels a node may set on itself.
const NODE_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The domains of Kubernetes' own labels.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The domain whose labels nodes never set: workloads select nodes by them.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";

/// The keys of the labels that differ between two objects.
pub(super) fn changed<'o>(a: &'o Value, b: &'o Value) -> BTreeSet<&'o str> {
    let labels = |object: &'o Value| object.entries_at(&["metadata", "labels"]).collect::<BTreeMap<_, _>>();
    let (a, b) = (labels(a), labels(b));
    a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key)).copied().collect()
}

/// Selects the labels that a node may not change.
pub(super) fn forbidden(labels: BTreeSet<&str>) -> Vec<&str> {
    labels.into_iter().filter(|label| is_forbidden(label)).collect()
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    if is_within(domain, &[RESTRICTED_DOMAIN]) {
        return true;
    }
    let is_own = NODE_LABELS.contains(&label) || is_within(domain, &NODE_DOMAINS);
    is_within(domain, &KUBERNETES_DOMAINS) && !is_own
}

/// True if a domain is one of these or below one of them.
fn is_within(domain: &str, parents: &[&str]) -> bool {
    let is_below =
        |parent: &&str| domain.strip_suffix(*parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    parents.iter().any(is_below)
}
