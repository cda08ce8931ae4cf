//! Puts the sinks of the options together (upstream: `AuditOptions.ApplyTo`).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::buffered::{BatchConfig, Buffered};
use crate::log::{LogFile, LogFormat, LogOutput, LogSink, Rotation, Writing};
use crate::memory::{LimitedSink, MemoryLimit};
use crate::options::{AuditOptions, BatchOptions, LogOptions, TruncateOptions};
use crate::sink::{IgnoreErrors, Sink, SinkFuture, Union};
use crate::throttle::Throttle;
use crate::truncate::Truncate;
use crate::{AuditMetrics, Event};

const MIB: u64 = 1024 * 1024;
/// Maximum number of batches that are sent to a webhook at the same time.
const WEBHOOK_BATCHES: usize = 16;

/// All places where events are recorded.
pub struct AuditBackend {
    sink: Union,
    log: Option<Arc<LogSink>>,
    metrics: Arc<AuditMetrics>,
    max_object_size: usize,
    gathers_lines: bool,
}

impl std::fmt::Debug for AuditBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditBackend").field("log", &self.log).finish_non_exhaustive()
    }
}

impl AuditBackend {
    /// The backend of valid options; `None` if nothing is to be recorded. `webhook` sends events at once, as one list.
    /// As in upstream, the file of the log is created even if there is no policy. Buffers run in the caller's runtime.
    ///
    /// # Errors
    /// The file of the log cannot be opened. Returns upstream's message.
    pub fn open(
        options: &AuditOptions,
        webhook: Option<Arc<dyn Sink>>,
        metrics: &Arc<AuditMetrics>,
    ) -> Result<Option<Self>, String> {
        let log = open_log(&options.log, metrics)?.map(Arc::new);
        let mut sinks = Vec::new();
        if let Some(log) = &log {
            let LogOptions { batch, truncate, .. } = &options.log;
            sinks.push(wrap(log.clone(), batch, 1, truncate, metrics));
        }
        if let Some(webhook) = webhook {
            let (batch, truncate) = (&options.webhook.batch, &options.webhook.truncate);
            let webhook = match &*batch.mode {
                "blocking-strict" | "blocking" => {
                    let (plugin, memory, metrics) = ("webhook", MemoryLimit::default(), metrics.clone());
                    Arc::new(LimitedSink { sink: webhook, plugin, memory, metrics })
                }
                _ => webhook,
            };
            sinks.push(wrap(webhook, batch, WEBHOOK_BATCHES, truncate, metrics));
        }
        let limits = [
            (&options.log.truncate, log.is_some()),
            (&options.webhook.truncate, sinks.len() > usize::from(log.is_some())),
        ];
        let limits = limits.into_iter().filter(|(_, is_used)| *is_used).map(|(truncate, _)| max_object_size(truncate));
        let max_object_size = limits.max().unwrap_or(usize::MAX);
        let gathers_lines = log.is_some() && options.log.batch.mode == "blocking";
        let backend = Self { sink: Union(sinks), log, metrics: metrics.clone(), max_object_size, gathers_lines };
        Ok((!backend.sink.0.is_empty()).then_some(backend))
    }

    /// Records an event. Returns false if it is not recorded and the mode is `blocking-strict`. Then the request has to
    /// be refused at the stage `RequestReceived`.
    pub async fn process(&self, event: Event) -> bool {
        self.metrics.record_event();
        let is_recorded = self.record(&[Arc::new(event)]).await;
        self.flush();
        is_recorded
    }

    /// Writes the events that wait for one write with later events. Returns their number.
    pub(crate) fn flush(&self) -> usize {
        self.sink.flush()
    }

    /// Records an event that is already counted. A boxed future has not begun.
    pub(crate) fn record<'a>(&'a self, event: &'a [Arc<Event>; 1]) -> SinkFuture<'a, bool> {
        match self.sink.0.as_slice() {
            [sink] => sink.process(event),
            _ => self.sink.process(event),
        }
    }

    /// True if one write to the log may have the events of several requests.
    pub(crate) fn gathers_lines(&self) -> bool {
        self.gathers_lines
    }

    /// Maximum size of an object in an event, in bytes. All sinks remove a larger object.
    #[must_use]
    pub fn max_object_size(&self) -> usize {
        self.max_object_size
    }

    /// Opens the file of the log again, after another program has moved it.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Delivers all events that are buffered. Events that are not delivered in time count as errors.
    pub async fn shutdown(&self, limit: Duration) {
        self.sink.shutdown(Instant::now() + limit).await;
    }
}

/// Maximum size of an object that a sink records, in bytes.
fn max_object_size(options: &TruncateOptions) -> usize {
    if options.enabled { usize::try_from(options.max_event_size).unwrap_or_default() } else { usize::MAX }
}

fn open_log(options: &LogOptions, metrics: &Arc<AuditMetrics>) -> Result<Option<LogSink>, String> {
    let size = |number: i64| u64::try_from(number).unwrap_or_default();
    let rotation = Rotation {
        max_size: size(options.max_size).saturating_mul(MIB),
        max_age: size(options.max_age),
        max_backups: usize::try_from(options.max_backups).unwrap_or_default(),
        compress: options.compress,
    };
    let output = match &*options.path {
        "" => return Ok(None),
        "-" => LogOutput::Stdout,
        path => LogOutput::File(LogFile::open(Path::new(path), rotation)?),
    };
    let format = if options.format == "legacy" { LogFormat::Legacy } else { LogFormat::Json };
    let writing = if options.batch.mode == "blocking-strict" { Writing::AtOnce } else { Writing::Gathered };
    Ok(Some(LogSink::new(output, format, writing, metrics.clone())))
}

/// Adds the mode and the truncation to a sink.
fn wrap(
    sink: Arc<dyn Sink>,
    batch: &BatchOptions,
    max_concurrent: usize,
    truncate: &TruncateOptions,
    metrics: &Arc<AuditMetrics>,
) -> Arc<dyn Sink> {
    let size = |number: i64| usize::try_from(number).unwrap_or_default();
    let sink: Arc<dyn Sink> = match &*batch.mode {
        "blocking-strict" => sink,
        "blocking" => Arc::new(IgnoreErrors(sink)),
        _ => {
            let throttle = || Throttle::new(batch.throttle_qps.into(), batch.throttle_burst as f64);
            let config = BatchConfig {
                buffer_size: size(batch.buffer_size).clamp(1, Semaphore::MAX_PERMITS),
                max_batch_size: size(batch.max_size).max(1),
                max_batch_wait: Duration::from_nanos(u64::try_from(batch.max_wait.0).unwrap_or_default()),
                throttle: batch.throttle_enable.then(throttle),
                max_concurrent,
            };
            Arc::new(Buffered::start(sink, config, metrics.clone()))
        }
    };
    if !truncate.enabled {
        return sink;
    }
    Arc::new(Truncate {
        sink,
        max_event_size: size(truncate.max_event_size),
        max_batch_size: size(truncate.max_batch_size),
        metrics: metrics.clone(),
    })
}
