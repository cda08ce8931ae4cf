//! The parser of the corpus files. A case is a malformed request and the response of kube-apiserver. Cases are
//! separated by blank lines:
//!
//! ```text
//! # A comment on the case (required for a 5xx, where it must contain `upstream`).
//! POST ~/configmaps?dryRun=All          `~` is /api/v1/namespaces/default
//! type: merge                           the media type of the body: json (the default), yaml, ..., none, or in full
//! accept: text/plain                    any other header
//! | {"metadata": 1}                     the body, line by line
//! => 400 BadRequest: the message        `-` for no reason; `=> 404 text: ...` for a response that is not a `Status`
//! ```
//!
//! Everywhere, `«[ * 3»` stands for `[[[` and `«hex ff 00»` for bytes. In a message, `«*»` matches any text.

use std::fmt;

/// One request and its expected response.
#[derive(Debug, Default)]
pub(crate) struct RequestCase {
    /// The line of the file where the case starts.
    pub(crate) line: usize,
    /// The comment on the case.
    pub(crate) comment: String,
    /// The method.
    pub(crate) method: String,
    /// The path and query.
    pub(crate) path: String,
    /// The headers, the body's media type among them.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The expected response.
    pub(crate) expect: ExpectedResponse,
}

/// The expected response of a case.
#[derive(Debug, Default)]
pub(crate) struct ExpectedResponse {
    /// The HTTP status.
    pub(crate) code: u16,
    /// The reason, or `text`.
    pub(crate) reason: String,
    /// The pattern of the message, which may contain `«*»`.
    pub(crate) message: String,
}

impl ExpectedResponse {
    /// Returns true if a response is the expected one.
    pub(crate) fn matches(&self, code: u16, reason: &str, message: &str) -> bool {
        self.code == code && self.reason == reason && matches_pattern(&self.message, message)
    }
}

impl fmt::Display for ExpectedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "=> {} {}: {}", self.code, self.reason, self.message)
    }
}

/// Returns true if a text matches a pattern, in which `«*»` matches any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split("«*»");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Parses a file of the corpus.
pub(crate) fn parse_corpus(text: &str) -> Vec<RequestCase> {
    let mut cases = Vec::new();
    let mut case: Option<RequestCase> = None;
    let mut comment = String::new();
    let mut lines: Vec<&str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push_str(text);
        } else if line.is_empty() {
            assert!(case.is_none(), "line {number}: the case has no expected response");
            comment.clear();
        } else if let Some(current) = &mut case {
            if let Some(body) = line.strip_prefix('|') {
                lines.push(body.strip_prefix(' ').unwrap_or(body));
            } else if let Some(response) = line.strip_prefix("=> ") {
                current.expect = parse_expected_response(response);
                current.body = expand(&lines.join("\n"));
                lines.clear();
                cases.extend(case.take().map(with_content_type));
            } else {
                let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("line {}: not a header", number + 1));
                current.headers.push((name.to_owned(), expand(value.trim())));
            }
        } else {
            let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("line {}: not a request", number + 1));
            let path = match path.strip_prefix('~') {
                Some(rest) => format!("/api/v1/namespaces/default{rest}"),
                None => path.to_owned(),
            };
            case = Some(RequestCase {
                line: number + 1,
                comment: std::mem::take(&mut comment),
                method: method.to_owned(),
                path: String::from_utf8(expand(&path)).expect("a path is text"),
                ..RequestCase::default()
            });
        }
    }
    assert!(case.is_none(), "the last case has no expected response");
    cases
}

fn parse_expected_response(text: &str) -> ExpectedResponse {
    let (head, message) = text.split_once(':').unwrap_or((text, ""));
    let (code, reason) = head.split_once(' ').unwrap_or((head, ""));
    ExpectedResponse {
        code: code.parse().unwrap_or(0),
        reason: if reason == "-" { String::new() } else { reason.to_owned() },
        message: String::from_utf8(expand(&message.strip_prefix(' ').unwrap_or(message).replace("\\n", "\n")))
            .expect("a message is text"),
    }
}

/// Replaces the `type` header with the `content-type` of the body.
fn with_content_type(mut case: RequestCase) -> RequestCase {
    let at = case.headers.iter().position(|(name, _)| name == "type");
    let short = match at {
        Some(at) => String::from_utf8(case.headers.remove(at).1).expect("a media type is text"),
        None if case.body.is_empty() => return case,
        None => "json".to_owned(),
    };
    let full = match short.as_str() {
        "none" => return case,
        "json" => "application/json",
        "yaml" => "application/yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        "merge" => "application/merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        other => other,
    };
    case.headers.push(("content-type".to_owned(), full.into()));
    case
}

/// Expands the short forms, except `«*»`.
fn expand(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('«') {
        out.extend_from_slice(before.as_bytes());
        let (form, after) = after.split_once('»').expect("a closing »");
        if form == "*" {
            out.extend_from_slice("«*»".as_bytes());
        } else if let Some(digits) = form.strip_prefix("hex ") {
            out.extend(digits.split(' ').map(|d| u8::from_str_radix(d, 16).expect("hexadecimal digits")));
        } else {
            let (what, times) = form.rsplit_once(" * ").expect("`«what * times»`");
            out.extend(what.as_bytes().repeat(times.parse().expect("a number of repetitions")));
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}
