//! Seccomp profiles that are set, in annotations before 1.19 and in fields since then, must not be unconfined.

use std::collections::BTreeSet;

use pintle_value::Value;
use pintle_value::field::quote;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const ID: &str = "seccompProfile_baseline";

pub(super) const CHECK: Check = Check {
    id: ID,
    level: Level::Baseline,
    revisions: &[
        Revision { since: 0, overrides: &[], run: check_annotations },
        Revision { since: 19, overrides: &[], run: check_fields },
    ],
};

pub(super) const REASON: &str = "seccompProfile";

fn check_annotations(pod: PodTemplate<'_>) -> Option<Violation> {
    let of_containers =
        pod.containers().map(|c| format!("container.seccomp.security.alpha.kubernetes.io/{}", c.name()));
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned()).chain(of_containers);
    let forbidden: BTreeSet<String> = keys
        .filter_map(|key| {
            let profile = pod.annotation(&key)?;
            let is_allowed =
                matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
            (!is_allowed).then(|| format!("{key}={}", quote(profile)))
        })
        .collect();
    (!forbidden.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!(
            "forbidden {} {}",
            plural(forbidden.len(), "annotation", "annotations"),
            forbidden.into_iter().collect::<Vec<_>>().join(", "),
        ),
    })
}

/// Checks the profiles that the pod and its containers set.
pub(super) fn check_fields(pod: PodTemplate<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let setters = Setters::of(pod, REASON, |profile| {
        let is_forbidden = !is_allowed(profile);
        if is_forbidden {
            types.insert(profile.str_at(&["type"]));
        }
        is_forbidden
    });
    (!setters.is_empty()).then(|| Violation {
        reason: REASON,
        detail: format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(types)),
    })
}

pub(super) fn is_allowed(profile: &Value) -> bool {
    matches!(profile.str_at(&["type"]), "Localhost" | "RuntimeDefault")
}
