//! Pods may set only kernel parameters that affect nothing but the pod.

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::PodTemplate;
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "sysctls",
    level: Level::Baseline,
    revisions: &[
        Revision { since: 0, overrides: &[], run: |pod| check(pod, 0) },
        Revision { since: 27, overrides: &[], run: |pod| check(pod, 27) },
        Revision { since: 29, overrides: &[], run: |pod| check(pod, 29) },
        Revision { since: 32, overrides: &[], run: |pod| check(pod, 32) },
    ],
};

/// The allowed parameters, each with the first minor version that allows it.
const ALLOWED: [(&str, i64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn check(pod: PodTemplate<'_>, minor: i64) -> Option<Violation> {
    let is_allowed = |name: &&str| ALLOWED.iter().any(|(allowed, since)| allowed == name && *since <= minor);
    let sysctls = pod.security("sysctls").and_then(|sysctls| sysctls.as_array()).into_iter().flatten();
    let names = sysctls.map(|sysctl| sysctl.str_at(&["name"]));
    let forbidden: Vec<&str> = names.filter(|name| !is_allowed(name)).collect();
    (!forbidden.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: forbidden.join(", ") })
}
