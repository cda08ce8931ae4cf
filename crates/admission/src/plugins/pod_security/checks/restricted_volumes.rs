//! Volumes must be of types that give no access to the host or to storage without a claim.

use std::collections::BTreeSet;

use pintle_value::Value;

use super::host_path_volumes;
use crate::plugins::pod_security::evaluator::{Check, Revision, Violation};
use crate::plugins::pod_security::pod::{PodTemplate, plural, quoted};
use crate::plugins::pod_security::policy::Level;

pub(super) const CHECK: Check = Check {
    id: "restrictedVolumes",
    level: Level::Restricted,
    revisions: &[Revision { since: 0, overrides: &[host_path_volumes::ID], run: check }],
};

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The forbidden types, in upstream's order: a volume of several types counts as the first of them.
const FORBIDDEN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn check(pod: PodTemplate<'_>) -> Option<Violation> {
    let is_forbidden = |volume: &&Value| !ALLOWED.iter().any(|kind| volume.get(kind).is_some());
    let volumes: Vec<&Value> = pod.volumes().iter().filter(is_forbidden).collect();
    let kind = |volume: &&Value| FORBIDDEN.into_iter().find(|kind| volume.get(kind).is_some()).unwrap_or("unknown");
    let kinds: BTreeSet<&str> = volumes.iter().map(kind).collect();
    (!volumes.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural(volumes.len(), "volume", "volumes"),
            quoted(volumes.iter().map(|volume| volume.str_at(&["name"]))),
            plural(volumes.len(), "uses", "use"),
            plural(kinds.len(), "restricted volume type", "restricted volume types"),
            quoted(kinds),
        ),
    })
}
