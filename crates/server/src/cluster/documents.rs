//! Documents that derive from the registry (discovery, OpenAPI): made on first use, kept while what they
//! are made of is served, within bounds, and served with an ETag.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use pintle_registry::{Group, Registry};
use sha2::{Digest, Sha512};

use crate::http::{Body, Response};

/// The SHA-512 in upper-case hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|b| format!("{b:02X}")).collect()
}

/// A finished document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// Changes whenever the bytes do.
    pub(crate) hash: String,
}

impl Document {
    /// A document with the hash of its bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { hash: hash(&bytes), bytes: bytes.into() }
    }

    /// A document with a hash that was known before it was made.
    pub(crate) fn with_hash(hash: String, bytes: Vec<u8>) -> Self {
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

/// What a document is made of. It holds as long as just that is served.
#[derive(Clone, Debug)]
pub(crate) enum DocumentDependency {
    /// All that is served.
    All(Arc<Registry>),
    /// A group.
    Group(Arc<Group>),
}

/// The same, without keeping it.
#[derive(Debug)]
enum WeakDependency {
    All(Weak<Registry>),
    Group(Weak<Group>),
}

impl WeakDependency {
    fn of(of: &DocumentDependency) -> Self {
        match of {
            DocumentDependency::All(registry) => WeakDependency::All(Arc::downgrade(registry)),
            DocumentDependency::Group(group) => WeakDependency::Group(Arc::downgrade(group)),
        }
    }

    fn is(&self, of: &DocumentDependency) -> bool {
        match (self, of) {
            (WeakDependency::All(was), DocumentDependency::All(registry)) => {
                std::ptr::eq(was.as_ptr(), Arc::as_ptr(registry))
            }
            (WeakDependency::Group(was), DocumentDependency::Group(group)) => {
                std::ptr::eq(was.as_ptr(), Arc::as_ptr(group))
            }
            _ => false,
        }
    }
}

/// How many bytes of documents are kept. The largest, OpenAPI v2, has a few megabytes without custom kinds.
const LIMIT: usize = 64 << 20;

/// The documents of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    made: Mutex<DocumentCache>,
}

#[derive(Debug, Default)]
struct DocumentCache {
    documents: HashMap<String, CachedDocument>,
    /// Hashes of documents that nobody has read yet.
    hashes: HashMap<String, (WeakDependency, String)>,
    bytes: usize,
    /// Counts requests.
    clock: u64,
}

#[derive(Debug)]
struct CachedDocument {
    of: WeakDependency,
    document: Document,
    /// When it was last asked for.
    used: u64,
}

impl DocumentCache {
    fn find(&mut self, name: &str, of: &DocumentDependency) -> Option<Document> {
        self.clock += 1;
        let kept = self.documents.get_mut(name).filter(|kept| kept.of.is(of))?;
        kept.used = self.clock;
        Some(kept.document.clone())
    }

    fn keep(&mut self, name: &str, of: &DocumentDependency, document: Document) {
        self.forget(name);
        self.bytes += document.bytes.len();
        self.documents
            .insert(name.to_owned(), CachedDocument { of: WeakDependency::of(of), document, used: self.clock });
        while self.bytes > LIMIT {
            let oldest = self.documents.iter().min_by_key(|(_, kept)| kept.used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { return };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(gone) = self.documents.remove(name) {
            self.bytes -= gone.document.bytes.len();
        }
    }
}

impl Documents {
    /// The document of this name, made by `make` unless it is there already.
    pub(crate) fn get(&self, of: &DocumentDependency, name: &str, make: impl FnOnce() -> Document) -> Document {
        if let Some(document) = self.made.lock().find(name, of) {
            return document;
        }
        let document = make();
        self.made.lock().keep(name, of, document.clone());
        document
    }

    /// The hash of the document of this name. The document itself is not kept: an index asks for the hashes of all, and
    /// few of them are read.
    pub(crate) fn hash(&self, of: &DocumentDependency, name: &str, make: impl FnOnce() -> Document) -> String {
        {
            let mut made = self.made.lock();
            if let Some(document) = made.find(name, of) {
                return document.hash;
            }
            if let Some((_, hash)) = made.hashes.get(name).filter(|(was, _)| was.is(of)) {
                return hash.clone();
            }
        }
        let hash = make().hash;
        self.made.lock().hashes.insert(name.to_owned(), (WeakDependency::of(of), hash.clone()));
        hash
    }
}
