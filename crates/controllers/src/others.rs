//! Whether someone else does what controllers do: the cluster may have a controller manager of its own.

use std::sync::Arc;

use pintle_registry::GroupResource;
use pintle_value::Value;
use pintle_value::time::Duration;

use crate::ClusterClient;
use crate::objects::{tree, watch_cache_of};

/// The lease that a controller manager holds.
const LEASE: &str = "kube-system/kube-controller-manager";

/// True while a controller manager renews its lease.
pub(crate) fn are_there(client: &Arc<dyn ClusterClient>) -> bool {
    let watch_cache = watch_cache_of(client, &GroupResource::new("coordination.k8s.io", "leases"));
    let lease =
        watch_cache.and_then(|watch_cache| watch_cache.get(LEASE, None).ok().flatten()).and_then(|lease| tree(&lease));
    lease.is_some_and(|lease| {
        let lasts = Duration::from_seconds(lease.int_at(&["spec", "leaseDurationSeconds"]).unwrap_or_default());
        let held =
            lease.at(&["spec", "holderIdentity"]).and_then(Value::as_str).is_some_and(|holder| !holder.is_empty());
        held && lease.time_at(&["spec", "renewTime"]).is_some_and(|renewed| renewed.plus(lasts) > client.now())
    })
}
