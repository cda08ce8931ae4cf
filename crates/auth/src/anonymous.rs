//! Requests without credentials (upstream: `authentication/request/anonymous`).

use pintle_value::Str;

use crate::authenticate::AuthenticationResult;
use crate::user::{ALL_UNAUTHENTICATED, ANONYMOUS};
use crate::{AuthFuture, Authentication, AuthenticationRequest, Authenticator, UserInfo};

/// Asks an authenticator. If the request has no credentials that the authenticator handles, its user is
/// `system:anonymous`. A request with rejected credentials is rejected.
pub struct AnonymousAuthenticator<A> {
    /// The authenticator of requests with credentials.
    pub authenticator: A,
    /// The paths of requests that may be anonymous; empty for all.
    pub paths: Vec<Str>,
}

impl<A> AnonymousAuthenticator<A> {
    fn of_anonymous(&self, request: &AuthenticationRequest<'_>) -> Option<Authentication> {
        let is_allowed = self.paths.is_empty() || self.paths.iter().any(|path| path == request.path);
        let user = UserInfo { name: ANONYMOUS.into(), groups: vec![ALL_UNAUTHENTICATED.into()], ..UserInfo::default() };
        is_allowed.then(|| Authentication { audiences: request.audiences.to_vec(), ..user.into() })
    }
}

impl<A: Authenticator> Authenticator for AnonymousAuthenticator<A> {
    fn authenticate<'a>(&'a self, request: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
        let or_anonymous = |result: AuthenticationResult| match result {
            Ok(None) => Ok(self.of_anonymous(request)),
            result => result,
        };
        match self.authenticator.authenticate(request) {
            AuthFuture::Ready(result) => AuthFuture::Ready(result.map(or_anonymous)),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { or_anonymous(pending.await) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::AuthenticationError;

    struct Fixed(AuthenticationResult);

    impl Authenticator for Fixed {
        fn authenticate<'a>(&'a self, _: &'a AuthenticationRequest<'a>) -> AuthFuture<'a, AuthenticationResult> {
            AuthFuture::ready(self.0.clone())
        }
    }

    #[test]
    fn only_requests_without_credentials_are_anonymous() {
        let alice = UserInfo { name: "alice".into(), ..UserInfo::default() };
        let anonymous = Ok(Some((ANONYMOUS.into(), vec![Str::from(ALL_UNAUTHENTICATED)])));
        let rejected = AuthenticationError("invalid bearer token".to_owned());
        for (result, paths, expect) in [
            (Ok(None), &[][..], anonymous.clone()),
            (Ok(None), &["/livez", "/readyz"], anonymous),
            (Ok(None), &["/livez"], Ok(None)),
            (Ok(Some(alice.into())), &[], Ok(Some(("alice".into(), vec![])))),
            (Err(rejected.clone()), &[], Err(rejected)),
        ] {
            let paths = paths.iter().map(|path| Str::from(*path)).collect();
            let authenticator = AnonymousAuthenticator { authenticator: Fixed(result), paths };
            let headers = HeaderMap::new();
            let request =
                AuthenticationRequest { certificates: &[], headers: &headers, path: "/readyz", audiences: &[] };
            let AuthFuture::Ready(Some(found)) = authenticator.authenticate(&request) else { panic!("not ready") };
            assert_eq!(found.map(|found| found.map(|found| (found.user.name, found.user.groups))), expect);
        }
    }
}
