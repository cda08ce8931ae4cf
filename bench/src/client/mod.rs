//! The load generator's HTTP client: TLS connections that are kept, HTTP/1.1 or HTTP/2 by choice, the credentials of a
//! kubeconfig. It knows hyper and nothing of Kubernetes, so that what it costs stays small and the same for every server.

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

pub(crate) use endpoint::{Access, Endpoint, Identity};
pub(crate) use request::{accepting, get, patch, plain, with_body};

/// A request to send.
pub(crate) type Outgoing = Request<Full<Bytes>>;

/// How requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A connection for each client.
    Http1,
    /// One connection that all clients share, as client-go does it.
    Http2,
}

/// What every request of an endpoint has in common.
#[derive(Debug)]
struct Common {
    host: HeaderValue,
    authority: http::uri::Authority,
    /// What the server's URL has before each path; mostly nothing.
    prefix: String,
    bearer: Option<HeaderValue>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A connection, or a share of one, that one request at a time uses.
pub(crate) struct Connection {
    sender: Sender,
    common: Arc<Common>,
}

impl Connection {
    /// Sends a request; the answer's body comes later.
    pub(crate) async fn send(&mut self, mut request: Outgoing) -> Result<Response<Incoming>> {
        let Common { host, authority, prefix, bearer } = &*self.common;
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

    /// Sends a request and takes the whole answer in, keeping only its length.
    pub(crate) async fn exchange(&mut self, request: Outgoing, expect: StatusCode) -> Result<u64> {
        let mut body = self.expect(request, expect).await?;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len) as u64;
        }
        Ok(length)
    }

    /// Sends a request and keeps the answer's body.
    pub(crate) async fn fetch(&mut self, request: Outgoing, expect: StatusCode) -> Result<Bytes> {
        Ok(self.expect(request, expect).await?.collect().await?.to_bytes())
    }

    /// Sends a request and hands on the body of the answer, which has to have this code: numbers of failing requests
    /// would mean nothing.
    pub(crate) async fn expect(&mut self, request: Outgoing, expect: StatusCode) -> Result<Incoming> {
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
