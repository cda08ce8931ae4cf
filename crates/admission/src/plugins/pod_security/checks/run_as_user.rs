//! Pods and containers must not set the user to root. Since 1.35 pods with a user namespace of their own may.

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "runAsUser",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 23, overrides: &[], run: check },
        Revision { since: 35, overrides: &[], run: |pod| if pod.has_user_namespace() { None } else { check(pod) } },
    ],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let setters = Setters::of(pod, "runAsUser", |user| user.as_int() == Some(0));
    (!setters.is_empty())
        .then(|| Violation { reason: "runAsUser=0", detail: format!("{setters} must not set runAsUser=0") })
}
