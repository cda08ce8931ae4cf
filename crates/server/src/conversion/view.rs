//! The objects of a resource as one version of it shows them.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{Event, Indexer, KeyRange, Object, ObjectIndex, WatchCache};
use pintle_registry::{ApiError, Conversion, MultiVersion, Resource};
use pintle_value::Value;

use super::convert::convert;
use super::shared::convert_shared;
use crate::cluster::conversion_cache::ConversionKey;
use crate::cluster::{Cluster, tree};
use crate::objects::encode::{Shape, write_json};
use crate::objects::model;

thread_local! {
    /// Where objects are written before it is known how long they are.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How much room for a long object is kept for the next one, in bytes.
const KEPT: usize = 64 * 1024;

/// The objects of a resource at its version, which is a hub.
#[derive(Clone)]
pub(crate) struct VersionView {
    pub(super) cluster: Arc<Cluster>,
    pub(crate) hub: Arc<Resource>,
    pub(super) served: Option<ServedVersion>,
}

/// A version among equals.
#[derive(Clone)]
pub(super) struct ServedVersion {
    pub(super) versions: Arc<dyn MultiVersion>,
    /// As `apiVersion` names it.
    pub(super) name: Arc<str>,
    /// How the JSON of an object starts that is stored at this version: its members are sorted.
    start: Arc<[u8]>,
    /// The same for the versions whose objects differ in nothing else.
    identical_versions: Arc<[Vec<u8>]>,
}

impl VersionView {
    /// The view of a hub.
    pub(crate) fn of(cluster: &Arc<Cluster>, hub: &Arc<Resource>) -> Self {
        let served = hub.versions.clone().map(|versions| {
            let name = hub.group_version().to_string();
            let start = |name: &str| format!("{{\"apiVersion\":\"{name}\",").into_bytes();
            let identical_versions = versions.identical_versions(&name).into_iter().map(start).collect();
            ServedVersion { start: start(&name).into(), identical_versions, versions, name: name.into() }
        });
        Self { cluster: cluster.clone(), hub: hub.clone(), served }
    }

    /// The view of a hub that takes objects as they are stored, at whatever version.
    pub(crate) fn as_stored(cluster: &Arc<Cluster>, hub: &Arc<Resource>) -> Self {
        Self { served: None, ..Self::of(cluster, hub) }
    }

    /// True if objects are shown as they are stored, whatever they are.
    pub(crate) fn has_single_version(&self) -> bool {
        self.served.is_none()
    }

    /// True if an object is shown as it is stored.
    pub(crate) fn is_at_version(&self, object: &Object) -> bool {
        let as_it_is = |served: &ServedVersion| {
            object.revision > served.versions.since() && object.json.starts_with(&served.start)
        };
        self.served.as_ref().is_none_or(as_it_is)
    }

    /// True if someone else converts: objects may have other labels here than they are stored with.
    pub(crate) fn uses_webhook(&self) -> bool {
        let webhook = |served: &ServedVersion| matches!(served.versions.conversion(), Conversion::Webhook { .. });
        self.served.as_ref().is_some_and(webhook)
    }

    /// Objects as this version shows them to those who look at many.
    ///
    /// # Errors
    /// They cannot be read or converted.
    pub(crate) async fn convert_shared(&self, mut objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        let (places, others): (Vec<usize>, Vec<Arc<Object>>) = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| !self.is_at_version(object))
            .map(|(i, o)| (i, o.clone()))
            .unzip();
        if others.is_empty() {
            return Ok(objects);
        }
        let converted_object = if self.uses_webhook() {
            Box::pin(convert_shared(self, &others)).await?
        } else {
            self.convert(&others).await?
        };
        for (i, object) in places.into_iter().zip(converted_object) {
            objects[i] = object;
        }
        Ok(objects)
    }

    /// What someone is told who looks at many objects that cannot be shown: upstream keeps a cache of each version, which
    /// cannot be filled then (`storage/cacher`), and clients come again.
    pub(crate) fn initializing_error(&self, error: ApiError) -> ApiError {
        let ApiError::Unclassified(why) = error else { return error };
        let kind = model(&self.hub).go_type(&self.hub);
        let message = format!("storage is (re)initializing: failed to list {kind}: {why}");
        ApiError::TooManyRequests { message, retry_after: 1 }
    }

    /// Whether all of the collection can be read, which upstream's cache needs even for what is not asked for.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn check_all_readable(&self, watch_cache: &WatchCache) -> Result<(), ApiError> {
        let found = self.cluster.check_readable(&self.hub, watch_cache, &KeyRange::All, None, (None, None));
        found.map_err(|error| self.initializing_error(ApiError::Unclassified(error.to_string())))
    }

    /// The cache key of a stored object at this version; `None` if all versions are the same.
    pub(super) fn conversion_key(&self, object: &Object) -> Option<ConversionKey> {
        let served = self.served.as_ref()?;
        let definition = served.versions.since();
        Some(ConversionKey { definition, object: object.revision, version: served.name.clone() })
    }

    /// Stored objects at this version.
    pub(super) async fn convert(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<Object>>, ApiError> {
        let Some(served) = &self.served else { return Ok(objects.to_vec()) };
        if let Some(renamed) = objects.iter().map(|object| served.renamed(object)).collect() {
            return Ok(renamed);
        }
        let trees = objects.iter().map(|object| stored_tree(&*served.versions, object)).collect::<Result<_, _>>()?;
        let trees = convert(&self.cluster, &*served.versions, trees, &served.name).await?;
        let converted_object =
            objects.iter().zip(trees).map(|(object, tree)| Ok(Arc::new(self.converted_object(served, object, tree)?)));
        converted_object.collect()
    }

    /// One object as this version shows it.
    ///
    /// # Errors
    /// It cannot be read or converted.
    pub(crate) async fn convert_one(&self, object: &Arc<Object>) -> Result<Arc<Object>, ApiError> {
        if self.is_at_version(object) {
            return Ok(object.clone());
        }
        let converted_object = self.convert(std::slice::from_ref(object)).await?;
        converted_object.into_iter().next().ok_or_else(|| ApiError::Internal("the object is gone".to_owned()))
    }

    /// Events as this version shows their objects.
    ///
    /// # Errors
    /// As [`VersionView::convert_shared`].
    pub(crate) async fn convert_events(&self, events: &[Arc<Event>]) -> Result<Vec<Arc<Event>>, ApiError> {
        let sides = |event: &Arc<Event>| [event.object.clone(), event.previous.clone()];
        let objects = events.iter().flat_map(sides).flatten().collect();
        let mut converted_object = self.convert_shared(objects).await?.into_iter();
        let mut next = |side: &Option<Arc<Object>>| side.as_ref().and_then(|_| converted_object.next());
        let event = |event: &Arc<Event>| {
            let (object, previous) = (next(&event.object), next(&event.previous));
            Arc::new(Event::new(event.key.clone(), event.revision, object, previous))
        };
        Ok(events.iter().map(event).collect())
    }

    /// True if all that events tell of is shown as it is stored.
    pub(crate) fn are_at_version(&self, events: &[Arc<Event>]) -> bool {
        let is_at_version = |side: &Option<Arc<Object>>| side.as_ref().is_none_or(|object| self.is_at_version(object));
        self.has_single_version()
            || events.iter().all(|event| is_at_version(&event.object) && is_at_version(&event.previous))
    }

    /// The tree of an object at this version, with its resourceVersion.
    ///
    /// # Errors
    /// As [`VersionView::convert_shared`].
    pub(crate) async fn tree(&self, object: &Arc<Object>) -> Result<Value, ApiError> {
        tree(&*self.convert_one(object).await?)
    }

    /// An object of this version as it is stored. It has no resourceVersion.
    ///
    /// # Errors
    /// It cannot be converted.
    pub(crate) async fn store(&self, object: &Value) -> Result<Bytes, ApiError> {
        debug_assert!(object.resource_version().is_empty(), "{object:?}");
        match &self.served {
            Some(served) if *served.name != *served.versions.stored() => {
                let versions = &*served.versions;
                let converted = convert(&self.cluster, versions, vec![object.clone()], versions.stored()).await?;
                let mut stored = converted.into_iter().next().unwrap_or_default();
                // It is stored as it will be read.
                versions.conform(&mut stored).map_err(ApiError::Unclassified)?;
                versions.read(&mut stored);
                Ok(self.bytes(&stored))
            }
            _ => Ok(self.bytes(object)),
        }
    }

    /// An object of any version as it is stored at that version. It has no resourceVersion.
    pub(crate) fn bytes(&self, object: &Value) -> Bytes {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            write_json(object, Shape::of(&self.hub), buffer);
            // These bytes stay in the cache for as long as the object does, and nothing that they do not fill.
            let bytes = Bytes::copy_from_slice(buffer);
            buffer.shrink_to(KEPT);
            bytes
        })
    }

    /// What stands in the place of a stored object at this version.
    fn converted_object(&self, served: &ServedVersion, object: &Object, mut tree: Value) -> Result<Object, ApiError> {
        served.versions.conform(&mut tree).map_err(ApiError::Unclassified)?;
        let json = self.bytes(&tree);
        let prefix = self.hub.collection().map_or("", |collection| &collection.prefix);
        let index = self.cluster.indexers.index(prefix, &json).map_err(|error| unreadable(&error))?;
        Ok(Object::new(object.key.clone(), object.revision, json, index))
    }
}

impl ServedVersion {
    /// An object that is stored at a version which differs in name alone.
    fn renamed(&self, object: &Object) -> Option<Arc<Object>> {
        let as_it_is = object.revision > self.versions.since();
        let start = self.identical_versions.iter().find(|start| as_it_is && object.json.starts_with(start))?;
        let json = [&*self.start, object.json.get(start.len()..)?].concat();
        let moved = |place: u32| match (place as usize).checked_sub(start.len()) {
            Some(behind) => u32::try_from(behind + self.start.len()).ok(),
            None => Some(place),
        };
        let ObjectIndex { resource_version_offset: version_at, item_offset: item_at, labels: (from, to), .. } =
            object.index;
        let labels = if to == 0 { (0, 0) } else { (moved(from)?, moved(to)?) };
        let (version_at, item_at) = (moved(version_at)?, moved(item_at)?);
        let index = ObjectIndex {
            resource_version_offset: version_at,
            item_offset: item_at,
            labels,
            fields: object.index.fields.clone(),
        };
        Some(Arc::new(Object::new(object.key.clone(), object.revision, json.into(), index)))
    }
}

/// A stored object as its own version has it, without its resourceVersion.
fn stored_tree(versions: &dyn MultiVersion, object: &Object) -> Result<Value, ApiError> {
    let decoded = pintle_codec::json::decode(&object.json, pintle_codec::json::DecodeOptions::default());
    let mut tree = decoded.map_err(|error| unreadable(&error.to_string()))?.value;
    versions.read(&mut tree);
    Ok(tree)
}

fn unreadable(why: &str) -> ApiError {
    ApiError::Internal(format!("the stored object cannot be read: {why}"))
}
