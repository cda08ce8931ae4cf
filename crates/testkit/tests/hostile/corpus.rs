//! The corpus as text: how a file of malformed requests is read, and what its short forms mean. A row is a request and
//! the answer that kube-apiserver gives to it; rows are separated by blank lines:
//!
//! ```text
//! # Why this row is here (a 5xx needs such a line, and it has to say `upstream`).
//! POST ~/configmaps?dryRun=All          `~` is /api/v1/namespaces/default
//! type: merge                           the media type of the body: json (the default), yaml, …, none, or in full
//! accept: text/plain                    any other header
//! | {"metadata": 1}                     the body, line by line
//! => 400 BadRequest: the message        `-` for no reason; `=> 404 text: …` for an answer that is no `Status`
//! ```
//!
//! Everywhere, `«[ * 3»` stands for `[[[`, `«hex ff 00»` for bytes, and `«*»` in a message for whatever comes there.

use std::fmt;

/// One request and its answer.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The line of the file that it begins in.
    pub(crate) line: usize,
    /// What was said about it.
    pub(crate) comment: String,
    /// The method.
    pub(crate) method: String,
    /// The path and query.
    pub(crate) path: String,
    /// The headers, the body's media type among them.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// The answer.
    pub(crate) expect: Expect,
}

/// What a row expects.
#[derive(Debug, Default)]
pub(crate) struct Expect {
    /// The HTTP status.
    pub(crate) code: u16,
    /// The reason, or `text`.
    pub(crate) reason: String,
    /// The message, `«*»` still in it.
    pub(crate) message: String,
}

impl Expect {
    /// True if an answer is the expected one.
    pub(crate) fn matches(&self, code: u16, reason: &str, message: &str) -> bool {
        self.code == code && self.reason == reason && fits(&self.message, message)
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "=> {} {}: {}", self.code, self.reason, self.message)
    }
}

/// True if a text is a pattern's, whose `«*»` match anything.
fn fits(pattern: &str, text: &str) -> bool {
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

/// Reads a file of the corpus.
pub(crate) fn parse(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row: Option<Row> = None;
    let mut comment = String::new();
    let mut lines: Vec<&str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(said) = line.strip_prefix('#') {
            comment.push_str(said);
        } else if line.is_empty() {
            assert!(row.is_none(), "line {number}: the row has no answer");
            comment.clear();
        } else if let Some(current) = &mut row {
            if let Some(body) = line.strip_prefix('|') {
                lines.push(body.strip_prefix(' ').unwrap_or(body));
            } else if let Some(answer) = line.strip_prefix("=> ") {
                current.expect = answer_of(answer);
                current.body = expand(&lines.join("\n"));
                lines.clear();
                rows.extend(row.take().map(with_type));
            } else {
                let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("line {}: no header", number + 1));
                current.headers.push((name.to_owned(), expand(value.trim())));
            }
        } else {
            let (method, path) = line.split_once(' ').unwrap_or_else(|| panic!("line {}: no request", number + 1));
            let path = match path.strip_prefix('~') {
                Some(rest) => format!("/api/v1/namespaces/default{rest}"),
                None => path.to_owned(),
            };
            row = Some(Row {
                line: number + 1,
                comment: std::mem::take(&mut comment),
                method: method.to_owned(),
                path: String::from_utf8(expand(&path)).expect("a path is text"),
                ..Row::default()
            });
        }
    }
    assert!(row.is_none(), "the last row has no answer");
    rows
}

fn answer_of(text: &str) -> Expect {
    let (head, message) = text.split_once(':').unwrap_or((text, ""));
    let (code, reason) = head.split_once(' ').unwrap_or((head, ""));
    Expect {
        code: code.parse().unwrap_or(0),
        reason: if reason == "-" { String::new() } else { reason.to_owned() },
        message: String::from_utf8(expand(&message.strip_prefix(' ').unwrap_or(message).replace("\\n", "\n")))
            .expect("a message is text"),
    }
}

/// Gives a row the media type of its body.
fn with_type(mut row: Row) -> Row {
    let at = row.headers.iter().position(|(name, _)| name == "type");
    let short = match at {
        Some(at) => String::from_utf8(row.headers.remove(at).1).expect("a media type is text"),
        None if row.body.is_empty() => return row,
        None => "json".to_owned(),
    };
    let full = match short.as_str() {
        "none" => return row,
        "json" => "application/json",
        "yaml" => "application/yaml",
        "protobuf" => "application/vnd.kubernetes.protobuf",
        "merge" => "application/merge-patch+json",
        "json-patch" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        other => other,
    };
    row.headers.push(("content-type".to_owned(), full.into()));
    row
}

/// Replaces the short forms, except `«*»`.
fn expand(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('«') {
        out.extend_from_slice(before.as_bytes());
        let (form, after) = after.split_once('»').expect("a short form ends");
        if form == "*" {
            out.extend_from_slice("«*»".as_bytes());
        } else if let Some(digits) = form.strip_prefix("hex ") {
            out.extend(digits.split(' ').map(|d| u8::from_str_radix(d, 16).expect("hexadecimal digits")));
        } else {
            let (what, times) = form.rsplit_once(" * ").expect("`«what * times»`");
            out.extend(what.as_bytes().repeat(times.parse().expect("how often")));
        }
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out
}
