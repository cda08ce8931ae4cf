//! The bodies of answers: finished bytes, a producer that makes the next buffer when the connection can take it (lists,
//! whose memory therefore does not grow with their length), or a writer that waits for what happens (watches).

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::Chunk;
use super::pull_body::{BodySource, CpuPermits, PullBody};
use super::push_body::{BodySender, PushBody};

/// The body of an answer.
pub enum Body {
    /// Finished bytes; taken out when sent.
    Whole(Bytes),
    /// Pieces made on demand.
    PullBody(PullBody),
    /// Pieces as they come.
    PushBody(PushBody),
}

impl Body {
    /// A body that is made piece by piece; whole, and so with a length, where one piece is all.
    pub async fn from_source(mut source: Box<dyn BodySource>, cpu_permits: &CpuPermits) -> Self {
        match poll_fn(|cx| source.poll_next(cx)).await {
            None => Self::empty(),
            Some(Ok(first)) if source.is_done() => Body::Whole(first),
            first => Body::PullBody(PullBody::new(first, source, cpu_permits)),
        }
    }

    /// A body that a writer writes.
    #[must_use]
    pub fn written<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(BodySender) -> W) -> Self {
        Body::PushBody(PushBody::new(writer))
    }

    /// No bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Body::Whole(Bytes::new())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Whole(bytes) => f.debug_tuple("Whole").field(&bytes.len()).finish(),
            Body::PullBody(_) => f.write_str("Produced"),
            Body::PushBody(_) => f.write_str("Written"),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body::Whole(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Chunk;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, io::Error>>> {
        match &mut *self {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes).into())))),
            Body::PullBody(produced) => {
                produced.poll(cx).map(|piece| piece.map(|piece| piece.map(|bytes| Frame::data(bytes.into()))))
            }
            Body::PushBody(written) => written.poll(cx).map(|piece| piece.map(|data| Ok(Frame::data(data)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
