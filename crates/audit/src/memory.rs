//! The memory of events on their way to a backend. Upstream limits the number of buffered events only.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::sink::{Sink, SinkFuture};
use crate::{AuditMetrics, Event};

/// Maximum size of the events on their way to a backend, in bytes.
const MAX_BYTES: usize = 128 << 20;

/// Limits the memory of the events on their way to a backend.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLimit(Arc<Semaphore>);

impl Default for MemoryLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_BYTES)))
    }
}

impl MemoryLimit {
    /// Reserves the memory of events until the permit is dropped. `None` if there is not enough. An event that is
    /// larger than the limit may have all of it alone.
    pub(crate) fn reserve(&self, events: &[Arc<Event>]) -> Option<OwnedSemaphorePermit> {
        let size = events.iter().map(|event| event.memory()).sum::<usize>().min(MAX_BYTES);
        self.0.clone().try_acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).ok()
    }
}

/// A sink for the blocking modes of a webhook, in which each request sends its own events. Requests do not limit their
/// number, because clients may give up.
pub(crate) struct LimitedSink {
    pub(crate) sink: Arc<dyn Sink>,
    /// The name of the sink in metrics.
    pub(crate) plugin: &'static str,
    pub(crate) memory: MemoryLimit,
    pub(crate) metrics: Arc<AuditMetrics>,
}

impl Sink for LimitedSink {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        let Some(permit) = self.memory.reserve(events) else {
            self.metrics.record_failure(self.plugin, &"too many events wait", events);
            return SinkFuture::ready(false);
        };
        SinkFuture::boxed(async move {
            let mut sending = Undelivered { plugin: self.plugin, count: events.len(), metrics: &self.metrics };
            let success = self.sink.process(events).await;
            sending.count = 0;
            drop(permit);
            success
        })
    }

    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        self.sink.shutdown(deadline)
    }
}

/// Events on their way. They count as lost if this is dropped before they are delivered.
pub(crate) struct Undelivered<'m> {
    pub(crate) plugin: &'static str,
    pub(crate) count: usize,
    pub(crate) metrics: &'m AuditMetrics,
}

impl Drop for Undelivered<'_> {
    fn drop(&mut self) {
        self.metrics.report_lost(self.plugin, self.count);
    }
}
