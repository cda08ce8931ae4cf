//! The load generator's HTTP client. It has persistent TLS connections, HTTP/1.1 or HTTP/2, and the credentials of a
//! kubeconfig. It uses hyper directly and has no Kubernetes logic, so that its own cost is small and the same for every
//! server.

mod endpoint;
mod request;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::uri::{Parts, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};

use crate::Result;

pub(crate) use endpoint::{ConnectionConfig, Credentials, Endpoint};
pub(crate) use request::{get, get_as, patch, plain, with_body};

/// A request to send.
pub(crate) type HttpRequest = Request<Full<Bytes>>;

/// The HTTP version and connection model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// One connection per client.
    Http1,
    /// One connection shared by all clients, like client-go.
    Http2,
}

/// The parts that all requests to an endpoint share.
#[derive(Debug)]
struct EndpointInfo {
    host: HeaderValue,
    authority: http::uri::Authority,
    /// The path prefix of the server's URL; usually empty.
    prefix: String,
    bearer: Option<HeaderValue>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A connection, or a handle of a shared connection, for one request at a time.
pub(crate) struct Connection {
    sender: Sender,
    info: Arc<EndpointInfo>,
}

impl Connection {
    /// True unless the connection is closed.
    pub(crate) fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Sends a request and returns the response. The body is not read yet.
    pub(crate) async fn send(&mut self, mut request: HttpRequest) -> Result<Response<Incoming>> {
        let EndpointInfo { host, authority, prefix, bearer } = &*self.info;
        if let Some(bearer) = bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        let absolute = matches!(self.sender, Sender::Http2(_));
        if absolute || !prefix.is_empty() {
            let mut parts = Parts::default();
            let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
            parts.path_and_query = Some(PathAndQuery::try_from(format!("{prefix}{path}"))?);
            if absolute {
                parts.scheme = Some(Scheme::HTTPS);
                parts.authority = Some(authority.clone());
            }
            *request.uri_mut() = Uri::from_parts(parts)?;
        }
        match &mut self.sender {
            Sender::Http1(sender) => {
                request.headers_mut().insert(HOST, host.clone());
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }

    /// Sends a request, discards the response body and returns its length.
    pub(crate) async fn execute(&mut self, request: HttpRequest, expect: StatusCode) -> Result<u64> {
        let mut body = self.send_expecting(request, expect).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }

    /// Sends a request and returns the response body.
    pub(crate) async fn fetch(&mut self, request: HttpRequest, expect: StatusCode) -> Result<Bytes> {
        Ok(self.send_expecting(request, expect).await?.collect().await?.to_bytes())
    }

    /// Sends a request and returns the unread body of a response with status `expect`.
    ///
    /// # Errors
    /// Returns an error for any other status, because measurements of failing requests are worthless.
    pub(crate) async fn send_expecting(&mut self, request: HttpRequest, expect: StatusCode) -> Result<Incoming> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = self.send(request).await?;
        let code = response.status();
        if code == expect {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let start = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
        Err(format!("{method} {uri}: {code}: {start}").into())
    }
}
