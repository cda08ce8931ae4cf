//! Fetches the data for distributed claims of an issuer's tokens: the responses of endpoints, and the keys of the
//! endpoints' issuers. Requests use the HTTP client of the token's issuer (upstream: `claimResolver`).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use hyper::ext::ReasonPhrase;
use pintle_auth::AuthFuture;
use pintle_auth::oidc::{ClaimEndpoint, ClaimSource, EndpointResponse, IssuerKeys};
use pintle_locks::Mutex;
use pintle_outbound::{BoundedBody, Client};
use pintle_value::Str;
use pintle_value::print::quote;

use super::issuer_keys::{LIMITS, RemoteIssuer, SharedKeys};
use crate::cluster::Cluster;

/// Maximum number of other issuers whose keys are known at a time. Their names come from responses.
const MAX_ISSUERS: usize = 16;

/// The endpoints and other issuers to which an issuer's tokens refer for distributed claims.
pub(super) struct RemoteClaims {
    cluster: Arc<Cluster>,
    client: Client,
    /// The issuer of the tokens. Endpoints may return its tokens, too.
    issuer: Str,
    keys: Arc<SharedKeys>,
    /// The issuers of endpoints' tokens, the oldest first.
    others: Mutex<Vec<(Str, RemoteIssuer)>>,
}

impl RemoteClaims {
    pub(super) fn new(cluster: Arc<Cluster>, client: Client, issuer: Str, keys: Arc<SharedKeys>) -> Self {
        Self { cluster, client, issuer, keys, others: Mutex::default() }
    }

    /// Sends a request to an endpoint.
    async fn send(&self, endpoint: &ClaimEndpoint) -> Result<EndpointResponse, String> {
        let ClaimEndpoint { url, access_token } = endpoint;
        let failed = |error: &str| format!("Get {}: {error}", quote(url));
        let request = Request::get(url.as_str()).body(Bytes::new());
        let mut request = request.map_err(|error| failed(&error.to_string()))?;
        if !access_token.is_empty() {
            let mut value = HeaderValue::try_from(format!("Bearer {access_token}"))
                .map_err(|_| failed("net/http: invalid header field value for \"Authorization\""))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        match self.client.send(request, LIMITS).await {
            Ok(response) => Ok(read_response(response)),
            // The response has begun, but its status is lost with its body.
            Err(error) if error.is_body_error() => {
                Ok(EndpointResponse { code: 200, status: String::new(), body: Err(error.to_string()) })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The issuer with this URL, whose discovery begins now or has begun earlier. `None` if there are too many.
    fn find_or_start(&self, issuer: &str) -> Option<(Arc<SharedKeys>, tokio::sync::watch::Receiver<bool>)> {
        let mut others = self.others.lock();
        let found = others.iter().position(|(url, _)| url == issuer);
        let index = match found {
            Some(index) => index,
            None => {
                if others.len() >= MAX_ISSUERS {
                    // An issuer whose discovery has failed makes room for the new issuer.
                    let is_failed = |other: &RemoteIssuer| *other.is_tried().borrow() && !other.is_initialized();
                    let Some(failed) = others.iter().position(|(_, other)| is_failed(other)) else {
                        tracing::warn!(issuer, "Too many issuers of distributed claims");
                        return None;
                    };
                    others.remove(failed);
                }
                let started = RemoteIssuer::start(&self.cluster, self.client.clone(), issuer.into(), "", None);
                others.push((issuer.into(), started));
                others.len() - 1
            }
        };
        let (_, other) = others.get(index)?;
        Some((Arc::new(SharedKeys(other.keys.clone())), other.is_tried()))
    }
}

fn read_response(response: Response<BoundedBody>) -> EndpointResponse {
    let (head, body) = response.into_parts();
    let phrase = head.extensions.get::<ReasonPhrase>().map(|phrase| String::from_utf8_lossy(phrase.as_bytes()));
    let phrase = phrase.unwrap_or_else(|| head.status.canonical_reason().unwrap_or_default().into());
    let body = match body.truncated {
        true => Err(format!("the response is larger than {} bytes", LIMITS.max_body_bytes)),
        false => Ok(body.bytes.into()),
    };
    EndpointResponse { code: head.status.as_u16(), status: format!("{} {phrase}", head.status.as_u16()), body }
}

impl ClaimSource for RemoteClaims {
    fn get<'a>(&'a self, endpoint: &'a ClaimEndpoint) -> AuthFuture<'a, Result<EndpointResponse, String>> {
        AuthFuture::boxed(self.send(endpoint))
    }

    fn issuer_keys<'a>(&'a self, issuer: &'a str) -> AuthFuture<'a, Option<Arc<dyn IssuerKeys>>> {
        if issuer == self.issuer {
            return AuthFuture::ready(Some(self.keys.clone()));
        }
        AuthFuture::boxed(async move {
            let (keys, mut is_tried) = self.find_or_start(issuer)?;
            // A request waits only for the first attempt. It ends without a result if another issuer has taken the
            // place.
            is_tried.wait_for(|is_tried| *is_tried).await.ok()?;
            Some(keys as Arc<dyn IssuerKeys>)
        })
    }
}
