//! A sink that writes events to a file or to standard output (upstream: `plugin/pkg/audit/log`).
//!
//! - `file`: a file that is rotated and opened again when it was moved.
//! - `backups`: the names of rotated files, their compression and removal.

mod backups;
mod file;

use std::io::{self, Write as _};
use std::sync::Arc;

use pintle_locks::Mutex;

pub(crate) use file::LogFile;

use crate::sink::{Sink, SinkFuture};
use crate::{AuditMetrics, Event};

const PLUGIN: &str = "log";

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
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_line(line),
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line)?;
                stdout.flush()
            }
        }
    }
}

/// Writes each event as a line. A line is written as a whole or not at all.
#[derive(Debug)]
pub(crate) struct LogSink {
    output: Mutex<LogOutput>,
    format: LogFormat,
    metrics: Arc<AuditMetrics>,
}

impl LogSink {
    /// A sink that writes to `output`.
    #[must_use]
    pub(crate) fn new(output: LogOutput, format: LogFormat, metrics: Arc<AuditMetrics>) -> Self {
        Self { output: Mutex::new(output), format, metrics }
    }

    /// Opens the file again before the next event, after another program has moved it.
    pub(crate) fn reopen(&self) {
        if let LogOutput::File(file) = &mut *self.output.lock() {
            file.reopen();
        }
    }

    fn log(&self, event: &Event) -> Result<(), String> {
        let line = match self.format {
            LogFormat::Json => event.to_json().map_err(|error| error.to_string())?,
            LogFormat::Legacy => (event.to_line() + "\n").into_bytes(),
        };
        self.output.lock().write_line(&line).map_err(|error| error.to_string())
    }
}

impl Sink for LogSink {
    /// Writes in the caller's thread: the write into the system's cache takes less time than passing it on.
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        let mut success = true;
        for event in events {
            if let Err(error) = self.log(event) {
                self.metrics.record_failure(PLUGIN, &error, std::slice::from_ref(event));
                success = false;
            }
        }
        SinkFuture::ready(success)
    }
}
