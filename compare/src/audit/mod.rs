//! The audit events of requests. Both servers have the same policy (`audit-policy.yaml`) and write their events to a
//! file. Each request has its own `Audit-ID`, by which its events are found. Events are compared as text, so the order of
//! their members counts.

mod known_differences;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use regex::{Captures, Regex};
use tokio::sync::Mutex;

use crate::normal::{Symbols, is_now};
pub(crate) use known_differences::is_known;

/// The policy of both servers.
pub(crate) const POLICY: &str = include_str!("../../audit-policy.yaml");
/// The header with the identifier of a request's events.
pub(crate) const AUDIT_ID: &str = "audit-id";

/// How long to wait for the events of an answer. A server may record its end after the client has it.
const TIMEOUT: Duration = Duration::from_secs(2);

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

static ID: LazyLock<Regex> = LazyLock::new(|| regex(r#""auditID":"[0-9a-f]{8}-[0-9a-f-]{27}""#));
/// The values of a URI that a server has chosen before.
static URI_VALUE: LazyLock<Regex> = LazyLock::new(|| regex(r"(resourceVersion=|continue=)([A-Za-z0-9_=-]{20,}|\d+)"));
static TIMES: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r#""requestReceivedTimestamp":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{6})Z","#,
        r#""stageTimestamp":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z""#
    ))
});
static LATENCY: LazyLock<Regex> = LazyLock::new(|| regex(r#""apiserver\.latency\.k8s\.io/[^"]*":"[^"]*",?"#));

/// Returns an identifier for a request. It has the form of the identifiers that servers choose.
pub(crate) fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("c0de0000-0000-4000-8000-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The audit log of a server.
pub(crate) struct AuditLog {
    path: PathBuf,
    read: Mutex<ReadEvents>,
}

/// The part of a log that was read.
#[derive(Default)]
struct ReadEvents {
    offset: u64,
    /// The start of the next line.
    rest: Vec<u8>,
    /// The events that were not taken yet, by the identifier of their request.
    events: HashMap<String, Vec<String>>,
}

impl AuditLog {
    /// The log in a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { path: folder.join("audit.log"), read: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of events of a request so far, and whether the request has ended.
    async fn progress(&self, id: &str) -> (usize, bool) {
        let mut read = self.read.lock().await;
        read.read_on(&self.path);
        let events = read.events.get(id).map(Vec::as_slice).unwrap_or_default();
        let is_end =
            |event: &String| event.contains(r#""stage":"ResponseComplete""#) || event.contains(r#""stage":"Panic""#);
        (events.len(), events.last().is_some_and(is_end))
    }

    /// Takes the events of a request.
    async fn take(&self, id: &str) -> Vec<String> {
        let mut read = self.read.lock().await;
        read.read_on(&self.path);
        read.events.remove(id).unwrap_or_default()
    }

    /// Forgets the events of earlier requests that had this identifier.
    pub(crate) async fn forget(&self, id: &str) {
        self.take(id).await;
    }
}

impl ReadEvents {
    /// Reads the lines that were written since the last read.
    fn read_on(&mut self, path: &Path) {
        let mut file = File::open(path).expect("the audit log");
        file.seek(SeekFrom::Start(self.offset)).expect("a file");
        let count = file.read_to_end(&mut self.rest).expect("the audit log can be read");
        self.offset += count as u64;
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = text(&line[..end]);
            let id = audit_id(&line).unwrap_or_else(|| panic!("an event without identifier: {line}"));
            self.events.entry(id).or_default().push(line);
        }
    }
}

/// A line as text. Bytes that are not UTF-8 are visible.
fn text(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("<byte {byte:02x}>")));
    }
    text
}

/// The identifier of an event.
fn audit_id(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(r#""auditID":"#)?;
    serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
}

/// Takes the events of a request from both logs. If its answer was a watch, which has ended, they have to have its end.
pub(crate) async fn take_events(pintle: (&AuditLog, &str), go: (&AuditLog, &str), is_watch: bool) -> [Vec<String>; 2] {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        let (ours, _) = pintle.0.progress(pintle.1).await;
        let (theirs, has_ended) = go.0.progress(go.1).await;
        // The Go API server records the end of an answer before it sends the end.
        let is_complete = !is_watch || has_ended || theirs == 0;
        if is_complete && ours >= theirs {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    [pintle.0.take(pintle.1).await, go.0.take(go.1).await]
}

/// The members of events that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    All,
    /// All except the members that depend on the answer.
    WithoutAnswer,
    /// All except the objects and the status.
    WithoutObjects,
}

/// The events of a request as text, a line for each, with symbols in place of varying values.
pub(crate) fn render(events: &[String], members: Members, symbols: &mut Symbols) -> String {
    let left_out: &[&str] = match members {
        Members::All => &[],
        Members::WithoutAnswer => &[STATUS, RESPONSE],
        Members::WithoutObjects => &[STATUS, REQUEST, RESPONSE],
    };
    let mut received = None;
    let mut line = |event: &String| {
        let event = left_out.iter().fold(event.clone(), |event, member| without_member(event, member));
        normal(&event, &mut received)
    };
    let lines: Vec<String> = events.iter().map(&mut line).collect();
    symbols.replace(&lines.join("\n"))
}

/// An event without the values that symbols cannot replace. `received` is the time of the request, from its first event.
fn normal(event: &str, received: &mut Option<String>) -> String {
    let event = ID.replace(event, r#""auditID":"<id>""#);
    let event = LATENCY.replace_all(&event, "");
    let (before, uri, after) = parts(&event, r#","requestURI":""#, r#"","verb":""#);
    let event = format!("{before}{}{after}", URI_VALUE.replace_all(uri, "$1<value>"));
    TIMES
        .replace(&event, |found: &Captures<'_>| {
            let at = format!("{}{}", &found[1], &found[2]);
            let is_first = *received.get_or_insert_with(|| at.clone()) == at && is_now(&found[1]);
            let stage = match found[3].cmp(&at) {
                std::cmp::Ordering::Less => "<earlier>",
                std::cmp::Ordering::Equal if event.contains(r#""stage":"RequestReceived""#) => "<received>",
                std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => "<later>",
            };
            let at = if is_first { "<received>" } else { &at };
            format!(r#""requestReceivedTimestamp":"{at}","stageTimestamp":"{stage}""#)
        })
        .into_owned()
}

/// Splits a text into the part up to the end of `start`, the part up to `end`, and the rest.
fn parts<'t>(text: &'t str, start: &str, end: &str) -> (&'t str, &'t str, &'t str) {
    let begin = text.find(start).map_or(text.len(), |at| at + start.len());
    let stop = text[begin..].find(end).map_or(begin, |at| begin + at);
    (&text[..begin], &text[begin..stop], &text[stop..])
}

const STATUS: &str = r#","responseStatus":"#;
const REQUEST: &str = r#","requestObject":"#;
const RESPONSE: &str = r#","responseObject":"#;
const RECEIVED: &str = r#","requestReceivedTimestamp":"#;

/// An event without one of the members before the times. The values are not parsed: no nested member has one of these
/// names.
fn without_member(mut event: String, member: &str) -> String {
    if let Some(start) = event.find(member) {
        let rest = &event[start + member.len()..];
        let next = [REQUEST, RESPONSE, RECEIVED].iter().filter_map(|next| rest.find(next)).min();
        let end = next.map_or(event.len(), |next| start + member.len() + next);
        event.replace_range(start..end, "");
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stage: &str, times: (&str, &str), rest: &str) -> String {
        format!(
            r#"{{"kind":"Event","auditID":"{}","stage":"{stage}","requestURI":"/a?resourceVersion=12\u0026continue={}","verb":"get"{rest},"requestReceivedTimestamp":"{}","stageTimestamp":"{}"}}"#,
            next_id(),
            "e".repeat(30),
            times.0,
            times.1
        )
    }

    fn now(micros: u32) -> String {
        let now = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339);
        format!("{}.{micros:06}Z", &now.expect("a time")[..19])
    }

    #[test]
    fn times_and_values_that_the_server_has_chosen_are_replaced() {
        let (first, second) = (now(5), now(6));
        let objects =
            r#","responseStatus":{"metadata":{},"code":200},"responseObject":{"metadata":{"resourceVersion":"7"}}"#;
        let events = [
            event("RequestReceived", (&first, &first), ""),
            event("ResponseComplete", (&first, &second), objects),
            event("ResponseComplete", (&second, &first), ""),
            event("RequestReceived", ("2001-02-03T04:05:06.000007Z", "x"), ""),
        ];
        let head = r#"{"kind":"Event","auditID":"<id>","stage":""#;
        let uri = r#"","requestURI":"/a?resourceVersion=<value>\u0026continue=<value>","verb":"get""#;
        let expect = [
            format!(
                r#"{head}RequestReceived{uri},"requestReceivedTimestamp":"<received>","stageTimestamp":"<received>"}}"#
            ),
            format!(
                r#"{head}ResponseComplete{uri},"responseStatus":{{"metadata":{{}},"code":200}},"responseObject":{{"metadata":{{"resourceVersion":"<current>"}}}},"requestReceivedTimestamp":"<received>","stageTimestamp":"<later>"}}"#
            ),
            format!(
                r#"{head}ResponseComplete{uri},"requestReceivedTimestamp":"<now>.000006","stageTimestamp":"<earlier>"}}"#
            ),
            format!(
                r#"{head}RequestReceived{uri},"requestReceivedTimestamp":"2001-02-03T04:05:06.000007Z","stageTimestamp":"x"}}"#
            ),
        ];
        let rendered = render(&events, Members::All, &mut Symbols::new(Vec::new()));
        assert_eq!(rendered.lines().collect::<Vec<_>>(), expect);
    }

    #[test]
    fn latencies_are_removed() {
        let times = now(1);
        let rest = r#","annotations":{"apiserver.latency.k8s.io/etcd":"1ms","apiserver.latency.k8s.io/total":"2s","authorization.k8s.io/decision":"allow"}"#;
        let events = [event("RequestReceived", (&times, &times), rest)];
        let rendered = render(&events, Members::All, &mut Symbols::new(Vec::new()));
        assert!(rendered.contains(r#""annotations":{"authorization.k8s.io/decision":"allow"}"#), "{rendered}");
    }

    #[test]
    fn members_that_depend_on_the_answer_can_be_left_out() {
        let check = |members: &str, without_answer: &str, without_objects: &str| {
            let times = now(1);
            let rendered = |text: &str, members| {
                let events = [event("RequestReceived", (&times, &times), text)];
                render(&events, members, &mut Symbols::new(Vec::new()))
            };
            assert_eq!(rendered(members, Members::WithoutAnswer), rendered(without_answer, Members::All));
            assert_eq!(rendered(members, Members::WithoutObjects), rendered(without_objects, Members::All));
        };
        let (status, request, response) =
            (r#","responseStatus":{"code":1}"#, r#","requestObject":{"a":{}}"#, r#","responseObject":[1]"#);
        check("", "", "");
        check(status, "", "");
        check(request, request, "");
        check(&format!("{status}{response}"), "", "");
        check(&format!("{status}{request}"), request, "");
        check(&format!("{status}{request}{response}"), request, "");
    }

    #[tokio::test]
    async fn events_are_found_by_the_identifier_of_the_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::new(folder.path());
        let write = |text: &[u8]| {
            let mut file = File::options().create(true).append(true).open(log.path()).expect("a file");
            std::io::Write::write_all(&mut file, text).expect("a file");
        };
        write(b"{\"auditID\":\"a\\u003c\",\"stage\":\"RequestReceived\"}\n{\"auditID\":\"b\",\"x\":\"\xff\"}\n{\"aud");
        assert_eq!(log.progress("a<").await, (1, false));
        assert_eq!(log.take("b").await, [r#"{"auditID":"b","x":"<byte ff>"}"#]);
        write(b"itID\":\"a<\",\"stage\":\"ResponseComplete\"}\n");
        assert_eq!(log.progress("a<").await, (2, true));
        assert_eq!(log.take("a<").await.len(), 2);
        assert_eq!(log.progress("a<").await, (0, false));
    }
}
