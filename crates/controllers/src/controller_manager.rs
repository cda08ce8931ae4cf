//! Detects a kube-controller-manager. While it is active, the controllers of this crate that do the same work stand by.

use std::sync::Arc;

use pintle_registry::GroupResource;
use pintle_value::Value;
use pintle_value::time::Duration;

use crate::ClusterClient;
use crate::objects::{tree, watch_cache_of};

/// The field manager of controllers that kube-controller-manager has, too.
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// The leader election lease of kube-controller-manager.
const LEASE: &str = "kube-system/kube-controller-manager";

/// True while a kube-controller-manager renews its leader election lease: then it runs its controllers, and this server
/// need not.
#[must_use]
pub fn is_active(client: &Arc<dyn ClusterClient>) -> bool {
    let watch_cache = watch_cache_of(client, &GroupResource::new("coordination.k8s.io", "leases"));
    let lease =
        watch_cache.and_then(|watch_cache| watch_cache.get(LEASE, None).ok().flatten()).and_then(|lease| tree(&lease));
    lease.is_some_and(|lease| {
        let duration = Duration::from_seconds(lease.int_at(&["spec", "leaseDurationSeconds"]).unwrap_or_default());
        let has_holder =
            lease.at(&["spec", "holderIdentity"]).and_then(Value::as_str).is_some_and(|holder| !holder.is_empty());
        let renewed = lease.time_at(&["spec", "renewTime"]);
        has_holder && renewed.is_some_and(|renewed| renewed.plus(duration) > client.now())
    })
}
