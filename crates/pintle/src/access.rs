//! Access control: builds the authenticators and authorizers of a server from its options.

use std::sync::Arc;

use pintle_auth::{
    AnonymousAuthenticator, AudienceAgnosticAuthenticator, AuthenticationTrust, Authenticator,
    BearerTokenAuthenticator, BootstrapTokenAuthenticator, CachedTokenAuthenticator, ClientCertificateAuthenticator,
    Impersonator, RequestHeaderAuthenticator, RequestHeaderNames, RequestHeaders, TokenAuthenticator,
    TokenFileAuthenticator, UnionAuthenticator, UnionTokenAuthenticator, WebSocketProtocolAuthenticator,
};
use pintle_gates::{Feature, Gates};
use pintle_registry::ApiError;
use pintle_server::{AccessBuilder, AccessControl, bootstrap_token_lookup, server_name, token_cache_observer};
use pintle_value::Str;

use crate::StartError;
use crate::authentication::{AuthenticationOptions, AuthenticationReload};
use crate::authorization::{AuthorizationMode, AuthorizationOptions, AuthorizationReload};
use crate::certificates::FRONT_PROXY_NAME;
use crate::service_accounts::ServiceAccountAuthentication;
use crate::serving::ServingTls;

/// The options of authentication and authorization.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// The content of a static token file (`--token-auth-file`).
    pub tokens: Option<String>,
    /// Whether secrets in `kube-system` are bootstrap tokens (`--enable-bootstrap-token-auth`).
    pub bootstrap_tokens: bool,
    /// The issuers of tokens, the rules for anonymous requests, and the webhook that reviews tokens.
    pub authentication: AuthenticationOptions,
    /// The headers in which front proxies name users. They count if there is an authority of front proxies: see
    /// [`TlsOptions`](crate::TlsOptions).
    pub request_headers: RequestHeaderNames,
    /// The authorizers, in order (`--authorization-mode`). They are not used if there is a configuration file.
    pub authorization_modes: Vec<AuthorizationMode>,
    /// The files and the webhook of authorizers.
    pub authorization: AuthorizationOptions,
}

impl Default for AccessOptions {
    /// The options for tests: every authenticated user may do everything.
    fn default() -> Self {
        Self {
            tokens: None,
            bootstrap_tokens: false,
            authentication: AuthenticationOptions::default(),
            request_headers: RequestHeaderNames::default(),
            authorization_modes: vec![AuthorizationMode::AlwaysAllow],
            authorization: AuthorizationOptions::default(),
        }
    }
}

/// An authenticator whose tokens are for the audiences of the server.
fn for_server<A: TokenAuthenticator + 'static>(authenticator: A, audiences: &[Str]) -> Box<dyn TokenAuthenticator> {
    Box::new(AudienceAgnosticAuthenticator { authenticator, audiences: audiences.to_vec() })
}

impl AccessOptions {
    /// Returns a function that builds the authenticators and authorizers for a cluster, and the tasks that reload their
    /// configuration files.
    ///
    /// # Errors
    /// The options are invalid.
    pub(crate) fn build(
        self,
        tls: &Arc<ServingTls>,
        gates: &Gates,
        hostname: &str,
        accounts: ServiceAccountAuthentication,
    ) -> Result<(AccessBuilder, AccessReload), StartError> {
        let chain = self.authorization.load(&self.authorization_modes).map_err(StartError::Options)?;
        let request_headers = self.request_headers.headers().map_err(StartError::Options)?;
        let mut authenticators: Vec<Box<dyn Authenticator>> = Vec::new();
        let mut front_proxy_headers = RequestHeaders::default();
        if tls.has_front_proxies() {
            front_proxy_headers.clone_from(&request_headers);
            let tls = tls.clone();
            authenticators.push(Box::new(RequestHeaderAuthenticator {
                verify: Box::new(move |leaf, rest, now| tls.verify_front_proxy(leaf, rest, now)),
                allowed_names: self.request_headers.allowed_names.clone(),
                headers: request_headers,
            }));
        }
        let reads_uid = gates.is_enabled(Feature::ALLOW_PARSING_USER_UID_FROM_CERT_AUTH);
        let (user_tls, generation_tls) = (tls.clone(), tls.clone());
        authenticators.push(Box::new(ClientCertificateAuthenticator::new(
            Box::new(move |leaf, rest, now| user_tls.verify_user(leaf, rest, now)),
            Box::new(move || generation_tls.clients_generation()),
            reads_uid,
        )));
        let token_file = self.tokens.as_deref().map(TokenFileAuthenticator::parse).transpose()?;
        let everything_allowed = chain.contains(AuthorizationMode::AlwaysAllow);
        let egress = gates.is_enabled(Feature::STRUCTURED_AUTHENTICATION_CONFIGURATION_EGRESS_SELECTOR);
        let authentication = self.authentication.load(everything_allowed, accounts.issuers(), egress);
        let authentication = authentication.map_err(StartError::Options)?;
        let anonymous = authentication.anonymous.clone();
        let impersonator = Impersonator::new(gates.is_enabled(Feature::CONSTRAINED_IMPERSONATION));
        let authorizers = chain.prepare(server_name(hostname));
        let issuers = authentication.prepare(server_name(hostname));
        let reload = AccessReload { authentication: issuers.clone(), authorization: authorizers.clone() };
        let builder: AccessBuilder = Box::new(move |cluster| {
            let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
            let audiences = &accounts.audiences;
            if let Some(authenticator) = token_file {
                tokens.push(for_server(authenticator, audiences));
            }
            tokens.extend(accounts.authenticators(cluster));
            if self.bootstrap_tokens {
                tokens.push(for_server(BootstrapTokenAuthenticator(bootstrap_token_lookup(cluster)), audiences));
            }
            // Issuers are asked after service accounts, because they may have to fetch keys.
            if let Some(authenticators) = issuers.start(cluster).map_err(ApiError::Internal)? {
                tokens.push(for_server(authenticators, audiences));
            }
            let webhook = &self.authentication.webhook;
            if let Some(authenticator) = webhook.authenticator(cluster, audiences).map_err(ApiError::Internal)? {
                let (ttl, observer) = (webhook.ttl(&accounts.cache), token_cache_observer(cluster));
                tokens.push(Box::new(CachedTokenAuthenticator::new(authenticator, ttl, observer)));
            }
            let tokens = UnionTokenAuthenticator(tokens);
            let tokens = CachedTokenAuthenticator::new(tokens, accounts.cache, token_cache_observer(cluster));
            let tokens = Arc::new(tokens);
            authenticators.push(Box::new(BearerTokenAuthenticator(tokens.clone())));
            authenticators.push(Box::new(WebSocketProtocolAuthenticator(tokens)));
            let authenticator = UnionAuthenticator(authenticators);
            let authenticator: Box<dyn Authenticator> = match anonymous.enabled {
                true => Box::new(AnonymousAuthenticator { authenticator, paths: anonymous.paths }),
                false => Box::new(authenticator),
            };
            let authorizer = authorizers.start(cluster).map_err(ApiError::Internal)?;
            Ok(AccessControl { authenticator, front_proxy_headers, authorizer, impersonator })
        });
        Ok((builder, reload))
    }

    /// The trust that aggregated servers need to authenticate clients and front proxies. Without configured authorities
    /// of front proxies, aggregated servers trust the server's own authority if the server calls them with its own
    /// certificate (`uses_own_certificate`). The server itself does not trust it.
    pub(crate) fn authentication_trust(
        &self,
        tls: &ServingTls,
        uses_own_certificate: bool,
        gates: &Gates,
    ) -> AuthenticationTrust {
        let (client_ca, mut request_header_ca) = tls.client_authorities();
        let mut headers = self.request_headers.clone();
        if uses_own_certificate && !tls.has_front_proxies() {
            request_header_ca = tls.built_in().front_proxy_authority.certificate;
            headers = own_request_headers(gates);
        }
        let RequestHeaderNames { username, uid, group, extra_prefixes, allowed_names } = headers;
        AuthenticationTrust {
            client_ca,
            request_header_ca,
            username_headers: username,
            uid_headers: uid,
            group_headers: group,
            extra_header_prefixes: extra_prefixes,
            allowed_names,
        }
    }
}

/// The headers in which the server itself names users to aggregated servers, and the common name of its certificate.
fn own_request_headers(gates: &Gates) -> RequestHeaderNames {
    let texts = |text: &str| vec![text.to_owned()];
    let has_uid = gates.is_enabled(Feature::REMOTE_REQUEST_HEADER_UID);
    RequestHeaderNames {
        username: texts("X-Remote-User"),
        uid: if has_uid { texts("X-Remote-Uid") } else { Vec::new() },
        group: texts("X-Remote-Group"),
        extra_prefixes: texts("X-Remote-Extra-"),
        allowed_names: texts(FRONT_PROXY_NAME),
    }
}

/// Reloads the configuration files of authenticators and authorizers.
pub(crate) struct AccessReload {
    pub(crate) authentication: Arc<AuthenticationReload>,
    pub(crate) authorization: Arc<AuthorizationReload>,
}
