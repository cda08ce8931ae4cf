//! A sink that takes events without waiting and passes them on in batches (upstream: `plugin/pkg/audit/buffered`).
//! Unlike upstream, the number of batches that are delivered at the same time is limited, and so is the memory of all
//! events. A webhook that hangs cannot fill the memory; events are dropped and counted when the buffer is full.

use std::sync::Arc;
use std::time::Duration;

use pintle_locks::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::memory::MemoryLimit;
use crate::sink::{Sink, SinkFuture};
use crate::throttle::Throttle;
use crate::{AuditMetrics, Event};

const PLUGIN: &str = "buffered";

/// How events are put together (`BatchConfig`).
pub(crate) struct BatchConfig {
    /// Maximum number of events that wait.
    pub(crate) buffer_size: usize,
    /// Maximum number of events in a batch.
    pub(crate) max_batch_size: usize,
    /// How long a batch waits for more events.
    pub(crate) max_batch_wait: Duration,
    /// Limits the batches in a second.
    pub(crate) throttle: Option<Throttle>,
    /// Maximum number of batches that are delivered at the same time. Batches keep their order if it is 1.
    pub(crate) max_concurrent: usize,
}

/// Keeps events until they are delivered to another sink.
pub(crate) struct Buffered {
    sender: Mutex<Option<mpsc::Sender<Waiting>>>,
    memory: MemoryLimit,
    task: Mutex<Option<JoinHandle<()>>>,
    sink: Arc<dyn Sink>,
    metrics: Arc<AuditMetrics>,
}

impl Buffered {
    /// Starts the delivery to `sink`, in the runtime of the caller.
    pub(crate) fn start(sink: Arc<dyn Sink>, config: BatchConfig, metrics: Arc<AuditMetrics>) -> Self {
        let (sender, receiver) = mpsc::channel(config.buffer_size);
        let queue = Queue { receiver, metrics: metrics.clone() };
        let task = tokio::spawn(deliver(queue, config, sink.clone()));
        Self {
            sender: Mutex::new(Some(sender)),
            task: Mutex::new(Some(task)),
            sink,
            metrics,
            memory: MemoryLimit::default(),
        }
    }
}

impl Sink for Buffered {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        let sender = self.sender.lock();
        for (index, event) in events.iter().enumerate() {
            let error = match (&*sender, self.memory.reserve(std::slice::from_ref(event))) {
                (Some(sender), Some(permit)) => match sender.try_send(Waiting { event: event.clone(), permit }) {
                    Ok(()) => continue,
                    Err(TrySendError::Full(_)) => "audit buffer queue blocked",
                    Err(TrySendError::Closed(_)) => "audit backend shut down",
                },
                (Some(_), None) => "audit buffer queue blocked",
                (None, _) => "audit backend shut down",
            };
            drop(sender);
            self.metrics.record_failure(PLUGIN, &error, &events[index..]);
            break;
        }
        SinkFuture::ready(true)
    }

    fn shutdown(&self, deadline: Instant) -> SinkFuture<'_, ()> {
        // The task ends when it has delivered everything and no sender is left.
        self.sender.lock().take();
        let task = self.task.lock().take();
        SinkFuture::boxed(async move {
            if let Some(mut task) = task
                && timeout_at(deadline, &mut task).await.is_err()
            {
                // The events that are dropped with the task are counted.
                task.abort();
            }
            self.sink.shutdown(deadline).await;
        })
    }
}

/// An event that waits, with its memory.
struct Waiting {
    event: Arc<Event>,
    permit: OwnedSemaphorePermit,
}

/// The events that wait. Events that are dropped with it count as lost.
struct Queue {
    receiver: mpsc::Receiver<Waiting>,
    metrics: Arc<AuditMetrics>,
}

impl Queue {
    /// The next batch: all events that come until it is full or has waited. Empty if no event will come.
    async fn batch(&mut self, max: usize, wait: Duration) -> Batch {
        let mut batch = Batch { events: Vec::new(), permits: Vec::new(), metrics: self.metrics.clone() };
        let Some(first) = self.receiver.recv().await else { return batch };
        batch.push(first);
        let deadline = Instant::now() + wait;
        while batch.events.len() < max {
            match timeout_at(deadline, self.receiver.recv()).await {
                Ok(Some(event)) => batch.push(event),
                Ok(None) | Err(_) => break,
            }
        }
        batch
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.receiver.close();
        self.metrics.report_lost(PLUGIN, self.receiver.len());
    }
}

/// A batch. Events that are dropped with it count as lost.
struct Batch {
    events: Vec<Arc<Event>>,
    permits: Vec<OwnedSemaphorePermit>,
    metrics: Arc<AuditMetrics>,
}

impl Batch {
    fn push(&mut self, waiting: Waiting) {
        self.events.push(waiting.event);
        self.permits.push(waiting.permit);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.metrics.report_lost(PLUGIN, self.events.len());
    }
}

async fn deliver(mut queue: Queue, mut config: BatchConfig, sink: Arc<dyn Sink>) {
    let mut deliveries = JoinSet::new();
    loop {
        let mut batch = queue.batch(config.max_batch_size, config.max_batch_wait).await;
        if batch.events.is_empty() {
            break;
        }
        if let Some(throttle) = &mut config.throttle {
            throttle.accept().await;
        }
        while deliveries.len() >= config.max_concurrent {
            deliveries.join_next().await;
        }
        let sink = sink.clone();
        // In a task of its own, so that a panic ends only the delivery of one batch.
        deliveries.spawn(async move {
            sink.process(&batch.events).await;
            sink.flush();
            batch.events.clear();
        });
    }
    while deliveries.join_next().await.is_some() {}
}
