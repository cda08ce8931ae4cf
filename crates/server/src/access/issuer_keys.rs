//! The keys of issuers of JSON Web Tokens: fetches their discovery documents and their keys (upstream: go-oidc's
//! `Provider` and `remoteKeySet`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use pintle_auth::AuthFuture;
use pintle_auth::jwt::{PublicKey, parse_jwks};
use pintle_auth::oidc::{DISCOVERY_PATH, IssuerKeys, jwks_uri, max_age};
use pintle_locks::Mutex;
use pintle_outbound::{CallLimits, Client};
use pintle_value::Str;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::cluster::{Cluster, IssuerSeries};

/// The limits of a request to an issuer.
pub(super) const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(30), max_body_bytes: 1 << 20 };
/// The delay after a failed fetch of the discovery document.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
/// Keys are fetched again this long before they expire.
const EXPIRY_DELTA: Duration = Duration::from_secs(30);
/// Keys may be used for at most this long, whatever the issuer says.
const MAX_KEYS_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of fetches of keys in a row, and the interval after which another fetch is allowed. Anybody can send
/// tokens that name unknown keys, and each would cause a fetch.
const FETCH_BURST: u32 = 10;
const FETCH_INTERVAL: Duration = Duration::from_secs(1);

type FetchedKeys = Result<Arc<Vec<PublicKey>>, String>;

/// The keys of an issuer.
pub(super) struct RemoteKeys {
    cluster: Arc<Cluster>,
    client: Client,
    issuer: Str,
    discovery_url: String,
    /// The metrics of an issuer of the configuration.
    series: Option<Arc<IssuerSeries>>,
    state: Mutex<KeysState>,
}

struct KeysState {
    /// The URL of the keys; `None` before the discovery document was read.
    jwks_uri: Option<String>,
    keys: Arc<Vec<PublicKey>>,
    /// The time until which the issuer lets its keys be used.
    expires: Instant,
    /// The fetch in progress. It ends with keys or an error.
    fetch: Option<watch::Receiver<Option<FetchedKeys>>>,
    /// The number of fetches that may begin now, and the time at which it was counted.
    budget: (u32, Instant),
    /// The reason why the discovery document cannot be used.
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

    /// Fetches the discovery document, which names the URL of the keys, and retries until this succeeds. Reports each
    /// attempt to `is_tried`.
    async fn discover(self: Arc<Self>, is_tried: watch::Sender<bool>) {
        loop {
            let document = self.get(&self.discovery_url).await;
            let found =
                document.and_then(|(_, document)| jwks_uri(&self.issuer, &document).map_err(|error| error.to_string()));
            match found {
                Ok(uri) => {
                    let mut state = self.state.lock();
                    (state.jwks_uri, state.error) = (Some(uri), None);
                    drop(state);
                    is_tried.send_replace(true);
                    return;
                }
                Err(error) => {
                    tracing::error!(issuer = &*self.issuer, error, "Failed to initialize the JWT authenticator");
                    self.state.lock().error = Some(error);
                    is_tried.send_replace(true);
                }
            }
            self.cluster.sleep(DISCOVERY_INTERVAL).await;
        }
    }

    /// Records a fetch of keys.
    fn record(&self, text: Option<&[u8]>, now: i64) {
        if let Some(series) = &self.series {
            series.record_keys(text, now);
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
                self.record(Some(&body), now);
                let age = Duration::from_secs(max_age(&headers)).min(MAX_KEYS_AGE);
                let mut state = self.state.lock();
                (state.keys, state.expires) = (keys.clone(), Instant::now() + age);
                Ok(keys)
            }
            Err(error) => {
                self.record(None, now);
                tracing::warn!(issuer = &*self.issuer, error, "Failed to fetch the keys of a JWT issuer");
                Err(error)
            }
        }
    }
}

/// The keys as the authenticator sees them.
pub(super) struct SharedKeys(pub(super) Arc<RemoteKeys>);

impl IssuerKeys for SharedKeys {
    fn current(&self) -> Option<Arc<Vec<PublicKey>>> {
        let state = self.0.state.lock();
        state.jwks_uri.is_some().then(|| state.keys.clone())
    }

    fn fetch(&self) -> Option<AuthFuture<'_, FetchedKeys>> {
        let mut state = self.0.state.lock();
        // A fetch whose task ended without a result does not count. Only a panic ends it so.
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
                // The fetch continues when the request that needs the keys ends, because other requests may wait for
                // it.
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

/// An issuer whose discovery document is fetched in the background until a fetch succeeds. Dropping this value stops
/// the fetches.
pub(super) struct RemoteIssuer {
    pub(super) keys: Arc<RemoteKeys>,
    discovery: AbortHandle,
    /// Whether a fetch of the document has been tried. Closed when no further fetch will be tried.
    is_tried: watch::Receiver<bool>,
}

impl Drop for RemoteIssuer {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

impl RemoteIssuer {
    /// Starts fetching the discovery document. Without a URL of its own, the document is below the issuer's URL.
    pub(super) fn start(
        cluster: &Arc<Cluster>,
        client: Client,
        issuer: Str,
        discovery_url: &str,
        series: Option<Arc<IssuerSeries>>,
    ) -> Self {
        let discovery_url = match discovery_url {
            "" => format!("{}{DISCOVERY_PATH}", issuer.strip_suffix('/').unwrap_or(&issuer)),
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
        let cluster = cluster.clone();
        let keys = RemoteKeys { cluster, client, issuer, discovery_url, series, state: Mutex::new(state) };
        let keys = Arc::new(keys);
        let (sender, is_tried) = watch::channel(false);
        let discovery = tokio::spawn(keys.clone().discover(sender)).abort_handle();
        Self { keys, discovery, is_tried }
    }

    /// Whether the discovery document was read.
    pub(super) fn is_initialized(&self) -> bool {
        self.keys.state.lock().jwks_uri.is_some()
    }

    /// The reason why the discovery document cannot be used.
    pub(super) fn error(&self) -> Option<String> {
        self.keys.state.lock().error.clone()
    }

    /// Whether a fetch of the document has been tried, now and when that changes.
    pub(super) fn is_tried(&self) -> watch::Receiver<bool> {
        self.is_tried.clone()
    }
}
