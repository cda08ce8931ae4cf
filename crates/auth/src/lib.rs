//! Authentication and authorization: which user sends a request, and whether the user may send it. Every authentication
//! method implements [`Authenticator`], and every authorization mode implements [`Authorizer`]. [`UnionAuthenticator`]
//! combines authenticators (upstream: `apiserver/pkg/authentication` and `apiserver/pkg/authorization`). This crate
//! knows no storage.
//!
//! ```
//! use pintle_auth::{AbacAuthorizer, AuthorizationAttributes, Authorizer as _, UserInfo};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let policy = r#"{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
//!         "spec": {"user": "jane", "namespace": "shop", "resource": "pods", "readonly": true}}"#;
//!     let authorizer = AbacAuthorizer::parse("policies.jsonl", &policy.replace('\n', "")).expect("a valid policy");
//!     let jane = UserInfo { name: "jane".into(), ..UserInfo::default() };
//!     let attributes = |verb| AuthorizationAttributes {
//!         verb,
//!         resource: "pods",
//!         namespace: "shop",
//!         ..AuthorizationAttributes::default()
//!     };
//!     assert!(authorizer.authorize(&jane, &attributes("list")).await.is_allowed());
//!     assert!(!authorizer.authorize(&jane, &attributes("delete")).await.is_allowed());
//! }
//! ```

mod abac;
mod anonymous;
mod authenticate;
pub mod authentication_config;
mod authentication_trust;
pub mod authorization_config;
mod authorize;
mod bootstrap_token;
mod certificate;
mod chain;
pub mod config_file;
mod csv;
mod expiring_cache;
mod extra_key;
mod forbidden;
mod future;
mod impersonate;
pub mod jwt;
pub mod node;
pub mod oidc;
pub mod pem;
pub mod rbac;
mod request_header;
pub mod review;
pub mod service_account;
mod shared_fetch;
mod table;
mod text;
mod token;
mod token_cache;
mod token_file;
pub mod user;
mod websocket;

pub use abac::{AbacAuthorizer, AbacError};
pub use anonymous::AnonymousAuthenticator;
pub use authenticate::{
    AuditAnnotation, Authentication, AuthenticationError, AuthenticationRequest, AuthenticationResult, Authenticator,
    UnionAuthenticator, UserInfo,
};
pub use authentication_trust::AuthenticationTrust;
pub use authorize::{
    AlwaysAllow, Authorization, AuthorizationAttributes, Authorizer, Decision, NonResourceRule, ResourceRule,
    RulesReview,
};
pub use bootstrap_token::{BOOTSTRAP_TOKEN_NAMESPACE, BootstrapTokenAuthenticator, BootstrapTokenLookup};
pub use certificate::{AuthoritiesGeneration, ClientCertificateAuthenticator, VerifyCertificate};
pub use chain::{AlwaysDeny, PrivilegedGroup, UnionAuthorizer};
pub use csv::{CsvError, CsvPosition};
pub use expiring_cache::ExpiringCache;
pub use forbidden::{ForbiddenError, escape_markup};
pub use future::AuthFuture;
pub use impersonate::{Impersonation, ImpersonationError, ImpersonationMode, ImpersonationObserver, Impersonator};
pub use request_header::{RequestHeaderAuthenticator, RequestHeaderNames, RequestHeaders};
pub use token::{AudienceAgnosticAuthenticator, BearerTokenAuthenticator, TokenAuthenticator, UnionTokenAuthenticator};
pub use token_cache::{CachedTokenAuthenticator, TokenCacheObserver, TokenCacheTtl};
pub use token_file::{TokenFileAuthenticator, TokenFileError};
pub use websocket::{WebSocketProtocolAuthenticator, is_websocket_request};
