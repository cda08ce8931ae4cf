//! Containers must not gain privileges, for example by set-user-ID files.

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "allowPrivilegeEscalation",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 8, overrides: &[], run: check },
        // Validation forbids the field to pods for Windows.
        Revision { since: 25, overrides: &[], run: |pod| if pod.is_windows() { None } else { check(pod) } },
    ],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let is_allowed = |value: &Value| value.as_bool() != Some(false);
    let containers = pod.names(|container| container.security("allowPrivilegeEscalation").is_none_or(is_allowed));
    (!containers.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers_text(&containers)),
    })
}
