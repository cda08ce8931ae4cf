//! Authenticators: the trait, the parts of a request that they see, and the union of several authenticators (upstream:
//! `authentication/authenticator`, `authentication/request/union`).

use http::HeaderMap;
use http::header::AUTHORIZATION;
use pintle_value::Str;
use rustls_pki_types::CertificateDer;

use crate::AuthFuture;
use crate::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS};

/// A user (`user.Info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user name.
    pub name: Str,
    /// The uid, or empty.
    pub uid: Str,
    /// The groups.
    pub groups: Vec<Str>,
    /// Extra attributes, each with its values.
    pub extra: Vec<(Str, Vec<Str>)>,
}

/// The parts of a request that an authenticator sees.
#[derive(Clone, Copy, Debug)]
pub struct AuthenticationRequest<'a> {
    /// The client's certificate chain, leaf first. It is not verified yet.
    pub certificates: &'a [CertificateDer<'a>],
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The request's path; empty for a review of a token.
    pub path: &'a str,
    /// The audiences that a token has to be issued for; empty for the server's audiences.
    pub audiences: &'a [Str],
}

impl<'a> AuthenticationRequest<'a> {
    /// The bearer token of the `Authorization` header: its second word, as in upstream. Bytes that are not UTF-8 are a
    /// token that nobody has. Such a request must not count as a request without a token.
    #[must_use]
    pub fn bearer_token(&self) -> Option<&'a str> {
        let header = self.headers.get(AUTHORIZATION)?.as_bytes();
        let header = std::str::from_utf8(header).unwrap_or("Bearer \u{fffd}");
        let mut words = header.trim().split(' ');
        let (scheme, token) = (words.next()?, words.next()?);
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }

    /// The warning for a request whose bearer token is ignored because of a space before it.
    #[must_use]
    pub fn bearer_token_warning(&self) -> Option<&'static str> {
        let header = std::str::from_utf8(self.headers.get(AUTHORIZATION)?.as_bytes()).ok()?;
        let mut words = header.trim().split(' ');
        let (scheme, token, _) = (words.next()?, words.next()?, words.next()?);
        (scheme.eq_ignore_ascii_case("bearer") && token.is_empty())
            .then_some("the provided Authorization header contains extra space before the bearer token, and is ignored")
    }
}

/// The key and the value of an annotation of the audit event.
pub type AuditAnnotation = (&'static str, String);

/// A successful authentication (`authenticator.Response`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// The user.
    pub user: UserInfo,
    /// The requested audiences that the credential is valid for.
    pub audiences: Vec<Str>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub annotations: Vec<AuditAnnotation>,
    /// The WebSocket subprotocols of the request without the subprotocol that was the credential. `None` if no
    /// subprotocol was the credential.
    pub websocket_protocols: Option<Str>,
}

impl From<UserInfo> for Authentication {
    fn from(user: UserInfo) -> Self {
        Self { user, ..Self::default() }
    }
}

/// The reason why a credential is not accepted. It goes to the log; the client learns "Unauthorized" only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthenticationError(pub String);

/// The result of one authenticator: `None` if the request has no credential that it handles.
pub type AuthenticationResult = Result<Option<Authentication>, AuthenticationError>;

/// Identifies the sender of a request.
pub trait Authenticator: Send + Sync {
    /// The sender of a request; `None` if the request has no credential that this authenticator handles.
    ///
    /// # Errors
    /// There is such a credential, but it is invalid.
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult>;
}

/// Asks several authenticators in order. The first success decides; an error counts only if none succeeds. An
/// authenticated user is in the group `system:authenticated` (upstream: `union`, `AuthenticatedGroupAdder`).
#[derive(Default)]
pub struct UnionAuthenticator(pub Vec<Box<dyn Authenticator>>);

impl UnionAuthenticator {
    /// Asks the authenticators from index `first` on. `error` is the error of an earlier authenticator.
    async fn authenticate_from<'a>(
        &'a self,
        first: usize,
        mut error: Option<AuthenticationError>,
        request: &'a AuthenticationRequest<'a>,
    ) -> AuthenticationResult {
        for authenticator in self.0.get(first..).unwrap_or_default() {
            match authenticator.authenticate(request).await {
                Ok(Some(authentication)) => return Ok(Some(add_authenticated_group(authentication))),
                Ok(None) => {}
                Err(why) => error = error.or(Some(why)),
            }
        }
        error.map_or(Ok(None), Err)
    }
}

impl Authenticator for UnionAuthenticator {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        // Nothing is allocated as long as the authenticators decide immediately.
        let mut error = None;
        for (index, authenticator) in self.0.iter().enumerate() {
            match authenticator.authenticate(request) {
                AuthFuture::Ready(Some(Ok(Some(authentication)))) => {
                    return AuthFuture::ready(Ok(Some(add_authenticated_group(authentication))));
                }
                AuthFuture::Ready(Some(Err(why))) => error = error.or(Some(why)),
                AuthFuture::Ready(_) => {}
                AuthFuture::Boxed(pending) => {
                    return AuthFuture::boxed(async move {
                        match pending.await {
                            Ok(Some(authentication)) => Ok(Some(add_authenticated_group(authentication))),
                            Ok(None) => self.authenticate_from(index + 1, error, request).await,
                            Err(why) => self.authenticate_from(index + 1, error.or(Some(why)), request).await,
                        }
                    });
                }
            }
        }
        AuthFuture::ready(error.map_or(Ok(None), Err))
    }
}

/// Adds the group of authenticated users. The anonymous user and users in the group of unauthenticated users do not get
/// it, because a credential may name both groups.
fn add_authenticated_group(mut authentication: Authentication) -> Authentication {
    let user = &mut authentication.user;
    let has_group = user.groups.iter().any(|group| group == ALL_AUTHENTICATED || group == ALL_UNAUTHENTICATED);
    if user.name != ANONYMOUS && !has_group {
        user.groups.push(ALL_AUTHENTICATED.into());
    }
    authentication
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::HeaderValue;

    use super::*;

    /// Returns this result: at once, or at the second poll if the flag is set.
    struct Fixed(AuthenticationResult, bool);

    impl Authenticator for Fixed {
        fn authenticate<'a>(&'a self, _: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
            let result = self.0.clone();
            if !self.1 {
                return AuthFuture::ready(result);
            }
            let mut polled = false;
            AuthFuture::boxed(std::future::poll_fn(move |_| {
                if std::mem::replace(&mut polled, true) { Poll::Ready(result.clone()) } else { Poll::Pending }
            }))
        }
    }

    fn success(name: &str) -> AuthenticationResult {
        Ok(Some(UserInfo { name: name.into(), ..UserInfo::default() }.into()))
    }

    fn failure(why: &str) -> AuthenticationResult {
        Err(AuthenticationError(why.to_owned()))
    }

    fn check(results: &[AuthenticationResult], expect: Result<Option<&str>, &str>) {
        let headers = HeaderMap::new();
        let request = AuthenticationRequest { certificates: &[], headers: &headers, path: "", audiences: &[] };
        // Every combination of immediate and delayed results gives the same outcome.
        for delayed in 0..1 << results.len() {
            let fixed = results.iter().enumerate().map(|(i, result)| -> Box<dyn Authenticator> {
                Box::new(Fixed(result.clone(), delayed >> i & 1 == 1))
            });
            let union = UnionAuthenticator(fixed.collect());
            let mut future = pin!(union.authenticate(&request));
            let mut cx = Context::from_waker(Waker::noop());
            let result = (0..=results.len()).find_map(|_| match future.as_mut().poll(&mut cx) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => None,
            });
            let found = result.expect("a result").map(|found| {
                found.map(|found| {
                    assert_eq!(found.user.groups, [ALL_AUTHENTICATED]);
                    found.user.name
                })
            });
            let expect = expect.map(|name| name.map(Str::from)).map_err(|why| AuthenticationError(why.to_owned()));
            assert_eq!(found, expect, "delayed: {delayed:b}");
        }
    }

    #[test]
    fn the_first_success_decides_and_errors_count_only_without_one() {
        check(&[], Ok(None));
        check(&[Ok(None), Ok(None)], Ok(None));
        check(&[Ok(None), success("a"), success("b")], Ok(Some("a")));
        check(&[failure("no"), success("b")], Ok(Some("b")));
        check(&[failure("first"), Ok(None), failure("second")], Err("first"));
    }

    #[test]
    fn credentials_of_anonymous_users_do_not_make_them_authenticated() {
        let groups = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|group| Str::from(*group)).collect();
            let user = UserInfo { name: name.into(), groups, ..UserInfo::default() };
            add_authenticated_group(user.into()).user.groups.join(" ")
        };
        assert_eq!(groups("jane", &["dev"]), "dev system:authenticated");
        assert_eq!(groups("jane", &["system:authenticated", "dev"]), "system:authenticated dev");
        assert_eq!(groups("jane", &["system:unauthenticated"]), "system:unauthenticated");
        assert_eq!(groups("system:anonymous", &["dev"]), "dev");
        assert_eq!(groups("system:anonymous", &[]), "");
    }

    #[test]
    fn bearer_tokens_are_read_from_the_authorization_header() {
        for (value, expect) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer \u{e9}", Some("\u{e9}")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            let request = AuthenticationRequest { certificates: &[], headers: &headers, path: "", audiences: &[] };
            assert_eq!(request.bearer_token(), expect, "{value}");
            assert_eq!(request.bearer_token_warning().is_some(), value == "Bearer  abc", "{value}");
        }
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xff").unwrap())]);
        let request = AuthenticationRequest { certificates: &[], headers: &headers, path: "", audiences: &[] };
        assert_eq!(request.bearer_token(), Some("\u{fffd}"));
    }
}
