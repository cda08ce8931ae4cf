//! The head of a request: method, path, query and headers, as the text of HTTP/1.1.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use pintle_auth::{AlwaysAllow, AuthenticationRequest, AuthorizationAttributes, Impersonator, UserInfo};
use pintle_server::fuzzing::parse_request_head;

/// Parses the text of a head. For real requests the connection (hyper) does this, so this parser need not be exact.
fn head(input: &[u8]) -> Option<Parts> {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut line = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(line.next()?).ok()?;
    let uri = Uri::try_from(line.next()?).ok()?;
    let mut parts = Request::builder().method(method).uri(uri).body(()).ok()?.into_parts().0;
    parts.headers = headers(lines)?;
    Some(parts)
}

/// Parses lines, each with a header. Returns `None` if a line is not a header.
pub(super) fn headers<'l>(lines: impl Iterator<Item = &'l [u8]>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some(headers)
}

pub(super) fn request_head(input: &[u8]) {
    let Some(parts) = head(input) else { return };
    parse_request_head(&parts);
    let authentication = AuthenticationRequest { certificates: &[], headers: &parts.headers, path: "", audiences: &[] };
    let _ = authentication.bearer_token();
    let sender = UserInfo { name: "fuzz".into(), ..UserInfo::default() };
    let (impersonator, request) = (Impersonator::new(true), AuthorizationAttributes::default());
    let impersonated = pin!(impersonator.impersonate(&parts.headers, &sender, &request, &AlwaysAllow, &()));
    let Poll::Ready(impersonated) = impersonated.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the authorizer never waits")
    };
    // No header that requests impersonation may be skipped.
    let asks = parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-user"));
    assert!(!asks || !matches!(impersonated, Ok(None)) || is_empty_user(&parts), "an impersonation is not skipped");
}

/// An empty user counts as no user, as upstream.
fn is_empty_user(parts: &Parts) -> bool {
    parts.headers.get("impersonate-user").is_none_or(HeaderValue::is_empty)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "GET /api/v1/namespaces/default/pods/a%2Fb/log?timeout=1h2m&pretty=1\naccept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.9\nuser-agent: kubectl/v1",
        "GET /apis/apps/v1/deployments?labelSelector=a+in+%28b%2Cc%29%2C%21d&fieldSelector=metadata.name%3Dx&limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan\naccept: application/vnd.kubernetes.protobuf, */*;q=0.1",
        "GET /api/v1/pods?limit=2&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzQsInN0YXJ0IjoiL2R1cFx1MDAwMCJ9",
        "GET /api/v1/watch/namespaces/d/pods/x?watch=true&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=-9223372036854775808\naccept: application/cbor-seq",
        "DELETE /api/v1/nodes?propagationPolicy=Orphan&gracePeriodSeconds=0&dryRun=All&orphanDependents=false&uid=a\ncontent-type: application/json; charset=utf-8",
        "PATCH /apis/e.com/v1/namespaces/n/ws/a/status?fieldManager=m&force=true&fieldValidation=Strict\ncontent-type: application/apply-patch+yaml\naccept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
        "POST /apis//v1/..;/%zz?dryRun=&x;y=%f&=&&a\nauthorization: Bearer abc\nimpersonate-user: system:serviceaccount:a:b\nimpersonate-group: g\nimpersonate-uid: 1\nimpersonate-extra-a%2fb%25: c",
        "OPTIONS *\norigin: https://a.example",
        "PUT http://host/api/v1?watch=0\nimpersonate-user: j\u{fc}rgen",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
