//! Bodies that are made piece by piece, and how their makers share the processors with everybody else.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Makes a body piece by piece. Each call does a bounded amount of work.
pub trait BodySource: Send {
    /// The next piece, when what it is made of is at hand; `None` at the end. An error ends the connection, so that the
    /// client sees the body cut off.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>>;

    /// True if it is known already that nothing more will come.
    fn is_done(&self) -> bool {
        false
    }
}

/// The turns at making a piece: as many at once as there are processors but one, in the order in which they are asked for.
/// With fifty large lists under way, a small request finds a processor, and does not wait for a round of fifty.
#[derive(Clone, Debug)]
pub struct CpuPermits(Arc<Semaphore>);

impl Default for CpuPermits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }
}

type PermitFuture = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

impl CpuPermits {
    fn next(&self) -> PermitFuture {
        let cpu_permits = self.0.clone();
        Box::pin(async move { cpu_permits.acquire_owned().await.ok() })
    }

    /// Waits for a turn at something that takes as long as a piece. It is over when what is returned is dropped.
    pub async fn take(&self) -> impl Sized + use<> {
        self.next().await
    }
}

/// A producer on its way through its pieces.
pub struct PullBody {
    /// The first piece, which is made before it is known that there is another.
    first: Option<Result<Bytes, io::Error>>,
    source: Box<dyn BodySource>,
    cpu_permits: CpuPermits,
    waiting: Option<PermitFuture>,
    /// A piece has just been made: the others of this thread come first.
    yields: bool,
}

impl PullBody {
    /// A body of a first piece that is there already, if it is, and what a producer makes after it.
    #[must_use]
    pub fn new(first: Option<Result<Bytes, io::Error>>, source: Box<dyn BodySource>, cpu_permits: &CpuPermits) -> Self {
        Self { first, source, cpu_permits: cpu_permits.clone(), waiting: None, yields: false }
    }

    /// Its pieces, for a body that is made of them.
    #[must_use]
    pub fn into_source(self) -> Box<dyn BodySource> {
        let Self { first, source, .. } = self;
        Box::new(Chained { first, rest: source })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if std::mem::replace(&mut self.yields, false) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let turn = self.waiting.get_or_insert_with(|| self.cpu_permits.next());
        // The turn is over when the piece is made, however long the client takes to read it, and for as long as what it is
        // made of is not there.
        let _turn = ready!(turn.as_mut().poll(cx));
        self.waiting = None;
        let piece = ready!(self.source.poll_next(cx));
        self.yields = true;
        Poll::Ready(piece)
    }
}

impl fmt::Debug for PullBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Produced")
    }
}

/// A piece and what follows it.
struct Chained {
    first: Option<Result<Bytes, io::Error>>,
    rest: Box<dyn BodySource>,
}

impl BodySource for Chained {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.rest.poll_next(cx),
        }
    }
}
