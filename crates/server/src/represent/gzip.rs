//! Compression of large responses, with kube-apiserver's parameters: gzip at its fastest level for gets and lists of at
//! least 128 KiB.

use std::io::{self, Write};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, VARY};

use pintle_gates::Feature;

use crate::context::RequestContext;
use crate::http::{Body, BodySource, PullBody, Response};

/// The size below which responses are not compressed, in bytes.
const THRESHOLD: usize = 128 * 1024;

/// Compresses a response if it is large and the client accepts gzip.
pub(crate) fn compress(request: &RequestContext, response: Response) -> Response {
    if !request.cluster.settings.gates.is_enabled(Feature::API_RESPONSE_COMPRESSION) {
        return response;
    }
    compress_from(THRESHOLD, request, response)
}

/// Compresses a response of at least `threshold` bytes if the client accepts gzip.
pub(crate) fn compress_from(threshold: usize, request: &RequestContext, mut response: Response) -> Response {
    if !request.accepts_gzip() {
        return response;
    }
    let inner: Box<dyn BodySource> = match std::mem::replace(response.body_mut(), Body::empty()) {
        Body::Full(bytes) if bytes.len() >= threshold => Box::new(Single(Some(bytes))),
        // A body that does not fit into one chunk is large.
        Body::Pull(body) => body.into_source(),
        other => {
            *response.body_mut() = other;
            return response;
        }
    };
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let gzip = Gzip { inner, encoder: Some(encoder) };
    *response.body_mut() = Body::Pull(PullBody::new(None, Box::new(gzip), &request.cluster.limits.cpu_permits));
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let vary = HeaderValue::from_static("Accept-Encoding");
    if !headers.get_all(VARY).iter().any(|value| *value == vary) {
        headers.append(VARY, vary);
    }
    response
}

/// A source of one chunk.
struct Single(Option<Bytes>);

impl BodySource for Single {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}

struct Gzip {
    inner: Box<dyn BodySource>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl BodySource for Gzip {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        let Some(encoder) = self.encoder.as_mut() else { return Poll::Ready(None) };
        loop {
            let chunk = match ready!(self.inner.poll_next(cx)) {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => {
                    self.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(self.encoder.take().map(|encoder| encoder.finish().map(Bytes::from))),
            };
            if let Err(error) = encoder.write_all(&chunk) {
                return Poll::Ready(Some(Err(error)));
            }
            if !encoder.get_ref().is_empty() {
                return Poll::Ready(Some(Ok(std::mem::take(encoder.get_mut()).into())));
            }
        }
    }
}
