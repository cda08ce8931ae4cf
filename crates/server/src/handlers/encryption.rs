//! The encryption of stored values: counts of values by key, and the rewrite of values with the current key. Both requests
//! work on a part of the store and return a token with which the next request goes on. Upstream has neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, StatusCode};
use pintle_codec::json;
use pintle_encryption::StoredKey;
use pintle_registry::{ApiError, GroupResource};
use pintle_store::{Change, EncryptionStatus, Error, KeyInterval, RecordPage, Store, unreadable_reason};
use pintle_value::{Value, object};

use crate::cluster::{Cluster, SERVER_ADDRESSES_PREFIX, store_error};
use crate::context::RequestContext;
use crate::conversion::StoredResources;
use crate::http::{Response, json_text};

/// Counts the stored values by their resources and keys.
const KEYS_PATH: &str = "/debug/encryption/keys";
/// Writes stale values again.
const REENCRYPT_PATH: &str = "/debug/encryption/reencrypt";
/// Shows the data keys of a store that is encrypted as a whole.
const STORE_KEYS_PATH: &str = "/debug/encryption/store";
/// Adds a new data key to such a store.
const ROTATE_PATH: &str = "/debug/encryption/store/rotate-key";

/// The number of values of one request, by default and at most. Whole values are read, so it bounds the memory.
const MAX_LIMIT: usize = 100;
/// How many keys of values that cannot be written an answer names.
const MAX_NAMED: usize = 10;

/// Responds if the path belongs to this file.
///
/// # Errors
/// A parameter is not valid, or the store fails.
pub(crate) async fn respond(request: &RequestContext) -> Option<Result<Response, ApiError>> {
    let cluster = &request.cluster;
    let allowed = match &*request.info.path {
        KEYS_PATH | STORE_KEYS_PATH => Method::GET,
        REENCRYPT_PATH | ROTATE_PATH => Method::POST,
        _ => return None,
    };
    if request.method != allowed {
        return Some(Err(ApiError::MethodNotAllowed));
    }
    let answer = async {
        match &*request.info.path {
            KEYS_PATH => StorePart::of(request)?.count_keys(cluster).await,
            REENCRYPT_PATH => StorePart::of(request)?.reencrypt(cluster).await,
            path => {
                let keys = cluster.main_storage().store.keys();
                let not_encrypted = || ApiError::BadRequest("the store is not encrypted as a whole".to_owned());
                let keys = keys.ok_or_else(not_encrypted)?;
                if path == ROTATE_PATH {
                    keys.rotate().await.map_err(rotation_error)?;
                }
                Ok(data_keys(&keys.status()))
            }
        }
    };
    Some(answer.await.map(|answer| json_text(StatusCode::OK, json::encode(&answer))))
}

/// The error of a rotation tells the administrator why the key-encryption key cannot be used.
fn rotation_error(error: Error) -> ApiError {
    match error {
        error @ Error::Encryption { .. } => ApiError::Internal(error.to_string()),
        error => store_error(error),
    }
}

/// The data keys of a store, the oldest first.
fn data_keys(status: &EncryptionStatus) -> Value {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let keys = status.data_keys.iter().map(|key| {
        object! {
            "id": i64::from(key.id),
            "wrappedWith": key.wrapped_with.as_str(),
            "records": number(key.records),
        }
    });
    let problem = status.problem.as_deref().unwrap_or_default();
    object! { "dataKeys": keys.collect::<Vec<_>>(), "problem": problem }
}

/// A part of one of the stores.
struct StorePart {
    /// The position of the store among all stores of the cluster.
    store: usize,
    interval: KeyInterval,
    limit: usize,
}

impl StorePart {
    fn of(request: &RequestContext) -> Result<Self, ApiError> {
        let (cluster, query) = (&request.cluster, &request.query);
        let parameter = |name: &str| query.get(name).filter(|value| !value.is_empty());
        let invalid = |name: &str, value: &str| ApiError::BadRequest(format!("invalid {name}: {value:?}"));
        let limit = parameter("limit").map(|text| text.parse::<usize>().map_err(|_| invalid("limit", text)));
        let limit = limit.transpose()?.unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT);
        let prefix = match parameter("resource") {
            Some(name) => {
                let hub = cluster.registry().hub_of(&resource_named(name)).cloned();
                let collection = hub.as_ref().and_then(|hub| hub.collection());
                let collection = collection.ok_or_else(|| invalid("resource", name))?;
                cluster.stores.cache.store_key(&collection.prefix, "")
            }
            None => format!("{}/", cluster.stores.cache.root()),
        };
        let (mut store, mut interval) = (0, KeyInterval::prefix(&prefix));
        if let Some(token) = parameter("continue") {
            let (number, after) = token.split_once(':').unwrap_or_default();
            store = number.parse().map_err(|_| invalid("continue", token))?;
            if !after.is_empty() {
                if !interval.contains(after) {
                    return Err(invalid("continue", token));
                }
                interval.continue_after(after);
            }
        }
        Ok(Self { store, interval, limit })
    }

    fn store<'c>(&self, cluster: &'c Cluster) -> Result<&'c Arc<dyn Store>, ApiError> {
        let found = cluster.storages().nth(self.store).map(|storage| storage.store);
        found.ok_or_else(|| ApiError::BadRequest(format!("invalid store: {}", self.store)))
    }

    /// Where the next request goes on: after the last key of a page, or at the beginning of the next store. Empty at the
    /// end.
    fn continue_after(&self, cluster: &Cluster, page: &RecordPage) -> String {
        match page.records.last() {
            Some(last) if !page.is_last => format!("{}:{}", self.store, last.key),
            _ if self.store + 1 < cluster.storages().count() => format!("{}:", self.store + 1),
            _ => String::new(),
        }
    }

    async fn count_keys(&self, cluster: &Cluster) -> Result<Value, ApiError> {
        let resources = StoredResources::new(cluster.stores.cache.root());
        let page = self.store(cluster)?.stored_page(self.interval.clone(), self.limit).await.map_err(store_error)?;
        let token = self.continue_after(cluster, &page);
        let mut counts: BTreeMap<(String, StoredKey), i64> = BTreeMap::new();
        for record in &page.records {
            let Some(resource) = resources.of(&record.key) else { continue };
            *counts.entry((resource.to_string(), StoredKey::of(&record.value))).or_default() += 1;
        }
        let transformers = cluster.encryption.transformers();
        let counts = counts.into_iter().map(|((resource, key), count)| {
            let current = transformers.writing_key(&resource_named(&resource)).map(|current| current == key);
            object! {
                "resource": resource.as_str(),
                "provider": &*key.provider,
                "key": key.key.as_str(),
                "current": current.map_or(Value::Null, Value::Bool),
                "objects": count,
            }
        });
        let counts: Vec<Value> = counts.collect();
        Ok(object! { "counts": counts, "continue": token })
    }

    /// Writes the stale values again. A value that another writer changes meanwhile is encrypted with the current key by
    /// that writer. Values that expire by themselves are left alone.
    async fn reencrypt(&self, cluster: &Cluster) -> Result<Value, ApiError> {
        let resources = StoredResources::new(cluster.stores.cache.root());
        let store = self.store(cluster)?;
        let page = store.page(self.interval.clone(), None, self.limit).await.map_err(store_error)?;
        let token = self.continue_after(cluster, &page);
        let (mut examined, mut rewritten, mut expiring, mut unreadable, mut failed) =
            (0_i64, 0_i64, 0_i64, 0_i64, 0_i64);
        let mut failures = Vec::new();
        for record in page.records {
            let Some(resource) = resources.of(&record.key) else { continue };
            examined += 1;
            if unreadable_reason(&record.value).is_some() {
                unreadable += 1;
                continue;
            }
            if !record.stale {
                continue;
            }
            if expires(cluster, &record.key, &resource) {
                expiring += 1;
                continue;
            }
            match store.commit(Change::update(record.key.clone(), record.mod_revision, record.value)).await {
                Ok(_) => rewritten += 1,
                Err(Error::Conflict { .. }) => {}
                // The encrypted form may be too large. The other values must not wait for this one.
                Err(error @ (Error::TooLarge { .. } | Error::Transform { .. })) => {
                    failed += 1;
                    if failures.len() < MAX_NAMED {
                        failures.push(Value::from(format!("{}: {error}", record.key)));
                    }
                }
                Err(error) => return Err(store_error(error)),
            }
        }
        Ok(object! {
            "examined": examined,
            "rewritten": rewritten,
            "expiring": expiring,
            "unreadable": unreadable,
            "failed": failed,
            "failures": failures,
            "continue": token,
        })
    }
}

/// True if a stored value has a time to live, which a rewrite would remove.
fn expires(cluster: &Cluster, key: &str, resource: &GroupResource) -> bool {
    let registry = cluster.registry();
    let has_ttl = registry.hub_of(resource).is_some_and(|hub| hub.strategy.has_ttl());
    has_ttl || key.starts_with(&cluster.stores.cache.store_key(SERVER_ADDRESSES_PREFIX, ""))
}

/// The resource with a name such as `secrets` or `things.example.com`.
fn resource_named(name: &str) -> GroupResource {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    GroupResource::new(group, plural)
}
