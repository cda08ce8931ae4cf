//! Who asks, and whether they may: authenticators (client certificates, static tokens) and authorizers. Further ones
//! (service account tokens, OIDC, webhooks, RBAC) become further implementations of the same two traits.

mod authorize;
mod certificate;
mod impersonate;
mod token_file;

pub use authorize::{AlwaysAllow, Attributes, Authorizer, Decision, PathRule, ResourceRule, Rules};
pub use certificate::{ClientCertificateAuthenticator, Verify};
pub use impersonate::{ImpersonationError, impersonate};
pub use token_file::{TokenFileAuthenticator, TokenFileError};

use pintle_value::Str;
use rustls_pki_types::CertificateDer;

/// Someone who is known (`user.Info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user name.
    pub name: Str,
    /// The uid, or empty.
    pub uid: Str,
    /// The groups.
    pub groups: Vec<Str>,
    /// Further facts, each with its values.
    pub extra: Vec<(Str, Vec<Str>)>,
}

/// What a request shows of who sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The client's certificate and what it sent along, leaf first. Not yet verified.
    pub certificates: &'a [CertificateDer<'a>],
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
}

impl<'a> Credentials<'a> {
    /// The bearer token, if there is one.
    #[must_use]
    pub fn bearer(&self) -> Option<&'a str> {
        let (scheme, token) = self.authorization?.trim().split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }
}

/// A credential that was shown is not good: the reason, for the log. The client only learns "Unauthorized".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthenticationError(pub String);

/// One way to tell who sent a request.
pub trait Authenticator: Send + Sync {
    /// Who it is; `None` if the request shows nothing that this authenticator looks at.
    ///
    /// # Errors
    /// It shows something, and that is not good.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, AuthenticationError>;
}

/// Asks one authenticator after the other. The first who knows the sender decides; a rejection only counts when nobody
/// does (upstream: `union`).
#[derive(Default)]
pub struct UnionAuthenticator(pub Vec<Box<dyn Authenticator>>);

impl Authenticator for UnionAuthenticator {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<UserInfo>, AuthenticationError> {
        let mut rejected = None;
        for authenticator in &self.0 {
            match authenticator.authenticate(credentials) {
                Ok(Some(mut user)) => {
                    // Whoever is known is in this group (upstream: `AuthenticatedGroupAdder`).
                    let all = "system:authenticated";
                    if !user.groups.iter().any(|g| g == all) {
                        user.groups.push(all.into());
                    }
                    return Ok(Some(user));
                }
                Ok(None) => {}
                Err(why) => rejected = rejected.or(Some(why)),
            }
        }
        rejected.map_or(Ok(None), Err)
    }
}
