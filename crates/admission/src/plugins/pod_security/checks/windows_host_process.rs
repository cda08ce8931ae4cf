//! Pods and containers must not run as processes of a Windows host.

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "windowsHostProcess",
    level: Level::Baseline,
    revisions: &[Revision { since: 0, overrides: &[], run: check }],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let setters = Setters::of(pod, "windowsOptions", |options| options.bool_at(&["hostProcess"]));
    (!setters.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}
