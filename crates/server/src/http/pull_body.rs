//! Bodies that the connection pulls from a source, and the permits that limit how many of them use the CPU at the same
//! time.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::expiring_source::{BodyOwner, ExpiringSource};

/// Produces a body chunk by chunk. Each call does a bounded amount of work.
pub trait BodySource: Send {
    /// Returns the next chunk when its input is available, and `None` at the end. An error aborts the connection, so
    /// the client sees a truncated body.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>>;

    /// True if the source is known to have no more chunks.
    fn is_done(&self) -> bool {
        false
    }
}

/// Permits for producing a chunk: one fewer than there are CPUs, granted in FIFO order. With fifty large lists in
/// progress, a small request still gets a CPU without waiting for a round of fifty.
#[derive(Clone, Debug)]
pub struct CpuPermits(Arc<Semaphore>);

impl Default for CpuPermits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))))
    }
}

/// Waits for a permit. Dropping the permit releases it.
pub type PermitFuture = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

impl CpuPermits {
    /// Waits for a permit. The future yields `None` if there are no permits any more.
    pub fn acquire_owned(&self) -> PermitFuture {
        let semaphore = self.0.clone();
        Box::pin(async move { semaphore.acquire_owned().await.ok() })
    }

    /// Waits for a permit for work that takes about as long as one chunk. Dropping the returned guard releases it.
    pub async fn acquire(&self) -> impl Sized + use<> {
        self.acquire_owned().await
    }
}

/// A body that is pulled from a source.
pub struct PullBody {
    /// The first chunk, which was produced before the body was created.
    first: Option<Result<Bytes, io::Error>>,
    source: Box<dyn BodySource>,
    cpu_permits: CpuPermits,
    pending_permit: Option<PermitFuture>,
    /// Set before each chunk except a first chunk that was produced in advance. Other tasks of this thread run before
    /// such a chunk is produced.
    must_yield: bool,
}

impl PullBody {
    /// Creates a body from a first chunk, if there is one, and the chunks of a source.
    #[must_use]
    pub fn new(first: Option<Result<Bytes, io::Error>>, source: Box<dyn BodySource>, cpu_permits: &CpuPermits) -> Self {
        let must_yield = first.is_none();
        Self { first, source, cpu_permits: cpu_permits.clone(), pending_permit: None, must_yield }
    }

    /// Converts the body back into a source of all its chunks.
    #[must_use]
    pub fn into_source(self) -> Box<dyn BodySource> {
        let Self { first, source, .. } = self;
        Box::new(ChainedSource { first, rest: Some(source) })
    }

    /// Ends the body with an error at a deadline, and keeps `owner` until the body ends.
    pub(super) fn limit(&mut self, deadline: Instant, owner: impl BodyOwner) {
        let ended: Box<dyn BodySource> = Box::new(ChainedSource { first: None, rest: None });
        let rest = std::mem::replace(&mut self.source, ended);
        self.source = Box::new(ExpiringSource::new(rest, deadline, owner));
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if std::mem::replace(&mut self.must_yield, false) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let permit = self.pending_permit.get_or_insert_with(|| self.cpu_permits.acquire_owned());
        // The permit is released as soon as the chunk is made or its input is not available. It is never held while the
        // client reads.
        let _permit = ready!(permit.as_mut().poll(cx));
        self.pending_permit = None;
        let chunk = ready!(self.source.poll_next(cx));
        self.must_yield = true;
        Poll::Ready(chunk)
    }
}

impl fmt::Debug for PullBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PullBody")
    }
}

/// A first chunk and the source of the others.
struct ChainedSource {
    first: Option<Result<Bytes, io::Error>>,
    rest: Option<Box<dyn BodySource>>,
}

impl BodySource for ChainedSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.rest.as_mut().map_or(Poll::Ready(None), |rest| rest.poll_next(cx)),
        }
    }

    fn is_done(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_done())
    }
}
