//! Response bodies of three sorts: complete bytes, pulled bodies, and pushed bodies. The connection pulls a list from a
//! source as it accepts data, so memory does not grow with the length of the list. A writer pushes the events of a
//! watch.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::expiring_source::BodyOwner;
use super::observed_body::{BodyObserver, ObservedBody};
use super::pull_body::{BodySource, CpuPermits, PullBody};
use super::push_body::{BodySender, PushBody};
use super::unwind::panic_text;
use super::{Chunk, UnresponsiveWatches};

/// The body of a response.
pub enum Body {
    /// Complete bytes. They are taken out when they are sent.
    Full(Bytes),
    /// Chunks that a source produces on demand.
    Pull(PullBody),
    /// Chunks that a writer sends.
    Push(PushBody),
    /// A body whose end is reported.
    Observed(ObservedBody),
}

impl Body {
    /// Creates a body from a source. If there is only one chunk, the body is complete and has a known length.
    pub async fn from_source(mut source: Box<dyn BodySource>, cpu_permits: &CpuPermits) -> Self {
        match poll_fn(|cx| source.poll_next(cx)).await {
            None => Self::empty(),
            Some(Ok(first)) if source.is_done() => Body::Full(first),
            first => Body::Pull(PullBody::new(first, source, cpu_permits)),
        }
    }

    /// Creates a body that `writer` sends through a [`BodySender`].
    #[must_use]
    pub fn from_writer<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(BodySender) -> W) -> Self {
        Body::Push(PushBody::new(writer))
    }

    /// Ends the writer of a body if its client does not read, and then calls `on_unread`.
    #[must_use]
    pub(crate) fn ended_if_unread(
        mut self,
        bodies: &UnresponsiveWatches,
        on_unread: impl FnOnce() + Send + 'static,
    ) -> Self {
        if let Body::Push(body) = &mut self {
            body.end_if_unread(bodies, on_unread);
        }
        self
    }

    /// Ends a body at a deadline with an error, if a source or writer produces it while it is sent. So a client that
    /// does not read cannot keep the body's data in memory. `owner` is kept until the body ends. The connection takes
    /// complete bytes at once; see [`ResponseDeadline`](super::ResponseDeadline).
    pub(crate) fn limit(&mut self, deadline: Instant, owner: impl BodyOwner) {
        if let Body::Pull(body) = self {
            body.limit(deadline, owner);
        }
    }

    /// Drops `held` when the writer of the body has ended, or at once if there is no writer.
    pub(super) fn hold_in_writer(&mut self, held: impl Send + 'static) {
        match self {
            Body::Push(body) => body.hold_in_writer(held),
            Body::Observed(body) => body.inner_mut().hold_in_writer(held),
            Body::Full(_) | Body::Pull(_) => drop(held),
        }
    }

    /// The size of the body in bytes, if it is complete.
    #[must_use]
    pub fn complete_size(&self) -> Option<u64> {
        match self {
            Body::Full(bytes) => Some(bytes.len() as u64),
            _ => None,
        }
    }

    /// Reports the end of the body to an observer.
    #[must_use]
    pub fn observed(self, observer: BodyObserver) -> Self {
        Body::Observed(ObservedBody::new(self, observer))
    }

    /// An empty body.
    #[must_use]
    pub const fn empty() -> Self {
        Body::Full(Bytes::new())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Full(bytes) => f.debug_tuple("Full").field(&bytes.len()).finish(),
            Body::Pull(_) => f.write_str("Pull"),
            Body::Push(_) => f.write_str("Push"),
            Body::Observed(body) => body.fmt(f),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body::Full(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Chunk;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, io::Error>>> {
        let polled = catch_unwind(AssertUnwindSafe(|| match &mut *self {
            Body::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes).into())))),
            Body::Pull(body) => {
                body.poll(cx).map(|chunk| chunk.map(|chunk| chunk.map(|bytes| Frame::data(bytes.into()))))
            }
            Body::Push(body) => body.poll(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data))),
            Body::Observed(body) => body.poll(cx),
        }));
        // A panic ends this response only. Over HTTP/2 its stream is reset, over HTTP/1.1 its connection is closed. So
        // the client sees that the body is not complete.
        polled.unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(&panic), "Response body panicked");
            *self = Body::empty();
            Poll::Ready(Some(Err(io::Error::other("the response panicked"))))
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_empty(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    struct PanickingSource;

    impl BodySource for PanickingSource {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
            panic!("a defect")
        }
    }

    #[tokio::test]
    async fn a_panic_ends_the_body_with_an_error() {
        let pulled = Body::Pull(PullBody::new(None, Box::new(PanickingSource), &CpuPermits::default()));
        let pushed = Body::from_writer(|_| async { panic!("a defect") });
        for mut body in [pulled, pushed] {
            let mut next = async || poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert!(next().await.is_some_and(|frame| frame.is_err()));
            assert!(next().await.is_none());
        }
    }
}
