//! Documents derived from the registry (discovery, OpenAPI). They are created on first use, cached while their
//! dependency is served, and served with an ETag. The cache is bounded.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use pintle_locks::Mutex;
use pintle_registry::{Group, Registry};
use sha2::{Digest, Sha512};

use crate::http::{Body, Response, header_text, set_header};

/// Returns the SHA-512 in upper-case hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|b| format!("{b:02X}")).collect()
}

/// A complete document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The bytes.
    pub(crate) bytes: Bytes,
    /// The hash of the bytes, used as ETag.
    pub(crate) hash: String,
    /// The time at which the document was made.
    pub(crate) modified: SystemTime,
}

impl Document {
    /// A document with the hash of its bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self::with_hash(hash(&bytes), bytes)
    }

    /// A document whose hash is computed from something other than its bytes.
    pub(crate) fn with_hash(hash: String, bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), hash, modified: SystemTime::now() }
    }

    /// The JSON of the document.
    pub(crate) fn json(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The ETag.
    pub(crate) fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    /// The document as a response: 304 without a body if the client has the current version.
    pub(crate) fn respond(&self, headers: &HeaderMap, media_type: &'static str) -> Response {
        let etag = self.etag();
        // Upstream compares the whole header.
        let is_current = header_text(headers, &IF_NONE_MATCH) == etag;
        let mut response = if is_current {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            Response::new(Body::Full(self.bytes.clone()))
        };
        let headers = response.headers_mut();
        if !is_current {
            headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        set_header(headers, ETAG, &etag);
        response
    }
}

/// The values from which a document is derived. The document is valid as long as exactly these values are served.
#[derive(Clone, Debug)]
pub(crate) enum DocumentDependency {
    /// All groups.
    All(Arc<Registry>),
    /// One group.
    Group(Arc<Group>),
    /// All groups of this server, and data of other API servers.
    Merged(Arc<Registry>, Arc<dyn Any + Send + Sync>),
}

/// A dependency that this reference does not keep alive.
#[derive(Debug)]
enum WeakDependency {
    All(Weak<Registry>),
    Group(Weak<Group>),
    Merged(Weak<Registry>, Weak<dyn Any + Send + Sync>),
}

/// True if both are the same value.
fn is_same<T: ?Sized>(weak: &Weak<T>, strong: &Arc<T>) -> bool {
    std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(strong))
}

impl WeakDependency {
    fn of(dependency: &DocumentDependency) -> Self {
        match dependency {
            DocumentDependency::All(registry) => WeakDependency::All(Arc::downgrade(registry)),
            DocumentDependency::Group(group) => WeakDependency::Group(Arc::downgrade(group)),
            DocumentDependency::Merged(registry, other) => {
                WeakDependency::Merged(Arc::downgrade(registry), Arc::downgrade(other))
            }
        }
    }

    fn matches(&self, dependency: &DocumentDependency) -> bool {
        match (self, dependency) {
            (WeakDependency::All(weak), DocumentDependency::All(registry)) => is_same(weak, registry),
            (WeakDependency::Group(weak), DocumentDependency::Group(group)) => is_same(weak, group),
            (WeakDependency::Merged(weak, other), DocumentDependency::Merged(registry, data)) => {
                is_same(weak, registry) && is_same(other, data)
            }
            _ => false,
        }
    }
}

/// Maximum size of all cached documents, in bytes. The largest document, OpenAPI v2, has a few megabytes without custom
/// resources.
const MAX_BYTES: usize = 64 << 20;

/// The documents of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    cache: Mutex<DocumentCache>,
}

#[derive(Debug, Default)]
struct DocumentCache {
    documents: HashMap<String, CachedDocument>,
    /// Hashes of documents that were not read yet.
    hashes: HashMap<String, (WeakDependency, String)>,
    bytes: usize,
    /// The number of requests so far; orders entries by last use.
    request_count: u64,
}

#[derive(Debug)]
struct CachedDocument {
    dependency: WeakDependency,
    document: Document,
    /// The request count at the last use.
    last_used: u64,
}

impl DocumentCache {
    fn find(&mut self, name: &str, dependency: &DocumentDependency) -> Option<Document> {
        self.request_count += 1;
        let cached = self.documents.get_mut(name).filter(|cached| cached.dependency.matches(dependency))?;
        cached.last_used = self.request_count;
        Some(cached.document.clone())
    }

    fn insert(&mut self, name: &str, dependency: &DocumentDependency, document: Document) {
        self.remove(name);
        self.bytes += document.bytes.len();
        self.documents.insert(
            name.to_owned(),
            CachedDocument { dependency: WeakDependency::of(dependency), document, last_used: self.request_count },
        );
        while self.bytes > MAX_BYTES {
            let oldest = self.documents.iter().min_by_key(|(_, cached)| cached.last_used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(removed) = self.documents.remove(name) {
            self.bytes -= removed.document.bytes.len();
        }
    }
}

impl Documents {
    /// Returns the document of a name. Calls `make` if it is not cached.
    pub(crate) fn get(&self, dependency: &DocumentDependency, name: &str, make: impl FnOnce() -> Document) -> Document {
        if let Some(document) = self.cache.lock().find(name, dependency) {
            return document;
        }
        let document = make();
        self.cache.lock().insert(name, dependency, document.clone());
        document
    }

    /// Returns the hash of a document. This does not cache the document, because an index needs all hashes, but clients
    /// read few of the documents.
    pub(crate) fn hash(&self, dependency: &DocumentDependency, name: &str, make: impl FnOnce() -> Document) -> String {
        {
            let mut cache = self.cache.lock();
            if let Some(document) = cache.find(name, dependency) {
                return document.hash;
            }
            if let Some((_, hash)) = cache.hashes.get(name).filter(|(weak, _)| weak.matches(dependency)) {
                return hash.clone();
            }
        }
        let hash = make().hash;
        self.cache.lock().hashes.insert(name.to_owned(), (WeakDependency::of(dependency), hash.clone()));
        hash
    }
}
