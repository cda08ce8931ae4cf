//! Which volumes are used: a volume that is bound to a claim.

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::Protection;
use crate::ClusterClient;

/// Volumes. Their own status says that they are used.
pub(crate) static VOLUMES: Protection = Protection {
    controller: "persistentvolume-protection-controller",
    queue: "pvprotection",
    resource: ("", "persistentvolumes"),
    finalizer: pintle_value::metadata::VOLUME_PROTECTION,
    adds_finalizer: true,
    users: &[],
    released: |_| Vec::new(),
    used,
};

fn used(_: &Arc<dyn ClusterClient>, _: &str, terminating: &[Value]) -> Result<BTreeSet<Str>, ApiError> {
    let bound = terminating.iter().filter(|volume| volume.str_at(&["status", "phase"]) == "Bound");
    Ok(bound.map(|volume| volume.name().into()).collect())
}
