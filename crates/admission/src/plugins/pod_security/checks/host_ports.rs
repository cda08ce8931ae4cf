//! Containers must not use ports of the host.

use std::collections::BTreeSet;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text, plural};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check =
    Check { id: "hostPorts", level: Level::Baseline, revisions: &[Revision { since: 0, overrides: &[], run: check }] };

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    // Ports are sorted as texts.
    let mut ports = BTreeSet::new();
    let containers = pod.names(|container| {
        let used = container.items_at(&["ports"]).iter().filter_map(|port| port.int_at(&["hostPort"]));
        let mut used = used.filter(|port| *port != 0).peekable();
        let uses_some = used.peek().is_some();
        ports.extend(used.map(|port| port.to_string()));
        uses_some
    });
    (!containers.is_empty()).then(|| Violation {
        reason: "hostPort",
        detail: format!(
            "{} {} {} {}",
            containers_text(&containers),
            plural(containers.len(), "uses", "use"),
            plural(ports.len(), "hostPort", "hostPorts"),
            ports.into_iter().collect::<Vec<_>>().join(", "),
        ),
    })
}
