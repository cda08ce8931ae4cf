//! The streams of a connection of HTTP/2.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;
use pintle_locks::Mutex;

/// The executor of a connection's streams.
///
/// It queues new streams. After the connection's task has accepted all streams that have arrived, it polls each stream
/// once and spawns a task for each pending stream. Most reads of an object complete in this first poll. A task for each
/// read would be scheduled, perhaps on another thread, which then has to wake the connection's task. Handlers that may
/// take long call [`move_to_own_task`].
#[derive(Clone, Default)]
pub(super) struct StreamExecutor(Arc<Mutex<Vec<NewStream>>>);

type NewStream = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.lock().push(Box::pin(stream));
    }
}

impl StreamExecutor {
    /// Polls the queued streams. The frames that they send wake the connection's task.
    pub(super) fn run(&self) {
        let streams = std::mem::take(&mut *self.0.lock());
        for mut stream in streams {
            // No waker is needed: a pending stream is polled again when its task starts.
            let mut nobody = Context::from_waker(Waker::noop());
            // As in a task of its own, a panic ends only this stream.
            match catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll(&mut nobody))) {
                Ok(Poll::Pending) => drop(tokio::spawn(stream)),
                Ok(Poll::Ready(())) | Err(_) => {}
            }
        }
    }
}

/// Continues in a task of its own, if the calling future belongs to a stream that [`StreamExecutor`] has just begun.
pub(crate) fn move_to_own_task() -> impl Future<Output = ()> {
    MoveToOwnTask { has_begun: false }
}

struct MoveToOwnTask {
    has_begun: bool,
}

impl Future for MoveToOwnTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;
    use tokio::task::{id, try_id, yield_now};

    use super::*;

    #[tokio::test]
    async fn what_ends_at_once_gets_no_task() {
        let polled = Arc::new(AtomicUsize::new(0));
        let stream = {
            let polled = polled.clone();
            async move {
                polled.fetch_add(1, Ordering::Relaxed);
            }
        };
        let streams = StreamExecutor::default();
        streams.execute(stream);
        streams.execute(async { panic!("as the test wants") });
        assert_eq!(polled.load(Ordering::Relaxed), 0);
        streams.run();
        streams.run();
        assert_eq!(polled.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_waits_goes_on_in_its_own_task() {
        for says_so in [true, false] {
            let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let connection = tokio::spawn({
                let gate = gate.clone();
                async move {
                    let own = id();
                    let (send, ended) = tokio::sync::oneshot::channel();
                    let of_stream = begun.clone();
                    let streams = StreamExecutor::default();
                    streams.execute(async move {
                        if says_so {
                            move_to_own_task().await;
                        }
                        of_stream.fetch_add(1, Ordering::Relaxed);
                        gate.notified().await;
                        yield_now().await;
                        let _ = send.send(try_id() != Some(own));
                    });
                    streams.run();
                    (begun.load(Ordering::Relaxed), ended)
                }
            });
            let (begun, ended) = connection.await.expect("no panic");
            // The handler has begun on the task of the connection, unless it has declared that it may take long.
            assert_eq!(begun, usize::from(!says_so));
            gate.notify_one();
            assert!(ended.await.expect("an end"), "it goes on in another task");
        }
    }
}
