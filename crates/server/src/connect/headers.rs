//! The headers of requests and responses that are passed on (Go: `httputil.ReverseProxy`; upstream:
//! `util/proxy.UpgradeAwareHandler`).

use std::net::SocketAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, COOKIE, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pintle_auth::RequestHeaders;

use crate::context::RequestContext;
use crate::http::joined_headers;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// The headers of impersonation, and the prefix of the headers with extra attributes.
const IMPERSONATION: [&str; 3] = ["impersonate-user", "impersonate-uid", "impersonate-group"];
const IMPERSONATION_EXTRA: &str = "impersonate-extra-";

/// The headers of the client's request, except the headers that the filters before the handler consume. These are
/// credentials and impersonation (upstream: `filters.WithAuthentication`, `WithImpersonation`).
pub(super) fn received(request: &RequestContext) -> HeaderMap {
    let mut headers = without_credentials(request.headers.clone(), &request.access.front_proxy_headers);
    // HTTP/2 clients name the host in the URI.
    if let Some(authority) = request.uri.authority() {
        join_cookies(&mut headers);
        if !headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            headers.insert(HOST, host);
        }
    }
    headers
}

/// Joins the parts of a cookie, which HTTP/2 clients may send in several headers (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let parts: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if parts.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&parts.join(&b"; "[..]))
    {
        headers.insert(COOKIE, cookie);
    }
}

fn without_credentials(mut headers: HeaderMap, front_proxy_headers: &RequestHeaders) -> HeaderMap {
    headers.remove(AUTHORIZATION);
    RequestHeaders::standard().clear(&mut headers);
    front_proxy_headers.clear(&mut headers);
    let impersonates =
        |name: &&HeaderName| IMPERSONATION.contains(&name.as_str()) || name.as_str().starts_with(IMPERSONATION_EXTRA);
    let impersonation: Vec<HeaderName> = headers.keys().filter(impersonates).cloned().collect();
    for name in impersonation {
        headers.remove(name);
    }
    headers
}

/// Adds the address of the client to the addresses of earlier proxies (upstream: `AppendForwardedForHeader`). The
/// client names headers of the connection, which are removed before this call. So it cannot hide its address.
pub(super) fn add_forwarded_for(headers: &mut HeaderMap, source: Option<SocketAddr>) {
    let Some(source) = source else { return };
    let own = source.ip().to_canonical().to_string();
    let mut hops: Vec<&[u8]> = headers.get_all(&FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    hops.push(own.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&hops.join(&b", "[..])) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// The headers of a plain request as the backend gets them (Go: `ReverseProxy.ServeHTTP`).
pub(super) fn forwarded(mut headers: HeaderMap, source: Option<SocketAddr>) -> HeaderMap {
    let takes_trailers =
        joined_headers(&headers, &TE).split(',').any(|word| word.trim().eq_ignore_ascii_case("trailers"));
    remove_hop_by_hop(&mut headers);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    add_forwarded_for(&mut headers, source);
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

/// Sets the length of an empty body, which only some methods have (Go: `transferWriter.shouldSendContentLength`).
pub(super) fn set_empty_length(headers: &mut HeaderMap, method: &Method) {
    match *method {
        Method::POST | Method::PUT | Method::PATCH => {
            drop(headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0")))
        }
        _ => drop(headers.remove(CONTENT_LENGTH)),
    }
}

/// Removes the headers with the length of the body, because there is no body.
pub(super) fn remove_body_headers(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRANSFER_ENCODING);
}

/// Removes a backend's answers to CORS, because only this server's answers count (upstream: `removeCORSHeaders`).
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

/// Puts the `Cache-Control` value of all this server's responses before the backend's values, as upstream does.
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
    fn credentials_stay_here() {
        let received = headers(&[
            ("authorization", "Bearer secret"),
            ("impersonate-user", "bob"),
            ("impersonate-extra-a", "b"),
            ("impersonated", "1"),
            ("x-remote-user", "bob"),
            ("x-remote-uid", "1"),
            ("x-remote-group", "admins"),
            ("x-remote-extra-scope", "all"),
            ("x-remote-addr", "10.0.0.1"),
            ("x-own-user", "bob"),
            ("x-own-extra-a", "b"),
            ("accept", "*/*"),
        ]);
        let own = RequestHeaders {
            names: vec![HeaderName::from_static("x-own-user")],
            extra_prefixes: vec!["x-own-extra-".to_owned()],
            ..RequestHeaders::default()
        };
        assert_eq!(
            shown(&without_credentials(received, &own)),
            ["accept: */*", "impersonated: 1", "x-remote-addr: 10.0.0.1"]
        );
    }

    #[test]
    fn the_parts_of_a_cookie_are_joined() {
        let mut map = headers(&[("cookie", "a=b"), ("cookie", "c=d; e=f"), ("x", "1"), ("x", "2")]);
        join_cookies(&mut map);
        assert_eq!(shown(&map), ["cookie: a=b; c=d; e=f", "x: 1", "x: 2"]);
    }

    #[test]
    fn some_methods_have_an_empty_body() {
        for (method, expect) in [(Method::POST, vec!["content-length: 0"]), (Method::OPTIONS, vec![])] {
            for mut map in [headers(&[]), headers(&[("content-length", "0")])] {
                set_empty_length(&mut map, &method);
                assert_eq!(shown(&map), expect, "{method}");
            }
        }
    }

    #[test]
    fn clients_are_added_and_cannot_hide() {
        let source = || "[::ffff:127.0.0.1]:80".parse().ok();
        let hops = ("x-forwarded-for", "10.0.0.1");
        for (received, expect) in [
            (headers(&[hops, ("x-forwarded-for", "10.0.0.2")]), "10.0.0.1, 10.0.0.2, 127.0.0.1"),
            (headers(&[("connection", "x-forwarded-for"), hops]), "127.0.0.1"),
        ] {
            assert_eq!(shown(&forwarded(received, source())), [format!("x-forwarded-for: {expect}")]);
        }
    }

    #[test]
    fn backends_may_send_trailers_if_the_client_takes_them() {
        for (te, expect) in
            [("trailers", vec!["te: trailers"]), ("gzip, Trailers", vec!["te: trailers"]), ("gzip", vec![])]
        {
            assert_eq!(shown(&forwarded(headers(&[("te", te)]), None)), expect, "{te}");
        }
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
