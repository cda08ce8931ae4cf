//! Bodies that a writer sends chunk by chunk, as events happen.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use pintle_locks::Mutex;

use super::{Chunk, UnresponsiveWatches};

/// The sending half for the writer of a body.
#[derive(Clone, Debug, Default)]
pub struct BodySender(Arc<Mutex<PendingChunk>>);

#[derive(Debug, Default)]
struct PendingChunk {
    chunk: Option<Chunk>,
    /// The writer waits for the previous chunk to be taken.
    is_writer_waiting: bool,
    /// The body breaks off when its writer has ended.
    is_broken: bool,
}

impl BodySender {
    /// Sends a chunk, once the connection has taken the previous chunk. If the client disconnects, the writer is
    /// dropped here.
    pub async fn send(&self, chunk: Chunk) {
        let mut chunk = Some(chunk);
        // No waker is needed: the connection polls the writer when it asks for the next chunk.
        poll_fn(|_| {
            let mut pending = self.0.lock();
            pending.is_writer_waiting = pending.chunk.is_some();
            if pending.is_writer_waiting {
                return Poll::Pending;
            }
            pending.chunk = chunk.take();
            Poll::Ready(())
        })
        .await;
    }

    /// Makes the body break off when its writer ends, so that the client sees that it is not complete.
    pub fn break_off(&self) {
        self.0.lock().is_broken = true;
    }
}

/// The writer's waker. It wakes the connection and remembers that the writer was woken, because a connection polls
/// after every chunk and again before it becomes idle.
#[derive(Debug)]
struct BodyWaker {
    is_woken: AtomicBool,
    connection: AtomicWaker,
}

impl Wake for BodyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.connection.wake();
    }
}

/// A writer and its channel. The writer runs inside the connection's own task and only while the connection polls. An
/// event for a thousand watchers therefore wakes one thousand tasks rather than two thousand, and an idle watch has no
/// task.
pub struct PushBody {
    state: Arc<PushState>,
    waker: Waker,
}

/// The writer of a body, which is ended if the client does not read.
pub(super) struct PushState {
    sender: BodySender,
    waker: Arc<BodyWaker>,
    writer: Mutex<Option<Writer>>,
    /// The number of times that the connection has asked for a chunk.
    polls: AtomicU32,
}

struct Writer {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Called if the writer is ended because its client does not read.
    on_unread: Option<Box<dyn FnOnce() + Send>>,
    /// Dropped when the writer has ended.
    held: Option<Box<dyn Send>>,
}

impl PushBody {
    pub(super) fn new<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(BodySender) -> W) -> Self {
        let sender = BodySender::default();
        let body_waker = Arc::new(BodyWaker { is_woken: AtomicBool::new(true), connection: AtomicWaker::new() });
        let waker = Waker::from(body_waker.clone());
        let writer = Writer { future: Box::pin(writer(sender.clone())), on_unread: None, held: None };
        let writer = Mutex::new(Some(writer));
        let state = Arc::new(PushState { sender, waker: body_waker, writer, polls: AtomicU32::new(0) });
        Self { state, waker }
    }

    /// Lets `bodies` end the writer if the client does not read. Then `on_unread` is called.
    pub(super) fn end_if_unread(&mut self, bodies: &UnresponsiveWatches, on_unread: impl FnOnce() + Send + 'static) {
        if let Some(writer) = &mut *self.state.writer.lock() {
            writer.on_unread = Some(Box::new(on_unread));
        }
        bodies.add(Arc::downgrade(&self.state));
    }

    /// Drops `held` when the writer has ended, although the client may not have read all chunks yet.
    pub(super) fn hold_in_writer(&mut self, held: impl Send + 'static) {
        if let Some(writer) = &mut *self.state.writer.lock() {
            writer.held = Some(Box::new(held));
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let state = &*self.state;
        state.polls.fetch_add(1, Ordering::Relaxed);
        state.waker.connection.register(cx.waker());
        let mut writer = state.writer.lock();
        if state.waker.is_woken.swap(false, Ordering::AcqRel)
            && let Some(running) = &mut *writer
            && running.future.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            *writer = None;
        }
        let mut pending = state.sender.0.lock();
        if std::mem::take(&mut pending.is_writer_waiting) {
            state.waker.is_woken.store(true, Ordering::Release);
        }
        match pending.chunk.take() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None if writer.is_none() && std::mem::take(&mut pending.is_broken) => {
                Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted))))
            }
            None if writer.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl PushState {
    pub(super) fn polls(&self) -> u32 {
        self.polls.load(Ordering::Relaxed)
    }

    /// True if the writer was woken and has not run since.
    pub(super) fn has_more(&self) -> bool {
        self.waker.is_woken.load(Ordering::Acquire)
    }

    /// Ends the writer. Returns false if it is running at this moment.
    pub(super) fn end(&self) -> bool {
        let Some(mut writer) = self.writer.try_lock() else { return false };
        let ended = writer.take();
        drop(writer);
        if let Some(Writer { future, on_unread, held }) = ended {
            drop((future, held));
            if let Some(on_unread) = on_unread {
                on_unread();
            }
        }
        self.waker.connection.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use bytes::{Buf, Bytes};
    use futures_util::task::noop_waker;
    use tokio::sync::Notify;

    use super::*;

    /// Polls several times, as a connection does after one wake-up. Returns the chunks; `None` means pending.
    fn poll_times(body: &mut PushBody, times: usize) -> Vec<Option<String>> {
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        let text = |chunk: Option<io::Result<Chunk>>| match chunk {
            Some(Ok(chunk)) => String::from_utf8_lossy(chunk.chunk()).into_owned(),
            Some(Err(error)) => error.to_string(),
            None => "end".to_owned(),
        };
        (0..times)
            .map(|_| match body.poll(&mut cx) {
                Poll::Ready(chunk) => Some(text(chunk)),
                Poll::Pending => None,
            })
            .collect()
    }

    fn chunks<const N: usize>(expect: [Option<&str>; N]) -> Vec<Option<String>> {
        expect.map(|chunk| chunk.map(str::to_owned)).into()
    }

    #[test]
    fn chunks_arrive_one_by_one_until_the_end() {
        let mut body = PushBody::new(|sender| async move {
            for chunk in ["a", "b", "c"] {
                sender.send(Bytes::from(chunk).into()).await;
            }
        });
        assert_eq!(poll_times(&mut body, 5), chunks([Some("a"), Some("b"), Some("c"), Some("end"), Some("end")]));
    }

    #[test]
    fn a_writer_can_break_the_body_off() {
        let mut body = PushBody::new(|sender| async move {
            sender.send(Bytes::from("a").into()).await;
            sender.break_off();
        });
        assert_eq!(poll_times(&mut body, 3), chunks([Some("a"), Some("connection aborted"), Some("end")]));
    }

    #[test]
    fn the_writer_is_polled_only_after_it_was_woken() {
        let (trigger, runs) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (notify, counted) = (trigger.clone(), runs.clone());
        let mut body = PushBody::new(|sender| async move {
            loop {
                let mut notified = Box::pin(notify.notified());
                poll_fn(|cx| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    notified.as_mut().poll(cx)
                })
                .await;
                sender.send(Bytes::from_static(b"a").into()).await;
                sender.send(Bytes::from_static(b"b").into()).await;
            }
        });
        assert_eq!(poll_times(&mut body, 3), chunks([None, None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        trigger.notify_one();
        assert_eq!(poll_times(&mut body, 4), chunks([Some("a"), Some("b"), None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        assert_eq!(poll_times(&mut body, 2), chunks([None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_writer_ends_if_nobody_asks_for_what_it_has() {
        const SECOND: std::time::Duration = std::time::Duration::from_secs(1);
        let (trigger, held, ended) = (Arc::new(Notify::new()), Arc::new(()), Arc::new(AtomicBool::new(false)));
        let (notify, holds, reports) = (trigger.clone(), held.clone(), ended.clone());
        let mut body = PushBody::new(|sender| async move {
            let _holds = holds;
            loop {
                notify.notified().await;
                sender.send(Bytes::from_static(b"a").into()).await;
            }
        });
        let bodies = UnresponsiveWatches::default();
        body.end_if_unread(&bodies, move || reports.store(true, Ordering::Relaxed));
        let until_end = Arc::new(());
        body.hold_in_writer(until_end.clone());
        let check = || bodies.end_unread(SECOND, SECOND * 3);
        // A writer that waits for something to send is not ended.
        assert_eq!(poll_times(&mut body, 1), chunks([None]));
        (0..10).for_each(|_| check());
        // A writer whose client reads now and then is not ended.
        for _ in 0..5 {
            trigger.notify_one();
            (0..2).for_each(|_| check());
            assert_eq!(poll_times(&mut body, 2), chunks([Some("a"), None]));
        }
        assert_eq!((Arc::strong_count(&held), ended.load(Ordering::Relaxed)), (2, false));
        assert_eq!(Arc::strong_count(&until_end), 2);
        trigger.notify_one();
        (0..4).for_each(|_| check());
        assert_eq!((Arc::strong_count(&held), ended.load(Ordering::Relaxed)), (1, true));
        assert_eq!(Arc::strong_count(&until_end), 1);
        assert_eq!(poll_times(&mut body, 1), chunks([Some("end")]));
    }
}
