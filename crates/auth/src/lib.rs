//! Authentication and authorization: who sends a request, and whether they may. Each way to identify a user or to decide
//! implements [`Authenticator`] or [`Authorizer`]; chains combine them (upstream: `apiserver/pkg/authentication` and
//! `apiserver/pkg/authorization`). This crate knows no storage.

mod authenticate;
mod authorize;
mod certificate;
mod future;
mod impersonate;
mod token_file;

pub use authenticate::{
    Authentication, AuthenticationError, AuthenticationRequest, AuthenticationResult, Authenticator,
    UnionAuthenticator, UserInfo,
};
pub use authorize::{
    AlwaysAllow, Authorization, AuthorizationAttributes, Authorizer, Decision, NonResourceRule, ResourceRule,
    RulesReview,
};
pub use certificate::{ClientCertificateAuthenticator, VerifyCertificate};
pub use future::AuthFuture;
pub use impersonate::{ImpersonationError, impersonate};
pub use token_file::{TokenFileAuthenticator, TokenFileError};
