//! The authenticators of JSON Web Tokens of issuers, and their metrics (upstream:
//! `plugin/pkg/authenticator/token/oidc`).

use std::sync::Arc;
use std::time::Instant;

use pintle_auth::authentication_config::JwtConfig;
use pintle_auth::oidc::{JwtAuthenticator, untrusted_issuer};
use pintle_auth::{AuthFuture, AuthenticationResult, TokenAuthenticator};
use pintle_locks::RwLock;
use pintle_outbound::{Client, ClientConfig, ServerTrust};
use pintle_value::Str;

use super::claim_source::RemoteClaims;
use super::issuer_keys::{RemoteIssuer, SharedKeys};
use crate::client_protocols::default_protocols;
use crate::cluster::{Cluster, IssuerSeries};

/// An issuer with its authenticator.
struct JwtIssuer {
    authenticator: JwtAuthenticator,
    remote: RemoteIssuer,
    series: Arc<IssuerSeries>,
}

/// Authenticates tokens of several issuers, each of which has a URL of its own.
pub struct JwtAuthenticators(Vec<JwtIssuer>);

impl JwtAuthenticators {
    /// Starts fetching the discovery documents and keys of the issuers of a valid configuration. `algorithms` are the
    /// accepted signature algorithms. `server` is the identity of the server in metrics.
    ///
    /// # Errors
    /// An issuer cannot be used.
    pub fn start(
        cluster: &Arc<Cluster>,
        configs: &[JwtConfig],
        algorithms: &[Str],
        server: &str,
    ) -> Result<Self, String> {
        let issuer = |config: &JwtConfig| -> Result<JwtIssuer, String> {
            let issuer = &config.issuer;
            let dialer = cluster.outbound.egress.issuer_dialer(&issuer.egress_selector_type)?;
            let server_trust = match issuer.certificate_authority.as_bytes() {
                [] => ServerTrust::System,
                pem => ServerTrust::Authorities(pem),
            };
            let protocols = default_protocols();
            let client = Client::new(&ClientConfig { server_trust, credentials: None, protocols, dialer });
            let client = client.map_err(|error| format!("Failed to read the CA contents: {error}"))?;
            let series = cluster.metrics.authentication().issuer(&issuer.url, server);
            let (url, discovery_url) = (issuer.url.clone(), &issuer.discovery_url);
            let remote = RemoteIssuer::start(cluster, client.clone(), url, discovery_url, Some(series.clone()));
            let keys = Arc::new(SharedKeys(remote.keys.clone()));
            let claims = Arc::new(RemoteClaims::new(cluster.clone(), client, issuer.url.clone(), keys.clone()));
            let clock = cluster.clone();
            let now = move || clock.now();
            let authenticator = JwtAuthenticator::new(config.clone(), algorithms.to_vec(), keys, claims, now)?;
            Ok(JwtIssuer { authenticator, remote, series })
        };
        Ok(Self(configs.iter().map(issuer).collect::<Result<_, _>>()?))
    }

    /// Returns whether the discovery documents of all issuers were read.
    ///
    /// # Errors
    /// A discovery document was not read; the error says why.
    pub fn check_health(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|issuer| {
            if issuer.remote.is_initialized() {
                return Ok(());
            }
            let url = issuer.authenticator.issuer().as_str();
            let not_initialized = || format!("oidc: authenticator for issuer {url:?} is not initialized");
            let error = issuer.remote.error().unwrap_or_else(not_initialized);
            Err(format!("oidc: authenticator for issuer {url:?} is not healthy: {error}"))
        })
    }
}

impl TokenAuthenticator for JwtAuthenticators {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let issuer = if self.0.is_empty() { None } else { untrusted_issuer(token) };
        let Some(issuer) = issuer.and_then(|url| self.0.iter().find(|issuer| *issuer.authenticator.issuer() == url))
        else {
            return AuthFuture::ready(Ok(None));
        };
        let started = Instant::now();
        let measured = move |result: AuthenticationResult| {
            issuer.series.record_authentication(result.is_ok(), started.elapsed());
            result
        };
        match issuer.authenticator.authenticate_token(token, audiences) {
            AuthFuture::Ready(result) => AuthFuture::Ready(result.map(measured)),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { measured(pending.await) }),
        }
    }
}

/// Authenticators that can be replaced while requests use them. Requests in progress keep the authenticators that they
/// began with.
#[derive(Clone)]
pub struct ReloadableJwtAuthenticators {
    cluster: Arc<Cluster>,
    /// The identity of the server in metrics.
    server: Arc<str>,
    current: Arc<RwLock<Arc<JwtAuthenticators>>>,
}

impl ReloadableJwtAuthenticators {
    /// Creates the value with its first authenticators. Metrics record the text of the configuration file, if there is
    /// a file.
    #[must_use]
    pub fn new(cluster: &Arc<Cluster>, server: &str, first: JwtAuthenticators, file: Option<&[u8]>) -> Self {
        if let Some(text) = file {
            cluster.metrics.authentication().reloads().begin(server, text);
        }
        Self { cluster: cluster.clone(), server: server.into(), current: Arc::new(RwLock::new(Arc::new(first))) }
    }

    /// Starts fetching the discovery documents and keys of a configuration's issuers, like
    /// [`JwtAuthenticators::start`].
    ///
    /// # Errors
    /// An issuer cannot be used.
    pub fn prepare(&self, configs: &[JwtConfig], algorithms: &[Str]) -> Result<JwtAuthenticators, String> {
        JwtAuthenticators::start(&self.cluster, configs, algorithms, &self.server)
    }

    /// Replaces the authenticators.
    pub fn replace(&self, authenticators: JwtAuthenticators) {
        let is_used = |issuer: &JwtIssuer, others: &JwtAuthenticators| {
            others.0.iter().any(|other| other.authenticator.issuer() == issuer.authenticator.issuer())
        };
        let authenticators = Arc::new(authenticators);
        let old = std::mem::replace(&mut *self.current.write(), authenticators.clone());
        old.0.iter().filter(|issuer| !is_used(issuer, &authenticators)).for_each(|issuer| issuer.series.forget_keys());
    }

    /// Records a reload of the configuration. `text` is the configuration that is in use now, or `None` if the reload
    /// has failed.
    pub fn record_reload(&self, text: Option<&[u8]>) {
        let now = self.cluster.now().seconds;
        self.cluster.metrics.authentication().reloads().record(&self.server, text, now);
    }
}

impl TokenAuthenticator for ReloadableJwtAuthenticators {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let current = self.current.read().clone();
        // If an authentication has to be awaited, it starts again in a future that keeps the authenticators alive. It
        // waits for the fetch that has already begun.
        if let AuthFuture::Ready(Some(result)) = current.authenticate_token(token, audiences) {
            return AuthFuture::ready(result);
        }
        AuthFuture::boxed(async move { current.authenticate_token(token, audiences).await })
    }
}
