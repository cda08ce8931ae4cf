//! Serves complete documents as Go's file server does (`net/http`, `serveContent`). This includes conditional requests
//! by entity tag and modification time, and ranges of bytes (RFC 9110, sections 13 and 14).

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};

use super::{Body, Response, header_text, set_header, text};

/// The outcome of a condition. `None` if the request does not have the condition.
type Condition = Option<bool>;

/// Serves a document to a request. `headers` are the response's headers: the content type, and the entity tag if there
/// is one.
pub(crate) fn serve_content(
    method: &Method,
    request: &HeaderMap,
    headers: HeaderMap,
    content: &Bytes,
    modified: SystemTime,
) -> Response {
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = headers;
    let conditions = Conditions::new(method, request, response.headers(), modified);
    let outcome = conditions.check();
    let is_range_current = conditions.if_range() != Some(false);
    set_header(response.headers_mut(), LAST_MODIFIED, &httpdate::fmt_http_date(modified));
    match outcome {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED => {
            *response.status_mut() = outcome;
            let headers = response.headers_mut();
            headers.remove(CONTENT_TYPE);
            if headers.contains_key(ETAG) {
                headers.remove(LAST_MODIFIED);
            }
            return response;
        }
        failed => {
            *response.status_mut() = failed;
            return response;
        }
    }
    let asked = header(request, &RANGE).filter(|_| is_range_current).unwrap_or_default();
    match parse_ranges(asked, content.len()) {
        Ok(ranges) => send(response, content, &ranges),
        Err(why) => refuse(response, content.len(), why),
    }
}

/// Sends the whole content, one range, or several ranges as a multipart body.
fn send(mut response: Response, content: &Bytes, ranges: &[ByteRange]) -> Response {
    let size = content.len();
    let (code, body) = match ranges {
        // If the ranges have more bytes than the content, they help no client.
        _ if ranges.iter().map(|range| range.length).sum::<usize>() > size => (StatusCode::OK, content.clone()),
        [] => (StatusCode::OK, content.clone()),
        [range] => {
            set_header(response.headers_mut(), CONTENT_RANGE, &range.content_range(size));
            (StatusCode::PARTIAL_CONTENT, range.of(content))
        }
        ranges => {
            let boundary: String = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
                .chars()
                .take(60)
                .collect();
            let part_type = header(response.headers(), &CONTENT_TYPE).unwrap_or_default().to_owned();
            set_header(response.headers_mut(), CONTENT_TYPE, &format!("multipart/byteranges; boundary={boundary}"));
            (StatusCode::PARTIAL_CONTENT, multipart(content, ranges, &boundary, &part_type))
        }
    };
    *response.status_mut() = code;
    set_header(response.headers_mut(), ACCEPT_RANGES, "bytes");
    *response.body_mut() = Body::Full(body);
    response
}

fn multipart(content: &Bytes, ranges: &[ByteRange], boundary: &str, part_type: &str) -> Bytes {
    let mut body = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let line_break = if index == 0 { "" } else { "\r\n" };
        let range_header = range.content_range(content.len());
        body.extend_from_slice(
            format!("{line_break}--{boundary}\r\nContent-Range: {range_header}\r\nContent-Type: {part_type}\r\n\r\n")
                .as_bytes(),
        );
        body.extend_from_slice(&range.of(content));
    }
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body.into()
}

/// Responds to a range that cannot be served.
fn refuse(response: Response, size: usize, why: RangeError) -> Response {
    let message = match why {
        RangeError::Malformed => "invalid range\n",
        RangeError::NoOverlap => "invalid range: failed to overlap\n",
    };
    let mut headers = response.into_parts().0.headers;
    for name in [CACHE_CONTROL, CONTENT_ENCODING, ETAG, LAST_MODIFIED] {
        headers.remove(name);
    }
    if matches!(why, RangeError::NoOverlap) {
        set_header(&mut headers, CONTENT_RANGE, &format!("bytes */{size}"));
    }
    let mut refused = text(StatusCode::RANGE_NOT_SATISFIABLE, message);
    headers.extend(std::mem::take(refused.headers_mut()));
    set_header(&mut headers, HeaderName::from_static("x-content-type-options"), "nosniff");
    *refused.headers_mut() = headers;
    refused
}

/// The first value of a header, if it is not empty.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    Some(header_text(headers, name)).filter(|value| !value.is_empty())
}

/// A range of bytes within the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    start: usize,
    length: usize,
}

impl ByteRange {
    fn of(self, content: &Bytes) -> Bytes {
        content.slice(self.start..self.start + self.length)
    }

    /// The `Content-Range`. The last byte of an empty range is the byte before the first, as in Go.
    fn content_range(self, size: usize) -> String {
        let last = i64::try_from(self.start + self.length).unwrap_or(i64::MAX) - 1;
        format!("bytes {}-{last}/{size}", self.start)
    }
}

/// The reason why ranges cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeError {
    Malformed,
    NoOverlap,
}

/// Parses a `Range` header. Ranges after the end of the content are left out. If all ranges are after the end, this is
/// an error.
fn parse_ranges(header: &str, size: usize) -> Result<Vec<ByteRange>, RangeError> {
    if header.is_empty() {
        return Ok(Vec::new());
    }
    let number = |text: &str| text.parse::<i64>().ok().filter(|n| *n >= 0).ok_or(RangeError::Malformed);
    let clamp = |n: i64, limit: usize| usize::try_from(n).unwrap_or(limit).min(limit);
    let (mut ranges, mut has_no_overlap) = (Vec::new(), false);
    for range in header.strip_prefix("bytes=").ok_or(RangeError::Malformed)?.split(',') {
        let range = range.trim_matches([' ', '\t']);
        if range.is_empty() {
            continue;
        }
        let (start, end) = range.split_once('-').ok_or(RangeError::Malformed)?;
        let (start, end) = (start.trim_matches([' ', '\t']), end.trim_matches([' ', '\t']));
        if start.is_empty() {
            // The range consists of the last bytes.
            if end.starts_with('-') {
                return Err(RangeError::Malformed);
            }
            let length = clamp(number(end)?, size);
            ranges.push(ByteRange { start: size - length, length });
            continue;
        }
        let first = number(start)?;
        let start = clamp(first, size);
        if start >= size {
            has_no_overlap = true;
            continue;
        }
        let last = match end {
            "" => size - 1,
            end => clamp(number(end)?, size - 1),
        };
        if last < start || (!end.is_empty() && number(end)? < first) {
            return Err(RangeError::Malformed);
        }
        ranges.push(ByteRange { start, length: last + 1 - start });
    }
    // In empty content, no range can overlap, so this is not an error.
    if has_no_overlap && ranges.is_empty() && size > 0 { Err(RangeError::NoOverlap) } else { Ok(ranges) }
}

/// The conditions of a request.
struct Conditions<'a> {
    request: &'a HeaderMap,
    /// GET or HEAD.
    is_read: bool,
    etag: &'a str,
    /// In whole seconds.
    modified: SystemTime,
}

impl<'a> Conditions<'a> {
    fn new(method: &Method, request: &'a HeaderMap, response: &'a HeaderMap, modified: SystemTime) -> Self {
        let since_epoch = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            request,
            is_read: matches!(*method, Method::GET | Method::HEAD),
            etag: header(response, &ETAG).unwrap_or_default(),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs()),
        }
    }

    /// The status that results from the preconditions: 200, 304 or 412.
    fn check(&self) -> StatusCode {
        let matches = || self.any_tag(&IF_MATCH, is_strong_match);
        let unmodified = || self.date(&IF_UNMODIFIED_SINCE).map(|date| self.modified <= date);
        if matches().or_else(unmodified) == Some(false) {
            return StatusCode::PRECONDITION_FAILED;
        }
        match self.any_tag(&IF_NONE_MATCH, is_weak_match) {
            Some(true) if self.is_read => StatusCode::NOT_MODIFIED,
            Some(true) => StatusCode::PRECONDITION_FAILED,
            None if self.is_read && self.date(&IF_MODIFIED_SINCE).is_some_and(|date| self.modified <= date) => {
                StatusCode::NOT_MODIFIED
            }
            _ => StatusCode::OK,
        }
    }

    /// True if the request asks for a range of the current content.
    fn if_range(&self) -> Condition {
        let value = header(self.request, &IF_RANGE).filter(|_| self.is_read)?;
        Some(match scan_etag(value) {
            Some((etag, _)) => is_strong_match(etag, self.etag),
            None => httpdate::parse_http_date(value).is_ok_and(|date| date == self.modified),
        })
    }

    fn date(&self, name: &HeaderName) -> Option<SystemTime> {
        httpdate::parse_http_date(header(self.request, name)?).ok()
    }

    /// True if a tag in the header is the content's tag or `*`. The rest of the header after a malformed tag is
    /// ignored.
    fn any_tag(&self, name: &HeaderName, matches: fn(&str, &str) -> bool) -> Condition {
        let mut rest = header(self.request, name)?;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.starts_with('*') {
                return Some(true);
            }
            let Some((etag, after)) = scan_etag(rest) else { return Some(false) };
            if matches(etag, self.etag) {
                return Some(true);
            }
            rest = after;
        }
    }
}

/// Splits the first entity tag from a text.
fn scan_etag(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_matches([' ', '\t']);
    let opaque = text.strip_prefix("W/").unwrap_or(text).strip_prefix('"')?;
    let end = opaque.find(|c: char| !(c == '!' || ('#'..='~').contains(&c) || c >= '\u{80}'))?;
    let length = text.len() - opaque.len() + end + 1;
    opaque[end..].starts_with('"').then(|| text.split_at(length))
}

fn is_strong_match(a: &str, b: &str) -> bool {
    a == b && a.starts_with('"')
}

fn is_weak_match(a: &str, b: &str) -> bool {
    a.strip_prefix("W/").unwrap_or(a) == b.strip_prefix("W/").unwrap_or(b)
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, RangeError, parse_ranges, scan_etag};

    #[test]
    fn ranges_are_parsed_as_in_go() {
        let check = |header: &str, expect: Result<&[(usize, usize)], RangeError>| {
            let expect = expect
                .map(|ranges| ranges.iter().map(|&(start, length)| ByteRange { start, length }).collect::<Vec<_>>());
            assert_eq!(parse_ranges(header, 10), expect, "{header}");
        };
        check("", Ok(&[]));
        check("bytes=", Ok(&[]));
        check("bytes=0-4", Ok(&[(0, 5)]));
        check("bytes=2-", Ok(&[(2, 8)]));
        check("bytes=-5", Ok(&[(5, 5)]));
        check("bytes=-50, 3 - 7", Ok(&[(0, 10), (3, 5)]));
        check("bytes=5-200", Ok(&[(5, 5)]));
        check("bytes=0-1,20-30", Ok(&[(0, 2)]));
        check("bytes=20-", Err(RangeError::NoOverlap));
        for malformed in ["7", "bytes=x-", "bytes=4-3", "bytes=-", "bytes=--1", "bytes=--0", "lines=1-2", "bytes=5"] {
            check(malformed, Err(RangeError::Malformed));
        }
        assert_eq!(parse_ranges("bytes=0-", 0), Ok(Vec::new()));
    }

    #[test]
    fn entity_tags_end_with_a_quotation_mark() {
        assert_eq!(scan_etag("\"a\", \"b\""), Some(("\"a\"", ", \"b\"")));
        assert_eq!(scan_etag("W/\"\"x"), Some(("W/\"\"", "x")));
        for malformed in ["", "a", "\"a", "W/a", "\"a b\"", "\"\u{7f}\""] {
            assert_eq!(scan_etag(malformed), None, "{malformed}");
        }
    }
}
