//! Writes with much to compute: a body of a megabyte takes tens of milliseconds to decode, validate and encode, as do expensive
//! rules in CEL. As soon as a write is known to be large, it computes under one of the CPU permits, as large lists do, and on a
//! thread that serves nothing else meanwhile. So small requests do not wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::context::RequestContext;
use crate::http::PermitFuture;

/// The future of a write, within its budget ([`RequestContext::budget`]), which may turn out to be large (`Recorder::set_large`).
///
/// **Invariant:** nothing that a write awaits waits for a CPU permit. It might get one while its next poll waits for another,
/// which would then never come.
pub(crate) struct LargeWrite<W> {
    request: Arc<RequestContext>,
    write: Pin<Box<W>>,
    pending_permit: Option<PermitFuture>,
}

impl<W> LargeWrite<W> {
    pub(crate) fn new(request: Arc<RequestContext>, write: W) -> Self {
        // Boxed: the future is large, and is moved some times before it runs.
        Self { request, write: Box::pin(write), pending_permit: None }
    }
}

impl<W: Future> Future for LargeWrite<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let Self { request, write, pending_permit } = &mut *self;
        let _entered = request.budget().enter();
        if !request.recorder.is_large() {
            return write.as_mut().poll(context);
        }
        let permit = pending_permit.get_or_insert_with(|| request.cluster.cpu_permits.acquire_owned());
        // It is released when the write has to wait for something, or has ended.
        let _permit = ready!(permit.as_mut().poll(context));
        *pending_permit = None;
        tokio::task::block_in_place(|| write.as_mut().poll(context))
    }
}
