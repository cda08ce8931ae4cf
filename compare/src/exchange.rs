//! Sends one request to one server and keeps the whole answer.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_integration::{RequestBuilder, ResponseStream};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::aggregation::projected;
use crate::audit::{self, AUDIT_ID};
use crate::dump;
use crate::normal::Symbols;
use crate::sequence::Request;
use crate::server::{Servers, Side};

/// Headers that say nothing about the answer, or that vary with the length of varying values in the body. The Go API server
/// has no flow control.
const IGNORED_HEADERS: &[&str] = &[
    AUDIT_ID,
    "content-length",
    "date",
    "connection",
    "transfer-encoding",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];
const ACCEPT_ENCODING: &str = "accept-encoding";
/// How long to wait for the events of a watch.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// A watch without a new event for this long is complete.
const WATCH_QUIET: Duration = Duration::from_millis(60);

/// An answer. The answer to a watch continues to receive events.
pub(crate) struct Answer {
    status: u16,
    media_type: String,
    headers: Vec<(String, String)>,
    body: Body,
    /// The identifier of the request's events. Empty if the server has chosen one and has not answered.
    audit_id: String,
}

enum Body {
    Whole(Vec<u8>),
    Stream(Receiver),
    /// The connection failed.
    Failed(String),
}

/// Receives a watch until this value is dropped.
struct Receiver {
    received: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The task is aborted, because a connection has a limit of streams.
        self.task.abort();
    }
}

/// The data that a watch has received.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    ended: bool,
}

/// How often a request is sent again while a server prepares the storage of a changed CRD.
const RETRIES: usize = 40;

/// How often a request is sent again because a server closes connections after some answers, without a warning.
const STALE_CONNECTIONS: usize = 3;

/// Sends a request whose placeholders are all replaced.
pub(crate) async fn send(servers: &Servers, side: Side, request: &Request) -> Answer {
    let mut answer = send_once(servers, side, request).await;
    for number in 0..RETRIES {
        let is_stale = servers.aggregate() && number < STALE_CONNECTIONS && matches!(answer.body, Body::Failed(_));
        // Only the storage of custom resources is initialized.
        if !is_stale && (servers.aggregate() || !answer.is_initializing()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        answer = send_once(servers, side, request).await;
    }
    answer
}

async fn send_once(servers: &Servers, side: Side, request: &Request) -> Answer {
    let mut builder = servers.request(side, request);
    let audit_id = match request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(AUDIT_ID)) {
        Some((_, own)) => own.clone(),
        None => {
            let id = audit::next_id();
            builder = builder.header(AUDIT_ID, &id);
            id
        }
    };
    servers.audit_log(side).forget(&audit_id).await;
    let mut answer = answer(servers, request, builder).await;
    if !audit_id.is_empty() {
        answer.audit_id = audit_id;
    }
    answer
}

/// Sends a request with its credentials and returns its answer.
async fn answer(servers: &Servers, request: &Request, mut builder: RequestBuilder<'_>) -> Answer {
    // Upstream asks API servers for gzip if the client has no preference, and Pintle does not. So clients have one. An
    // empty value is none.
    let has_encoding = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(ACCEPT_ENCODING));
    if servers.aggregate() && !has_encoding {
        builder = builder.header(ACCEPT_ENCODING, "identity");
    }
    for (name, value) in &request.headers {
        if servers.aggregate() && value.is_empty() && name.eq_ignore_ascii_case(ACCEPT_ENCODING) {
            continue;
        }
        builder = builder.header_bytes(name, value.as_bytes());
    }
    builder = builder.raw(request.body.clone());
    if request.is_watch() {
        return match builder.stream().await {
            Ok(Ok(stream)) => {
                let (headers, media_type) = shown_headers(&stream.headers);
                let audit_id = header_text(&stream.headers, AUDIT_ID);
                Answer { status: 200, media_type, headers, body: Body::Stream(receive(stream)), audit_id }
            }
            Ok(Err(response)) => whole(response.status.as_u16(), &response.headers, response.body.to_vec()),
            Err(error) => failed(error.to_string()),
        };
    }
    match builder.try_send().await {
        Ok(response) if servers.aggregate() => {
            let projected = projected(&request.path, &response.body);
            let mut answer = whole(response.status.as_u16(), &response.headers, response.body.to_vec());
            if let Some(body) = projected {
                answer.body = Body::Whole(body.into_bytes());
                // These depend on the rest of the document.
                answer.headers.retain(|(name, _)| name != "etag" && name != "last-modified");
            }
            answer
        }
        Ok(response) => whole(response.status.as_u16(), &response.headers, response.body.to_vec()),
        Err(error) => failed(error.to_string()),
    }
}

fn whole(status: u16, headers: &http::HeaderMap, body: Vec<u8>) -> Answer {
    let (shown, media_type) = shown_headers(headers);
    let audit_id = header_text(headers, AUDIT_ID);
    Answer { status, media_type, headers: shown, body: Body::Whole(body), audit_id }
}

fn failed(error: String) -> Answer {
    let body = Body::Failed(error);
    Answer { status: 0, media_type: String::new(), headers: Vec::new(), body, audit_id: String::new() }
}

/// The value of a header, or an empty text.
fn header_text(headers: &http::HeaderMap, name: &str) -> String {
    headers.get(name).map(text).unwrap_or_default()
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn shown_headers(headers: &http::HeaderMap) -> (Vec<(String, String)>, String) {
    let mut shown: Vec<(String, String)> = headers
        .iter()
        .filter(|(name, _)| !IGNORED_HEADERS.contains(&name.as_str()))
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect();
    // The order of different headers means nothing; the order of headers with the same name matters.
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    (shown, header_text(headers, "content-type"))
}

fn receive(mut stream: ResponseStream) -> Receiver {
    let received = Arc::new(Mutex::new(Received::default()));
    let shared = received.clone();
    let task = tokio::spawn(async move {
        while let Ok(Some(chunk)) = stream.next().await {
            shared.lock().await.bytes.extend_from_slice(&chunk);
        }
        shared.lock().await.ended = true;
    });
    Receiver { received, task }
}

impl Answer {
    /// True if the storage of the resource is not ready. The answer to a HEAD does not contain the reason.
    fn is_initializing(&self) -> bool {
        let Body::Whole(body) = &self.body else { return false };
        let may_be_initializing =
            body.is_empty() || String::from_utf8_lossy(body).contains("storage is (re)initializing");
        self.status == 429 && may_be_initializing
    }

    /// The status code. 0 if the connection failed.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The identifier of the request's audit events.
    pub(crate) fn audit_id(&self) -> &str {
        &self.audit_id
    }

    /// Closes the stream of a watch, so that the server ends it.
    pub(crate) fn close(&mut self) {
        if matches!(self.body, Body::Stream(_)) {
            self.body = Body::Failed("closed".to_owned());
        }
    }

    /// The body as JSON, if it is JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        match &self.body {
            Body::Whole(body) => serde_json::from_slice(body).ok(),
            Body::Stream(_) | Body::Failed(_) => None,
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.body, Body::Stream(_))
    }

    /// Renders the answer with symbols in place of varying values.
    pub(crate) async fn render(&self, symbols: &mut Symbols) -> String {
        let mut text = format!("{}\n", self.status);
        for (name, value) in &self.headers {
            let _ = writeln!(text, "{name}: {value}");
        }
        text.push('\n');
        match &self.body {
            Body::Whole(body) => text.push_str(&dump::render(&self.media_type, body)),
            Body::Stream(receiver) => {
                let received = receiver.received.lock().await;
                text.push_str(&without_bookmarks(&dump::render(&self.media_type, &received.bytes)));
                text.push_str(if received.ended { "<end>" } else { "" });
            }
            Body::Failed(error) => text.push_str(error),
        }
        symbols.replace(&text)
    }
}

/// Removes bookmarks that were sent only because time has passed.
fn without_bookmarks(events: &str) -> String {
    let is_kept =
        |line: &&str| !line.starts_with(r#"{"type":"BOOKMARK""#) || line.contains("k8s.io/initial-events-end");
    if events.starts_with("frame\n") {
        let is_kept =
            |frame: &&str| !frame.contains("1: \"BOOKMARK\"\n") || frame.contains("k8s.io/initial-events-end");
        return events.split("frame\n").filter(is_kept).collect();
    }
    events.split_inclusive('\n').filter(is_kept).collect()
}

/// Waits until two watches have received the same number of events and no more events arrive.
pub(crate) async fn wait_for_events(pintle: &Answer, go: &Answer) {
    let media_type = &go.media_type;
    let (Body::Stream(pintle), Body::Stream(go)) = (&pintle.body, &go.body) else { return };
    let (pintle, go) = (&pintle.received, &go.received);
    let is_json = media_type.starts_with("application/json");
    let deadline = Instant::now() + WATCH_TIMEOUT;
    let (mut last, mut since) = ((0, 0), Instant::now());
    while Instant::now() < deadline {
        let (a, b) = (count(&*pintle.lock().await), count(&*go.lock().await));
        let lengths = (pintle.lock().await.bytes.len(), go.lock().await.bytes.len());
        if lengths != last {
            (last, since) = (lengths, Instant::now());
        }
        // Events in other encodings are not counted, but the wait is longer.
        let is_complete = if is_json { a == b } else { since.elapsed() > 4 * WATCH_QUIET };
        if is_complete && since.elapsed() > WATCH_QUIET {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The number of lines, and whether the stream has ended.
fn count(received: &Received) -> (usize, bool) {
    let is_bookmark = |line: &&[u8]| line.starts_with(br#"{"type":"BOOKMARK""#);
    (received.bytes.split(|b| *b == b'\n').filter(|line| !is_bookmark(line)).count(), received.ended)
}
