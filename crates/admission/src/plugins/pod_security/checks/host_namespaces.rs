//! Pods must not share the host's network, process and IPC namespaces.

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::PodTemplate;
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "hostNamespaces",
    level: Level::Baseline,
    revisions: &[Revision { since: 0, overrides: &[], run: check }],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let is_set = |field: &&str| pod.field(field).and_then(Value::as_bool) == Some(true);
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .copied()
        .filter(is_set)
        .map(|field| format!("{field}=true"))
        .collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}
