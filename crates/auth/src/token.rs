//! Bearer tokens: authenticators that need only the token, their union, and the authenticator that reads the token from
//! a request (upstream: `authenticator.Token`, `authentication/token/union`, `authentication/request/bearertoken`).

use std::sync::Arc;

use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::rbac::aggregate;
use crate::{AuthFuture, Authentication, AuthenticationError, AuthenticationRequest, Authenticator};

/// Identifies the owner of a token.
pub trait TokenAuthenticator: Send + Sync {
    /// The owner of a token that is issued for one of these audiences, or for the server if there are none. `None` if
    /// this authenticator does not handle tokens of this type.
    ///
    /// # Errors
    /// The authenticator handles tokens of this type, and the token is not valid.
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult>;
}

impl<A: TokenAuthenticator + ?Sized> TokenAuthenticator for Arc<A> {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        (**self).authenticate_token(token, audiences)
    }
}

/// Asks several authenticators in order. The first success decides; if there is none, all errors are reported.
#[derive(Default)]
pub struct UnionTokenAuthenticator(pub Vec<Box<dyn TokenAuthenticator>>);

fn rejected(errors: Vec<AuthenticationError>) -> AuthenticationResult {
    aggregate(errors.into_iter().map(|AuthenticationError(error)| error))
        .map_or(Ok(None), |errors| Err(AuthenticationError(errors)))
}

impl UnionTokenAuthenticator {
    /// Asks the authenticators from index `first` on.
    async fn authenticate_from(
        &self,
        first: usize,
        mut errors: Vec<AuthenticationError>,
        token: &str,
        audiences: &[Str],
    ) -> AuthenticationResult {
        for authenticator in self.0.get(first..).unwrap_or_default() {
            match authenticator.authenticate_token(token, audiences).await {
                Ok(Some(authentication)) => return Ok(Some(authentication)),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        rejected(errors)
    }
}

impl TokenAuthenticator for UnionTokenAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        // Nothing is allocated as long as the authenticators decide immediately.
        let mut errors = Vec::new();
        for (index, authenticator) in self.0.iter().enumerate() {
            match authenticator.authenticate_token(token, audiences) {
                AuthFuture::Ready(Some(Ok(Some(authentication)))) => {
                    return AuthFuture::ready(Ok(Some(authentication)));
                }
                AuthFuture::Ready(Some(Err(error))) => errors.push(error),
                AuthFuture::Ready(_) => {}
                AuthFuture::Boxed(pending) => {
                    return AuthFuture::boxed(async move {
                        match pending.await {
                            Ok(Some(authentication)) => return Ok(Some(authentication)),
                            Ok(None) => {}
                            Err(error) => errors.push(error),
                        }
                        self.authenticate_from(index + 1, errors, token, audiences).await
                    });
                }
            }
        }
        AuthFuture::ready(rejected(errors))
    }
}

/// Authenticates requests by the bearer token of their header `Authorization`. A token that nobody handles is an error.
pub struct BearerTokenAuthenticator<A>(pub A);

impl<A: TokenAuthenticator> Authenticator for BearerTokenAuthenticator<A> {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        let Some(token) = request.bearer_token() else { return AuthFuture::ready(Ok(None)) };
        match self.0.authenticate_token(token, request.audiences) {
            AuthFuture::Ready(result) => AuthFuture::Ready(result.map(reject_unknown)),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { reject_unknown(pending.await) }),
        }
    }
}

/// The result for a token of a request. A token that no authenticator handles is an error.
pub(crate) fn reject_unknown(result: AuthenticationResult) -> AuthenticationResult {
    match result {
        Ok(None) => Err(AuthenticationError("invalid bearer token".to_owned())),
        result => result,
    }
}

/// An authenticator of tokens that are for the server's audiences, but do not name any audiences (upstream:
/// `authenticator.WrapAudienceAgnosticToken`).
pub struct AudienceAgnosticAuthenticator<A> {
    /// The authenticator.
    pub authenticator: A,
    /// The server's audiences.
    pub audiences: Vec<Str>,
}

impl<A: TokenAuthenticator> TokenAuthenticator for AudienceAgnosticAuthenticator<A> {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let accepted =
            if audiences.is_empty() { self.audiences.clone() } else { intersect(audiences, &self.audiences) };
        if accepted.is_empty() && !audiences.is_empty() {
            return AuthFuture::ready(Ok(None));
        }
        let with_audiences = move |result: AuthenticationResult| {
            result.map(|found| found.map(|found| Authentication { audiences: accepted, ..found }))
        };
        match self.authenticator.authenticate_token(token, &[]) {
            AuthFuture::Ready(result) => AuthFuture::Ready(result.map(with_audiences)),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { with_audiences(pending.await) }),
        }
    }
}

/// The audiences of the first list that are in the second.
pub(crate) fn intersect(audiences: &[Str], accepted: &[Str]) -> Vec<Str> {
    audiences.iter().filter(|audience| accepted.contains(audience)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::UserInfo;

    /// Returns this result; through a boxed future if the flag is set.
    struct Fixed(AuthenticationResult, bool);

    impl TokenAuthenticator for Fixed {
        fn authenticate_token<'a>(&'a self, _: &'a str, _: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
            let result = self.0.clone();
            if self.1 { AuthFuture::boxed(async move { result }) } else { AuthFuture::ready(result) }
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the result is pending"),
        }
    }

    fn success(name: &str) -> AuthenticationResult {
        Ok(Some(UserInfo { name: name.into(), ..UserInfo::default() }.into()))
    }

    fn failure(why: &str) -> AuthenticationResult {
        Err(AuthenticationError(why.to_owned()))
    }

    #[test]
    fn union_reports_the_first_success_or_all_errors() {
        let check = |results: &[AuthenticationResult], expect: AuthenticationResult| {
            for boxed in 0..1 << results.len() {
                let authenticators = results.iter().enumerate().map(|(i, result)| -> Box<dyn TokenAuthenticator> {
                    Box::new(Fixed(result.clone(), boxed >> i & 1 == 1))
                });
                let union = UnionTokenAuthenticator(authenticators.collect());
                assert_eq!(now(union.authenticate_token("t", &[])), expect, "{boxed:b}");
            }
        };
        check(&[], Ok(None));
        check(&[Ok(None), success("a"), failure("late")], success("a"));
        check(&[failure("first"), success("a")], success("a"));
        check(&[failure("first"), Ok(None), failure("first")], failure("first"));
        check(&[failure("first"), failure("second")], failure("[first, second]"));
    }

    #[test]
    fn token_that_nobody_handles_is_an_error_of_the_request() {
        let check = |header: &'static str, result: AuthenticationResult, expect: AuthenticationResult| {
            for boxed in [false, true] {
                let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
                let request = AuthenticationRequest { certificates: &[], headers: &headers, path: "", audiences: &[] };
                let authenticator = BearerTokenAuthenticator(Fixed(result.clone(), boxed));
                assert_eq!(now(authenticator.authenticate(&request)), expect, "{header}");
            }
        };
        check("Basic t", success("a"), Ok(None));
        check("Bearer t", success("a"), success("a"));
        check("Bearer t", Ok(None), failure("invalid bearer token"));
        check("Bearer t", failure("expired"), failure("expired"));
    }

    #[test]
    fn tokens_without_audiences_are_for_those_of_the_server() {
        let texts = |texts: &[&str]| texts.iter().map(|text| Str::from(*text)).collect::<Vec<_>>();
        for (server, requested, expect) in [
            (&["a", "b"][..], &[][..], Some(&["a", "b"][..])),
            (&["a", "b"], &["b", "c"], Some(&["b"])),
            (&["a"], &["b"], None),
            (&[], &["b"], None),
            (&[], &[], Some(&[])),
        ] {
            let authenticator =
                AudienceAgnosticAuthenticator { authenticator: Fixed(success("a"), false), audiences: texts(server) };
            let requested = texts(requested);
            let found = now(authenticator.authenticate_token("t", &requested)).expect("no error");
            assert_eq!(found.map(|found| found.audiences), expect.map(texts), "{server:?} {requested:?}");
        }
    }
}
