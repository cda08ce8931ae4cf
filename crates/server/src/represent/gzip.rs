//! Compression of large answers, as kube-apiserver does it: gzip at its fastest level for gets and lists of 128 KiB and
//! more.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, VARY};

use crate::http::{Body, Produce, Response};

/// Answers smaller than this are sent as they are.
const THRESHOLD: usize = 128 * 1024;

/// Compresses an answer, if it is large and the client accepts it.
pub(crate) fn compress(mut response: Response, accepted: bool) -> Response {
    if !accepted {
        return response;
    }
    let body = std::mem::replace(response.body_mut(), Body::empty());
    let (inner, first): (Option<Box<dyn Produce>>, Option<Bytes>) = match body {
        Body::Whole(bytes) if bytes.len() >= THRESHOLD => (None, Some(bytes)),
        // What does not fit a piece is large.
        body => match body.into_producer() {
            Ok(producer) => (Some(producer), None),
            Err(other) => {
                *response.body_mut() = other;
                return response;
            }
        },
    };
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    *response.body_mut() = Body::produced(Box::new(Gzip { inner, first, encoder: Some(encoder) }));
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

struct Gzip {
    inner: Option<Box<dyn Produce>>,
    first: Option<Bytes>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Produce for Gzip {
    fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        let encoder = self.encoder.as_mut()?;
        loop {
            let piece = match self.first.take().map(Ok).or_else(|| self.inner.as_mut()?.next()) {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => {
                    self.encoder = None;
                    return Some(Err(error));
                }
                None => return self.encoder.take().map(|encoder| encoder.finish().map(Bytes::from)),
            };
            if let Err(error) = encoder.write_all(&piece) {
                return Some(Err(error));
            }
            if !encoder.get_ref().is_empty() {
                return Some(Ok(std::mem::take(encoder.get_mut()).into()));
            }
        }
    }
}
