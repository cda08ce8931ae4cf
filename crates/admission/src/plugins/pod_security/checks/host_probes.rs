//! Probes and lifecycle handlers must not connect to other hosts.

use std::collections::BTreeSet;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{Container, PodTemplate, containers_text, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "hostProbesAndHostLifecycle",
    level: Level::Baseline,
    revisions: &[Revision { since: 34, overrides: &[], run: check }],
};

const HANDLERS: [&[&str]; 5] = [
    &["livenessProbe"],
    &["readinessProbe"],
    &["startupProbe"],
    &["lifecycle", "postStart"],
    &["lifecycle", "preStop"],
];

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let mut all_hosts = BTreeSet::new();
    let names = pod.names(|container| {
        let mut hosts = hosts(*container).peekable();
        let has_hosts = hosts.peek().is_some();
        all_hosts.extend(hosts);
        has_hosts
    });
    let names: Vec<&str> = names.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    (!names.is_empty()).then(|| Violation {
        reason: "probe or lifecycle host",
        detail: format!(
            "{} {} {} {}",
            containers_text(&names),
            plural(names.len(), "uses", "use"),
            plural(all_hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts"),
            quoted(all_hosts),
        ),
    })
}

/// The hosts that a container's handlers name.
fn hosts(container: Container<'_>) -> impl Iterator<Item = &str> {
    let handlers = HANDLERS.iter().filter_map(move |path| container.at(path));
    let hosts = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| handler.str_at(&[action, "host"])));
    hosts.filter(|host| !host.is_empty())
}
