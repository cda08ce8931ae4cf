//! A source of a body. It ends at a deadline, even if the client does not read. The request of the body learns what the
//! source costs.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use pintle_budget::thread_time;
use pintle_locks::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::BodySource;

/// The request of a body. It is held until the body ends.
pub(crate) trait BodyOwner: Send + 'static {
    /// A part of the body was produced in this processor time.
    fn produced(&self, took: Duration);
}

/// A source that is dropped at a deadline. A connection whose client does not read polls for no chunk, so nothing else
/// would drop the source.
pub(super) struct ExpiringSource<H> {
    source: Arc<Mutex<Option<HoldingSource<H>>>>,
    timer: AbortHandle,
}

/// A source, and its request, which is held until the source is dropped.
struct HoldingSource<H> {
    source: Box<dyn BodySource>,
    owner: H,
    /// The waker of the connection, while the connection waits for the source.
    waiting: Option<Waker>,
}

impl<H: BodyOwner> ExpiringSource<H> {
    pub(super) fn new(source: Box<dyn BodySource>, deadline: Instant, owner: H) -> Self {
        let source = Arc::new(Mutex::new(Some(HoldingSource { source, owner, waiting: None })));
        let expiring = source.clone();
        let timer = tokio::spawn(async move {
            sleep_until(deadline).await;
            let expired = expiring.lock().take();
            if let Some(waiting) = expired.and_then(|expired| expired.waiting) {
                waiting.wake();
            }
        });
        Self { source, timer: timer.abort_handle() }
    }
}

impl<H: BodyOwner> BodySource for ExpiringSource<H> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        match &mut *self.source.lock() {
            Some(holding) => {
                let started = thread_time();
                let polled = holding.source.poll_next(cx);
                holding.owner.produced(thread_time().saturating_sub(started));
                holding.waiting = polled.is_pending().then(|| cx.waker().clone());
                polled
            }
            None => {
                let expired = io::Error::new(io::ErrorKind::TimedOut, "the response was not sent in time");
                Poll::Ready(Some(Err(expired)))
            }
        }
    }

    fn is_done(&self) -> bool {
        self.source.lock().as_ref().is_some_and(|holding| holding.source.is_done())
    }
}

impl<H> Drop for ExpiringSource<H> {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts the parts.
    impl BodyOwner for Arc<AtomicUsize> {
        fn produced(&self, _: Duration) {
            self.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends chunks without end.
    struct Endless;

    impl BodySource for Endless {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
            Poll::Ready(Some(Ok(Bytes::from_static(b"chunk"))))
        }
    }

    /// Waits for something that never happens.
    struct Pending;

    impl BodySource for Pending {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_waits_for_a_source_is_told_at_the_deadline() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut source = ExpiringSource::new(Box::new(Pending), deadline, Arc::<AtomicUsize>::default());
        let next = tokio::time::timeout(Duration::from_secs(61), poll_fn(|cx| source.poll_next(cx)));
        assert!(matches!(next.await, Ok(Some(Err(_)))));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_source_holds_is_released_at_the_deadline() {
        let held = Arc::<AtomicUsize>::default();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut source = ExpiringSource::new(Box::new(Endless), deadline, held.clone());
        assert!(matches!(poll_fn(|cx| source.poll_next(cx)).await, Some(Ok(_))));
        assert_eq!(Arc::strong_count(&held), 2);
        // The client does not read.
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(held.load(Ordering::Relaxed), 1);
        assert_eq!(Arc::strong_count(&held), 1);
        let Some(Err(error)) = poll_fn(|cx| source.poll_next(cx)).await else { panic!("no error") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
