//! The bodies of answers: finished bytes, a producer that makes the next buffer when the connection can take it (lists,
//! whose memory therefore does not grow with their length), or a channel that something is written to (watches).

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// Makes a body piece by piece. Each call does a bounded amount of work.
pub trait Produce: Send {
    /// The next piece; `None` at the end. An error ends the connection, so that the client sees the body cut off.
    fn next(&mut self) -> Option<Result<Bytes, io::Error>>;

    /// True if it is known already that nothing more will come.
    fn is_done(&self) -> bool {
        false
    }
}

/// A producer whose first piece was taken already.
struct Rest {
    first: Option<Result<Bytes, io::Error>>,
    rest: Box<dyn Produce>,
}

impl Produce for Rest {
    fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        self.first.take().or_else(|| self.rest.next())
    }
}

/// The body of an answer.
pub enum Body {
    /// Finished bytes; taken out when sent.
    Whole(Bytes),
    /// Pieces made on demand.
    Produced(Box<dyn Produce>),
    /// Pieces as they come.
    Channel(mpsc::Receiver<Bytes>),
}

impl Body {
    /// A body that is made piece by piece; whole, and so with a length, where one piece is all.
    #[must_use]
    pub fn from_producer(mut producer: Box<dyn Produce>) -> Self {
        match producer.next() {
            None => Self::empty(),
            Some(Ok(first)) if producer.is_done() => Body::Whole(first),
            first => Body::Produced(Box::new(Rest { first, rest: producer })),
        }
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
            Body::Produced(_) => f.write_str("Produced"),
            Body::Channel(_) => f.write_str("Channel"),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body::Whole(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Produced(producer) => Poll::Ready(producer.next().map(|piece| piece.map(Frame::data))),
            Body::Channel(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
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
