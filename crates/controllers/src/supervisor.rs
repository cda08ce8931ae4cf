//! Keeps controllers running.

use std::sync::{Arc, Weak};

use pintle_supervisor::BackgroundTask;
use tokio::sync::watch;

use crate::ClusterClient;

/// Runs a controller until its cluster is gone or `is_stopping` is true, and restarts it if it fails before. The task
/// exists from the call on. Dropping the future aborts the controller.
pub(crate) fn supervise<F, Stopping, Start>(
    client: &Arc<dyn ClusterClient>,
    name: &'static str,
    is_stopping: Stopping,
    start: Start,
) -> impl Future<Output = ()> + Send + use<F, Stopping, Start>
where
    F: Future<Output = ()> + Send + 'static,
    Stopping: Fn() -> bool + Send + Sync,
    Start: Fn(Weak<dyn ClusterClient>) -> F + Send + Sync,
{
    let (task, client) = (client.background_task(name), Arc::downgrade(client));
    async move {
        let start = || {
            let running = start(client.clone());
            task.report_success();
            returning_ok(running)
        };
        task.supervise(start, || is_over(&client) || is_stopping()).await;
    }
}

/// Like [`supervise`], for a controller that reports its success itself.
pub(crate) async fn supervise_reporting<F>(
    task: BackgroundTask,
    client: Weak<dyn ClusterClient>,
    mut start: impl FnMut() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    task.supervise(|| returning_ok(start()), || is_over(&client)).await;
}

/// True once a cluster is gone.
fn is_over(client: &Weak<dyn ClusterClient>) -> bool {
    client.strong_count() == 0
}

/// The supervision of a controller notices its early return.
async fn returning_ok(running: impl Future<Output = ()>) -> Result<(), String> {
    running.await;
    Ok(())
}

/// True if `stopping` has turned true or its sender is dropped.
pub(crate) fn is_stopping(stopping: &watch::Receiver<bool>) -> bool {
    *stopping.borrow() || stopping.has_changed().is_err()
}

/// Waits until `stopping` turns true or its sender is dropped.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
