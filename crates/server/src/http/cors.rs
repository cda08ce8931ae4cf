//! Requests by scripts of other origins (upstream: `server/filters/cors.go`). What is said to browsers is the same for all
//! paths, and nothing is said unless origins are allowed.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
};
use http::{HeaderMap, HeaderValue};
use regex::Regex;

const METHODS: &str = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
const HEADERS: &str =
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since";
const EXPOSED: &str = "Date";

/// The origins whose scripts browsers may let in.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<Regex>);

impl Cors {
    /// Origins by regular expressions in Go's syntax. Each has to say where the host starts and where it ends, since it
    /// may match anywhere in an origin.
    ///
    /// # Errors
    /// What is wrong with the first that cannot be taken.
    pub fn of(origins: &[String]) -> Result<Self, String> {
        origins.iter().map(|origin| compile(origin)).collect::<Result<_, _>>().map(Self)
    }

    /// The origin of a request, if its scripts may be let in.
    pub(crate) fn allowed<'h>(&self, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
        let origin = headers.get(ORIGIN).filter(|_| !self.0.is_empty())?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty())?;
        self.0.iter().any(|allowed| allowed.is_match(text)).then_some(origin)
    }
}

/// Allows an origin.
pub(crate) fn allow(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

fn compile(origin: &str) -> Result<Regex, String> {
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
        assert_eq!(cors.allowed(&headers).is_some(), expect, "{origins:?} {origin}");
    }

    #[test]
    fn origins_are_allowed() {
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
    fn expressions_that_match_too_much_are_refused() {
        let refused = |origin: &str| Cors::of(&[origin.to_owned()]).unwrap_err();
        assert_eq!(refused(""), "empty value in --cors-allowed-origins");
        let invalid = "--cors-allowed-origins has an invalid regular expression: ";
        let unpinned = "regular expression does not pin to start/end of host in the origin header";
        for origin in ["example.com", "//example.com", "example.com$"] {
            assert_eq!(refused(origin), format!("{invalid}{unpinned}"));
        }
        assert_eq!(refused("^(a$"), format!("{invalid}error parsing regexp: missing closing ): `^(a$`"));
    }
}
