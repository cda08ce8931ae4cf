//! Lists. JSON (and tables in JSON) are written piece by piece while the connection takes them, at one revision, so that
//! memory does not grow with the list; the other encodings are made whole.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{Key, KeyRange, Log, Object, Pin};
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::{Value, object};

use super::encode::{Shape, encode, json, write_json};
use super::items::Items;
use super::{Form, partial};
use crate::http::Produce;
use crate::negotiate::{Encoding, Transform};
use crate::read::Selection;

/// A piece of a body is sent when it has grown to this.
const PIECE: usize = 128 * 1024;
/// Keys looked at under one hold of the log's lock.
const STRIDE: usize = 512;

/// `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListHead {
    pub(crate) revision: String,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListHead {
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = Value::object();
        if !self.revision.is_empty() {
            metadata.set("resourceVersion", self.revision.as_str());
        }
        if !self.continue_token.is_empty() {
            metadata.set("continue", self.continue_token.as_str());
        }
        if let Some(remaining) = self.remaining {
            metadata.set("remainingItemCount", remaining as i64);
        }
        metadata
    }
}

/// Where a list's objects come from.
pub(crate) enum Source {
    /// Objects at hand.
    Objects(std::vec::IntoIter<Arc<Object>>),
    /// A walk over a log at a revision, which is pinned meanwhile.
    Walk { log: Arc<Log>, range: KeyRange, selection: Selection, at: u64, after: Option<Key>, done: bool, _pin: Pin },
}

impl Source {
    /// The next objects; empty at the end.
    fn next(&mut self) -> Result<Vec<Arc<Object>>, io::Error> {
        match self {
            Source::Objects(objects) => Ok(objects.by_ref().take(STRIDE).collect()),
            Source::Walk { log, range, selection, at, after, done, .. } => {
                while !*done {
                    let page = log
                        .page(range, after.as_deref(), *at, STRIDE)
                        .map_err(|_| io::Error::other("the list took longer than history is kept"))?;
                    *done = page.last.is_none();
                    *after = page.last;
                    let mut objects = page.objects;
                    objects.retain(|object| selection.matches(object));
                    if !objects.is_empty() {
                        return Ok(objects);
                    }
                }
                Ok(Vec::new())
            }
        }
    }
}

/// The body of a list.
pub(crate) struct ListBody {
    form: Form,
    items: Items,
    source: Source,
    head: Option<Vec<u8>>,
    tail: &'static [u8],
    first: bool,
    ended: bool,
}

impl ListBody {
    /// The body of a list in the form that the client wants: made piece by piece, or `Err` with the whole bytes for the
    /// encodings that cannot be.
    pub(crate) fn make(form: Form, head: &ListHead, mut source: Source) -> Result<Result<Self, Vec<u8>>, ApiError> {
        form.check_list()?;
        if form.accepted.encoding == Encoding::Json && !form.accepted.pretty {
            let (opening, tail) = form.frame(head);
            return Ok(Ok(Self {
                items: Items::of(&form),
                form,
                source,
                head: Some(opening),
                tail,
                first: true,
                ended: false,
            }));
        }
        let mut items = Vec::new();
        loop {
            let objects = source.next().map_err(|e| ApiError::Internal(e.to_string()))?;
            if objects.is_empty() {
                break;
            }
            for object in objects {
                items.push(form.item_tree(&object)?);
            }
        }
        Ok(Err(form.whole(head, items)))
    }

    fn item(&mut self, object: &Object, out: &mut Vec<u8>) -> Result<(), io::Error> {
        if !std::mem::take(&mut self.first) {
            out.push(b',');
        }
        self.items.write(&self.form, object, out).map_err(|e| io::Error::other(e.to_string()))
    }
}

impl Produce for ListBody {
    fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        if self.ended {
            return None;
        }
        let mut out = self.head.take().unwrap_or_default();
        out.reserve(PIECE + 16 * 1024);
        while out.len() < PIECE {
            let objects = match self.source.next() {
                Ok(objects) => objects,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            if objects.is_empty() {
                out.extend_from_slice(self.tail);
                self.ended = true;
                break;
            }
            for object in objects {
                if let Err(error) = self.item(&object, &mut out) {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        Some(Ok(out.into()))
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

impl Form {
    /// Kind and apiVersion of a list in this form.
    pub(crate) fn list_kind(&self) -> GroupVersionKind {
        let (group, version, kind) = match self.accepted.transform {
            Some(Transform::Table(version)) => ("meta.k8s.io", version.api_version(), "Table"),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                ("meta.k8s.io", version.api_version(), "PartialObjectMetadataList")
            }
            None => (self.resource.group.as_str(), self.resource.version.as_str(), self.resource.list_kind.as_str()),
        };
        GroupVersionKind::new(group, version.rsplit('/').next().unwrap_or_default(), kind)
    }

    /// What stands before and after the items of a list in JSON.
    fn frame(&self, head: &ListHead) -> (Vec<u8>, &'static [u8]) {
        let mut out = Vec::with_capacity(512);
        let metadata = self.list_metadata(head);
        let gvk = self.list_kind();
        let mut string = |lead: &str, text: &str| {
            out.extend_from_slice(lead.as_bytes());
            pintle_codec::json::write_string(text, &mut out);
        };
        if matches!(self.accepted.transform, Some(Transform::Table(_))) {
            string("{\"kind\":", &gvk.kind);
            string(",\"apiVersion\":", &gvk.group_version().to_string());
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(&metadata);
            out.extend_from_slice(b",\"columnDefinitions\":");
            write_json(&self.columns(), Shape::Untyped, &mut out);
            out.extend_from_slice(b",\"rows\":[");
            return (out, b"]}\n");
        }
        if self.resource.typed || self.accepted.transform.is_some() {
            string("{\"kind\":", &gvk.kind);
            string(",\"apiVersion\":", &gvk.group_version().to_string());
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(&metadata);
            out.extend_from_slice(b",\"items\":[");
            return (out, b"]}\n");
        }
        // Members of untyped lists are sorted, which puts kind and metadata behind the items: they are written before
        // them here, so that the list can be streamed; the order of members means nothing.
        string("{\"apiVersion\":", &gvk.group_version().to_string());
        string(",\"kind\":", &gvk.kind);
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(&metadata);
        out.extend_from_slice(b",\"items\":[");
        (out, b"]}\n")
    }

    /// The metadata of a list. Those of custom kinds always say that they do not go on.
    fn list_metadata(&self, head: &ListHead) -> Vec<u8> {
        let mut metadata = head.metadata();
        if self.resource.typed || self.accepted.transform.is_some() {
            return json(&metadata, Shape::named(&self.cluster.catalog, "meta/v1.ListMeta"));
        }
        metadata.set_default("continue", "");
        json(&metadata, Shape::Untyped)
    }

    /// Refuses to show a list as the metadata of an object.
    fn check_list(&self) -> Result<(), ApiError> {
        let Some(Transform::Partial(_)) = self.accepted.transform else { return Ok(()) };
        let list = if self.resource.typed {
            format!("*{}.{}", self.resource.version, self.resource.list_kind)
        } else {
            "*unstructured.UnstructuredList".to_owned()
        };
        Err(ApiError::NotAcceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({list})"
        )))
    }

    /// The finished body of a list of objects that are at hand as trees at the request's version.
    ///
    /// # Errors
    /// The form is none of a list.
    pub(crate) fn list_of(&self, head: &ListHead, objects: Vec<Value>) -> Result<Vec<u8>, ApiError> {
        self.check_list()?;
        Ok(self.whole(head, objects.into_iter().map(|object| self.item_of(object)).collect()))
    }

    pub(super) fn item_tree(&self, object: &Object) -> Result<Value, ApiError> {
        self.tree(object).map(|tree| self.item_of(tree))
    }

    /// An item of a list in this form.
    fn item_of(&self, mut object: Value) -> Value {
        match self.accepted.transform {
            Some(Transform::Table(_)) => self.row(&object),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => partial(&object, version),
            None => {
                if self.resource.typed {
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                object
            }
        }
    }

    pub(super) fn item_shape(&self) -> Shape<'_> {
        match self.accepted.transform {
            Some(Transform::Table(_)) => Shape::named(&self.cluster.catalog, "meta/v1.TableRow"),
            Some(Transform::Partial(_) | Transform::PartialList(_)) => {
                Shape::named(&self.cluster.catalog, "meta/v1.PartialObjectMetadata")
            }
            None => self.shape(),
        }
    }

    /// A list as a whole, for the encodings that are not streamed.
    fn whole(&self, head: &ListHead, items: Vec<Value>) -> Vec<u8> {
        let gvk = self.list_kind();
        let Form { accepted, cluster, .. } = self;
        if let Some(Transform::Table(version)) = accepted.transform {
            let table = self.table(version, head, items, true);
            return encode(&table, Shape::named(&cluster.catalog, "meta/v1.Table"), accepted.encoding, accepted.pretty);
        }
        let list = object! {
            "kind": gvk.kind.as_str(),
            "apiVersion": gvk.group_version().to_string(),
            "metadata": head.metadata(),
            "items": items,
        };
        let id = match accepted.transform {
            Some(_) => cluster.catalog.struct_type("meta/v1.PartialObjectMetadataList"),
            None => cluster.catalog.kind_type(&gvk.group, &gvk.version, &gvk.kind),
        };
        let shape = id.map_or(Shape::Untyped, |id| Shape::Typed(cluster.catalog.types(), id));
        encode(&list, shape, accepted.encoding, accepted.pretty)
    }
}
