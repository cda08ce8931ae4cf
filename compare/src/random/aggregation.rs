//! Sequences of requests for other API servers.

use fastrand::Rng;

use super::{one_in, pick, with};
use crate::sequence::{RANDOM_AGGREGATION, Request, Sequence};

/// The number of requests in a sequence.
const STEPS: usize = 16;

const METHODS: &[&str] = &["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
/// The prefixes of paths: groups that are available, not available, and unknown.
const VERSIONS: &[&str] = &[
    "/apis/echo.example.com/v1",
    "/apis/echo.example.com/v1",
    "/apis/echo.example.com/v1",
    "/apis/external.example.com/v1",
    "/apis/skipped.example.com/v1",
    "/apis/modern.example.com/v1",
    "/apis/modern.example.com/v1",
    "/apis/many.example.com/v1beta1",
    "/apis/many.example.com/v3",
    "/apis/wrongca.example.com/v1",
    "/apis/noservice.example.com/v1",
    "/apis/unknown.example.com/v1",
];
/// The paths after the prefix. The API server's answer depends on it.
const PATHS: &[&str] = &[
    "/things",
    "/things/a",
    "/namespaces/{ns}/things/a/status",
    "/namespaces/{ns}/things/a%20b",
    "/things/%C3%A4",
    "/things/a%25b",
    "/things/a%3Fb",
    "/things/a%23b",
    "/things/a+b",
    "/things/a;b=c",
    "/things/a:b@c,d",
    "/things//a",
    "/things/",
    "/things/a%2Fb",
    "/things/./a",
    "/things/../a",
    "/status/200",
    "/status/204",
    "/status/304",
    "/status/400",
    "/status/404",
    "/status/409",
    "/status/429",
    "/status/500",
    "/status/503",
    "/redirect/301",
    "/redirect/307",
    "/redirect-here/302",
    "/redirect-nowhere/302",
    "/type/x",
    "/chunked",
    "/trailers",
    "/gzip",
    "/until-end",
    "/closed",
    "/partial",
    "/garbage",
    "/headers",
    "/hints",
    "/html/x",
    "/switch",
    "/type/none",
];
const PARAMETERS: &[&str] = &[
    "b=2",
    "a=1",
    "a=%20x",
    "a=x+y",
    "a",
    "=x",
    "a=%zz",
    "a;b=c",
    "a=%C3%A4",
    "labelSelector=a%3Db,c%21%3Dd",
    "fieldManager=me",
    "dryRun=All",
    "limit=1",
    "pretty=true",
    "a=%2B%26",
    "a=1&a=0",
    "a[]=x",
    "a=(~'*!)",
];
const HEADERS: &[(&str, &str)] = &[
    ("x-remote-user", "mallory"),
    ("x-remote-group", "system:nodes"),
    ("x-remote-uid", "0"),
    ("x-remote-extra-scopes", "all"),
    ("x-remote-extra-c%2fd", "e"),
    ("x-remote-foo", "kept"),
    ("x-forwarded-for", "10.0.0.1"),
    ("x-forwarded-for", "10.0.0.2, 10.0.0.3"),
    ("x-forwarded-host", "evil"),
    ("x-forwarded-proto", "http"),
    ("x-forwarded-uri", "/evil"),
    ("x-forwarded-port", "1"),
    ("x-real-ip", "10.0.0.1"),
    ("forwarded", "for=10.0.0.1"),
    ("via", "1.1 x"),
    ("cookie", "a=b"),
    ("cookie", "c=d; e=f"),
    ("user-agent", "me/1.0"),
    ("user-agent", ""),
    ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"),
    ("accept", "application/vnd.kubernetes.protobuf"),
    ("accept", "text/html"),
    ("accept-encoding", "gzip"),
    ("accept-encoding", "br, gzip;q=0.5"),
    ("accept-encoding", ""),
    ("expect", "100-continue"),
    ("accept-language", "de"),
    ("if-none-match", "\"x\""),
    ("if-match", "*"),
    ("range", "bytes=0-1"),
    ("referer", "https://x/"),
    ("proxy-authorization", "Basic eA=="),
    ("te", "trailers"),
    ("x-custom", "a, b"),
    ("x-custom", "c"),
    ("x-empty", ""),
    ("audit-id", "0d2c9fa2-0000-4000-8000-000000000001"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("impersonate-user", "jane"),
    ("impersonate-user", "system:serviceaccount:a:b"),
    ("sec-websocket-protocol", "v4.channel.k8s.io"),
    ("origin", "https://x"),
];
/// The headers of one connection, which are not allowed over HTTP/2.
const CONNECTION: &[(&str, &str)] = &[
    ("connection", "x-custom"),
    ("connection", "keep-alive, x-remote-user, x-remote-group"),
    ("connection", "x-forwarded-for, audit-id, host"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("connection", "Upgrade"),
    ("upgrade", "echo"),
];
const MEDIA_TYPES: &[&str] =
    &["application/json", "application/merge-patch+json", "application/apply-patch+yaml", "text/plain", "x"];

/// Makes the sequence of a seed.
#[must_use]
pub(crate) fn random_aggregation_sequence(seed: u64) -> Sequence {
    let mut rng = Rng::with_seed(seed);
    let requests: Vec<Request> = (0..STEPS).map(|_| request(&mut rng)).collect();
    Sequence::new(format!("{RANDOM_AGGREGATION}/{seed}"), requests)
}

fn request(rng: &mut Rng) -> Request {
    let path = format!("{}{}", pick(rng, VERSIONS), pick(rng, PATHS));
    let mut request = Request::new(pick(rng, METHODS), path);
    request.over_http2 = one_in(rng, 3);
    while one_in(rng, 3) {
        request = with(request, pick(rng, PARAMETERS));
    }
    while !one_in(rng, 3) {
        let (name, value) = HEADERS[rng.usize(..HEADERS.len())];
        // Several values of these headers have no meaning.
        let is_single = name.starts_with("impersonate-")
            || matches!(name, "audit-id" | "user-agent" | "traceparent" | "te" | "expect");
        if !is_single || request.headers.iter().all(|(other, _)| other != name) {
            request = request.header(name, value);
        }
    }
    if !request.over_http2 && one_in(rng, 4) {
        let (name, value) = CONNECTION[rng.usize(..CONNECTION.len())];
        request = request.header(name, value);
    }
    if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") || one_in(rng, 8) {
        let size = *[0, 1, 20, 3_000, 70_000].get(rng.usize(..5)).unwrap_or(&0);
        request = request.body(pick(rng, MEDIA_TYPES), "x".repeat(size));
        if !request.over_http2 && one_in(rng, 4) {
            request = request.header("transfer-encoding", "chunked");
        }
    }
    request
}
