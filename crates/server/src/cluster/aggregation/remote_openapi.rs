//! The OpenAPI documents of other API servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pintle_value::Str;

use super::ApiService;

/// The OpenAPI documents of other API servers.
#[derive(Debug, Default)]
pub(crate) struct RemoteOpenApi {
    /// The documents of v2, in the order in which they are merged.
    pub(crate) v2: Vec<RemoteV2>,
    /// The documents of v3 by path, such as `apis/metrics.k8s.io/v1beta1`.
    pub(crate) v3: BTreeMap<String, RemoteV3>,
}

impl RemoteOpenApi {
    /// True if all documents are the same, and are merged in the same order.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let key = |it: &RemoteV2| (it.service.name.clone(), it.document.clone());
        self.v2.iter().map(key).eq(other.v2.iter().map(key)) && self.v3 == other.v3
    }
}

/// The document of v2 of an API server, of which the paths of one APIService count.
#[derive(Clone, Debug)]
pub(crate) struct RemoteV2 {
    pub(crate) service: Arc<ApiService>,
    /// The document in JSON.
    pub(crate) document: Bytes,
}

/// A document of v3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteV3 {
    /// The API server of the APIService of this name serves it under this URL.
    Served { service: Str, url: String },
    /// The document in JSON, which was made from the document of v2, because the API server has no v3.
    Converted(Bytes),
}
