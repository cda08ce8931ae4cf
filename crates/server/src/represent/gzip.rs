//! Compression of large answers, as kube-apiserver does it: gzip at its fastest level for gets and lists of 128 KiB and
//! more.

use std::io::{self, Write};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, VARY};

use crate::context::RequestContext;
use crate::http::{Body, BodySource, PullBody, Response};

/// Answers smaller than this are sent as they are.
const THRESHOLD: usize = 128 * 1024;

/// Compresses an answer, if it is large and the client accepts it.
pub(crate) fn compress(call: &RequestContext, mut response: Response) -> Response {
    if !call.accepts_gzip() {
        return response;
    }
    let inner: Box<dyn BodySource> = match std::mem::replace(response.body_mut(), Body::empty()) {
        Body::Whole(bytes) if bytes.len() >= THRESHOLD => Box::new(Single(Some(bytes))),
        // What does not fit a piece is large.
        Body::PullBody(produced) => produced.into_source(),
        other => {
            *response.body_mut() = other;
            return response;
        }
    };
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let gzip = Gzip { inner, encoder: Some(encoder) };
    *response.body_mut() = Body::PullBody(PullBody::new(None, Box::new(gzip), &call.cluster.cpu_permits));
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let vary = HeaderValue::from_static("Accept-Encoding");
    if !headers.get_all(VARY).iter().any(|said| *said == vary) {
        headers.append(VARY, vary);
    }
    response
}

/// A body that is there already.
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
            let piece = match ready!(self.inner.poll_next(cx)) {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => {
                    self.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => return Poll::Ready(self.encoder.take().map(|encoder| encoder.finish().map(Bytes::from))),
            };
            if let Err(error) = encoder.write_all(&piece) {
                return Poll::Ready(Some(Err(error)));
            }
            if !encoder.get_ref().is_empty() {
                return Poll::Ready(Some(Ok(std::mem::take(encoder.get_mut()).into())));
            }
        }
    }
}
