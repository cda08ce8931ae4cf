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
        Revision { since: 37, overrides: &[], run: |pod| check(pod, 37) },
    ],
};

/// The allowed parameters, each with the first minor version that allows it.
const ALLOWED: [(&str, i64); 14] = [
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
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

fn check(pod: PodTemplate<'_>, minor: i64) -> Option<Violation> {
    let is_allowed = |name: &&str| ALLOWED.iter().any(|(allowed, since)| allowed == name && *since <= minor);
    let sysctls = pod.security("sysctls").and_then(|sysctls| sysctls.as_array()).into_iter().flatten();
    let names = sysctls.map(|sysctl| sysctl.str_at(&["name"]));
    let forbidden: Vec<&str> = names.filter(|name| !is_allowed(name)).collect();
    (!forbidden.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: forbidden.join(", ") })
}

#[cfg(test)]
mod tests {
    use pintle_versions::Minor;

    use super::*;
    use crate::plugins::pod_security::evaluator::Violations;
    use crate::plugins::pod_security::policy::{LevelVersion, Version};
    use crate::testing::json;

    #[test]
    fn parameters_of_1_37_need_a_server_of_1_37() {
        let pod = json(
            r#"{"spec":{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_slow_start_after_idle"},
                {"name":"net.ipv4.tcp_notsent_lowat"}]}}}"#,
        );
        let check = |version: Version, server: u8, allowed: bool| {
            let policy = LevelVersion { level: Level::Baseline, version };
            let found = Violations::find(policy.known_to(Minor::new(server)), PodTemplate::of(&pod));
            assert_eq!(found.is_empty(), allowed, "{version} in a server of 1.{server}");
        };
        check(Version::Latest, 37, true);
        check(Version::Minor(37), 37, true);
        check(Version::Minor(38), 37, true);
        check(Version::Minor(36), 37, false);
        check(Version::Latest, 36, false);
        check(Version::Minor(37), 36, false);
    }
}
