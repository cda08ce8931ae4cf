//! Containers must drop all capabilities and may only add `NET_BIND_SERVICE`.

use std::collections::BTreeSet;

use pintle_value::Value;

use super::capabilities_baseline;
use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{Container, PodTemplate, containers_text};
use crate::plugins::pod_security::policy::Level;

const OVERRIDES: &[&str] = &[capabilities_baseline::ID];

pub(super) const CHECK: Check = Check {
    id: "capabilities_restricted",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 22, overrides: OVERRIDES, run: check },
        // Validation forbids the field to pods for Windows.
        Revision { since: 25, overrides: OVERRIDES, run: |pod| if pod.is_windows() { None } else { check(pod) } },
    ],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let missing = pod.names(|container| !capabilities(*container, "drop").any(|capability| capability == "ALL"));
    let mut forbidden = BTreeSet::new();
    let adding = pod.names(|container| {
        let mut others = capabilities(*container, "add").filter(|name| *name != "NET_BIND_SERVICE").peekable();
        let has_others = others.peek().is_some();
        forbidden.extend(others);
        has_others
    });
    let mut details = Vec::new();
    if !missing.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers_text(&missing)));
    }
    if !adding.is_empty() {
        details.push(capabilities_baseline::adds(&adding, &forbidden));
    }
    (!details.is_empty()).then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn capabilities<'a>(container: Container<'a>, list: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    container.items_at(&["securityContext", "capabilities", list]).iter().filter_map(Value::as_str)
}
