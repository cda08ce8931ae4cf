//! Users that a front proxy has authenticated and names in headers (upstream: `authentication/request/headerrequest`).

use http::{HeaderMap, HeaderName};
use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::certificate::{VerifyCertificate, common_name, now};
use crate::extra_key::unescape_extra_key;
use crate::{AuthFuture, AuthenticationError, AuthenticationRequest, Authenticator, UserInfo};

/// The headers in which a front proxy names the user (`--requestheader-username-headers` and others).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The headers with the user name; the first with a value counts.
    pub names: Vec<HeaderName>,
    /// The headers with the uid; the first with a value counts.
    pub uids: Vec<HeaderName>,
    /// The headers with the groups; all values count.
    pub groups: Vec<HeaderName>,
    /// The prefixes, in lower case, of headers with extra attributes. The rest of the header's name is the name of the
    /// attribute.
    pub extra_prefixes: Vec<String>,
}

/// The configured names of headers, and the common names of front proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// The headers with the user name (`--requestheader-username-headers`).
    pub username: Vec<String>,
    /// The headers with the uid (`--requestheader-uid-headers`).
    pub uid: Vec<String>,
    /// The headers with the groups (`--requestheader-group-headers`).
    pub group: Vec<String>,
    /// The prefixes of headers with extra attributes (`--requestheader-extra-headers-prefix`).
    pub extra_prefixes: Vec<String>,
    /// The common names of the certificates of proxies; empty for all (`--requestheader-allowed-names`).
    pub allowed_names: Vec<String>,
}

impl RequestHeaderNames {
    /// Parses the names of the headers.
    ///
    /// # Errors
    /// A name is not a valid name of a header.
    pub fn headers(&self) -> Result<RequestHeaders, String> {
        header_names("requestheader-extra-headers-prefix", &self.extra_prefixes)?;
        if self.allowed_names.iter().any(|name| name.trim().is_empty()) {
            return Err("empty value in \"requestheader-allowed-names\"".to_owned());
        }
        Ok(RequestHeaders {
            names: header_names("requestheader-username-headers", &self.username)?,
            uids: header_names("requestheader-uid-headers", &self.uid)?,
            groups: header_names("requestheader-group-headers", &self.group)?,
            extra_prefixes: self.extra_prefixes.iter().map(|prefix| prefix.trim().to_ascii_lowercase()).collect(),
        })
    }
}

fn header_names(flag: &str, names: &[String]) -> Result<Vec<HeaderName>, String> {
    let parse = |name: &String| match name.trim() {
        "" => Err(format!("empty value in {flag:?}")),
        name => HeaderName::try_from(name).map_err(|_| format!("--{flag}: {name:?} is not the name of a header")),
    };
    names.iter().map(parse).collect()
}

/// Authenticates the users of a front proxy, which has a client certificate of its own authority.
pub struct RequestHeaderAuthenticator {
    /// Verifies the proxy's certificate.
    pub verify: VerifyCertificate,
    /// The common names of the certificates of proxies; empty for all (`--requestheader-allowed-names`).
    pub allowed_names: Vec<String>,
    /// The headers.
    pub headers: RequestHeaders,
}

impl RequestHeaderAuthenticator {
    fn verify(&self, request: &AuthenticationRequest<'_>) -> AuthenticationResult {
        let Some((leaf, intermediates)) = request.certificates.split_first() else { return Ok(None) };
        (self.verify)(leaf, intermediates, now()).map_err(AuthenticationError)?;
        if !self.allowed_names.is_empty() {
            let name = common_name(leaf)?;
            if !self.allowed_names.iter().any(|allowed| *allowed == *name) {
                let error = format!("x509: subject with cn={name} is not in the allowed list");
                return Err(AuthenticationError(error));
            }
        }
        Ok(self.headers.user(request.headers)?.map(Into::into))
    }
}

impl RequestHeaders {
    /// The headers that front proxies use by default.
    #[must_use]
    pub fn standard() -> Self {
        let name = HeaderName::from_static;
        Self {
            names: vec![name("x-remote-user")],
            uids: vec![name("x-remote-uid")],
            groups: vec![name("x-remote-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    /// Removes these headers, which are only for this server (upstream: `ClearAuthenticationHeaders`).
    pub fn clear(&self, headers: &mut HeaderMap) {
        for name in self.names.iter().chain(&self.uids).chain(&self.groups) {
            headers.remove(name);
        }
        let is_extra =
            |name: &&HeaderName| self.extra_prefixes.iter().any(|prefix| name.as_str().starts_with(prefix.as_str()));
        let extra: Vec<HeaderName> = headers.keys().filter(is_extra).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }

    /// The user that the headers name.
    fn user(&self, headers: &HeaderMap) -> Result<Option<UserInfo>, AuthenticationError> {
        let first = |names: &[HeaderName]| -> Result<Str, AuthenticationError> {
            let values = names.iter().filter_map(|name| headers.get(name).map(|value| text(name, value)));
            values.into_iter().find(|value| !matches!(value, Ok(""))).unwrap_or(Ok("")).map(Str::from)
        };
        let name = first(&self.names)?;
        if name.is_empty() {
            return Ok(None);
        }
        let mut user = UserInfo { name, uid: first(&self.uids)?, ..UserInfo::default() };
        for name in &self.groups {
            for value in headers.get_all(name) {
                let group = text(name, value)?;
                user.groups.extend(Some(group).filter(|group| !group.is_empty()).map(Str::from));
            }
        }
        for prefix in &self.extra_prefixes {
            for name in headers.keys() {
                let Some(key) = name.as_str().strip_prefix(&**prefix) else { continue };
                let malformed = || AuthenticationError(format!("the header {name} is not valid UTF-8"));
                let key = unescape_extra_key(key).ok_or_else(malformed)?;
                let values = headers.get_all(name).into_iter().map(|value| text(name, value).map(Str::from));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                match user.extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => known.extend(values),
                    None => user.extra.push((key, values)),
                }
            }
        }
        Ok(Some(user))
    }
}

/// The text of a header. An unreadable header makes the request fail, because another header must not name the user
/// instead.
fn text<'h>(name: &HeaderName, value: &'h http::HeaderValue) -> Result<&'h str, AuthenticationError> {
    std::str::from_utf8(value.as_bytes())
        .map_err(|_| AuthenticationError(format!("the value of the header {name} is not valid UTF-8")))
}

impl Authenticator for RequestHeaderAuthenticator {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        AuthFuture::ready(self.verify(request))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use rustls_pki_types::CertificateDer;

    use super::*;

    fn headers() -> RequestHeaders {
        let name = HeaderName::from_static;
        RequestHeaders {
            names: vec![name("x-remote-user"), name("x-user")],
            uids: vec![name("x-remote-uid")],
            groups: vec![name("x-remote-group"), name("x-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned(), "x-extra-".to_owned()],
        }
    }

    fn user(given: &[(&'static str, &[u8])]) -> Result<Option<UserInfo>, AuthenticationError> {
        let mut map = HeaderMap::new();
        for (name, value) in given {
            map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        headers().user(&map)
    }

    #[test]
    fn names_of_headers_are_checked() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let names = RequestHeaderNames {
            username: texts(&["X-Remote-User", " X-User "]),
            uid: texts(&["X-Remote-Uid"]),
            group: texts(&["X-Remote-Group", "X-Group"]),
            extra_prefixes: texts(&["X-Remote-Extra-", "X-Extra-"]),
            allowed_names: texts(&["front"]),
        };
        assert_eq!(names.headers(), Ok(headers()));
        for (wrong, expect) in [
            (
                RequestHeaderNames { username: texts(&[" "]), ..names.clone() },
                "empty value in \"requestheader-username-headers\"",
            ),
            (
                RequestHeaderNames { group: texts(&["a b"]), ..names.clone() },
                "--requestheader-group-headers: \"a b\" is not the name of a header",
            ),
            (
                RequestHeaderNames { allowed_names: texts(&[""]), ..names },
                "empty value in \"requestheader-allowed-names\"",
            ),
        ] {
            assert_eq!(wrong.headers(), Err(expect.to_owned()));
        }
    }

    #[test]
    fn headers_name_the_user() {
        assert_eq!(user(&[]), Ok(None));
        assert_eq!(user(&[("x-remote-group", b"g")]), Ok(None));
        assert_eq!(user(&[("x-remote-user", b"")]), Ok(None));
        let found = user(&[
            ("x-remote-user", b""),
            ("x-user", "m\u{fc}ller".as_bytes()),
            ("x-remote-uid", b"7"),
            ("x-group", b"c"),
            ("x-remote-group", b"a"),
            ("x-remote-group", b""),
            ("x-remote-group", b"b,b"),
            ("x-extra-scopes%2fx", b"2"),
            ("x-remote-extra-scopes%2fx", b"1"),
            ("x-remote-extra-bad%2fa%zz", b"3"),
        ]);
        let texts = |texts: &[&str]| texts.iter().map(|text| Str::from(*text)).collect::<Vec<_>>();
        let mut found = found.unwrap().unwrap();
        found.extra.sort();
        let expect = UserInfo {
            name: "m\u{fc}ller".into(),
            uid: "7".into(),
            groups: texts(&["a", "b,b", "c"]),
            extra: vec![("bad%2fa%zz".into(), texts(&["3"])), ("scopes/x".into(), texts(&["1", "2"]))],
        };
        assert_eq!(found, expect);
        for name in ["x-remote-user", "x-remote-group", "x-remote-extra-a"] {
            assert!(user(&[("x-user", b"a"), (name, b"\xff")]).is_err(), "{name}");
        }
        assert!(user(&[("x-user", b"a"), ("x-remote-extra-%ff", b"1")]).is_err());
    }

    #[test]
    fn only_proxies_that_are_known_name_users() {
        let certificate = |name: &str| -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
        };
        let (known, unknown) = ([certificate("proxy")], [certificate("other")]);
        for (certificates, trusted, allowed, expect) in [
            (&known[..], true, &[][..], Ok(Some("alice"))),
            (&known, true, &["proxy", "another"], Ok(Some("alice"))),
            (&unknown, true, &["proxy"], Err("x509: subject with cn=other is not in the allowed list")),
            (&known, false, &[], Err("not trusted")),
            (&[], true, &[], Ok(None)),
        ] {
            let authenticator = RequestHeaderAuthenticator {
                verify: Box::new(move |_, _, now| if trusted { Ok(now..now) } else { Err("not trusted".to_owned()) }),
                allowed_names: allowed.iter().map(|name| (*name).to_owned()).collect(),
                headers: headers(),
            };
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static("x-user"), HeaderValue::from_static("alice"))]);
            let request = AuthenticationRequest { certificates, headers: &headers, path: "", audiences: &[] };
            let found = authenticator.verify(&request).map(|found| found.map(|found| found.user.name));
            assert_eq!(
                found,
                expect.map(|name| name.map(Str::from)).map_err(|error| AuthenticationError(error.into()))
            );
        }
    }
}
