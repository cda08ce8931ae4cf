//! Keeps the ServiceCIDR `kubernetes`. The reconciler of required objects creates it with the ranges of the flag. This
//! controller may add a second range later; it changes no other field.

use std::sync::{Arc, Weak};

use pintle_cache::WatchScope;
use pintle_kinds::DEFAULT_SERVICE_CIDR;
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use super::ranges::ranges_of;
use super::{DEFAULT_SERVICE_CIDR_TASK, cidr_ref, ready_condition, service_cidrs, with_condition};
use crate::ClusterClient;
use crate::event_recorder::{EventApi, EventRecorder, Warning};
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::find;
use crate::work_queue::{ReconcileResult, WorkQueue};

/// The name of the work queue in metrics.
const QUEUE: &str = "default_service_cidr";
const FAILURE: &str = "Failed to set the condition of the default ServiceCIDR, will retry";

/// Conditions that were reported since the controller has started. Each is reported once.
struct Reports {
    recorder: EventRecorder,
    has_other_ranges: bool,
    is_not_ready: bool,
}

/// Keeps the ServiceCIDR until the cluster is gone. `ranges` are the ranges of the flag.
pub(crate) async fn run(client: Weak<dyn ClusterClient>, ranges: Arc<[String]>) {
    let Some((mut informer, mut queue)) = client.upgrade().map(|client| {
        let source = InformerSource::new((), service_cidrs(), WatchScope::Key(DEFAULT_SERVICE_CIDR.into()));
        let queue: WorkQueue<()> = WorkQueue::new(1, client.work_queues().queue(QUEUE));
        (Informer::new(&client, vec![source.without_list()]), queue)
    }) else {
        return;
    };
    let reports = Arc::new(tokio::sync::Mutex::new(Reports {
        recorder: EventRecorder::new(DEFAULT_SERVICE_CIDR_TASK, EventApi::Core),
        has_other_ranges: false,
        is_not_ready: false,
    }));
    queue.add(());
    loop {
        queue.start_with(&client, FAILURE, |client, ()| {
            let (ranges, reports) = (ranges.clone(), reports.clone());
            async move {
                reconcile(&client, &ranges, &mut *reports.lock().await).await?;
                Ok(ReconcileResult::Done)
            }
        });
        tokio::select! {
            event = informer.next() => match event {
                Some(InformerEvent::Changed(_) | InformerEvent::Reset(())) => queue.add(()),
                Some(InformerEvent::Added(..)) => {}
                None => return,
            },
            _ = queue.wait() => {}
        }
    }
}

/// Sets the condition of the ServiceCIDR if it has none. The server does this before it is ready, so before other
/// controllers act.
pub(crate) async fn prepare(client: &Arc<dyn ClusterClient>, ranges: &[String]) {
    let Some(current) = find(client, &cidr_ref(DEFAULT_SERVICE_CIDR)) else { return };
    let is_own = !current.is_terminating() && ranges_of(&current).eq(ranges.iter().map(String::as_str));
    if is_own
        && ready_condition(&current).is_none()
        && let Err(error) = set_ready(client).await
    {
        tracing::warn!(%error, "{FAILURE}");
    }
}

async fn reconcile(client: &Arc<dyn ClusterClient>, ranges: &[String], reports: &mut Reports) -> Result<(), ApiError> {
    let Some(current) = find(client, &cidr_ref(DEFAULT_SERVICE_CIDR)) else { return Ok(()) };
    let stored: Vec<&str> = ranges_of(&current).collect();
    let mut warnings: Vec<(String, String)> = Vec::new();
    if let ([first, _], [only]) = (ranges, &stored[..])
        && first == only
    {
        if let Err(error) = add_range(client, ranges, only).await {
            let all = ranges.join(" ");
            let message =
                format!("The default ServiceCIDR can not be upgraded from {first} to dual stack [{all}] : {error}");
            warnings.push(("KubernetesDefaultServiceCIDRError".to_owned(), message));
        }
    } else if current.is_terminating() {
        return Ok(());
    } else if stored != ranges {
        if !std::mem::replace(&mut reports.has_other_ranges, true) {
            let (stored, flag) = (stored.join(" "), ranges.join(" "));
            let message = format!(
                "The default ServiceCIDR [{stored}] does not match the controller flag configurations [{flag}]"
            );
            warnings.push(("KubernetesDefaultServiceCIDRInconsistent".to_owned(), message));
        }
    } else {
        let ready = ready_condition(&current);
        let text = |field| ready.map_or("", |ready| ready.str_at(&[field]));
        match text("status") {
            "True" => {}
            "False" => {
                if !std::mem::replace(&mut reports.is_not_ready, true) {
                    let message = format!("Configuration matches, but {}", text("message"));
                    warnings.push((text("reason").to_owned(), message));
                }
            }
            _ => set_ready(client).await?,
        }
    }
    for (reason, message) in warnings {
        reports.recorder.warn(client, &current, Warning { reason: reason.into(), action: "", message }).await;
    }
    Ok(())
}

/// Adds the second range of the flag.
async fn add_range(client: &Arc<dyn ClusterClient>, ranges: &[String], only: &str) -> Result<(), ApiError> {
    let (ranges, only) = (ranges.to_vec(), only.to_owned());
    let compute = move |current: &Value| {
        let mut updated = current.clone();
        if ranges_of(current).eq([only.as_str()]) {
            let ranges: Vec<Value> = ranges.iter().map(|range| Value::from(range.as_str())).collect();
            updated.set_at(&["spec", "cidrs"], ranges);
        }
        updated
    };
    client.clone().update(cidr_ref(DEFAULT_SERVICE_CIDR), "", Arc::new(compute)).await.map(drop)
}

async fn set_ready(client: &Arc<dyn ClusterClient>) -> Result<(), ApiError> {
    let condition = object! {
        "status": "True",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": client.now().rfc3339(),
    };
    let configuration = with_condition(DEFAULT_SERVICE_CIDR, condition);
    client.clone().apply(cidr_ref(DEFAULT_SERVICE_CIDR), "status", DEFAULT_SERVICE_CIDR_TASK, configuration).await
}
