//! The issuers of JSON Web Tokens: fetches their discovery documents and keys, and measures their authenticators
//! (upstream: go-oidc's `remoteKeySet`, `plugin/pkg/authenticator/token/oidc`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use parking_lot::{Mutex, RwLock};
use pintle_auth::authentication_config::JwtConfig;
use pintle_auth::jwt::{PublicKey, parse_jwks};
use pintle_auth::oidc::{DISCOVERY_PATH, IssuerKeys, JwtAuthenticator, jwks_uri, max_age, untrusted_issuer};
use pintle_auth::{AuthFuture, AuthenticationResult, TokenAuthenticator};
use pintle_outbound::{CallLimits, Client, ClientConfig, ServerTrust};
use pintle_value::Str;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::cluster::{Cluster, IssuerSeries};

/// The limits of a request to an issuer.
const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(30), max_body_bytes: 1 << 20 };
/// How long to wait before the discovery document is fetched again after a failure.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
/// Keys are fetched again this long before they expire.
const EXPIRY_DELTA: Duration = Duration::from_secs(30);
/// Keys may be used for at most this long, whatever the issuer says.
const MAX_KEYS_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many fetches of keys may follow each other, and how long it takes until there may be one more. Anybody can send
/// tokens that name unknown keys, and each would cause a fetch.
const FETCH_BURST: u32 = 10;
const FETCH_INTERVAL: Duration = Duration::from_secs(1);

type FetchedKeys = Result<Arc<Vec<PublicKey>>, String>;

/// The keys of an issuer.
struct RemoteKeys {
    cluster: Arc<Cluster>,
    client: Client,
    issuer: Str,
    discovery_url: String,
    series: Arc<IssuerSeries>,
    state: Mutex<KeysState>,
}

struct KeysState {
    /// Where the keys are; `None` before the discovery document was read.
    jwks_uri: Option<String>,
    keys: Arc<Vec<PublicKey>>,
    /// Until when the issuer lets its keys be used.
    expires: Instant,
    /// The fetch in progress. It ends with keys or an error.
    fetch: Option<watch::Receiver<Option<FetchedKeys>>>,
    /// How many fetches may begin now, and when that was counted.
    budget: (u32, Instant),
    /// Why the discovery document cannot be used.
    error: Option<String>,
}

impl KeysState {
    /// Counts a fetch, unless there were too many.
    fn may_fetch(&mut self, now: Instant) -> bool {
        let (left, counted) = self.budget;
        let earned = now.duration_since(counted).as_millis() / FETCH_INTERVAL.as_millis();
        let earned = u32::try_from(earned).unwrap_or(FETCH_BURST);
        let left = left.saturating_add(earned).min(FETCH_BURST);
        let counted = if earned > 0 { now } else { counted };
        self.budget = (left.saturating_sub(1), counted);
        left > 0
    }
}

impl RemoteKeys {
    /// Sends a request. Returns the body of a successful response, and its headers.
    async fn get(&self, url: &str) -> Result<(HeaderMap, Bytes), String> {
        let request = Request::get(url).body(Bytes::new()).map_err(|error| format!("parse {url:?}: {error}"))?;
        let (head, body) = self.client.send(request, LIMITS).await.map_err(|error| error.to_string())?.into_parts();
        if head.status != StatusCode::OK {
            // The body may be large and may contain anything.
            let shown = &body.bytes[..body.bytes.len().min(512)];
            return Err(format!("{}: {}", head.status, String::from_utf8_lossy(shown)));
        }
        if body.truncated {
            return Err(format!("the response is larger than {} bytes", LIMITS.max_body_bytes));
        }
        Ok((head.headers, body.bytes))
    }

    /// Finds out where the keys are, and tries it until it succeeds.
    async fn discover(self: Arc<Self>) {
        loop {
            let document = self.get(&self.discovery_url).await;
            let found =
                document.and_then(|(_, document)| jwks_uri(&self.issuer, &document).map_err(|error| error.to_string()));
            match found {
                Ok(uri) => {
                    let mut state = self.state.lock();
                    (state.jwks_uri, state.error) = (Some(uri), None);
                    return;
                }
                Err(error) => {
                    tracing::error!(issuer = &*self.issuer, error, "Failed to initialize the JWT authenticator");
                    self.state.lock().error = Some(error);
                }
            }
            self.cluster.sleep(DISCOVERY_INTERVAL).await;
        }
    }

    async fn fetch_keys(&self, uri: &str) -> FetchedKeys {
        let fetched = self.get(uri).await.map_err(|error| format!("oidc: get keys failed {error}"));
        let parsed = fetched.and_then(|(headers, body)| {
            let keys = parse_jwks(&body).map_err(|error| format!("oidc: failed to decode keys: {error}"))?;
            Ok((headers, body, Arc::new(keys)))
        });
        let now = self.cluster.now().seconds;
        match parsed {
            Ok((headers, body, keys)) => {
                self.series.record_keys(Some(&body), now);
                let age = Duration::from_secs(max_age(&headers)).min(MAX_KEYS_AGE);
                let mut state = self.state.lock();
                (state.keys, state.expires) = (keys.clone(), Instant::now() + age);
                Ok(keys)
            }
            Err(error) => {
                self.series.record_keys(None, now);
                tracing::warn!(issuer = &*self.issuer, error, "Failed to fetch the keys of a JWT issuer");
                Err(error)
            }
        }
    }
}

/// The keys as the authenticator sees them.
struct SharedKeys(Arc<RemoteKeys>);

impl IssuerKeys for SharedKeys {
    fn current(&self) -> Option<Arc<Vec<PublicKey>>> {
        let state = self.0.state.lock();
        state.jwks_uri.is_some().then(|| state.keys.clone())
    }

    fn fetch(&self) -> Option<AuthFuture<'_, FetchedKeys>> {
        let mut state = self.0.state.lock();
        // A fetch that has ended without a result, which only a panic does, is none.
        let is_running = |fetch: &&watch::Receiver<_>| fetch.has_changed().is_ok();
        let mut receiver = match state.fetch.as_ref().filter(is_running) {
            Some(fetch) => fetch.clone(),
            None => {
                let now = Instant::now();
                let uri = state.jwks_uri.clone()?;
                if now + EXPIRY_DELTA <= state.expires || !state.may_fetch(now) {
                    return None;
                }
                let (sender, receiver) = watch::channel(None);
                state.fetch = Some(receiver.clone());
                let keys = self.0.clone();
                // It goes on if the request that needs the keys ends, because others may wait for it.
                tokio::spawn(async move {
                    let fetched = keys.fetch_keys(&uri).await;
                    keys.state.lock().fetch = None;
                    sender.send_replace(Some(fetched));
                });
                receiver
            }
        };
        Some(AuthFuture::boxed(async move {
            match receiver.wait_for(Option::is_some).await {
                Ok(fetched) => fetched.clone().unwrap_or_else(|| Err("no keys".to_owned())),
                Err(_) => Err("the fetch has ended without keys".to_owned()),
            }
        }))
    }
}

/// An issuer with its authenticator.
struct JwtIssuer {
    authenticator: JwtAuthenticator,
    keys: Arc<RemoteKeys>,
    discovery: AbortHandle,
}

impl Drop for JwtIssuer {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

/// Authenticates tokens of several issuers, each of which has a URL of its own.
pub struct JwtAuthenticators(Vec<JwtIssuer>);

impl JwtAuthenticators {
    /// Begins to fetch what the issuers of a valid configuration publish. Tokens may be signed with some algorithms.
    /// `server` is the identity of the server in metrics.
    ///
    /// # Errors
    /// An issuer cannot be used.
    pub fn start(
        cluster: &Arc<Cluster>,
        configs: &[JwtConfig],
        algorithms: &[Str],
        server: &str,
    ) -> Result<Self, String> {
        let issuer = |config: &JwtConfig| {
            let issuer = &config.issuer;
            if !issuer.egress_selector_type.is_empty() {
                let kind = &issuer.egress_selector_type;
                return Err(format!("oidc: egress lookup required with egress selector type {kind:?}"));
            }
            let server_trust = match issuer.certificate_authority.as_bytes() {
                [] => ServerTrust::System,
                pem => ServerTrust::Authorities(pem),
            };
            let client = Client::new(&ClientConfig { server_trust, credentials: None });
            let client = client.map_err(|error| format!("Failed to read the CA contents: {error}"))?;
            let discovery_url = match issuer.discovery_url.as_str() {
                "" => format!("{}{DISCOVERY_PATH}", issuer.url.strip_suffix('/').unwrap_or(&issuer.url)),
                url => url.to_owned(),
            };
            let now = Instant::now();
            let state = KeysState {
                jwks_uri: None,
                keys: Arc::default(),
                expires: now,
                fetch: None,
                budget: (FETCH_BURST, now),
                error: None,
            };
            let keys = Arc::new(RemoteKeys {
                cluster: cluster.clone(),
                client,
                issuer: issuer.url.clone(),
                discovery_url,
                series: cluster.metrics.authentication().issuer(&issuer.url, server),
                state: Mutex::new(state),
            });
            let clock = cluster.clone();
            let shared = Arc::new(SharedKeys(keys.clone()));
            let now = move || clock.now();
            let authenticator = JwtAuthenticator::new(config.clone(), algorithms.to_vec(), shared, now)?;
            let discovery = tokio::spawn(keys.clone().discover()).abort_handle();
            Ok(JwtIssuer { authenticator, keys, discovery })
        };
        Ok(Self(configs.iter().map(issuer).collect::<Result<_, _>>()?))
    }

    /// Returns whether the discovery documents of all issuers were read.
    ///
    /// # Errors
    /// One was not; the error says why.
    pub fn check_health(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|issuer| {
            let state = issuer.keys.state.lock();
            if state.jwks_uri.is_some() {
                return Ok(());
            }
            let url = &*issuer.keys.issuer;
            let not_initialized = || format!("oidc: authenticator for issuer {url:?} is not initialized");
            let error = state.error.clone().unwrap_or_else(not_initialized);
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
            issuer.keys.series.record_authentication(result.is_ok(), started.elapsed());
            result
        };
        match issuer.authenticator.authenticate_token(token, audiences) {
            AuthFuture::Ready(result) => AuthFuture::Ready(result.map(measured)),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { measured(pending.await) }),
        }
    }
}

/// Authenticators that can be replaced while requests use them. Requests in progress keep those that they began with.
#[derive(Clone)]
pub struct ReloadableJwtAuthenticators {
    cluster: Arc<Cluster>,
    /// The identity of the server in metrics.
    server: Arc<str>,
    current: Arc<RwLock<Arc<JwtAuthenticators>>>,
}

impl ReloadableJwtAuthenticators {
    /// Begins with authenticators. The text of the configuration file is recorded in metrics, if there is one.
    #[must_use]
    pub fn new(cluster: &Arc<Cluster>, server: &str, first: JwtAuthenticators, file: Option<&[u8]>) -> Self {
        if let Some(text) = file {
            cluster.metrics.authentication().reloads().begin(server, text);
        }
        Self { cluster: cluster.clone(), server: server.into(), current: Arc::new(RwLock::new(Arc::new(first))) }
    }

    /// Begins to fetch what the issuers of a configuration publish, like [`JwtAuthenticators::start`].
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
        old.0
            .iter()
            .filter(|issuer| !is_used(issuer, &authenticators))
            .for_each(|issuer| issuer.keys.series.forget_keys());
    }

    /// Records a reload of the configuration: the text that is in use now, or none if the reload has failed.
    pub fn record_reload(&self, text: Option<&[u8]>) {
        let now = self.cluster.now().seconds;
        self.cluster.metrics.authentication().reloads().record(&self.server, text, now);
    }
}

impl TokenAuthenticator for ReloadableJwtAuthenticators {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        let current = self.current.read().clone();
        // An authentication that has to be waited for is begun again, in a future that keeps the authenticators. It waits
        // for the fetch that has begun already.
        if let AuthFuture::Ready(Some(result)) = current.authenticate_token(token, audiences) {
            return AuthFuture::ready(result);
        }
        AuthFuture::boxed(async move { current.authenticate_token(token, audiences).await })
    }
}
