//! Keeps controllers running.

use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ClusterClient;

/// The delay before a controller that panicked is started again.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Runs a controller until it returns, and starts it again if it panics. A controller returns only when its cluster is
/// gone or it is told to stop. Dropping the future aborts the controller.
pub(crate) async fn supervise<F>(name: &'static str, client: &Weak<dyn ClusterClient>, mut start: impl FnMut() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut task = JoinSet::new();
        task.spawn(start());
        match task.join_next().await {
            Some(Err(error)) => tracing::error!(%error, controller = name, "Controller panicked, restarting"),
            Some(Ok(())) | None => return,
        }
        if client.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(RESTART_DELAY).await;
    }
}

/// Waits until `stopping` turns true or its sender is dropped.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
