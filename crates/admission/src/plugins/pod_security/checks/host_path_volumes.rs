//! Volumes must not be folders or files of the host.

use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const ID: &str = "hostPathVolumes";

pub(super) const CHECK: Check =
    Check { id: ID, level: Level::Baseline, revisions: &[Revision { since: 0, overrides: &[], run: check }] };

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let of_host = pod.volumes().iter().filter(|volume| volume.get("hostPath").is_some());
    let names: Vec<&str> = of_host.map(|volume| volume.str_at(&["name"])).collect();
    let volumes = plural(names.len(), "volume", "volumes");
    (!names.is_empty())
        .then(|| Violation { reason: "hostPath volumes", detail: format!("{volumes} {}", quoted(names)) })
}
