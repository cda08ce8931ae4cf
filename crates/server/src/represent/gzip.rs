//! Compression of large responses, with kube-apiserver's parameters: gzip at its fastest level for gets and lists of at
//! least 128 KiB.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, VARY};

use pintle_cache::{CompressedBlocks, GzipStream};
use pintle_gates::Feature;

use crate::context::RequestContext;
use crate::http::{Body, BodySource, Chunk, PullBody, Response};

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
    let blocks = request.cluster.stores.cache.encoding_cache().compressed_blocks().clone();
    let gzip = Gzip { inner, stream: Some(GzipStream::new(blocks)) };
    *response.body_mut() = Body::Pull(PullBody::new(None, Box::new(gzip), &request.cluster.limits.cpu_permits));
    set_gzip_headers(&mut response);
    response
}

/// Sets the headers of a response whose body is compressed.
pub(crate) fn set_gzip_headers(response: &mut Response) {
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let vary = HeaderValue::from_static("Accept-Encoding");
    if !headers.get_all(VARY).iter().any(|value| *value == vary) {
        headers.append(VARY, vary);
    }
}

/// Compresses a chunk as a complete member of a gzip stream (RFC 1952), so that nothing is kept for the next one.
///
/// # Errors
/// The compressor fails.
pub(crate) fn gzip_member(blocks: &Arc<CompressedBlocks>, mut chunk: Chunk) -> io::Result<Bytes> {
    let (mut stream, mut out) = (GzipStream::new(blocks.clone()), Vec::new());
    while chunk.has_remaining() {
        let part = chunk.chunk();
        stream.write(part, &mut out)?;
        let read = part.len();
        chunk.advance(read);
    }
    stream.finish(&mut out)?;
    Ok(out.into())
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
    /// `None` after the end of the stream.
    stream: Option<GzipStream>,
}

impl BodySource for Gzip {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        let Some(mut stream) = self.stream.take() else { return Poll::Ready(None) };
        let mut out = Vec::new();
        let compressed = loop {
            match self.inner.poll_next(cx) {
                Poll::Pending => {
                    self.stream = Some(stream);
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(chunk))) => match stream.write(&chunk, &mut out) {
                    Ok(()) if out.is_empty() => {}
                    Ok(()) => {
                        self.stream = Some(stream);
                        break Ok(());
                    }
                    Err(error) => break Err(error),
                },
                Poll::Ready(Some(Err(error))) => break Err(error),
                Poll::Ready(None) => break stream.finish(&mut out),
            }
        };
        Poll::Ready(Some(compressed.map(|()| out.into())))
    }
}
