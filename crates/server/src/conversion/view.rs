//! A view of a resource's objects at one version.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use pintle_cache::{CorruptObject, Event, Indexer, KeyRange, Object, ObjectIndex, WatchCache};
use pintle_codec::json::{OriginalObject, encode_decoded_again, encode_typed_changed};
use pintle_gates::Change;
use pintle_registry::{ApiError, Conversion, MultiVersion, Resource};
use pintle_value::Value;

use super::convert::convert;
use super::shared::convert_shared;
use crate::cluster::conversion_cache::ConversionKey;
use crate::cluster::object_index::with_kind_first;
use crate::cluster::{Cluster, MAX_NAMED_CORRUPT_OBJECTS, tree_keeping_text};
use crate::objects::encode::{Shape, encode_exact, write_json};
use crate::objects::model;

/// Maximum number of bytes that are converted before other tasks run, unless one object is larger. Converting a
/// kilobyte takes about ten microseconds.
const BYTES_PER_TURN: usize = 32 * 1024;
/// Maximum number of concurrent calls that determine which objects a webhook cannot convert.
const CONCURRENT_ATTEMPTS: usize = 16;

/// The objects in groups. Each group is converted before other tasks run.
fn turns(mut objects: &[Arc<Object>]) -> impl Iterator<Item = &[Arc<Object>]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |object: &&Arc<Object>| {
            bytes += object.json.len();
            bytes <= BYTES_PER_TURN
        };
        let count = objects.iter().take_while(fits).count().max(1);
        let turn;
        (turn, objects) = objects.split_at_checked(count)?;
        Some(turn)
    })
}

/// Lets other tasks run, except before the first group.
async fn yield_unless_first<T>(done: &[T]) {
    if !done.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// The objects of a resource at one version, the hub.
#[derive(Clone)]
pub(crate) struct VersionView {
    pub(super) cluster: Arc<Cluster>,
    pub(crate) hub: Arc<Resource>,
    pub(super) served_version: Option<ServedVersion>,
}

/// One version of a resource that has several versions.
#[derive(Clone)]
pub(super) struct ServedVersion {
    pub(super) versions: Arc<dyn MultiVersion>,
    /// The version as `apiVersion`.
    pub(super) api_version: Arc<str>,
    /// The first bytes of the JSON of an object stored at this version. The members of such an object are sorted,
    /// unless it lacks defaults of this version.
    prefix: Arc<[u8]>,
    /// The first bytes of objects stored at versions whose schemas are identical to this version's schema.
    identical_versions: Arc<[Vec<u8>]>,
}

impl VersionView {
    /// The view of a hub.
    pub(crate) fn of(cluster: &Arc<Cluster>, hub: &Arc<Resource>) -> Self {
        let served_version = hub.versions.clone().map(|versions| {
            let api_version = hub.group_version().to_string();
            let prefix = |api_version: &str| format!("{{\"apiVersion\":\"{api_version}\",").into_bytes();
            let identical_versions = versions.identical_versions(&api_version).into_iter().map(prefix).collect();
            ServedVersion {
                prefix: prefix(&api_version).into(),
                identical_versions,
                versions,
                api_version: api_version.into(),
            }
        });
        Self { cluster: cluster.clone(), hub: hub.clone(), served_version }
    }

    /// A view that leaves objects at the version at which they are stored.
    pub(crate) fn as_stored(cluster: &Arc<Cluster>, hub: &Arc<Resource>) -> Self {
        Self { served_version: None, ..Self::of(cluster, hub) }
    }

    /// True if objects are never converted.
    pub(crate) fn has_single_version(&self) -> bool {
        self.served_version.is_none()
    }

    /// True if an object does not need conversion.
    pub(crate) fn is_at_version(&self, object: &Object) -> bool {
        let is_current = |served_version: &ServedVersion| {
            object.revision > served_version.versions.crd_revision() && object.json.starts_with(&served_version.prefix)
        };
        self.served_version.as_ref().is_none_or(is_current)
    }

    /// True if a webhook converts objects. It may also change their labels.
    pub(crate) fn uses_webhook(&self) -> bool {
        let webhook =
            |served_version: &ServedVersion| matches!(served_version.versions.conversion(), Conversion::Webhook { .. });
        self.served_version.as_ref().is_some_and(webhook)
    }

    /// Converts objects for lists and watches, which share the results of webhook calls.
    ///
    /// # Errors
    /// Returns an error if an object cannot be decoded or converted.
    pub(crate) async fn convert_shared(&self, mut objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        let (indexes, to_convert): (Vec<usize>, Vec<Arc<Object>>) = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| !self.is_at_version(object))
            .map(|(i, o)| (i, o.clone()))
            .unzip();
        if to_convert.is_empty() {
            return Ok(objects);
        }
        let converted = if self.uses_webhook() {
            Box::pin(convert_shared(self, &to_convert)).await?
        } else {
            self.convert(&to_convert).await?
        };
        for (i, object) in indexes.into_iter().zip(converted) {
            objects[i] = object;
        }
        Ok(objects)
    }

    /// Converts the objects of a list. If corrupt objects can be deleted, the error names the objects that cannot be
    /// converted.
    ///
    /// # Errors
    /// See [`VersionView::convert_shared`].
    pub(crate) async fn convert_list(&self, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        if !self.uses_webhook() || !self.cluster.deletes_corrupt_objects() {
            return self.convert_shared(objects).await;
        }
        match self.convert_shared(objects.clone()).await {
            Err(error @ ApiError::Unclassified(_)) => Err(Box::pin(self.list_error(objects)).await.unwrap_or(error)),
            result => result,
        }
    }

    /// The error for the objects that cannot be converted; `None` if all can be converted meanwhile.
    async fn list_error(&self, objects: Vec<Arc<Object>>) -> Option<ApiError> {
        let attempts = objects.into_iter().map(|object| self.find_corrupt(object));
        let failed = stream::iter(attempts).buffered(CONCURRENT_ATTEMPTS).filter_map(std::future::ready);
        let failed: Vec<CorruptObject> = failed.take(MAX_NAMED_CORRUPT_OBJECTS + 1).collect().await;
        (!failed.is_empty()).then(|| self.cluster.list_error(&self.hub, &failed))
    }

    /// An object as a corrupt object, if it cannot be converted.
    async fn find_corrupt(&self, object: Arc<Object>) -> Option<CorruptObject> {
        let error = self.convert_one(&object).await.err()?;
        self.as_corrupt(&object, &error)
    }

    /// An object that a webhook cannot convert, as a corrupt object. `None` if corrupt objects cannot be deleted: then the
    /// error itself is the answer.
    pub(crate) fn as_corrupt(&self, object: &Object, error: &ApiError) -> Option<CorruptObject> {
        let ApiError::Unclassified(why) = error else { return None };
        (self.uses_webhook() && self.cluster.deletes_corrupt_objects()).then(|| CorruptObject {
            key: object.key.clone(),
            revision: object.revision,
            reason: why.clone().into(),
        })
    }

    /// The error of a get or a delete for an object that cannot be converted.
    pub(crate) fn read_error(&self, object: &Object, error: ApiError) -> ApiError {
        let corrupt = self.as_corrupt(object, &error);
        corrupt.map_or(error, |corrupt| self.cluster.corrupt_read_error(&self.hub, &corrupt))
    }

    /// The error of an update for an object that cannot be converted.
    pub(crate) fn update_error(&self, object: &Object, error: ApiError) -> ApiError {
        let corrupt = self.as_corrupt(object, &error);
        corrupt.map_or(error, |corrupt| self.cluster.corrupt_update_error(&corrupt))
    }

    /// The error of lists and watches for objects that cannot be converted. Upstream has a watch cache per version,
    /// which cannot be initialized then (`storage/cacher`), and clients retry.
    pub(crate) fn initializing_error(&self, error: ApiError) -> ApiError {
        let (ApiError::Unclassified(why) | ApiError::StoreRead { message: why, .. }) = error else { return error };
        let kind = if self.cluster.gates().has(Change::WATCH_CACHES_WITHOUT_TYPE) {
            "<unspecified>".to_owned()
        } else {
            model(&self.hub).go_type(&self.hub)
        };
        let message = format!("storage is (re)initializing: failed to list {kind}: {why}");
        ApiError::TooManyRequests { message, retry_after: 1, causes: Vec::new() }
    }

    /// Checks that the whole collection can be decoded. Upstream's watch cache requires this even for a part of the
    /// collection.
    ///
    /// # Errors
    /// Returns the error of an uninitialized watch cache.
    pub(crate) fn check_all_readable(&self, watch_cache: &WatchCache) -> Result<(), ApiError> {
        let found = self.cluster.check_readable(&self.hub, watch_cache, &KeyRange::All, None, (None, None));
        found.map_err(|error| {
            // The watch cache reads the storage itself, so its errors do not have the prefix that clients get.
            let why = match error {
                ApiError::Internal(why) | ApiError::Unclassified(why) => why,
                error => error.to_string(),
            };
            self.initializing_error(ApiError::Unclassified(why))
        })
    }

    /// The cache key of a stored object at this version; `None` if the resource has a single version.
    pub(super) fn conversion_key(&self, object: &Object) -> Option<ConversionKey> {
        let served_version = self.served_version.as_ref()?;
        let crd = served_version.versions.crd_revision();
        Some(ConversionKey { crd, object: object.revision, version: served_version.api_version.clone() })
    }

    /// Converts stored objects to this version. Other tasks run meanwhile. A webhook gets all objects in one call.
    pub(super) async fn convert(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ApiError> {
        let Some(served_version) = &self.served_version else { return Ok(objects.to_vec()) };
        if let Some(identical) = objects.iter().map(|object| served_version.with_api_version(object)).collect() {
            return Ok(identical);
        }
        let versions = &*served_version.versions;
        let mut converted = Vec::with_capacity(objects.len());
        let calls = if self.uses_webhook() { vec![objects] } else { turns(objects).collect() };
        for objects in calls {
            let mut trees = Vec::with_capacity(objects.len());
            for turn in turns(objects) {
                yield_unless_first(&trees).await;
                for object in turn {
                    trees.push(stored_tree(versions, object)?);
                }
            }
            let mut trees = convert(&self.cluster, versions, trees, &served_version.api_version).await?.into_iter();
            for turn in turns(objects) {
                yield_unless_first(&converted).await;
                for (object, tree) in turn.iter().zip(trees.by_ref()) {
                    converted.push(Arc::new(self.to_object(served_version, object, tree)?));
                }
            }
        }
        Ok(converted)
    }

    /// Converts one object to this version.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decoded or converted.
    pub(crate) async fn convert_one(&self, object: &Arc<Object>) -> Result<Arc<Object>, ApiError> {
        if self.is_at_version(object) {
            return Ok(object.clone());
        }
        let converted = self.convert(std::slice::from_ref(object)).await?;
        converted.into_iter().next().ok_or_else(|| ApiError::Internal("the conversion returned no object".to_owned()))
    }

    /// Converts the objects of events to this version.
    ///
    /// # Errors
    /// See [`VersionView::convert_shared`].
    pub(crate) async fn convert_events(&self, events: &[Arc<Event>]) -> Result<Vec<Arc<Event>>, ApiError> {
        let sides = |event: &Arc<Event>| [event.object.clone(), event.previous.clone()];
        let objects = events.iter().flat_map(sides).flatten().collect();
        let mut converted = self.convert_shared(objects).await?.into_iter();
        let mut next = |side: &Option<Arc<Object>>| side.as_ref().and_then(|_| converted.next());
        let event = |event: &Arc<Event>| {
            let (object, previous) = (next(&event.object), next(&event.previous));
            Arc::new(Event::new(event.key.clone(), event.revision, object, previous))
        };
        Ok(events.iter().map(event).collect())
    }

    /// True if no object of these events needs conversion.
    pub(crate) fn are_at_version(&self, events: &[Arc<Event>]) -> bool {
        let is_at_version = |side: &Option<Arc<Object>>| side.as_ref().is_none_or(|object| self.is_at_version(object));
        self.has_single_version()
            || events.iter().all(|event| is_at_version(&event.object) && is_at_version(&event.previous))
    }

    /// Returns the tree of an object at this version, with its resourceVersion.
    ///
    /// # Errors
    /// See [`VersionView::convert_shared`].
    pub(crate) async fn tree(&self, object: &Arc<Object>) -> Result<Value, ApiError> {
        self.tree_keeping_text(object, &[]).await
    }

    /// Like [`Self::tree`]. The objects in these members are decoded on first use.
    ///
    /// # Errors
    /// See [`VersionView::convert_shared`].
    pub(crate) async fn tree_keeping_text(
        &self,
        object: &Arc<Object>,
        kept_as_text: &'static [&'static str],
    ) -> Result<Value, ApiError> {
        tree_keeping_text(&*self.convert_one(object).await?, kept_as_text)
    }

    /// Encodes an object of this version for storage, at the storage version. The object must not have a
    /// resourceVersion. If a read would change the stored object, the kind comes first: see [`with_kind_first`].
    ///
    /// # Errors
    /// Returns an error if the object cannot be converted.
    pub(crate) async fn encode_for_storage(
        &self,
        object: &Value,
        original: Option<OriginalObject<'_>>,
    ) -> Result<Bytes, ApiError> {
        debug_assert!(object.resource_version().is_empty(), "{object:?}");
        match &self.served_version {
            Some(served_version) if *served_version.api_version != *served_version.versions.storage_version() => {
                let versions = &*served_version.versions;
                let converted =
                    convert(&self.cluster, versions, vec![object.clone()], versions.storage_version()).await?;
                let mut stored = converted.into_iter().next().unwrap_or_default();
                versions.prune_converted(&mut stored).map_err(ApiError::Unclassified)?;
                // As in upstream, the defaults of the storage version are not stored, but set when the object is read.
                Ok(self.encode_unlike_read(versions, &stored))
            }
            // Nulls in fields that are not nullable are stored; a read drops them. An object may be stored without its
            // status; a read sets the default of the status.
            Some(served_version) if has_null(object) || served_version.versions.lacks_default(object) => {
                Ok(self.encode_unlike_read(&*served_version.versions, object))
            }
            // This view writes objects as they were stored, so reads may have to prune them and set defaults.
            None if self.hub.versions.is_some() => Ok(with_kind_first(&self.encode(object, None))),
            _ => Ok(self.encode(object, original)),
        }
    }

    /// Encodes an object of the storage version. A read may change it.
    fn encode_unlike_read(&self, versions: &dyn MultiVersion, stored: &Value) -> Bytes {
        let json = self.encode(stored, None);
        let mut read = stored.clone();
        versions.prune_and_default_stored(&mut read);
        if read == *stored { json } else { with_kind_first(&json) }
    }

    /// Encodes an object of any version in the form that it has after a read from the store. The object must not have a
    /// resourceVersion. `original` is the stored object from which it was made, if any.
    pub(crate) fn encode(&self, object: &Value, original: Option<OriginalObject<'_>>) -> Bytes {
        // The encoding has its exact size, because the bytes stay in the cache as long as the object.
        encode_exact(|out| match (Shape::of(&self.hub), original) {
            (Shape::Typed(types, id), Some(original)) => encode_typed_changed(object, original, types, id, out),
            (Shape::Untyped, _) => encode_decoded_again(object, out),
            (shape, _) => write_json(object, shape, out),
        })
    }

    /// Creates the cached form of a stored object from its tree at this version.
    fn to_object(&self, served_version: &ServedVersion, object: &Object, mut tree: Value) -> Result<Object, ApiError> {
        served_version.versions.prune_converted(&mut tree).map_err(ApiError::Unclassified)?;
        let json = self.encode(&tree, None);
        let prefix = self.hub.collection().map_or("", |collection| &collection.prefix);
        let index = self.cluster.stores.indexers.index(prefix, &json).map_err(|error| corrupt_error(&error.text))?;
        Ok(Object::new(object.key.clone(), object.revision, json, index))
    }
}

impl ServedVersion {
    /// Converts an object that is stored at an identical version: only the `apiVersion` differs.
    fn with_api_version(&self, object: &Object) -> Option<Arc<Object>> {
        let is_current = object.revision > self.versions.crd_revision();
        let prefix = self.identical_versions.iter().find(|prefix| is_current && object.json.starts_with(prefix))?;
        let json = [&*self.prefix, object.json.get(prefix.len()..)?].concat();
        let shift = |offset: u32| match (offset as usize).checked_sub(prefix.len()) {
            Some(rest) => u32::try_from(rest + self.prefix.len()).ok(),
            None => Some(offset),
        };
        let ObjectIndex { resource_version_offset, item_offset, labels: (from, to), .. } = object.index;
        let labels = if to == 0 { (0, 0) } else { (shift(from)?, shift(to)?) };
        let (resource_version_offset, item_offset) = (shift(resource_version_offset)?, shift(item_offset)?);
        let index = ObjectIndex { resource_version_offset, item_offset, labels, fields: object.index.fields.clone() };
        Some(Arc::new(Object::new(object.key.clone(), object.revision, json.into(), index)))
    }
}

/// True if a value has a null in it.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        // Field sets have no nulls, and in custom objects nothing else is kept as text.
        Value::Object(members) => members.encoded().is_none() && members.values().any(has_null),
        _ => false,
    }
}

/// Decodes a stored object at its own version. The result has no resourceVersion.
fn stored_tree(versions: &dyn MultiVersion, object: &Object) -> Result<Value, ApiError> {
    let decoded = pintle_codec::json::decode(&object.json, pintle_codec::json::DecodeOptions::STORED);
    let mut tree = decoded.map_err(|error| corrupt_error(&error.to_string()))?.value;
    versions.prune_and_default_stored(&mut tree);
    Ok(tree)
}

fn corrupt_error(why: &str) -> ApiError {
    ApiError::Internal(format!("failed to decode the stored object: {why}"))
}
