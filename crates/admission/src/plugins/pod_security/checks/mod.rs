//! The checks of the Pod Security Standards, a file each (upstream: `pod-security-admission/policy/check_*.go`).

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_profile_baseline;
mod seccomp_profile_restricted;
mod sysctls;
mod windows_host_process;

use super::evaluator::Check;

/// All checks.
pub(super) const CHECKS: &[Check] = &[
    allow_privilege_escalation::CHECK,
    app_armor_profile::CHECK,
    capabilities_baseline::CHECK,
    capabilities_restricted::CHECK,
    host_namespaces::CHECK,
    host_path_volumes::CHECK,
    host_ports::CHECK,
    host_probes::CHECK,
    privileged::CHECK,
    proc_mount::BASELINE,
    proc_mount::RESTRICTED,
    restricted_volumes::CHECK,
    run_as_non_root::CHECK,
    run_as_user::CHECK,
    se_linux_options::CHECK,
    seccomp_profile_baseline::CHECK,
    seccomp_profile_restricted::CHECK,
    sysctls::CHECK,
    windows_host_process::CHECK,
];
