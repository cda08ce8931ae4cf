//! The contract of everything that takes events, and small sinks around others (upstream: `audit.Backend`, `union.go`).

use std::sync::Arc;

use pintle_auth::AuthFuture;
use tokio::time::Instant;

use crate::Event;

/// The future of a sink. The log and the buffer are ready at once and need no allocation.
pub type SinkFuture<'a, T> = AuthFuture<'a, T>;

/// Takes events. A sink counts and logs its own errors.
pub trait Sink: Send + Sync {
    /// Takes events. Returns false if an event could not be recorded. A boxed future does nothing before it is polled.
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool>;

    /// Writes the events that the sink has taken and keeps for one write with later events. Returns their number.
    fn flush(&self) -> usize {
        0
    }

    /// Delivers all events that the sink has taken, until the deadline. The caller passes no events afterwards.
    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        let _ = deadline;
        SinkFuture::ready(())
    }
}

/// A sink for the mode `blocking`: its errors do not fail the request.
pub(crate) struct IgnoreErrors(pub(crate) Arc<dyn Sink>);

impl Sink for IgnoreErrors {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        match self.0.process(events) {
            SinkFuture::Ready(_) => SinkFuture::ready(true),
            SinkFuture::Boxed(processed) => SinkFuture::boxed(async {
                processed.await;
                true
            }),
        }
    }

    fn flush(&self) -> usize {
        self.0.flush()
    }

    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        self.0.shutdown(deadline)
    }
}

/// Passes events to several sinks, in order.
pub(crate) struct Union(pub(crate) Vec<Arc<dyn Sink>>);

impl Sink for Union {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        SinkFuture::boxed(async {
            let mut success = true;
            for sink in &self.0 {
                success &= sink.process(events).await;
                // The log does not wait for the webhook.
                sink.flush();
            }
            success
        })
    }

    fn flush(&self) -> usize {
        self.0.iter().map(|sink| sink.flush()).sum()
    }

    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        SinkFuture::boxed(async move {
            match self.0.as_slice() {
                // A sink that hangs takes no time from the other one.
                [log, webhook] => drop(tokio::join!(log.shutdown(deadline), webhook.shutdown(deadline))),
                sinks => {
                    for sink in sinks {
                        sink.shutdown(deadline).await;
                    }
                }
            }
        })
    }
}
