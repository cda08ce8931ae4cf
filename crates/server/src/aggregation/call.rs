//! One call of this server to the API server of an APIService.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use pintle_auth::UserInfo;
use pintle_outbound::{BoundedBody, CallLimits, Client, DialAddress, ResponseBody, StreamOptions};
use pintle_registry::{ApiError, GroupVersion};

use super::set_identity;
use crate::cluster::{ApiService, Cluster, RemoteApi, join_host_port};

/// The time limit of a check whether an API server is available.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many checks are made at the same time, because a service may have several endpoints.
const PROBES: usize = 5;
/// Maximum number of bytes of the answer to a check that are read.
const MAX_PROBE_BYTES: usize = 64 << 10;

/// A request to an API server.
pub(super) struct Call<'c> {
    pub(super) method: Method,
    /// The path with its query.
    pub(super) path: &'c str,
    pub(super) accept: &'c str,
    /// The ETag of the document that the caller has.
    pub(super) etag: Option<&'c HeaderValue>,
    pub(super) body: Bytes,
    /// The content type of the body; empty for none.
    pub(super) content_type: &'c str,
    pub(super) user: UserInfo,
    pub(super) limits: CallLimits,
}

impl<'c> Call<'c> {
    /// A request for a document.
    pub(super) fn get(path: &'c str, accept: &'c str, user: UserInfo, limits: CallLimits) -> Self {
        Self { method: Method::GET, path, accept, etag: None, body: Bytes::new(), content_type: "", user, limits }
    }
}

/// The path of a version.
pub(super) fn version_path(version: &GroupVersion) -> String {
    match version.group.is_empty() {
        true => format!("/api/{}", version.version),
        false => format!("/apis/{version}"),
    }
}

/// The user that the aggregation layer acts as.
pub(super) fn aggregator(groups: &[&'static str]) -> UserInfo {
    UserInfo {
        name: "system:kube-aggregator".into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        ..UserInfo::default()
    }
}

/// The API server of these APIServices, which have the same service.
///
/// # Errors
/// None of them is available.
pub(super) fn available_remote(services: &[Arc<ApiService>]) -> Result<&RemoteApi, String> {
    let available = services.iter().find(|service| service.is_available);
    available.and_then(|service| service.remote.as_deref()).ok_or_else(|| "service unavailable".to_owned())
}

/// Sends a request to the API server of an APIService, and reads the whole response.
///
/// # Errors
/// The API server cannot be reached, is not trusted, or does not answer in time.
pub(super) async fn call(
    cluster: &Cluster,
    remote: &RemoteApi,
    call: Call<'_>,
) -> Result<http::Response<BoundedBody>, String> {
    let client = cluster.outbound.remote_client(remote)?;
    let address = remote.dial_address(cluster)?;
    send(&client, remote, &address, call).await
}

/// Sends a request whose response is a stream of lines. The time limit is for the head of the response. `silence` is the
/// maximum time without a line.
///
/// # Errors
/// As for [`call`]; or the response is not successful.
pub(super) async fn stream(
    cluster: &Cluster,
    remote: &RemoteApi,
    call: Call<'_>,
    silence: Duration,
) -> Result<Lines, String> {
    let client = cluster.outbound.remote_client(remote)?;
    let address = remote.dial_address(cluster)?;
    let options = StreamOptions {
        dial_address: Some(&address),
        head_timeout: Some(call.limits.timeout),
        idle_timeout: Some(silence),
        ..StreamOptions::default()
    };
    let request = request(remote, &address, call)?.map(Full::new);
    let response = client.stream(request, options).await.map_err(|error| error.cause.to_string())?;
    match response.status() {
        status if status.is_success() => {
            Ok(Lines { body: response.into_body(), received: BytesMut::new(), searched: 0 })
        }
        status => Err(format!("status {}", status.as_u16())),
    }
}

/// The lines of a response.
pub(super) struct Lines {
    body: ResponseBody,
    received: BytesMut,
    /// How many received bytes have no line break.
    searched: usize,
}

impl Lines {
    /// The next line; `None` at the end of the response.
    ///
    /// # Errors
    /// The response breaks off, or a line has more than `limit` bytes.
    pub(super) async fn next_line(&mut self, limit: usize) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.received[self.searched..]) {
                let line = self.received.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.received.len();
            if self.received.len() > limit {
                return Err("an event is too large".to_owned());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.received.extend_from_slice(&bytes);
                    }
                }
                Some(Err(error)) => return Err(error.to_string()),
                None => return Ok(None),
            }
        }
    }
}

/// The request of a call.
fn request(remote: &RemoteApi, address: &DialAddress, call: Call<'_>) -> Result<Request<Bytes>, String> {
    let uri = Uri::builder().scheme("https").authority(remote.authority.as_str()).path_and_query(call.path);
    let mut headers = HeaderMap::new();
    set_identity(&mut headers, &call.user, false).map_err(|error| error.to_string())?;
    let host = join_host_port(&address.host, &address.port.to_string());
    headers.insert(HOST, HeaderValue::try_from(host).map_err(|error| error.to_string())?);
    for (name, value) in [(ACCEPT, call.accept), (CONTENT_TYPE, call.content_type)] {
        if !value.is_empty() {
            headers.insert(name, HeaderValue::from_str(value).map_err(|error| error.to_string())?);
        }
    }
    headers.extend(call.etag.map(|etag| (IF_NONE_MATCH, etag.clone())));
    let mut request = Request::new(call.body);
    *request.method_mut() = call.method;
    *request.uri_mut() = uri.build().map_err(|error| error.to_string())?;
    *request.headers_mut() = headers;
    Ok(request)
}

async fn send(
    client: &Client,
    remote: &RemoteApi,
    address: &DialAddress,
    call: Call<'_>,
) -> Result<http::Response<BoundedBody>, String> {
    let limits = call.limits;
    let request = request(remote, address, call)?;
    client.send_to(Some(address), request, limits).await.map_err(|error| error.cause.to_string())
}

/// Asks the API server of an APIService for its group version, several times at once. One success suffices. The inner
/// error is upstream's message for the condition of the APIService.
///
/// # Errors
/// The outer error: there is no client, or no such APIService.
pub(crate) async fn probe(cluster: &Arc<Cluster>, service: &ApiService) -> Result<Result<(), String>, ApiError> {
    let Some(remote) = &service.remote else { return Err(ApiError::NoSuchPath) };
    let client = cluster.outbound.remote_client(remote).map_err(ApiError::Unclassified)?;
    let path = version_path(&service.version);
    let (client, path) = (&client, path.as_str());
    let mut probes: FuturesUnordered<_> =
        (0..PROBES).map(|_| async move { probe_once(cluster, remote, client, path).await }).collect();
    let mut last = Ok(());
    while let Some(result) = probes.next().await {
        last = result;
        if last.is_ok() {
            break;
        }
    }
    Ok(last)
}

async fn probe_once(cluster: &Cluster, remote: &RemoteApi, client: &Client, path: &str) -> Result<(), String> {
    let address = remote.dial_address(cluster)?;
    let url = format!("https://{}{path}", join_host_port(&address.host, &address.port.to_string()));
    let limits = CallLimits { timeout: PROBE_TIMEOUT, max_body_bytes: MAX_PROBE_BYTES };
    let call = Call::get(path, "", aggregator(&["system:masters"]), limits);
    match send(client, remote, &address, call).await {
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(response) => Err(format!(
            "failing or missing response from {url}: bad status from {url}: {}",
            response.status().as_u16()
        )),
        Err(error) => Err(format!("failing or missing response from {url}: Get \"{url}\": {error}")),
    }
}
