//! Accepts connections. Errors are retried with a backoff, as in Go's `net/http`, and logged at a bounded rate. The
//! usual error is that the process is out of file descriptors.

use std::io;
use std::time::Duration;

use pintle_supervisor::BackgroundTask;
use tokio::time::{Instant, sleep};

/// The delay after the first error. Each further error doubles the delay.
const MIN_BACKOFF: Duration = Duration::from_millis(5);
/// The longest delay.
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// The shortest time between two log lines about errors.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The errors of a listener.
#[derive(Debug, Default)]
pub(super) struct AcceptErrors {
    last_logged: Option<Instant>,
    /// The number of errors since the last log line.
    unlogged: u64,
}

impl AcceptErrors {
    /// Retries `accept` until it succeeds. Meanwhile the task counts as failed.
    pub(super) async fn retry<T, F: Future<Output = io::Result<T>>>(
        &mut self,
        task: &BackgroundTask,
        mut accept: impl FnMut() -> F,
    ) -> T {
        let mut backoff = MIN_BACKOFF;
        loop {
            match accept().await {
                Ok(accepted) => {
                    task.report_success();
                    return accepted;
                }
                Err(error) => {
                    task.report_failure(&format!("failed to accept a connection: {error}"));
                    self.log(&error);
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
            }
        }
    }

    fn log(&mut self, error: &io::Error) {
        if self.last_logged.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            self.unlogged += 1;
            return;
        }
        let unlogged = std::mem::take(&mut self.unlogged);
        self.last_logged = Some(Instant::now());
        tracing::warn!(%error, unlogged, "Failed to accept a connection, will retry");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn errors_are_retried_with_a_backoff_and_logged_now_and_then() {
        let (task, mut errors) = (BackgroundTask::new("listener"), AcceptErrors::default());
        for (failures, took, unlogged) in [(0, 0, 0), (3, 35, 2), (60, 52 * 1000 + 1275, 2)] {
            let (begun, mut left) = (Instant::now(), failures);
            let accepted = errors.retry(&task, || {
                assert!(left == failures || task.failure().is_some_and(|why| why.contains("too many")), "{left}");
                left -= 1;
                std::future::ready(if left < 0 { Ok(failures) } else { Err(io::Error::other("too many open files")) })
            });
            assert_eq!(accepted.await, failures);
            assert_eq!((begun.elapsed().as_millis(), task.failure()), (took, None));
            assert_eq!(errors.unlogged, unlogged);
        }
    }
}
