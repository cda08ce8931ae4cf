//! The audit of one request: its events at each stage (upstream: `apiserver/pkg/audit/request.go`,
//! `endpoints/filters/audit.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use pintle_audit::{
    AuditDecision, Auditor, AuthenticationMetadata, Event, Level, ObjectReference, ResponseStatus, Stage, StatusCause,
    StatusDetails, without_managed_fields,
};
use pintle_auth::{Impersonation, ImpersonationMode, UserInfo};
use pintle_locks::Mutex;
use pintle_value::metadata::MANAGED_FIELDS;
use pintle_value::time::Time;
use pintle_value::url::escaped_path;
use pintle_value::{Str, Value, ip};

use super::info::RequestInfo;

/// Maximum length of a user agent in events, in bytes.
const MAX_USER_AGENT: usize = 1024;
/// The end of a user agent that is too long.
const TRUNCATED: &str = "...TRUNCATED";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// A request whose events are recorded.
pub(crate) struct RequestAudit {
    auditor: Arc<Auditor>,
    decision: AuditDecision,
    stages: AuditStages,
    /// The event of the next stage, except its stage and its time.
    event: Mutex<Arc<Event>>,
    /// True after the event of the response's head, or if the request has none.
    has_started: AtomicBool,
    /// True after the last event.
    has_ended: AtomicBool,
    /// True if the object of the response is larger than its maximum.
    has_large_object: AtomicBool,
}

/// The stages that the end of a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditStages {
    /// `ResponseComplete`.
    Complete,
    /// `ResponseStarted` and `ResponseComplete`, because the request is long-running.
    StartedAndComplete,
    /// `ResponseStarted`, because a filter before audit refuses the request.
    Started,
}

/// The parts of a client's request that its events have.
pub(crate) struct AuditedRequest<'r> {
    pub(crate) audit_id: &'r HeaderValue,
    pub(crate) uri: &'r Uri,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) info: &'r RequestInfo,
    pub(crate) source: Option<SocketAddr>,
    pub(crate) received: Time,
}

impl AuditedRequest<'_> {
    /// The event of a request from a user.
    pub(crate) fn event(&self, user: UserInfo) -> Event {
        let Self { audit_id, uri, headers, info, source, received } = self;
        let user_agent = headers.get(USER_AGENT).map(|value| bounded_user_agent(value.as_bytes())).unwrap_or_default();
        Event {
            audit_id: go_text(audit_id.as_bytes()).into(),
            request_uri: request_uri(uri),
            verb: info.verb.clone(),
            user,
            source_ips: source_ips(headers, *source),
            user_agent: user_agent.into(),
            object_ref: info.is_resource.then(|| ObjectReference {
                resource: info.resource.clone(),
                namespace: info.namespace.clone(),
                name: info.name.clone(),
                api_group: info.group.clone(),
                api_version: info.version.clone(),
                subresource: info.subresource.clone(),
                ..ObjectReference::default()
            }),
            request_received_timestamp: *received,
            ..Event::default()
        }
    }
}

impl RequestAudit {
    /// The audit of a request about which the policy has decided; `None` if it has no events. `event` makes the event of
    /// its first stage.
    pub(crate) fn begin(
        auditor: &Arc<Auditor>,
        decision: AuditDecision,
        stages: AuditStages,
        event: impl FnOnce() -> Event,
    ) -> Option<Arc<Self>> {
        (decision.level != Level::None).then(|| {
            let event = Event { level: decision.level, ..event() };
            Arc::new(Self {
                auditor: auditor.clone(),
                decision,
                stages,
                event: Mutex::new(Arc::new(event)),
                has_started: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
                has_large_object: AtomicBool::new(false),
            })
        })
    }

    /// True if the events have the object of the request.
    pub(crate) fn records_request(&self) -> bool {
        self.decision.level >= Level::Request
    }

    /// True if the events have the object of the response.
    pub(crate) fn records_response(&self) -> bool {
        self.decision.level >= Level::RequestResponse
    }

    /// Changes the event of the next stage.
    fn change<T>(&self, change: impl FnOnce(&mut Event) -> T) -> T {
        change(Arc::make_mut(&mut *self.event.lock()))
    }

    /// Sets the user that the request acts as (`LogImpersonatedUser`).
    pub(crate) fn set_impersonated(&self, impersonation: &Impersonation) {
        self.change(|event| {
            event.impersonated_user = Some(impersonation.user.clone());
            if impersonation.mode != ImpersonationMode::Legacy {
                let constraint = format!("impersonate:{}", impersonation.mode.name()).into();
                event.authentication_metadata = Some(AuthenticationMetadata { impersonation_constraint: constraint });
            }
        });
    }

    /// Sets the object of the request (`LogRequestObject`). `json` encodes it.
    pub(crate) fn set_request_object(&self, object: &Value, json: impl FnOnce(&Value) -> Vec<u8>) {
        let json = self.records_request().then(|| self.recorded(json(&without_empty_managed_fields(object)).into()));
        let mut event = self.event.lock();
        let Event { object_ref, request_object, .. } = Arc::make_mut(&mut event);
        let reference = object_ref.get_or_insert_default();
        for (field, name) in [
            (&mut reference.namespace, "namespace"),
            (&mut reference.name, "name"),
            (&mut reference.uid, "uid"),
            (&mut reference.resource_version, "resourceVersion"),
        ] {
            if field.is_empty() {
                *field = object.str_at(&["metadata", name]).into();
            }
        }
        *request_object = json;
    }

    /// Sets the patch of the request, or another object without metadata (`LogRequestPatch`).
    pub(crate) fn set_patch(&self, patch: impl FnOnce() -> Bytes) {
        if self.records_request() {
            let patch = patch();
            self.change(|event| event.request_object = Some(patch));
        }
    }

    /// Sets the status of the response from a `Status` (`LogResponseObject`).
    pub(crate) fn set_status(&self, status: &Value) {
        self.change(|event| event.response_status = Some(response_status(status)));
    }

    /// Sets a failure without a `Status`.
    pub(crate) fn set_failure_message(&self, message: String) {
        let status = ResponseStatus { message, ..ResponseStatus::default() };
        self.change(|event| event.response_status = Some(status));
    }

    /// Sets the JSON of the response's object, if the events have it.
    pub(crate) fn set_response_object(&self, json: Bytes) {
        if self.records_response() {
            let json = self.recorded(json);
            self.change(|event| event.response_object = Some(json));
        }
    }

    /// Encodes the response's object, if the events have it.
    pub(crate) fn encode_response_object(&self, json: impl FnOnce() -> Vec<u8>) {
        if self.records_response() {
            self.set_response_object(json().into());
        }
    }

    /// Maximum size of the response's object, in bytes. An event with a larger object lacks its objects in the end.
    pub(crate) fn max_object_size(&self) -> usize {
        // The size counts after managed fields are removed.
        if self.decision.omit_managed_fields { usize::MAX } else { self.auditor.max_object_size() }
    }

    /// Omits the objects from the last event, because the object of the response is too large.
    pub(crate) fn omit_objects(&self) {
        self.has_large_object.store(true, Ordering::Relaxed);
    }

    /// The JSON of an object as the events have it.
    fn recorded(&self, json: Bytes) -> Bytes {
        match self.decision.omit_managed_fields.then(|| without_managed_fields(&json)).flatten() {
            Some(json) => json.into(),
            None => json,
        }
    }

    /// Records that a request was received. Returns false if it has to be refused, because its event is not recorded.
    pub(crate) async fn received(&self, annotations: BTreeMap<Str, String>) -> bool {
        if self.decision.omit_stages.contains(Stage::RequestReceived) {
            return true;
        }
        let event = {
            let mut event = self.event.lock();
            let received = Arc::make_mut(&mut event);
            received.stage_timestamp = received.request_received_timestamp;
            received.annotations = annotations;
            event.clone()
        };
        self.auditor.process(event).await
    }

    /// Notes that the head of a response is ready, and records that if the request has the stage.
    pub(crate) async fn started(&self, code: StatusCode, annotations: impl FnOnce() -> BTreeMap<Str, String>) {
        if let Some(event) = self.take_started(|status| status.code = code.as_u16(), annotations) {
            self.auditor.process(event).await;
        }
    }

    /// Sets the status of the response. Returns the event of its head, if it has one.
    fn take_started(
        &self,
        set: impl FnOnce(&mut ResponseStatus),
        annotations: impl FnOnce() -> BTreeMap<Str, String>,
    ) -> Option<Arc<Event>> {
        let mut event = self.event.lock();
        let started = Arc::make_mut(&mut event);
        set(started.response_status.get_or_insert_default());
        let is_recorded =
            self.stages != AuditStages::Complete && !self.decision.omit_stages.contains(Stage::ResponseStarted);
        if self.has_started.swap(true, Ordering::Relaxed) || !is_recorded {
            return None;
        }
        (started.stage, started.stage_timestamp) = (Stage::ResponseStarted, now());
        started.annotations = annotations();
        Some(event.clone())
    }

    /// Records that the request is rejected although its client has left.
    pub(crate) fn rejected(&self, code: StatusCode, annotations: BTreeMap<Str, String>) {
        self.set_annotations(annotations.clone());
        if let Some(event) = self.take_started(|status| status.code = code.as_u16(), || annotations) {
            self.auditor.process_detached(event);
        }
        self.complete();
    }

    /// Records nothing more, because the request is refused and its first event is lost.
    pub(crate) fn discard(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Notes that the time of the request is over, or that its client has gone, unless it was answered before.
    pub(crate) fn set_timed_out(&self) {
        if !self.has_started.load(Ordering::Relaxed) {
            self.change(|event| event.response_status = Some(timed_out()));
        }
    }

    /// Sets the annotations of the last event.
    pub(crate) fn set_annotations(&self, annotations: BTreeMap<Str, String>) {
        self.change(|event| event.annotations = annotations);
    }

    /// The event of the end of a request, if it has one.
    fn take_last(&self, stage: Stage) -> Option<Arc<Event>> {
        let is_recorded = self.stages != AuditStages::Started && !self.decision.omit_stages.contains(stage);
        if self.has_ended.swap(true, Ordering::Relaxed) || !is_recorded {
            return None;
        }
        let mut event = self.event.lock();
        let last = Arc::make_mut(&mut event);
        (last.stage, last.stage_timestamp) = (stage, now());
        if self.has_large_object.load(Ordering::Relaxed) {
            last.truncate();
        }
        Some(event.clone())
    }

    /// Records that a response is complete. The caller need not wait until the event is sent.
    pub(crate) fn complete(&self) {
        if let Some(event) = self.take_last(Stage::ResponseComplete) {
            self.auditor.process_detached(event);
        }
    }

    /// Records that a response is complete, before the client gets its end.
    pub(crate) async fn complete_before_answer(&self) {
        if let Some(event) = self.take_last(Stage::ResponseComplete) {
            self.auditor.process(event).await;
        }
    }

    /// Records that the handler has panicked. This is the last event of the request.
    pub(crate) async fn panicked(&self, text: &str, annotations: BTreeMap<Str, String>) {
        self.change(|event| (event.response_status, event.annotations) = (Some(panic_status(text)), annotations));
        if let Some(event) = self.take_last(Stage::Panic) {
            self.auditor.process(event).await;
        }
    }

    /// Records that a response could not be completed. Upstream's handlers panic to abort it.
    pub(crate) fn aborted(&self) {
        self.change(|event| event.response_status = Some(panic_status("net/http: abort Handler")));
        if let Some(event) = self.take_last(Stage::Panic) {
            self.auditor.process_detached(event);
        }
    }
}

/// The status of a response whose handler has panicked.
fn panic_status(text: &str) -> ResponseStatus {
    ResponseStatus {
        status: "Failure".into(),
        message: format!("APIServer panic'd: {text}"),
        reason: "InternalError".into(),
        details: None,
        code: 500,
    }
}

/// An object without an empty list of managed fields. Here the list differs from none, since it resets managed fields. Go
/// encodes neither.
fn without_empty_managed_fields(object: &Value) -> Cow<'_, Value> {
    if !object.at(&MANAGED_FIELDS).and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    object.remove_at(&MANAGED_FIELDS);
    Cow::Owned(object)
}

impl Drop for RequestAudit {
    /// Records the end of a request whose client has gone before anything else could record the end.
    fn drop(&mut self) {
        if self.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if !self.has_started.load(Ordering::Relaxed) {
            let set = |status: &mut ResponseStatus| {
                if status.code == 0 {
                    *status = timed_out();
                }
            };
            if let Some(event) = self.take_started(set, BTreeMap::new) {
                self.auditor.process_detached(event);
            }
        }
        self.complete();
    }
}

/// The status of a request that is not answered in time.
fn timed_out() -> ResponseStatus {
    ResponseStatus {
        status: "Failure".into(),
        message: "Timeout: request did not complete within the allotted timeout".to_owned(),
        reason: "Timeout".into(),
        details: None,
        code: 504,
    }
}

/// The time of an event.
pub(crate) fn now() -> Time {
    std::time::SystemTime::now().into()
}

/// A text as Go's JSON encoder writes it: each byte that is not UTF-8 becomes a replacement character.
fn go_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    text
}

/// The path and the query as Go shows them (`URL.RequestURI`).
fn request_uri(uri: &Uri) -> String {
    let mut text = escaped_path(uri.path()).into_owned();
    if let Some(query) = uri.query() {
        text.push('?');
        text.push_str(query);
    }
    text
}

fn bounded_user_agent(user_agent: &[u8]) -> String {
    match user_agent.get(..MAX_USER_AGENT) {
        Some(start) if user_agent.len() > MAX_USER_AGENT => go_text(start) + TRUNCATED,
        _ => go_text(user_agent),
    }
}

/// The addresses from which a request comes (`net.SourceIPs`): the client and its proxies in order, the connection's
/// peer last.
fn source_ips(headers: &HeaderMap, peer: Option<SocketAddr>) -> Vec<Str> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default();
    let mut addresses: Vec<_> =
        text(FORWARDED_FOR).split(',').filter_map(|text| ip::parse_sloppy(text.trim())).collect();
    if let Some(real) = ip::parse_sloppy(&text(REAL_IP)).filter(|real| !addresses.contains(real)) {
        addresses.push(real);
    }
    if let Some(peer) = peer.map(|peer| peer.ip().to_canonical()).filter(|peer| addresses.last() != Some(peer)) {
        addresses.push(peer);
    }
    addresses.into_iter().map(|address| Str::from(address.to_string())).collect()
}

/// The fields of a `Status` that events have.
fn response_status(status: &Value) -> ResponseStatus {
    let code = status.int_at(&["code"]).and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
    let details = status.get("details").filter(|details| !details.is_null()).map(|details| StatusDetails {
        name: details.str_at(&["name"]).into(),
        group: details.str_at(&["group"]).into(),
        kind: details.str_at(&["kind"]).into(),
        uid: details.str_at(&["uid"]).into(),
        causes: details
            .items_at(&["causes"])
            .iter()
            .map(|cause| StatusCause {
                reason: cause.str_at(&["reason"]).into(),
                message: cause.str_at(&["message"]).to_owned(),
                field: cause.str_at(&["field"]).to_owned(),
            })
            .collect(),
        retry_after_seconds: details
            .int_at(&["retryAfterSeconds"])
            .and_then(|seconds| i32::try_from(seconds).ok())
            .unwrap_or_default(),
    });
    ResponseStatus {
        status: status.str_at(&["status"]).into(),
        message: status.str_at(&["message"]).to_owned(),
        reason: status.str_at(&["reason"]).into(),
        details,
        code,
    }
}

#[cfg(test)]
mod tests {
    use pintle_codec::json;

    use super::*;

    #[test]
    fn objects_have_no_empty_list_of_managed_fields() {
        let check = |object: &str, expect: &str| {
            let parse = |text: &str| json::decode(text.as_bytes(), json::DecodeOptions::default()).unwrap().value;
            assert_eq!(*without_empty_managed_fields(&parse(object)), parse(expect));
        };
        check(r#"{"metadata":{"name":"a","managedFields":[]}}"#, r#"{"metadata":{"name":"a"}}"#);
        for unchanged in [r#"{"metadata":{"managedFields":[{}]}}"#, r#"{"metadata":{"finalizers":[]}}"#, "{}"] {
            check(unchanged, unchanged);
        }
    }

    #[test]
    fn uris_are_shown_as_go_shows_them() {
        for (uri, expect) in [
            ("/api/v1/pods?limit=1&x=%20|", "/api/v1/pods?limit=1&x=%20|"),
            ("/a%2Fb/c'(d)*[e]", "/a%2Fb/c'(d)*[e]"),
            ("/a|b%2Fc!", "/a%7Cb/c%21"),
            ("/unknown?", "/unknown?"),
            ("http://host/x?y", "/x?y"),
        ] {
            assert_eq!(request_uri(&uri.parse().unwrap()), expect);
        }
    }

    #[test]
    fn user_agents_are_cut_in_bytes() {
        assert_eq!(bounded_user_agent(&[b'a'; 1024]), "a".repeat(1024));
        assert_eq!(bounded_user_agent(&[b'a'; 1025]), "a".repeat(1024) + TRUNCATED);
        let cut = "a".repeat(1022) + "\u{20ac}";
        assert_eq!(bounded_user_agent(cut.as_bytes()), "a".repeat(1022) + "\u{fffd}\u{fffd}" + TRUNCATED);
        assert_eq!(bounded_user_agent(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn source_addresses_are_those_of_the_client_and_its_proxies() {
        let check = |headers: &[(HeaderName, &str)], expect: &[&str]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let found = source_ips(&map, Some(([127, 0, 0, 1], 80).into()));
            assert_eq!(found, expect, "{map:?}");
        };
        check(&[], &["127.0.0.1"]);
        check(
            &[(FORWARDED_FOR, "1.2.3.4, x, ::ffff:5.6.7.8,010.0.0.1")],
            &["1.2.3.4", "5.6.7.8", "10.0.0.1", "127.0.0.1"],
        );
        check(&[(FORWARDED_FOR, "1.2.3.4"), (FORWARDED_FOR, "1.2.3.5")], &["1.2.3.4", "127.0.0.1"]);
        check(&[(FORWARDED_FOR, "1.2.3.4"), (REAL_IP, "1.2.3.4")], &["1.2.3.4", "127.0.0.1"]);
        check(&[(FORWARDED_FOR, "\u{e9}, 1.2.3.4")], &["1.2.3.4", "127.0.0.1"]);
        check(&[(REAL_IP, "FE80::0:1")], &["fe80::1", "127.0.0.1"]);
        check(&[(FORWARDED_FOR, "1.2.3.4,127.0.0.1")], &["1.2.3.4", "127.0.0.1"]);
    }
}
