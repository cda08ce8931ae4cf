//! The headers of requests and responses that are passed on (Go: `httputil.ReverseProxy`; upstream:
//! `util/proxy.UpgradeAwareHandler`).

use std::net::SocketAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What the filters before the handler take out of a request: credentials, and who somebody else is.
const CONSUMED_PREFIXES: [&str; 2] = ["x-remote-", "impersonate-"];

/// The headers of the client's request without those that are for this server, with the address of the client added.
pub(super) fn forwarded(received: &HeaderMap, uri: &Uri, source: Option<SocketAddr>) -> HeaderMap {
    let mut headers = received.clone();
    headers.remove(AUTHORIZATION);
    let consumed = |name: &&HeaderName| CONSUMED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    for name in received.keys().filter(consumed) {
        headers.remove(name);
    }
    if let Some(source) = source {
        let mut hops: Vec<&[u8]> = received.get_all(&FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
        let own = source.ip().to_canonical().to_string();
        hops.push(own.as_bytes());
        if let Ok(value) = HeaderValue::from_bytes(&hops.join(&b", "[..])) {
            headers.insert(FORWARDED_FOR, value);
        }
    }
    // Clients of HTTP/2 name the host in the URI.
    if let Some(authority) = uri.authority()
        && !headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(HOST, host);
    }
    headers
}

/// Removes the headers that concern one connection only (Go: `removeHopByHopHeaders`).
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        PROXY_CONNECTION,
        KEEP_ALIVE,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// Removes the headers that say how long a body is, because there is none.
pub(super) fn remove_body_headers(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
}

/// Removes the answers of a backend to CORS: those of this server count (upstream: `removeCORSHeaders`).
pub(super) fn remove_cors(headers: &mut HeaderMap) {
    for name in [
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        ACCESS_CONTROL_ALLOW_HEADERS,
        ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN,
    ] {
        headers.remove(name);
    }
}

/// Puts the value that every response of this server has before those of the backend, as upstream does.
pub(super) fn add_own_cache_control(headers: &mut HeaderMap) {
    let backends: Vec<HeaderValue> = headers.get_all(CACHE_CONTROL).iter().cloned().collect();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for value in backends {
        headers.append(CACHE_CONTROL, value);
    }
}

/// True if the client asks for another protocol (upstream: `httpstream.IsUpgradeRequest`).
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let asks = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("upgrade"));
    headers.get_all(CONNECTION).iter().any(asks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        lines.iter().map(header).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn credentials_stay_here_and_the_client_is_added() {
        let received = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("x-remote-group", "admins"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("accept", "*/*"),
        ]);
        let source = "[::ffff:127.0.0.1]:80".parse().ok();
        let uri = "https://example.com/x".parse().expect("a URI");
        assert_eq!(
            shown(&forwarded(&received, &uri, source)),
            ["accept: */*", "host: example.com", "x-forwarded-for: 10.0.0.1, 10.0.0.2, 127.0.0.1"]
        );
    }

    #[test]
    fn headers_of_one_connection_are_removed() {
        let mut map = headers(&[
            ("connection", "keep-alive, X-Own"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ]);
        remove_hop_by_hop(&mut map);
        assert_eq!(shown(&map), ["accept: */*"]);
    }

    #[test]
    fn the_cache_control_of_this_server_comes_first() {
        let mut map = headers(&[("cache-control", "max-age=5")]);
        add_own_cache_control(&mut map);
        let values: Vec<_> = map.get_all(CACHE_CONTROL).iter().map(|value| value.to_str().expect("text")).collect();
        assert_eq!(values, ["no-cache, private", "max-age=5"]);
    }
}
