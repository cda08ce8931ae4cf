//! Bodies that are written as things happen.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::Chunk;

/// Where the writer of a body puts its pieces.
#[derive(Clone, Debug, Default)]
pub struct BodySender(Arc<Mutex<PendingChunk>>);

#[derive(Debug, Default)]
struct PendingChunk {
    piece: Option<Chunk>,
    /// The writer waits for the piece to be taken.
    wanted: bool,
}

impl BodySender {
    /// Puts a piece, as soon as the one before it has been taken. A client that is gone takes none: the writer ends here.
    pub async fn send(&self, piece: Chunk) {
        let mut piece = Some(piece);
        // Nobody need be woken when the outlet is free again: the writer runs when the next piece is asked for.
        poll_fn(|_| {
            let mut place = self.0.lock();
            place.wanted = place.piece.is_some();
            if place.wanted {
                return Poll::Pending;
            }
            place.piece = piece.take();
            Poll::Ready(())
        })
        .await;
    }
}

/// Wakes the connection when there is something for the writer to do, and remembers that there is: a connection asks for
/// more after every piece, and again before it rests.
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

/// A writer and its outlet. The writer runs only while the connection asks for more, on the connection's own task: an
/// event on its way to a thousand watchers wakes a thousand tasks and not two thousand, and an idle watch is no task.
pub struct PushBody {
    sender: BodySender,
    waker_state: Arc<BodyWaker>,
    waker: Waker,
    writer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl PushBody {
    pub(super) fn new<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(BodySender) -> W) -> Self {
        let sender = BodySender::default();
        let waker_state = Arc::new(BodyWaker { is_woken: AtomicBool::new(true), connection: AtomicWaker::new() });
        let waker = Waker::from(waker_state.clone());
        Self { sender: sender.clone(), waker_state, waker, writer: Some(Box::pin(writer(sender))) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        self.waker_state.connection.register(cx.waker());
        if self.waker_state.is_woken.swap(false, Ordering::AcqRel)
            && let Some(writer) = &mut self.writer
            && writer.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            self.writer = None;
        }
        let mut place = self.sender.0.lock();
        if std::mem::take(&mut place.wanted) {
            self.waker_state.is_woken.store(true, Ordering::Release);
        }
        match place.piece.take() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if self.writer.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use bytes::{Buf, Bytes};
    use futures_util::task::noop_waker;
    use tokio::sync::Notify;

    use super::*;

    /// Asks for so many pieces at once, as a connection does after one wake, and says what came: `None` for nothing yet.
    fn ask(body: &mut PushBody, times: usize) -> Vec<Option<String>> {
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        let text =
            |piece: Option<Chunk>| piece.map_or("end".to_owned(), |p| String::from_utf8_lossy(p.chunk()).into_owned());
        (0..times)
            .map(|_| match body.poll(&mut cx) {
                Poll::Ready(piece) => Some(text(piece)),
                Poll::Pending => None,
            })
            .collect()
    }

    fn pieces<const N: usize>(expect: [Option<&str>; N]) -> Vec<Option<String>> {
        expect.map(|piece| piece.map(str::to_owned)).into()
    }

    #[test]
    fn pieces_come_one_by_one_until_the_end() {
        let mut body = PushBody::new(|sender| async move {
            for piece in ["a", "b", "c"] {
                sender.send(Bytes::from(piece).into()).await;
            }
        });
        assert_eq!(ask(&mut body, 5), pieces([Some("a"), Some("b"), Some("c"), Some("end"), Some("end")]));
    }

    #[test]
    fn the_writer_runs_only_when_there_is_something_to_do() {
        let (waker_state, runs) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (rings, counted) = (waker_state.clone(), runs.clone());
        let mut body = PushBody::new(|sender| async move {
            loop {
                let mut notified = Box::pin(rings.notified());
                poll_fn(|cx| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    notified.as_mut().poll(cx)
                })
                .await;
                sender.send(Bytes::from_static(b"a").into()).await;
                sender.send(Bytes::from_static(b"b").into()).await;
            }
        });
        assert_eq!(ask(&mut body, 3), pieces([None, None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        waker_state.notify_one();
        assert_eq!(ask(&mut body, 4), pieces([Some("a"), Some("b"), None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        assert_eq!(ask(&mut body, 2), pieces([None, None]));
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }
}
