//! The log of requests (`--log-requests`): a line of JSON for each request when its answer is known. Requests do not
//! wait for the file: a background task writes the lines. If the queue is full, lines are dropped and counted.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_server::{ObservedAnswer, ObservedRequest, RequestObserver};
use pintle_supervisor::BackgroundTask;
use pintle_value::time::Time;
use pintle_value::{Value, object};
use tokio::sync::{Mutex, mpsc, watch};

/// Maximum number of lines that wait to be written.
const QUEUE_LINES: usize = 4096;
/// Maximum number of lines per write.
const MAX_WRITE_LINES: usize = 256;
/// Maximum size of a body in a line, in bytes. Of a larger one, only its beginning is logged, as a text.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Why the log of requests cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("failed to open the log of requests: {path}: {error}")]
pub struct RequestLogError {
    path: PathBuf,
    error: io::Error,
}

/// The log of requests. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RequestLog {
    path: Arc<Path>,
    observer: Arc<LineSender>,
    lines: Arc<Mutex<LineReceiver>>,
    /// True when no more requests come.
    is_ending: watch::Sender<bool>,
}

/// Encodes requests as lines, and queues them.
#[derive(Debug)]
struct LineSender {
    lines: mpsc::Sender<Vec<u8>>,
    /// The number of lines that were dropped and not reported yet.
    dropped: AtomicU64,
}

/// The receiver of the task that writes the lines.
#[derive(Debug)]
struct LineReceiver {
    lines: mpsc::Receiver<Vec<u8>>,
    /// True when all lines have been written and no more come.
    is_finished: bool,
}

impl RequestLog {
    /// Creates the file, or opens it to append to it. Only its owner can read a new file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Self, RequestLogError> {
        open_file(path).map_err(|error| RequestLogError { path: path.to_owned(), error })?;
        Ok(Self::new(path, QUEUE_LINES))
    }

    fn new(path: &Path, queue: usize) -> Self {
        let (sender, receiver) = mpsc::channel(queue);
        Self {
            path: path.into(),
            observer: Arc::new(LineSender { lines: sender, dropped: AtomicU64::new(0) }),
            lines: Arc::new(Mutex::new(LineReceiver { lines: receiver, is_finished: false })),
            is_ending: watch::Sender::new(false),
        }
    }

    /// The observer of requests that writes to this log.
    pub(crate) fn observer(&self) -> Arc<dyn RequestObserver> {
        self.observer.clone()
    }

    /// Writes lines until [`RequestLog::finish`] is called. If the file cannot be written, it is opened again.
    pub(crate) async fn run(self, task: BackgroundTask) {
        let (log, reported) = (self.clone(), task.clone());
        let start = move || {
            let (log, task) = (log.clone(), reported.clone());
            async move { log.write(&task).await.map_err(|error| format!("{}: {error}", log.path.display())) }
        };
        let is_over = || self.lines.try_lock().is_ok_and(|lines| lines.is_finished);
        task.supervise(start, is_over).await;
    }

    async fn write(&self, task: &BackgroundTask) -> io::Result<()> {
        let mut file = open_file(&self.path)?;
        let mut receiver = self.lines.lock().await;
        let mut is_ending = self.is_ending.subscribe();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                received = receiver.lines.recv_many(&mut batch, MAX_WRITE_LINES) => if received == 0 { break },
                // This branch runs only when there is nothing to write.
                _ = is_ending.wait_for(|is_ending| *is_ending) => receiver.lines.close(),
            }
            let dropped = self.observer.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                batch.push(dropped_line(dropped));
            }
            let lines = batch.len() as u64 - u64::from(dropped > 0);
            let text = batch.concat();
            batch.clear();
            // The file may be on a slow disk.
            let written = tokio::task::spawn_blocking(move || file.write_all(&text).map(|()| file)).await;
            file = written.map_err(io::Error::other).and_then(|written| written).inspect_err(|_| {
                self.observer.dropped.fetch_add(dropped + lines, Ordering::Relaxed);
            })?;
            task.report_success();
        }
        receiver.is_finished = true;
        Ok(())
    }

    /// Waits until all lines are written, or the task has given up. The caller guarantees that no more requests come.
    pub(crate) async fn finish(self) {
        self.is_ending.send_replace(true);
        loop {
            if self.lines.lock().await.is_finished {
                return;
            }
            // The task starts again after an error.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}

/// The line that tells how many lines were dropped before it.
fn dropped_line(count: u64) -> Vec<u8> {
    line(&object! { "dropped": i64::try_from(count).unwrap_or(i64::MAX) })
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = pintle_codec::json::encode(value);
    line.push(b'\n');
    line
}

impl LineSender {
    fn send(&self, line: Vec<u8>) {
        if self.lines.try_send(line).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RequestObserver for LineSender {
    fn answered(&self, request: &ObservedRequest<'_>, answer: &ObservedAnswer) {
        // If the queue is full, the body need not be encoded.
        if self.lines.capacity() == 0 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.send(line(&describe(request, answer)));
    }
}

/// A request and its answer. Fields that are empty are left out.
fn describe(request: &ObservedRequest<'_>, answer: &ObservedAnswer) -> Value {
    let time = request.time().0;
    let time = Time { seconds: (time / 1000).cast_signed(), nanos: (time % 1000) as u32 * 1_000_000 };
    let user = request.user();
    let mut value = object! { "time": time.rfc3339_micro() };
    let mut set = |name: &str, text: &str| {
        if !text.is_empty() {
            value.set(name, text);
        }
    };
    set("user", &user.name);
    set("verb", request.verb());
    set("path", request.path());
    if request.is_resource() {
        set("group", request.group());
        set("version", request.version());
        set("resource", request.resource());
        set("subresource", request.subresource());
        set("namespace", request.namespace());
        set("name", request.name());
    }
    set("userAgent", request.user_agent());
    set("reason", &answer.reason);
    set("message", &answer.message);
    let groups: Vec<Value> = user.groups.iter().map(|group| Value::from(group.as_str())).collect();
    if !groups.is_empty() {
        value.set("groups", groups);
    }
    if let Some(source) = request.source() {
        value.set("source", source.to_string());
    }
    value.set("code", i64::from(answer.code));
    value.set("latencySeconds", answer.latency.as_secs_f64());
    if let Some(body) = request.body() {
        let redacted = body.redacted();
        if redacted.has_secrets && quotes_bodies(answer.code) {
            value.remove("message");
        }
        set_body(&mut value, body.size(), redacted.json);
    }
    value
}

/// True if the message of an answer may quote the body of the request, as messages about malformed and invalid objects
/// do.
fn quotes_bodies(code: u16) -> bool {
    // A policy or webhook that refuses an object with 403 may quote it.
    !matches!(code, 401 | 404 | 405 | 409 | 410 | 415 | 429 | 503 | 504)
}

/// Adds a body, truncated to the maximum size.
fn set_body(value: &mut Value, size: usize, json: Option<Vec<u8>>) {
    let Some(json) = json else {
        // A malformed body may contain secrets.
        value.set("malformedBodyBytes", i64::try_from(size).unwrap_or(i64::MAX));
        return;
    };
    let options = pintle_codec::json::DecodeOptions::default();
    if json.len() <= MAX_BODY_BYTES
        && let Ok(decoded) = pintle_codec::json::decode(&json, options)
    {
        value.set("body", decoded.value);
        return;
    }
    value.set("bodyBytes", i64::try_from(json.len()).unwrap_or(i64::MAX));
    let text = String::from_utf8_lossy(&json[..json.len().min(MAX_BODY_BYTES)]);
    value.set("bodyPrefix", &*text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets lines be written to a file, and returns its text.
    async fn written(log: &RequestLog, count: u64) -> String {
        let task = BackgroundTask::new("test");
        let run = tokio::spawn(log.clone().run(task));
        (0..count).for_each(|n| log.observer.send(line(&Value::from(i64::try_from(n).expect("a number")))));
        log.clone().finish().await;
        run.await.expect("the task ends");
        std::fs::read_to_string(&log.path).expect("the file")
    }

    #[tokio::test]
    async fn lines_that_do_not_fit_the_queue_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = RequestLog::new(&folder.path().join("log"), 3);
        assert_eq!(written(&log, 10).await, "0\n1\n2\n{\"dropped\":7}\n");
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_is_opened_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/log");
        let log = RequestLog::new(&path, 10);
        let task = BackgroundTask::new("test");
        let run = tokio::spawn(log.clone().run(task.clone()));
        log.observer.send(line(&Value::from(1)));
        while task.failure().is_none() {
            tokio::task::yield_now().await;
        }
        assert!(task.failure().is_some_and(|failure| failure.contains("a/log: No such file")), "{:?}", task.failure());
        std::fs::create_dir(folder.path().join("a")).expect("a folder");
        log.clone().finish().await;
        run.await.expect("the task ends");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), "1\n");
    }

    #[test]
    fn large_and_malformed_bodies_are_not_logged_as_they_are() {
        let mut value = Value::object();
        set_body(&mut value, 7, None);
        set_body(&mut value, 9, Some(format!("{:?}", "x".repeat(MAX_BODY_BYTES)).into_bytes()));
        let size = MAX_BODY_BYTES + 2;
        assert_eq!(value["bodyBytes"], Value::from(i64::try_from(size).expect("a number")));
        assert_eq!(value["bodyPrefix"].as_str().map(str::len), Some(MAX_BODY_BYTES));
        assert_eq!((value.get("body"), &value["malformedBodyBytes"]), (None, &Value::from(7)));
        set_body(&mut value, 9, Some(b"{\"a\":1}".to_vec()));
        assert_eq!(value["body"], object! { "a": 1 });
    }
}
