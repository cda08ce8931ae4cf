//! Seccomp profiles must be set, by each container or by the pod, and must not be unconfined.

use super::seccomp_profile_baseline::{self, REASON, check_fields, is_allowed};
use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text};
use crate::plugins::pod_security::policy::Level;

const OVERRIDES: &[&str] = &[seccomp_profile_baseline::ID];

pub(super) const CHECK: Check = Check {
    id: "seccompProfile_restricted",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 19, overrides: OVERRIDES, run: check },
        // Validation forbids the field to pods for Windows.
        Revision { since: 25, overrides: OVERRIDES, run: |pod| if pod.is_windows() { None } else { check(pod) } },
    ],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let violation = check_fields(pod);
    if violation.is_some() || pod.security(REASON).is_some_and(is_allowed) {
        return violation;
    }
    let unset = pod.names(|container| container.security(REASON).is_none());
    (!unset.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            containers_text(&unset),
        ),
    })
}
