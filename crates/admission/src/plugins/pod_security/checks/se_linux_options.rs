//! `SELinux` types must be types for containers. `SELinux` users and roles must not be set.

use std::collections::BTreeSet;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "seLinuxOptions",
    level: Level::Baseline,
    revisions: &[
        Revision { since: 0, overrides: &[], run: |pod| check(pod, &TYPES[..4]) },
        Revision { since: 31, overrides: &[], run: |pod| check(pod, &TYPES) },
    ],
};

/// The allowed types, by the version that allowed them.
const TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

fn check(pod: PodTemplate<'_>, allowed: &[&str]) -> Option<Violation> {
    let (mut types, mut sets_user, mut sets_role) = (BTreeSet::new(), false, false);
    let setters = Setters::of(pod, "seLinuxOptions", |options| {
        let kind = options.str_at(&["type"]);
        let has_type = !allowed.contains(&kind);
        if has_type {
            types.insert(kind);
        }
        let (has_user, has_role) = (!options.str_at(&["user"]).is_empty(), !options.str_at(&["role"]).is_empty());
        sets_user |= has_user;
        sets_role |= has_role;
        has_type || has_user || has_role
    });
    if setters.is_empty() {
        return None;
    }
    let mut forbidden = Vec::new();
    if !types.is_empty() {
        forbidden.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(types)));
    }
    for (is_set, text) in [(sets_user, "user may not be set"), (sets_role, "role may not be set")] {
        if is_set {
            forbidden.push(text.to_owned());
        }
    }
    let forbidden = forbidden.join("; ");
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {forbidden}");
    Some(Violation { reason: "seLinuxOptions", detail })
}
