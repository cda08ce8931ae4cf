//! The time limit of an idle exchange.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::request_body::RequestProgress;

/// Expires when the client has waited for the server for the whole limit, and no frame of the request body was sent in
/// that time. Only time in which the client waits counts: a slow reader does not make the server idle.
pub(crate) struct IdleTimer {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    /// When the current wait began.
    waiting_since: Option<Instant>,
    progress: Arc<RequestProgress>,
}

impl IdleTimer {
    pub(crate) fn new(limit: Duration, progress: Arc<RequestProgress>) -> Self {
        Self { limit, sleep: Box::pin(sleep(limit)), waiting_since: None, progress }
    }

    /// Ends the current wait, because something arrived.
    pub(crate) fn reset(&mut self) {
        self.waiting_since = None;
    }

    /// Returns ready if the limit has passed since the current wait began and since the last frame of the request body
    /// was sent. The first poll after [`IdleTimer::reset`] begins a wait.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        loop {
            let deadline = since.max(self.progress.last_frame()) + self.limit;
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            if self.sleep.deadline() != deadline {
                self.sleep.as_mut().reset(deadline);
            }
            ready!(self.sleep.as_mut().poll(cx));
        }
    }

    /// The output of a future; `None` if the timer expires first.
    pub(crate) async fn limit<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_expired(cx).map(|()| None),
        });
        let output = output.await;
        self.reset();
        output
    }
}
