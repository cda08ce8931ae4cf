//! Repairs node ports through the allocation hooks of services, which own the allocator.

use std::sync::Arc;

use pintle_cache::KeyRange;
use pintle_registry::{AllocationProblem, AllocationRepair, ApiError};

use super::addresses::services;
use crate::ClusterClient;
use crate::event_recorder::{EventApi, EventRecorder, Warning};
use crate::objects::{versioned_tree, watch_cache_of};
use crate::work_queue::ReconcileResult;

/// Repairs the node ports of all services.
pub(super) struct NodePortRepair {
    recorder: EventRecorder,
}

impl NodePortRepair {
    pub(super) fn new() -> Self {
        Self { recorder: EventRecorder::new("portallocator-repair-controller", EventApi::Core) }
    }

    pub(super) async fn repair(&self, client: &Arc<dyn ClusterClient>) -> Result<ReconcileResult, ApiError> {
        let resource = client.registry().resource("", "v1", "services").cloned();
        let (Some(resource), Some(watch_cache)) = (resource, watch_cache_of(client, &services())) else {
            return Ok(ReconcileResult::Done);
        };
        if !watch_cache.corrupt(&KeyRange::All, None).is_empty() {
            // The ports of a service that cannot be read would seem leaked.
            return Ok(ReconcileResult::Done);
        }
        client.clone().sync_allocations(resource.clone()).await?;
        client.clone().catch_up().await?;
        let repaired_resource = resource.clone();
        // Decodes all services, one after the other.
        let repair = tokio::task::spawn_blocking(move || {
            let mut services = watch_cache.objects(KeyRange::All).filter_map(|service| versioned_tree(&service));
            resource.strategy.allocation().map(|hooks| hooks.repair(&mut services)).unwrap_or_default()
        });
        let repaired = repair.await.map_err(|error| ApiError::Internal(error.to_string()))?;
        let AllocationRepair { problems, released } = repaired;
        // The next repair does not find a repaired port again, so the port is reported even if it cannot be recorded
        // now.
        let recorded = client.clone().sync_allocations(repaired_resource).await;
        if !released.is_empty() {
            tracing::warn!(?released, "Node ports appear to have leaked: cleaning up");
        }
        for AllocationProblem { object, reason, message } in problems {
            self.recorder.warn(client, &object, Warning { reason: reason.into(), action: "", message }).await;
        }
        recorded.map(|()| ReconcileResult::Done)
    }
}
