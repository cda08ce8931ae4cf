//! Containers must not be privileged, which disables most security mechanisms.

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check =
    Check { id: "privileged", level: Level::Baseline, revisions: &[Revision { since: 0, overrides: &[], run: check }] };

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let containers = pod.names(|container| container.security("privileged").and_then(Value::as_bool) == Some(true));
    (!containers.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers_text(&containers)),
    })
}
