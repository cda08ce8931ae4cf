//! Bodies that are written as things happen.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::Mutex;

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
    pub(super) fn new<W: Future<Output = ()> + Send + 'static>(writer: impl FnOnce(Outlet) -> W) -> Self {
        let outlet = Outlet::default();
        Self { outlet: outlet.clone(), writer: Some(Box::pin(writer(outlet))) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
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
