//! Side results of handlers and admission plugins: warnings for the client (upstream: `endpoints/filters/warning.go`)
//! and annotations of the audit event (upstream: `audit.AddAuditAnnotation`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use pintle_admission::{AdmissionRecorder, Phase};
use pintle_auth::Authorization;
use pintle_locks::Mutex;
use pintle_value::Str;
use pintle_value::names::label_key;

use super::trace::RequestTrace;

/// Maximum total length of all warnings, in characters. Beyond it, each warning is truncated.
const MAX_TOTAL_CHARS: usize = 4096;
/// Maximum length of a truncated warning, in characters.
const TRUNCATED_CHARS: usize = 256;
/// The annotations of the authorizers' decision.
const DECISION: Str = Str::const_new("authorization.k8s.io/decision");
const REASON: Str = Str::const_new("authorization.k8s.io/reason");
/// The annotations of a request for a deprecated API.
const DEPRECATED: &str = "k8s.io/deprecated";
const REMOVED_RELEASE: &str = "k8s.io/removed-release";
/// The number of bytes from which on decoding and encoding are long work. Each of a write's steps then takes several
/// hundred microseconds.
const LARGE_BYTES: usize = 64 << 10;

/// The warnings, the audit annotations and the trace of one request, and whether it is large.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// The warnings in the order in which they were added, without duplicates.
    warnings: Mutex<Vec<String>>,
    /// Annotations of the audit event, by key.
    annotations: Mutex<BTreeMap<Str, String>>,
    /// True if the audit event has the body of the request.
    has_audited_body: AtomicBool,
    /// The steps of the request so far.
    pub(crate) trace: RequestTrace,
    is_large: AtomicBool,
}

impl AdmissionRecorder for Recorder {
    fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock();
        if !text.is_empty() && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    fn annotate_with_request(&self, key: &str, value: String) {
        if self.has_audited_body.load(Ordering::Relaxed) {
            self.annotate(key, value);
        }
    }

    fn webhook_took(&self, phase: Phase, took: Duration) {
        self.trace.webhook_took(phase == Phase::Mutating, took);
    }

    fn expect_long_work(&self) -> bool {
        !self.is_large.swap(true, Ordering::Relaxed)
    }

    /// As in upstream (`checkKeyFormat`), a key that is not a qualified name with a prefix is left out.
    fn annotate(&self, key: &str, value: String) {
        if key.matches('/').count() != 1 || !label_key(key).is_empty() {
            tracing::warn!(key, "Failed to set audit annotation: its key has an invalid format");
            return;
        }
        let mut annotations = self.annotations.lock();
        match annotations.entry(key.into()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(entry) if *entry.get() == value => {}
            Entry::Occupied(entry) => {
                tracing::warn!(
                    key = entry.key().as_str(),
                    "Failed to set audit annotation: it is already set to another value"
                );
            }
        }
    }
}

impl Recorder {
    /// From now on, annotations with parts of the request's body are kept.
    pub(crate) fn keep_annotations_with_request(&self) {
        self.has_audited_body.store(true, Ordering::Relaxed);
    }

    /// Adds the authorizers' decision about the request (upstream: `filters.WithAuthorization`).
    pub(crate) fn annotate_authorization(&self, authorization: &Authorization) {
        let (decision, reason) = match authorization {
            allowed if allowed.is_allowed() => (Some("allow"), &*allowed.reason),
            Authorization { error: Some(_), .. } => (None, "internal error"),
            denied => (Some("forbid"), &*denied.reason),
        };
        self.set_decision(decision, reason);
    }

    fn set_decision(&self, decision: Option<&str>, reason: &str) {
        let mut annotations = self.annotations.lock();
        if let Some(decision) = decision {
            annotations.insert(DECISION, decision.to_owned());
        }
        annotations.insert(REASON, reason.to_owned());
    }

    /// Adds the decision about a write of the server itself, which may do everything.
    pub(crate) fn annotate_allowed(&self) {
        self.set_decision(Some("allow"), "");
    }

    /// Notes that the requested API is deprecated and will be removed in a release, if that is known (upstream:
    /// `metrics.MonitorRequest`).
    pub(crate) fn annotate_deprecation(&self, removed_release: &str) {
        AdmissionRecorder::annotate(self, DEPRECATED, "true".to_owned());
        if !removed_release.is_empty() {
            AdmissionRecorder::annotate(self, REMOVED_RELEASE, removed_release.to_owned());
        }
    }

    /// Adds the durations of the steps of a slow request.
    pub(crate) fn annotate_latencies(&self, total: Duration) {
        for (key, took) in self.trace.latencies(total) {
            AdmissionRecorder::annotate(self, key, took);
        }
    }

    /// The annotations of the audit event so far.
    pub(crate) fn annotations(&self) -> BTreeMap<Str, String> {
        self.annotations.lock().clone()
    }

    /// Records the length of a body or an object that the request has to decode and encode. See
    /// [`set_large`](Self::set_large).
    pub(crate) async fn set_large_by_length(&self, length: usize) -> bool {
        length >= LARGE_BYTES && self.set_large().await
    }

    /// Records that the request has much to compute. If this is new, the task yields, so that from now on it can be
    /// polled in another way. Returns whether it is new, because then time has passed.
    pub(crate) async fn set_large(&self) -> bool {
        let is_new = self.expect_long_work();
        if is_new {
            tokio::task::yield_now().await;
        }
        is_new
    }

    /// True if the request has much to compute.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }

    /// Adds a warning to the response. Empty and repeated warnings are dropped.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        AdmissionRecorder::warn(self, text.into());
    }

    /// The values of the `Warning` headers. If they are too long in total, each warning is truncated and the last
    /// warnings are omitted. Warnings with control characters are omitted.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let warnings = self.warnings.lock();
        let printable: Vec<&str> =
            warnings.iter().map(String::as_str).filter(|text| !text.contains(char::is_control)).collect();
        let truncate = printable.iter().map(|text| text.chars().count()).sum::<usize>() > MAX_TOTAL_CHARS;
        let mut written = 0;
        let mut headers = Vec::with_capacity(printable.len());
        for text in printable {
            if truncate && written >= MAX_TOTAL_CHARS {
                break;
            }
            let text: String = text.chars().take(if truncate { TRUNCATED_CHARS } else { usize::MAX }).collect();
            written += text.chars().count();
            headers.extend(HeaderValue::from_bytes(format!("299 - {}", quote(&text)).as_bytes()));
        }
        headers
    }
}

/// Quotes a text as a quoted-string of a header.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds warnings, and compares the lengths of the headers' texts.
    fn check(texts: &[&str], lengths: &[usize]) {
        let recorder = Recorder::default();
        texts.iter().for_each(|text| recorder.warn(*text));
        let headers = recorder.headers();
        let text = |header: &HeaderValue| {
            let text = String::from_utf8(header.as_bytes().to_vec()).unwrap();
            text.strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap().chars().count()
        };
        assert_eq!(headers.iter().map(text).collect::<Vec<_>>(), lengths);
    }

    #[test]
    fn warnings_are_truncated_when_their_total_is_too_long() {
        check(&[], &[]);
        check(&["", "a", "b", "a"], &[1, 1]);
        check(&["a\u{7}", "b\nc", "d"], &[1]);
        check(&[&"x".repeat(4096)], &[4096]);
        check(&[&"x".repeat(4097)], &[256]);
        check(&[&"é".repeat(4000), "tail"], &[4000, 4]);
        check(&[&"é".repeat(4000), &"y".repeat(97), "tail"], &[256, 97, 4]);
        let many: Vec<String> = (0..40).map(|i| format!("{i:03}{}", "z".repeat(300))).collect();
        check(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[256; 16]);
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        let recorder = Recorder::default();
        recorder.warn(r#"a "b" \c ü"#);
        assert_eq!(recorder.headers(), [HeaderValue::from_bytes(r#"299 - "a \"b\" \\c ü""#.as_bytes()).unwrap()]);
    }
}
