//! Containers must keep the default masks of `/proc`. Since 1.35 the level `baseline` allows other masks to pods with a
//! user namespace of their own.

use std::collections::BTreeSet;

use pintle_value::Value;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, containers_text, quoted};
use crate::plugins::pod_security::policy::Level;

const BASELINE_ID: &str = "procMount";

pub(super) const BASELINE: Check = Check {
    id: BASELINE_ID,
    level: Level::Baseline,
    revisions: &[
        Revision { since: 0, overrides: &[], run: check },
        Revision { since: 35, overrides: &[], run: |pod| if pod.has_user_namespace() { None } else { check(pod) } },
    ],
};

pub(super) const RESTRICTED: Check = Check {
    id: "procMount_restricted",
    level: Level::Restricted,
    revisions: &[Revision { since: 35, overrides: &[BASELINE_ID], run: check }],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let containers = pod.names(|container| {
        let mount = container.security("procMount").and_then(Value::as_str).filter(|mount| *mount != "Default");
        types.extend(mount);
        mount.is_some()
    });
    (!containers.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!(
            "{} must not set securityContext.procMount to {}",
            containers_text(&containers),
            quoted(types),
        ),
    })
}
