//! Bearer tokens of WebSockets, which browsers cannot send in the header `Authorization` (upstream:
//! `authentication/request/websocket`). One of the subprotocols that the client offers contains the token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::token::reject_unknown;
use crate::{
    AuthFuture, Authentication, AuthenticationError, AuthenticationRequest, Authenticator, TokenAuthenticator,
};

/// The prefix of the subprotocol before the token, which is in base64url.
const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// True if the client asks for a WebSocket (upstream: `wsstream.IsWebSocketRequest`).
#[must_use]
pub fn is_websocket_request(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    upgrade.eq_ignore_ascii_case("websocket")
        && headers
            .get_all(CONNECTION)
            .iter()
            .any(|value| value.to_str().is_ok_and(|connection| connection.to_ascii_lowercase().contains("upgrade")))
}

/// Authenticates WebSockets by the bearer token in a subprotocol. A token that nobody handles is an error.
pub struct WebSocketProtocolAuthenticator<A>(pub A);

/// The subprotocols of a request: the token in one of them, and the others.
fn read_protocols(headers: &HeaderMap) -> Result<Option<(String, Str)>, &'static str> {
    let mut token = None;
    let mut others = Vec::new();
    for header in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in String::from_utf8_lossy(header.as_bytes()).split(',') {
            let protocol = protocol.trim();
            let Some(encoded) = protocol.strip_prefix(PROTOCOL_PREFIX) else {
                others.push(protocol.to_owned());
                continue;
            };
            if token.is_some() {
                return Err("multiple base64.bearer.authorization tokens specified");
            }
            let decoded = URL_SAFE_NO_PAD.decode(encoded);
            let decoded = decoded.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
            token = Some(String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?);
        }
    }
    match token {
        Some(token) if !token.is_empty() && others.is_empty() => Err("missing additional subprotocol"),
        token => Ok(token.filter(|token| !token.is_empty()).map(|token| (token, others.join(",").into()))),
    }
}

impl<A: TokenAuthenticator> Authenticator for WebSocketProtocolAuthenticator<A> {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        if !request.headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || !is_websocket_request(request.headers) {
            return AuthFuture::ready(Ok(None));
        }
        match read_protocols(request.headers) {
            Ok(None) => AuthFuture::ready(Ok(None)),
            Ok(Some((token, others))) => AuthFuture::boxed(async move {
                let known = reject_unknown(self.0.authenticate_token(&token, request.audiences).await)?;
                Ok(known.map(|found| Authentication { websocket_protocols: Some(others), ..found }))
            }),
            Err(error) => AuthFuture::ready(Err(AuthenticationError(error.to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::UserInfo;

    /// Knows the token "secret".
    struct Known;

    impl TokenAuthenticator for Known {
        fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
            let alice = UserInfo { name: "alice".into(), ..UserInfo::default() };
            AuthFuture::ready(Ok((token == "secret").then(|| alice.into())))
        }
    }

    fn check(headers: &[(HeaderName, &str)], expect: Result<Option<&str>, &str>) {
        let value = |value: &str| HeaderValue::from_str(value).expect("a value");
        let mut map = HeaderMap::new();
        map.extend(headers.iter().map(|(name, text)| (name.clone(), value(text))));
        let request = AuthenticationRequest { certificates: &[], headers: &map, path: "", audiences: &[] };
        let authenticator = WebSocketProtocolAuthenticator(Known);
        let mut authenticated = pin!(authenticator.authenticate(&request));
        let Poll::Ready(found) = authenticated.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("not ready");
        };
        let found = found.map(|found| found.and_then(|found| found.websocket_protocols));
        let expect = expect.map(|others| others.map(Str::from)).map_err(|error| AuthenticationError(error.to_owned()));
        assert_eq!(found, expect, "{headers:?}");
    }

    #[test]
    fn one_subprotocol_contains_the_token_and_the_others_remain() {
        let token = |text: &str| format!("{PROTOCOL_PREFIX}{}", URL_SAFE_NO_PAD.encode(text));
        let with = |protocols: &[&str], expect| {
            let mut headers = vec![(UPGRADE, "WebSocket"), (CONNECTION, "keep-alive"), (CONNECTION, "Upgrade")];
            headers.extend(protocols.iter().map(|text| (SEC_WEBSOCKET_PROTOCOL, *text)));
            check(&headers, expect);
        };
        let (secret, other, empty) = (token("secret"), token("other"), token(""));
        with(&[], Ok(None));
        with(&["a, b"], Ok(None));
        with(&[&format!("{secret},a")], Ok(Some("a")));
        with(&["a , b", &secret, "c"], Ok(Some("a,b,c")));
        with(&[&secret], Err("missing additional subprotocol"));
        with(&[&other, "a"], Err("invalid bearer token"));
        with(&[&empty, "a"], Ok(None));
        with(&[&format!("{secret},{secret},a")], Err("multiple base64.bearer.authorization tokens specified"));
        with(&[&format!("{secret}=,a")], Err("invalid base64.bearer.authorization token encoding"));
        let bytes = format!("{PROTOCOL_PREFIX}{}", URL_SAFE_NO_PAD.encode(b"\xff"));
        with(&[&bytes, "a"], Err("invalid base64.bearer.authorization token"));
        let protocols = format!("{secret},a");
        check(&[(SEC_WEBSOCKET_PROTOCOL, &protocols), (UPGRADE, "websocket")], Ok(None));
        check(&[(SEC_WEBSOCKET_PROTOCOL, &protocols), (CONNECTION, "upgrade"), (UPGRADE, "SPDY/3.1")], Ok(None));
    }
}
