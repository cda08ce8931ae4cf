//! Writes with much to compute. A body of a megabyte takes tens of milliseconds to decode, validate and encode, and so
//! may expensive CEL rules. Once a write is known to be large, it computes under one of the CPU permits, as large lists
//! do. Its thread serves nothing else meanwhile. So small requests do not wait for the write.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pintle_budget::thread_time;

use crate::context::RequestContext;
use crate::http::PermitFuture;

/// The future of a write, within its budget ([`RequestContext::budget`]). The write may turn out to be large
/// (`Recorder::set_large`).
///
/// **Invariant:** nothing that a write awaits waits for a CPU permit. Otherwise the awaited future might hold a permit
/// while the write's next poll waits for another permit, which would then never come.
pub(crate) struct LargeWrite<W> {
    request: Arc<RequestContext>,
    write: Pin<Box<W>>,
    pending_permit: Option<PermitFuture>,
}

impl<W> LargeWrite<W> {
    pub(crate) fn new(request: Arc<RequestContext>, write: W) -> Self {
        // The future is boxed, because it is large, and is moved several times before it runs.
        Self { request, write: Box::pin(write), pending_permit: None }
    }
}

impl<W: Future> Future for LargeWrite<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let Self { request, write, pending_permit } = &mut *self;
        let _entered = request.budget().enter();
        let permit = match request.recorder.is_large() {
            true => {
                let permit = pending_permit.get_or_insert_with(|| request.cluster.limits.cpu_permits.acquire_owned());
                ready!(permit.as_mut().poll(context))
            }
            false => None,
        };
        *pending_permit = None;
        // The permit is released when the write has to wait, or has ended.
        let Some(_permit) = permit else { return write.as_mut().poll(context) };
        let started = thread_time();
        let polled = tokio::task::block_in_place(|| write.as_mut().poll(context));
        if let Some(flow) = &request.flow {
            flow.charge(thread_time().saturating_sub(started));
        }
        polled
    }
}
