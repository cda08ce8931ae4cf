//! The future that authenticators and authorizers return. Most decisions are immediate and need no allocation. Only
//! decisions that depend on another server (a webhook, an issuer) are boxed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A finished decision, or a decision that has to wait.
pub enum AuthFuture<'a, T> {
    /// The decision is made. `None` after the future has returned the decision.
    Ready(Option<T>),
    /// The decision depends on another server.
    Boxed(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> AuthFuture<'a, T> {
    /// A finished decision.
    pub fn ready(value: T) -> Self {
        Self::Ready(Some(value))
    }

    /// A decision that a future makes.
    pub fn boxed(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::Boxed(Box::pin(future))
    }
}

impl<T: Unpin> Future for AuthFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut *self {
            // Nobody may poll a future again after it was ready. A future that is polled again stays pending.
            Self::Ready(value) => value.take().map_or(Poll::Pending, Poll::Ready),
            Self::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll<T: Unpin>(future: &mut AuthFuture<'_, T>) -> Poll<T> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_ready_decision_completes_at_once() {
        assert_eq!(poll(&mut AuthFuture::ready(1)), Poll::Ready(1));
    }

    #[test]
    fn a_pending_decision_completes_with_its_future() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut future = AuthFuture::boxed(std::future::poll_fn(move |_| match receiver.try_recv() {
            Ok(value) => Poll::Ready(value),
            Err(_) => Poll::Pending,
        }));
        assert_eq!(poll(&mut future), Poll::Pending);
        sender.send(2).unwrap();
        assert_eq!(poll(&mut future), Poll::Ready(2));
    }
}
