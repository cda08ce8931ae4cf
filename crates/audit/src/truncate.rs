//! A sink that makes large events smaller and splits large batches (upstream: `plugin/pkg/audit/truncate`).

use std::sync::Arc;

use tokio::time::Instant;

use crate::sink::{Sink, SinkFuture};
use crate::{AuditMetrics, Event, Level};

const PLUGIN: &str = "truncate";

/// Passes events to another sink, without their objects if they are too large. Events that are still too large are
/// errors.
pub(crate) struct Truncate {
    pub(crate) sink: Arc<dyn Sink>,
    /// Maximum size of an event's JSON, in bytes.
    pub(crate) max_event_size: usize,
    /// Maximum size of the events that are passed on together, in bytes.
    pub(crate) max_batch_size: usize,
    pub(crate) metrics: Arc<AuditMetrics>,
}

impl Truncate {
    /// The event to pass on and its size.
    fn fit(&self, event: &Arc<Event>) -> Result<(Arc<Event>, usize), String> {
        let size = |event: &Event| event.to_json().map(|json| json.len()).map_err(|error| error.to_string());
        let (mut event, mut length) = (event.clone(), size(event)?);
        if length > self.max_event_size && event.level >= Level::Request {
            let mut smaller = Event::clone(&event);
            smaller.truncate();
            event = Arc::new(smaller);
            length = size(&event)?;
        }
        if length > self.max_event_size {
            return Err("event is too large even after truncating".to_owned());
        }
        Ok((event, length))
    }

    async fn pass(&self, events: &[Arc<Event>]) -> bool {
        let (mut batch, mut batch_size, mut success) = (Vec::new(), 0, true);
        for event in events {
            let (event, size) = match self.fit(event) {
                Ok(fitting) => fitting,
                Err(error) => {
                    self.metrics.record_failure(PLUGIN, &error, std::slice::from_ref(event));
                    continue;
                }
            };
            if !batch.is_empty() && batch_size + size > self.max_batch_size {
                success &= self.sink.process(&batch).await;
                batch.clear();
                batch_size = 0;
            }
            batch_size += size;
            batch.push(event);
        }
        // As in upstream, an event that is too large does not fail the request.
        (batch.is_empty() || self.sink.process(&batch).await) && success
    }
}

impl Sink for Truncate {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        SinkFuture::boxed(self.pass(events))
    }

    fn flush(&self) -> usize {
        self.sink.flush()
    }

    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        self.sink.shutdown(deadline)
    }
}
