//! The API server behind both servers. The header `X-Received` of each answer contains the received request.

use std::fmt::Write as _;

use pintle_integration::{HttpsServer, ReceivedRequest, SentBody, SentResponse};

use super::documents;

/// The maximum number of bytes of a body in `X-Received`.
const MAX_SHOWN: usize = 2_000;

/// A text in gzip: `zipped`.
const ZIPPED: &[u8] =
    &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 0xab, 0xca, 0x2c, 0x28, 0x48, 0x4d, 1, 0, 0x57, 0x68, 0xc2, 0xe2, 6, 0, 0, 0];

/// Starts an API server over HTTP/1.1, whose certificate is for these names.
pub(super) async fn start(names: &[&str]) -> HttpsServer {
    HttpsServer::start_with_names(names, answer).await
}

/// Starts an API server over HTTP/2.
pub(super) async fn start_over_http2(names: &[&str]) -> HttpsServer {
    HttpsServer::start_with_http2(names, answer).await
}

async fn answer(request: ReceivedRequest) -> SentResponse {
    let path = request.path.split('?').next().unwrap_or_default().to_owned();
    if let Some(group) = path.strip_prefix("/apis/").and_then(|path| path.strip_suffix(".example.com/v1")) {
        return of_version(group, &request).await;
    }
    if let Some(document) = documents::find(&path, is_http2(&request)) {
        return document;
    }
    // The parts of a path below a version choose the answer.
    let mut parts = path.trim_start_matches('/').split('/').skip(3);
    let (what, parameter) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if is_http2(&request) {
        let code = if what == "status" { parameter.parse().unwrap_or(200) } else { 200 };
        let body = if matches!(code, 204 | 304) { "" } else { "{}" };
        return SentResponse::json(code, body).header(&received(&request));
    }
    below_version(&request, what, parameter).await
}

fn is_http2(request: &ReceivedRequest) -> bool {
    request.protocol() == "HTTP/2.0"
}

/// The answer to a request for a version, with which both servers find out whether it is available.
async fn of_version(group: &str, request: &ReceivedRequest) -> SentResponse {
    match group {
        "status401" | "status403" | "status404" | "status500" | "status503" => {
            let code = group.trim_start_matches("status").parse().unwrap_or_default();
            respond(request, code, &["Content-Type: text/plain"], &Body::Whole(b"no"))
        }
        "redirect" => respond(request, 302, &["Location: https://127.0.0.1:9/"], &Body::None),
        "nocontent" => respond(request, 204, &[], &Body::None),
        "html" => respond(request, 200, &["Content-Type: text/html"], &Body::Whole(b"<html></html>")),
        "nojson" => respond(request, 200, &["Content-Type: application/json"], &Body::Whole(b"[no")),
        "closed" => verbatim(Vec::new(), false),
        "garbage" => verbatim(b"no HTTP\r\n\r\n".to_vec(), false),
        "hang" => std::future::pending().await,
        _ => documents::of_version(group),
    }
}

/// The body of an answer.
enum Body {
    None,
    Whole(&'static [u8]),
    /// In chunks, with the lines of trailers.
    Chunked(&'static str),
    /// Until the end of the connection.
    UntilEnd(&'static [u8]),
}

/// The answer to a request below a version.
async fn below_version(request: &ReceivedRequest, what: &str, parameter: &str) -> SentResponse {
    let code = parameter.parse().unwrap_or(302);
    let text = "Content-Type: text/plain";
    match what {
        "status" => {
            let headers = [text, "Retry-After: 7", "Www-Authenticate: Basic realm=\"x\""];
            let body = if matches!(code, 204 | 304) { Body::None } else { Body::Whole(b"a status") };
            respond(request, code, &headers, &body)
        }
        "redirect" => respond(request, code, &["Location: https://127.0.0.1:9/elsewhere"], &Body::Whole(b"moved")),
        "redirect-here" => respond(request, code, &["Location: /apis/echo.example.com/v1/x?a=b"], &Body::None),
        "redirect-nowhere" => respond(request, code, &[text, "X-Backend: 1"], &Body::Whole(b"moved")),
        "headers" => {
            let headers = [
                "Connection: X-Hop",
                "X-Hop: 1",
                "Keep-Alive: timeout=5",
                "Proxy-Authenticate: Basic",
                "Proxy-Connection: close",
                "Te: trailers",
                "Upgrade: echo",
                "Audit-Id: from-backend",
                "Cache-Control: max-age=3",
                "Date: Mon, 01 Jan 2024 00:00:00 GMT",
                "Server: backend",
                "Set-Cookie: a=b",
                "Set-Cookie: c=d",
                "Strict-Transport-Security: max-age=1",
                "Warning: 299 - \"w\"",
                "X-Content-Type-Options: nosniff",
                "X-Kubernetes-Pf-Flowschema-Uid: backend",
                "X-Remote-User: backend",
                "Access-Control-Allow-Origin: *",
                "Access-Control-Allow-Credentials: true",
                "Access-Control-Expose-Headers: A",
                "Vary: A",
                "Vary: B",
                "Etag: \"x\"",
                text,
            ];
            respond(request, 200, &headers, &Body::Whole(b"headers"))
        }
        "type" => match parameter {
            "none" => respond(request, 200, &[], &Body::Whole(b"plain")),
            "none-of-json" => respond(request, 200, &[], &Body::Whole(b"{}")),
            "none-of-html" => respond(request, 200, &[], &Body::Whole(b"<html></html>")),
            "none-of-nothing" => respond(request, 200, &[], &Body::Whole(b"")),
            _ => respond(request, 200, &["Content-Type: x/y; a=b"], &Body::Whole(b"x")),
        },
        "html" => {
            let page =
                br#"<html><a href="/apis/echo.example.com/v1/x">x</a><a href="https://127.0.0.1:9/y">y</a></html>"#;
            respond(request, 200, &["Content-Type: text/html"], &Body::Whole(page))
        }
        "gzip" => respond(request, 200, &[text, "Content-Encoding: gzip"], &Body::Whole(ZIPPED)),
        "chunked" => respond(request, 200, &[text], &Body::Chunked("")),
        "trailers" => respond(request, 200, &[text, "Trailer: X-T"], &Body::Chunked("X-T: 1\r\n")),
        "until-end" => respond(request, 200, &[text], &Body::UntilEnd(b"until the end")),
        "hints" => {
            let mut answer = respond(request, 200, &[text], &Body::Whole(b"after hints"));
            if let SentBody::Verbatim { bytes, .. } = &mut answer.body {
                bytes.splice(0..0, *b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n");
            }
            answer
        }
        "switch" => respond(request, 101, &["Connection: Upgrade", "Upgrade: echo"], &Body::None),
        "partial" => verbatim(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial".to_vec(), false),
        "partial-chunk" => verbatim(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\npart".to_vec(), false),
        "garbage" => verbatim(b"hello world\r\n\r\n".to_vec(), false),
        "closed" => verbatim(Vec::new(), false),
        "head-cut" => verbatim(b"HTTP/1.1 200 OK\r\nContent-".to_vec(), false),
        "hang" => std::future::pending().await,
        _ => respond(request, 200, &["Content-Type: application/json"], &Body::Whole(b"{}")),
    }
}

/// A whole response, with the received request. As usual, the answer to HEAD has no body.
fn respond(request: &ReceivedRequest, code: u16, headers: &[&str], body: &Body) -> SentResponse {
    let mut head = format!("HTTP/1.1 {code} Text\r\n");
    for line in headers {
        let _ = write!(head, "{line}\r\n");
    }
    let _ = write!(head, "{}\r\n", received(request));
    let (framing, content) = match body {
        Body::None => (String::new(), Vec::new()),
        Body::Whole(bytes) => (format!("Content-Length: {}\r\n", bytes.len()), bytes.to_vec()),
        Body::Chunked(trailers) => {
            let chunks = format!("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n{trailers}\r\n");
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunks.into_bytes())
        }
        Body::UntilEnd(bytes) => ("Connection: close\r\n".to_owned(), bytes.to_vec()),
    };
    let mut bytes = format!("{head}{framing}\r\n").into_bytes();
    if !request.head.starts_with("HEAD ") {
        bytes.extend_from_slice(&content);
    }
    // A redirect without a body has no length. 101 is the end of HTTP.
    let is_whole = !matches!(body, Body::UntilEnd(_)) && (!matches!(body, Body::None) || matches!(code, 204 | 304));
    verbatim(bytes, is_whole)
}

fn verbatim(bytes: Vec<u8>, is_whole: bool) -> SentResponse {
    SentResponse { code: 0, headers: String::new(), body: SentBody::Verbatim { bytes, is_whole } }
}

/// The header line with the received request: its first line, its headers sorted by name, and its body.
fn received(request: &ReceivedRequest) -> String {
    let mut lines = request.head.lines().filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut headers: Vec<String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| format!("{}: {}", name.to_ascii_lowercase(), value.trim()))
        .collect();
    // HTTP/2 may split a cookie into several headers, which mean the same.
    if is_http2(request) {
        let (cookies, mut others): (Vec<_>, Vec<_>) =
            headers.into_iter().partition(|line| line.starts_with("cookie: "));
        let parts: Vec<&str> = cookies.iter().map(|line| &line["cookie: ".len()..]).collect();
        if !parts.is_empty() {
            others.push(format!("cookie: {}", parts.join("; ")));
        }
        headers = others;
    }
    // Headers of the same name keep their order.
    headers.sort_by(|a, b| a.split(": ").next().cmp(&b.split(": ").next()));
    let shown = &request.body[..request.body.len().min(MAX_SHOWN)];
    let body = format!("{} ({} bytes)", String::from_utf8_lossy(shown), request.body.len());
    format!("X-Received: {}", format!("{first} | {} | {body}", headers.join(" | ")).escape_default())
}
