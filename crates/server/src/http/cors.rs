//! Cross-origin resource sharing (upstream: `server/filters/cors.go`). The response headers are the same for all paths.
//! Without allowed origins, no header is sent.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
};
use http::{HeaderMap, HeaderValue};
use pintle_cel::Pattern;

const ALLOWED_METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const ALLOWED_HEADERS: &str =
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since";
const EXPOSED_HEADERS: &str = "Date";

/// The origins that may make cross-origin requests.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<Pattern>);

impl Cors {
    /// Compiles regular expressions in Go's syntax. A pattern may match anywhere in an origin, so each pattern has to
    /// match the start and the end of the host explicitly.
    ///
    /// # Errors
    /// Returns a message about the first invalid pattern.
    pub fn of(origins: &[String]) -> Result<Self, String> {
        origins.iter().map(|origin| compile(origin)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the origin of a request if it is allowed.
    pub(crate) fn allowed_origin<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        let origin = headers.get(ORIGIN).filter(|_| !self.0.is_empty())?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.0
            .iter()
            .any(|allowed_origin| allowed_origin.searching(text).is_ok_and(|origins| origins.is_match(text)))
            .then_some(origin)
    }
}

/// Sets the CORS headers for an allowed origin.
pub(crate) fn set_response_headers(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

fn compile(origin: &str) -> Result<Pattern, String> {
    if origin.is_empty() {
        return Err("empty value in --cors-allowed-origins".to_owned());
    }
    let invalid = |why| format!("--cors-allowed-origins has an invalid regular expression: {why}");
    let compiled = pintle_cel::compile_pattern(origin).map_err(invalid)?;
    if !["^", "//"].iter().any(|start| origin.contains(start)) || !["$", ":"].iter().any(|end| origin.contains(end)) {
        return Err(invalid("regular expression does not pin to start/end of host in the origin header".to_owned()));
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(origins: &[&str], origin: &str, expect: bool) {
        let cors = Cors::of(&origins.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>()).unwrap();
        let headers = HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap())]);
        assert_eq!(cors.allowed_origin(&headers).is_some(), expect, "{origins:?} {origin}");
    }

    #[test]
    fn origins_match_the_allowed_patterns() {
        let example = [r"//example\.com(:|$)", "^http://localhost:"];
        check(&example, "https://example.com", true);
        check(&example, "https://example.com:8443", true);
        check(&example, "https://example.com.evil.org", false);
        check(&example, "http://localhost:3000", true);
        check(&example, "https://localhost:3000", false);
        check(&example, "", false);
        check(&[], "https://example.com", false);
    }

    #[test]
    fn patterns_that_do_not_pin_the_host_are_rejected() {
        let error = |origin: &str| Cors::of(&[origin.to_owned()]).unwrap_err();
        assert_eq!(error(""), "empty value in --cors-allowed-origins");
        let invalid = "--cors-allowed-origins has an invalid regular expression: ";
        let unpinned = "regular expression does not pin to start/end of host in the origin header";
        for origin in ["example.com", "//example.com", "example.com$"] {
            assert_eq!(error(origin), format!("{invalid}{unpinned}"));
        }
        assert_eq!(error("^(a$"), format!("{invalid}error parsing regexp: missing closing ): `^(a$`"));
    }
}
