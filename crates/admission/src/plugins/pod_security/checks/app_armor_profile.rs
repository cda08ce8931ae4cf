//! `AppArmor` profiles, in fields and in the annotations that preceded them, must not disable the default profile.

use std::collections::BTreeSet;

use pintle_value::field::quote;

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, Setters, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "appArmorProfile",
    level: Level::Baseline,
    revisions: &[Revision { since: 0, overrides: &[], run: check }],
};

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let setters = Setters::of(pod, "appArmorProfile", |profile| {
        let kind = profile.str_at(&["type"]);
        let is_forbidden = !matches!(kind, "RuntimeDefault" | "Localhost");
        if is_forbidden {
            types.insert(kind);
        }
        is_forbidden
    });
    let mut annotations: Vec<String> = pod
        .annotations()
        .filter(|(key, value)| is_for_container(key) && !is_allowed(value))
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    annotations.sort();
    if setters.is_empty() && annotations.is_empty() {
        return None;
    }
    let mut setters = setters.parts();
    if !annotations.is_empty() {
        setters.push(plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    let values: Vec<&str> = types.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    Some(Violation {
        reason: plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        detail: format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(values)),
    })
}

fn is_for_container(key: &str) -> bool {
    key.starts_with("container.apparmor.security.beta.kubernetes.io/")
}

fn is_allowed(profile: &str) -> bool {
    matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/")
}
