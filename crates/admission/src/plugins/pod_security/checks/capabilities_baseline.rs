//! Containers may only add capabilities that a container runtime gives anyway.

use std::collections::BTreeSet;

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const ID: &str = "capabilities_baseline";

pub(super) const CHECK: Check =
    Check { id: ID, level: Level::Baseline, revisions: &[Revision { since: 0, overrides: &[], run: check }] };

const ALLOWED: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let containers = pod.names(|container| {
        let added = container.items_at(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str);
        let mut others = added.filter(|capability| !ALLOWED.contains(capability)).peekable();
        let has_others = others.peek().is_some();
        forbidden.extend(others);
        has_others
    });
    (!containers.is_empty())
        .then(|| Violation { reason: "non-default capabilities", detail: adds(&containers, &forbidden) })
}

/// The text about containers that add forbidden capabilities.
pub(super) fn adds(containers: &[&str], forbidden: &BTreeSet<&str>) -> String {
    let (containers, forbidden) = (containers_text(containers), quoted(forbidden.iter().copied()));
    format!("{containers} must not include {forbidden} in securityContext.capabilities.add")
}
