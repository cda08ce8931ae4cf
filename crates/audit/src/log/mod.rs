//! A sink that writes events to a file or to standard output (upstream: `plugin/pkg/audit/log`).
//!
//! - `file`: a file that is rotated and opened again when it was moved.
//! - `backups`: the names of rotated files, their compression and removal.

mod backups;
mod file;

use std::io::{self, Write as _};
use std::sync::Arc;

use pintle_locks::Mutex;
use tokio::time::Instant;

pub(crate) use file::LogFile;

use crate::sink::{Sink, SinkFuture};
use crate::{AuditMetrics, Event};

const PLUGIN: &str = "log";
/// Maximum size of the lines that wait for one write, in bytes.
const MAX_GATHERED: usize = 64 << 10;

/// When files are rotated and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rotation {
    /// The size in bytes at which a file is rotated; 0 for never.
    pub(crate) max_size: u64,
    /// The age in days at which rotated files are removed; 0 for never.
    pub(crate) max_age: u64,
    /// The number of rotated files that are kept; 0 for all.
    pub(crate) max_backups: usize,
    /// Whether rotated files are compressed.
    pub(crate) compress: bool,
}

/// The form of events in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Each event is a line of JSON.
    #[default]
    Json,
    /// Each event is a line of text with some of its fields.
    Legacy,
}

/// Where lines go.
#[derive(Debug)]
pub(crate) enum LogOutput {
    /// Standard output.
    Stdout,
    /// A file.
    File(LogFile),
}

impl LogOutput {
    /// Writes whole lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(lines),
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(lines)?;
                stdout.flush()
            }
        }
    }
}

/// When lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Before the events count as recorded.
    AtOnce,
    /// With the next flush, so that events of several requests need one write.
    Gathered,
}

/// Writes each event as a line. A line is written as a whole or not at all.
#[derive(Debug)]
pub(crate) struct LogSink {
    output: Mutex<LogOutput>,
    /// Taken, and not written yet. To be locked after `output`.
    gathered: Mutex<Lines>,
    format: LogFormat,
    writing: Writing,
    metrics: Arc<AuditMetrics>,
}

/// Lines and their events, which are logged if the lines cannot be written.
#[derive(Debug, Default)]
struct Lines {
    text: Vec<u8>,
    events: Vec<Arc<Event>>,
}

impl LogSink {
    /// A sink that writes to `output`.
    #[must_use]
    pub(crate) fn new(output: LogOutput, format: LogFormat, writing: Writing, metrics: Arc<AuditMetrics>) -> Self {
        Self { output: Mutex::new(output), gathered: Mutex::default(), format, writing, metrics }
    }

    /// Opens the file again before the next event, after another program has moved it.
    pub(crate) fn reopen(&self) {
        if let LogOutput::File(file) = &mut *self.output.lock() {
            file.reopen();
        }
    }

    fn line(&self, event: &Event) -> Result<Vec<u8>, String> {
        match self.format {
            LogFormat::Json => event.to_json().map_err(|error| error.to_string()),
            LogFormat::Legacy => Ok((event.to_line() + "\n").into_bytes()),
        }
    }

    fn record(&self, event: &Arc<Event>) -> Result<(), String> {
        let line = self.line(event)?;
        if self.writing == Writing::AtOnce || line.len() > MAX_GATHERED {
            self.flush();
            return self.output.lock().write(&line).map_err(|error| error.to_string());
        }
        let mut gathered = self.gathered.lock();
        gathered.text.extend_from_slice(&line);
        gathered.events.push(event.clone());
        if gathered.text.len() > MAX_GATHERED {
            drop(gathered);
            self.flush();
        }
        Ok(())
    }
}

impl Sink for LogSink {
    /// Writes in the caller's thread: the write into the system's cache takes less time than passing it on.
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        let mut success = true;
        for event in events {
            if let Err(error) = self.record(event) {
                self.metrics.record_failure(PLUGIN, &error, std::slice::from_ref(event));
                success = false;
            }
        }
        SinkFuture::ready(success)
    }

    /// Also waits until another thread has written the lines that it has taken.
    fn flush(&self) -> usize {
        if self.writing == Writing::AtOnce {
            return 0;
        }
        let mut output = self.output.lock();
        let Lines { text, events } = std::mem::take(&mut *self.gathered.lock());
        if text.is_empty() {
            return 0;
        }
        if output.write(&text).is_err() {
            // Some of the lines may still find room.
            for (line, event) in text.split_inclusive(|byte| *byte == b'\n').zip(&events) {
                if let Err(error) = output.write(line) {
                    self.metrics.record_failure(PLUGIN, &error, std::slice::from_ref(event));
                }
            }
        }
        events.len()
    }

    fn shutdown(&self, _deadline: Instant) -> SinkFuture<'_, ()> {
        self.flush();
        SinkFuture::ready(())
    }
}
