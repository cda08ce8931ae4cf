//! The bodies of answers: finished bytes, a producer that makes the next buffer when the connection can take it (lists,
//! whose memory therefore does not grow with their length), or a writer that waits for what happens (watches).

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// Makes a body piece by piece. Each call does a bounded amount of work.
pub trait Produce: Send {
    /// The next piece; `None` at the end. An error ends the connection, so that the client sees the body cut off.
    fn next(&mut self) -> Option<Result<Bytes, io::Error>>;

    /// True if it is known already that nothing more will come.
    fn is_done(&self) -> bool {
        false
    }
}

/// A producer, and whether it is somebody else's turn. After each piece the others of its thread get theirs: a client that
/// reads as fast as a list is made would keep them waiting for all of it.
pub struct Produced {
    producer: Box<dyn Produce>,
    others: bool,
}

impl Produced {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if std::mem::replace(&mut self.others, false) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.others = true;
        Poll::Ready(self.producer.next())
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
    Produced(Produced),
    /// Pieces as they come.
    Written(Written),
}

/// Where the writer of a body puts its pieces.
#[derive(Clone, Debug, Default)]
pub struct Outlet(Arc<Mutex<Option<Bytes>>>);

impl Outlet {
    /// Puts a piece, as soon as the one before it has been taken. A client that is gone takes none: the writer ends here.
    pub async fn put(&self, piece: Bytes) {
        let mut piece = Some(piece);
        // Nobody need be woken when the outlet is free again: the writer runs when the next piece is asked for.
        poll_fn(|_| {
            let mut place = self.0.lock();
            if place.is_some() {
                return Poll::Pending;
            }
            *place = piece.take();
            Poll::Ready(())
        })
        .await;
    }
}

/// A writer and its outlet. The writer runs only while the connection asks for more, on the connection's own task: an
/// event on its way to a thousand watchers wakes a thousand tasks and not two thousand, and an idle watch is no task.
pub struct Written {
    outlet: Outlet,
    writer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Written {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(writer) = &mut self.writer
            && writer.as_mut().poll(cx).is_ready()
        {
            self.writer = None;
        }
        match self.outlet.0.lock().take() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if self.writer.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Body {
    /// A body that is made piece by piece; whole, and so with a length, where one piece is all.
    #[must_use]
    pub fn from_producer(mut producer: Box<dyn Produce>) -> Self {
        match producer.next() {
            None => Self::empty(),
            Some(Ok(first)) if producer.is_done() => Body::Whole(first),
            first => Body::produced(Box::new(Rest { first, rest: producer })),
        }
    }

    /// A body that is made piece by piece.
    #[must_use]
    pub fn produced(producer: Box<dyn Produce>) -> Self {
        Body::Produced(Produced { producer, others: false })
    }

    /// The producer of a body that has one.
    ///
    /// # Errors
    /// It has none; this is the body.
    pub fn into_producer(self) -> Result<Box<dyn Produce>, Self> {
        match self {
            Body::Produced(Produced { producer, .. }) => Ok(producer),
            other => Err(other),
        }
    }

    /// A body that a writer writes.
    #[must_use]
    pub fn written<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(Outlet) -> W) -> Self {
        let outlet = Outlet::default();
        Body::Written(Written { outlet: outlet.clone(), writer: Some(Box::pin(writer(outlet))) })
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
            Body::Written(_) => f.write_str("Written"),
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
            Body::Produced(produced) => produced.poll(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Body::Written(written) => written.poll(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
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
