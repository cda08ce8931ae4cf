//! Containers must run as users other than root, by their own setting or by the pod's setting. Since 1.35 pods with a
//! user namespace of their own need not.

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters, containers_text};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "runAsNonRoot",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 0, overrides: &[], run: check },
        Revision { since: 35, overrides: &[], run: |pod| if pod.has_user_namespace() { None } else { check(pod) } },
    ],
};

const FIELD: &str = "runAsNonRoot";

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let reason = "runAsNonRoot != true";
    let setters = Setters::of(pod, FIELD, |value| value.as_bool() == Some(false));
    if !setters.is_empty() {
        return Some(Violation {
            reason,
            detail: format!("{setters} must not set securityContext.runAsNonRoot=false"),
        });
    }
    if pod.security(FIELD).and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let unset = pod.names(|container| container.security(FIELD).is_none());
    (!unset.is_empty()).then(|| Violation {
        reason,
        detail: format!("pod or {} must set securityContext.runAsNonRoot=true", containers_text(&unset)),
    })
}
