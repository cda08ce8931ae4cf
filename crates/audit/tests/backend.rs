//! Events on their way into files and other sinks.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use pintle_audit::{
    AuditBackend, AuditMetrics, AuditOptions, Auditor, Event, Level, LogOptions, Policy, Sink, SinkFuture, Stage,
};
use pintle_locks::Mutex;
use pintle_metrics::Exposition;
use pintle_value::time::Time;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition is true.
async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

fn event(id: usize) -> Event {
    Event { level: Level::Metadata, audit_id: id.to_string().into(), ..Event::default() }
}

/// An event with an object of a size.
fn large(id: usize, size: usize) -> Event {
    Event { level: Level::Request, request_object: Some(format!("\"{}\"", "x".repeat(size)).into()), ..event(id) }
}

fn log_to(path: &Path) -> LogOptions {
    LogOptions { path: path.to_str().expect("a path").to_owned(), ..LogOptions::default() }
}

fn open_log(log: LogOptions) -> (AuditBackend, Arc<AuditMetrics>) {
    let metrics = Arc::default();
    let options = AuditOptions { log, ..AuditOptions::default() };
    assert_eq!(options.validate(), [""; 0]);
    (AuditBackend::open(&options, None, &metrics).expect("a file").expect("a log"), metrics)
}

fn file_names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}

/// The IDs of the events in a file, which may be compressed.
fn ids(file: &Path) -> Vec<usize> {
    let mut text = String::new();
    let mut opened = fs::File::open(file).expect("a file");
    if file.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(opened).read_to_string(&mut text).expect("a text");
    } else {
        opened.read_to_string(&mut text).expect("a text");
    }
    let id = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).expect("an event");
        event["auditID"].as_str().expect("an ID").parse().expect("a number")
    };
    // A line that is being written by another task is not an event yet.
    let whole_lines = text.rfind('\n').map_or("", |end| &text[..end]);
    whole_lines.lines().map(id).collect()
}

/// The IDs of the events in all files of a folder, in order.
fn all_ids(folder: &Path) -> Vec<usize> {
    let mut found: Vec<_> = file_names(folder).iter().flat_map(|name| ids(&folder.join(name))).collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn events_are_lines_of_both_formats() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some/folder/audit.log");
    let (json, _) = open_log(log_to(&path));
    assert!(json.process(event(1)).await);
    assert_eq!(fs::read(&path).expect("a file"), event(1).to_json().expect("an event"));
    let (legacy, _) = open_log(LogOptions { format: "legacy".to_owned(), ..log_to(&path) });
    assert!(legacy.process(event(2)).await);
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.ends_with(&format!("}}\n{}\n", event(2).to_line())), "{text}");
}

#[tokio::test]
async fn rotation_loses_no_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let (backend, metrics) = open_log(LogOptions { max_size: 1, ..log_to(&folder.path().join("audit.log")) });
    for id in 0..40 {
        assert!(backend.process(large(id, 150_000)).await);
    }
    // An event that is larger than a file may be.
    assert!(backend.process(large(40, 2_000_000)).await);
    assert!(backend.process(event(41)).await);
    assert_eq!(all_ids(folder.path()), (0..42).collect::<Vec<_>>());
    let names = file_names(folder.path());
    assert_eq!(names.len(), 9, "{names:?}");
    assert_eq!(ids(&folder.path().join("audit.log")), [41]);
    assert_eq!(metrics.errors("log"), 0);
}

#[tokio::test]
async fn a_log_without_a_maximum_size_is_not_rotated() {
    let folder = tempfile::tempdir().expect("a folder");
    let (backend, _) = open_log(LogOptions { max_size: 0, ..log_to(&folder.path().join("audit.log")) });
    for id in 0..3 {
        assert!(backend.process(large(id, 1_000_000)).await);
    }
    assert_eq!(file_names(folder.path()).len(), 1);
}

#[tokio::test]
async fn backups_are_compressed_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    let now = Time::from(std::time::SystemTime::now()).rfc3339();
    let recent = |millis: u32| format!("audit-{}.{millis:03}.log", now.trim_end_matches('Z').replace(':', "-"));
    for (id, name) in [recent(3), recent(2), recent(1), "audit-2020-01-01T00-00-00.000.log".into()].iter().enumerate() {
        fs::write(file(name), event(id).to_json().expect("an event")).expect("a file");
    }
    fs::write(file("audit-other.log"), "").expect("a file");
    let options = LogOptions { max_backups: 3, max_age: 30, compress: true, ..log_to(&file("audit.log")) };
    let (_backend, _) = open_log(options.clone());
    let kept = |count: u32| {
        let mut names: BTreeSet<_> = (4 - count..4).map(|millis| recent(millis) + ".gz").collect();
        names.extend(["audit.log".to_owned(), "audit-other.log".to_owned()]);
        names
    };
    wait_until("compression", || file_names(folder.path()) == kept(3)).await;
    assert_eq!(ids(&file(&(recent(2) + ".gz"))), [1]);
    let (_backend, _) = open_log(LogOptions { max_backups: 2, ..options });
    wait_until("removal", || file_names(folder.path()) == kept(2)).await;
}

#[tokio::test]
async fn a_file_that_was_moved_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("audit.log"), folder.path().join("moved"));
    let (backend, _) = open_log(log_to(&path));
    assert!(backend.process(event(0)).await);
    fs::rename(&path, &moved).expect("moved");
    // Lines are written to the moved file until the server notices.
    let mut written = 1;
    while !path.exists() {
        assert!(backend.process(event(written)).await);
        written += 1;
    }
    assert_eq!(all_ids(folder.path()), (0..written).collect::<Vec<_>>());
    assert_eq!(ids(&path), [written - 1]);
    fs::remove_file(&path).expect("removed");
    while !path.exists() {
        assert!(backend.process(event(1)).await);
    }
    // After a signal, the next line is in a new file.
    fs::rename(&path, &moved).expect("moved");
    backend.reopen_log();
    assert!(backend.process(event(3)).await);
    assert_eq!((ids(&moved), ids(&path)), (vec![1], vec![3]));
}

#[tokio::test]
async fn only_blocking_strict_reports_events_that_are_not_written() {
    for (mode, expect) in [("blocking", true), ("blocking-strict", false), ("batch", true)] {
        let mut log = log_to(Path::new("/dev/full"));
        log.batch.mode = mode.to_owned();
        let (backend, metrics) = open_log(log);
        assert_eq!(backend.process(event(1)).await, expect, "{mode}");
        backend.shutdown(LIMIT).await;
        assert_eq!(metrics.errors("log"), 1, "{mode}");
    }
}

/// Records events of writes by many requests at the same time. Returns the events that were not in the file when they
/// counted as recorded, and the number of failures.
async fn record_many(path: &Path, read: fn(&Path) -> Vec<usize>) -> (Vec<usize>, u64) {
    let (backend, metrics) = open_log(log_to(path));
    let policy =
        Policy::parse(b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n").expect("a policy");
    let auditor = Auditor::new(policy, backend, metrics.clone());
    let mut requests = JoinSet::new();
    for request in 0..16 {
        let (auditor, path) = (auditor.clone(), path.to_owned());
        requests.spawn(async move {
            let mut missing = Vec::new();
            for number in 0..20 {
                let id = request * 100 + number;
                // Some lines are longer than the lines that wait may be.
                let size = if number == 7 && request % 4 == 0 { 70_000 } else { 10 };
                let event = Event { verb: "create".into(), ..large(id, size) };
                assert!(auditor.process(Arc::new(event)).await);
                if !read(&path).contains(&id) {
                    missing.push(id);
                }
            }
            missing
        });
    }
    (requests.join_all().await.concat(), metrics.errors("log"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_several_requests_are_written_before_they_count_as_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.log");
    assert_eq!(record_many(&path, ids).await, (vec![], 0));
    let mut written = ids(&path);
    written.sort_unstable();
    let expect: Vec<_> = (0..16).flat_map(|request| (0..20).map(move |number| request * 100 + number)).collect();
    assert_eq!(written, expect);
    // Each event that cannot be written counts.
    let (_, failures) = record_many(Path::new("/dev/full"), |_| Vec::new()).await;
    assert_eq!(failures, 320);
}

#[tokio::test]
async fn files_that_cannot_be_opened_have_upstream_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = folder.path().display();
    fs::write(folder.path().join("file"), "").expect("a file");
    for (path, expect) in [
        ("file/a/b", format!("ensureLogFile: mkdir {shown}/file: not a directory")),
        ("", format!("ensureLogFile: open {shown}/: is a directory")),
    ] {
        let options = AuditOptions { log: log_to(&folder.path().join(path)), ..AuditOptions::default() };
        let opened = AuditBackend::open(&options, None, &Arc::default());
        assert_eq!(opened.map(drop), Err(expect));
    }
}

/// A sink that keeps batches, like a webhook. It waits for a permit for each batch.
struct Receiver {
    batches: Mutex<Vec<Vec<Event>>>,
    permits: Semaphore,
    panics: AtomicBool,
}

impl Receiver {
    fn new(permits: usize) -> Arc<Self> {
        let (batches, panics) = (Mutex::default(), AtomicBool::default());
        Arc::new(Self { batches, permits: Semaphore::new(permits), panics })
    }

    fn ids(&self) -> Vec<Vec<String>> {
        let batches = self.batches.lock();
        batches.iter().map(|batch| batch.iter().map(|event| event.audit_id.to_string()).collect()).collect()
    }
}

impl Sink for Receiver {
    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> SinkFuture<'a, bool> {
        SinkFuture::boxed(async {
            assert!(!self.panics.load(Ordering::Relaxed), "the sink fails");
            self.permits.acquire().await.expect("a permit").forget();
            self.batches.lock().push(events.iter().map(|event| Event::clone(event)).collect());
            true
        })
    }
}

fn open_webhook(receiver: &Arc<Receiver>, change: impl FnOnce(&mut AuditOptions)) -> (AuditBackend, Arc<AuditMetrics>) {
    let (mut options, metrics) = (AuditOptions::default(), Arc::default());
    options.webhook.config_file = "/x".to_owned();
    change(&mut options);
    assert_eq!(options.validate(), [""; 0]);
    let backend =
        AuditBackend::open(&options, Some(receiver.clone()), &metrics).expect("a backend").expect("a webhook");
    (backend, metrics)
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_their_batch() {
    let receiver = Receiver::new(100);
    let (backend, _) = open_webhook(&receiver, |options| {
        let batch = &mut options.webhook.batch;
        (batch.max_size, batch.max_wait) = (2, pintle_value::time::Duration::from_seconds(5));
    });
    for id in 0..3 {
        assert!(backend.process(event(id)).await);
    }
    let started = tokio::time::Instant::now();
    wait_until("two batches", || receiver.ids().len() == 2).await;
    assert!(started.elapsed() >= Duration::from_secs(5));
    assert_eq!(receiver.ids(), [vec!["0", "1"], vec!["2"]]);
    // The end does not wait.
    assert!(backend.process(event(3)).await);
    let stopped = tokio::time::Instant::now();
    backend.shutdown(LIMIT).await;
    assert!(stopped.elapsed() < Duration::from_secs(1));
    assert_eq!(receiver.ids().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn batches_are_throttled() {
    let receiver = Receiver::new(100);
    let (backend, _) = open_webhook(&receiver, |options| {
        let batch = &mut options.webhook.batch;
        (batch.max_size, batch.throttle_qps, batch.throttle_burst) = (1, 2.0, 3);
    });
    for id in 0..7 {
        assert!(backend.process(event(id)).await);
    }
    let started = tokio::time::Instant::now();
    wait_until("the burst", || receiver.ids().len() == 3).await;
    assert!(started.elapsed() < Duration::from_millis(500));
    backend.shutdown(LIMIT).await;
    assert_eq!(receiver.ids().len(), 7);
    assert!(started.elapsed() >= Duration::from_millis(1900));
}

#[tokio::test]
async fn events_that_find_no_room_are_counted() {
    let receiver = Receiver::new(0);
    let (backend, metrics) = open_webhook(&receiver, |options| {
        let batch = &mut options.webhook.batch;
        (batch.max_size, batch.buffer_size, batch.throttle_enable) = (1, 5, false);
    });
    let mut sent = 0;
    while metrics.errors("buffered") == 0 {
        assert!(backend.process(event(sent)).await);
        tokio::task::yield_now().await;
        sent += 1;
    }
    // The buffer, the batches on their way and the batch that waits for its turn.
    assert!(sent <= 5 + 16 + 1 + 1, "{sent}");
    receiver.permits.add_permits(100);
    backend.shutdown(LIMIT).await;
    assert_eq!(receiver.ids().len(), sent - 1);
    assert!(backend.process(event(sent)).await);
    assert_eq!(metrics.errors("buffered"), 2);
}

/// The size of an event of which six have room.
const HUGE: usize = 20 << 20;

/// An event with a huge object, which all events share.
fn huge(id: usize, object: &Bytes) -> Event {
    Event { level: Level::Request, request_object: Some(object.clone()), ..event(id) }
}

#[tokio::test]
async fn the_memory_of_events_that_wait_is_limited() {
    let receiver = Receiver::new(0);
    let (backend, metrics) = open_webhook(&receiver, |_| {});
    let object = Bytes::from(vec![b'1'; HUGE]);
    for id in 0..8 {
        assert!(backend.process(huge(id, &object)).await);
    }
    // Small events still have room.
    assert!(backend.process(event(8)).await);
    assert_eq!(metrics.errors("buffered"), 2);
    receiver.permits.add_permits(1);
    backend.shutdown(LIMIT).await;
    assert_eq!(receiver.ids(), [["0", "1", "2", "3", "4", "5", "8"]]);
}

#[tokio::test]
async fn the_memory_of_requests_that_wait_for_a_webhook_is_limited() {
    for (mode, when_full) in [("blocking", true), ("blocking-strict", false)] {
        let receiver = Receiver::new(0);
        let (backend, metrics) = open_webhook(&receiver, |options| options.webhook.batch.mode = mode.to_owned());
        let (backend, object) = (Arc::new(backend), Bytes::from(vec![b'1'; HUGE]));
        let mut waiting = JoinSet::new();
        for id in 0..6 {
            let (backend, event) = (backend.clone(), huge(id, &object));
            waiting.spawn(async move { backend.process(event).await });
        }
        tokio::task::yield_now().await;
        assert_eq!(backend.process(huge(6, &object)).await, when_full, "{mode}");
        assert_eq!(metrics.errors("webhook"), 1, "{mode}");
        receiver.permits.add_permits(7);
        while let Some(ended) = waiting.join_next().await {
            assert!(ended.expect("an end"));
        }
        // There is room again.
        assert!(backend.process(huge(7, &object)).await, "{mode}");
        // The event of a request that ends without an answer of the webhook is counted.
        waiting.spawn(async move { backend.process(huge(8, &object)).await });
        tokio::task::yield_now().await;
        waiting.shutdown().await;
        assert_eq!(metrics.errors("webhook"), 2, "{mode}");
    }
}

#[tokio::test]
async fn events_that_are_not_delivered_in_time_are_counted() {
    let receiver = Receiver::new(1);
    let (backend, metrics) = open_webhook(&receiver, |options| options.webhook.batch.max_size = 10);
    for id in 0..35 {
        assert!(backend.process(event(id)).await);
    }
    wait_until("the first batch", || receiver.ids().len() == 1).await;
    backend.shutdown(Duration::from_millis(10)).await;
    wait_until("the count", || metrics.errors("buffered") == 25).await;
}

#[tokio::test]
async fn a_panic_loses_one_batch() {
    let receiver = Receiver::new(100);
    let (backend, metrics) = open_webhook(&receiver, |options| options.webhook.batch.max_size = 2);
    receiver.panics.store(true, Ordering::Relaxed);
    for id in 0..2 {
        assert!(backend.process(event(id)).await);
    }
    wait_until("the panic", || metrics.errors("buffered") == 2).await;
    receiver.panics.store(false, Ordering::Relaxed);
    assert!(backend.process(event(2)).await);
    backend.shutdown(LIMIT).await;
    assert_eq!(receiver.ids(), [["2"]]);
}

#[tokio::test]
async fn large_events_are_truncated() {
    let receiver = Receiver::new(100);
    let (backend, metrics) = open_webhook(&receiver, |options| {
        options.webhook.batch.mode = "blocking-strict".to_owned();
        options.webhook.truncate.enabled = true;
        options.webhook.truncate.max_event_size = 1000;
    });
    let uri = |level, length| Event { level, request_uri: "x".repeat(length), ..event(9) };
    for sent in [large(1, 100), large(2, 1000), uri(Level::Metadata, 1000), uri(Level::Request, 1000)] {
        assert!(backend.process(sent).await);
    }
    let truncated = Event {
        request_object: None,
        annotations: [("audit.k8s.io/truncated".into(), "true".to_owned())].into(),
        ..large(2, 0)
    };
    assert_eq!(*receiver.batches.lock(), [[large(1, 100)], [truncated]]);
    assert_eq!(metrics.errors("truncate"), 2);
}

#[tokio::test]
async fn both_backends_get_each_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::new(100);
    let (backend, metrics) = open_webhook(&receiver, |options| {
        options.log = log_to(&folder.path().join("audit.log"));
        options.webhook.batch.mode = "blocking".to_owned();
    });
    assert!(backend.process(Event { stage: Stage::ResponseComplete, ..event(1) }).await);
    assert_eq!(all_ids(folder.path()), [1]);
    assert_eq!(receiver.ids(), [["1"]]);
    metrics.record_level(Level::Metadata);
    metrics.record_failure("webhook", &"away", &[Arc::new(event(1)), Arc::new(event(2))]);
    metrics.record_rejected();
    let mut exposition = Exposition::default();
    metrics.write(&mut exposition);
    let text = exposition.into_text();
    for line in [
        "# HELP apiserver_audit_event_total [ALPHA] Counter of audit events generated and sent to the audit backend.",
        "apiserver_audit_event_total 1",
        "apiserver_audit_error_total{plugin=\"webhook\"} 2",
        "apiserver_audit_level_total{level=\"Metadata\"} 1",
        "apiserver_audit_requests_rejected_total 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[tokio::test]
async fn without_options_nothing_is_recorded() {
    let options = AuditOptions::default();
    assert!(AuditBackend::open(&options, None, &Arc::default()).expect("nothing").is_none());
}
