//! Documents that derive from the registry (discovery, OpenAPI): made on first use, kept until a kind appears or goes,
//! and served with an ETag.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use pintle_registry::Registry;
use sha2::{Digest, Sha512};

use crate::http::{Body, Response};

/// A finished document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// The SHA-512 of the bytes in upper-case hexadecimal digits.
    pub(crate) hash: String,
}

impl Document {
    fn new(bytes: Vec<u8>) -> Self {
        let hash = Sha512::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect();
        Self { bytes: bytes.into(), hash }
    }

    /// The document as an answer: 304 without a body for a client that has it already.
    pub(crate) fn respond(&self, headers: &HeaderMap, media_type: &'static str) -> Response {
        let etag = format!("\"{}\"", self.hash);
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok()).any(|v| v.contains(&etag));
        let mut response = if known {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            Response::new(Body::Whole(self.bytes.clone()))
        };
        let headers = response.headers_mut();
        if !known {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        if let Ok(etag) = HeaderValue::from_str(&etag) {
            headers.insert(ETAG, etag);
        }
        response
    }
}

/// The documents of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    of: Option<Arc<Registry>>,
    documents: HashMap<String, Document>,
    /// Hashes of documents that nobody has read yet.
    hashes: HashMap<String, String>,
}

impl Documents {
    /// The document of this name, made by `make` unless it is there for this registry already.
    pub(crate) fn get(&self, registry: &Arc<Registry>, name: &str, make: impl FnOnce() -> Vec<u8>) -> Document {
        {
            let made = self.made.lock();
            if made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, registry))
                && let Some(document) = made.documents.get(name)
            {
                return document.clone();
            }
        }
        let document = Document::new(make());
        let mut made = self.made.lock();
        if !made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, registry)) {
            *made = Made { of: Some(registry.clone()), ..Made::default() };
        }
        made.documents.insert(name.to_owned(), document.clone());
        document
    }

    /// The hash of the document of this name. The document itself is not kept: an index asks for the hashes of all, and
    /// few of them are read.
    pub(crate) fn hash(&self, registry: &Arc<Registry>, name: &str, make: impl FnOnce() -> Vec<u8>) -> String {
        {
            let made = self.made.lock();
            if made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, registry)) {
                let known = made.documents.get(name).map(|d| &d.hash).or_else(|| made.hashes.get(name));
                if let Some(hash) = known {
                    return hash.clone();
                }
            }
        }
        let hash = Document::new(make()).hash;
        let mut made = self.made.lock();
        if !made.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, registry)) {
            *made = Made { of: Some(registry.clone()), ..Made::default() };
        }
        made.hashes.insert(name.to_owned(), hash.clone());
        hash
    }
}
