//! Lists. A list is encoded at one revision while the connection accepts data, in every encoding, so that memory does
//! not grow with its length.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use pintle_cache::Object;
use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::Value;

use super::item_encoder::ItemEncoder;
use super::list_writer::ListWriter;
use super::source::{ListObjects, ObjectSource};
use super::{ResponseFormat, partial};
use crate::http::{Body, BodySource, Response};
use crate::objects::encode::Shape;
use crate::objects::model;
use crate::request::audit::RequestAudit;
use crate::request::negotiate::Transform;

/// Size at which the buffer is sent as a chunk, in bytes.
const BUFFER_BYTES: usize = 128 * 1024;
/// Maximum number of objects that are retained between computing lengths and writing. A longer list is read twice.
const MAX_RETAINED_OBJECTS: usize = 16 * 1024;
/// Number of objects whose lengths are computed under one CPU permit.
const LENGTH_BATCH: usize = 128;

/// The `metadata` of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListHead {
    pub(crate) revision: String,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
    /// The selector of the list's part of the collection; `None` if the list has no such part.
    pub(crate) shard: Option<String>,
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

/// The source of a list's body.
struct ListBody {
    format: ResponseFormat,
    item_encoder: ItemEncoder,
    list_writer: ListWriter,
    source: ListObjects,
    /// Objects that were read but not written yet.
    objects: std::vec::IntoIter<Arc<Object>>,
    /// The chunk in progress.
    buffer: Vec<u8>,
    ended: bool,
    /// The list for the audit event of the request.
    audited: Option<AuditedList>,
}

/// The JSON of a list that an audit event has.
struct AuditedList {
    audit: Arc<RequestAudit>,
    /// Encodes the list; `None` if the client gets the same bytes.
    encoder: Option<(ResponseFormat, ItemEncoder, ListWriter)>,
    json: Vec<u8>,
}

impl AuditedList {
    fn start(format: &ResponseFormat, head: &ListHead) -> Option<Self> {
        let audit = format.audit.clone()?;
        let encoder = (!format.is_audited_form()).then(|| {
            let audited = format.audited();
            let (item_encoder, list_writer) = (ItemEncoder::of(&audited), ListWriter::of(&audited, head));
            (audited, item_encoder, list_writer)
        });
        Some(Self { audit, encoder, json: Vec::new() })
    }

    /// Adds an item. `sent` is the item as the client gets it. Returns false if the list has become too large.
    fn add(&mut self, object: &Arc<Object>, sent: &[u8]) -> Result<bool, ApiError> {
        match &mut self.encoder {
            None => self.json.extend_from_slice(sent),
            Some((format, item_encoder, list_writer)) => {
                list_writer.write_item(&mut self.json, |out| item_encoder.write(format, object, out))?;
            }
        }
        Ok(self.json.len() <= self.audit.max_object_size())
    }

    /// Passes the list on. `sent` is its tail as the client gets it.
    fn finish(mut self, sent: &[u8]) -> Result<(), ApiError> {
        match &mut self.encoder {
            None => self.json.extend_from_slice(sent),
            Some((_, _, list_writer)) => list_writer.write_tail(&mut self.json)?,
        }
        self.audit.set_response_object(self.json.into());
        Ok(())
    }
}

impl ListBody {
    async fn start(format: ResponseFormat, head: &ListHead, source: ObjectSource) -> Result<Self, ApiError> {
        format.check_list()?;
        let source = ListObjects::start(format.view.clone(), source).await?;
        let (item_encoder, list_writer) = (ItemEncoder::of(&format), ListWriter::of(&format, head));
        let objects = Vec::new().into_iter();
        let audited = AuditedList::start(&format, head);
        let (buffer, ended) = (Vec::new(), false);
        let mut body = Self { format, item_encoder, list_writer, source, objects, buffer, ended, audited };
        if body.list_writer.needs_lengths() {
            body.add_lengths().await?;
        }
        body.buffer.reserve(BUFFER_BYTES + 16 * 1024);
        body.list_writer.write_head(&mut body.buffer);
        Ok(body)
    }

    /// Computes the lengths of all items in advance, under CPU permits as for chunks.
    async fn add_lengths(&mut self) -> Result<(), ApiError> {
        let (mut scratch, mut retained, mut fits) = (Vec::new(), Vec::new(), true);
        loop {
            let objects = self.source.next().await?;
            if objects.is_empty() {
                match fits {
                    true => self.objects = retained.into_iter(),
                    false => self.source.rewind(),
                }
                return Ok(());
            }
            for objects in objects.chunks(LENGTH_BATCH) {
                let permit = self.format.cluster.limits.cpu_permits.acquire().await;
                for object in objects {
                    let length = self.item_encoder.length(&self.format, object, &mut scratch)?;
                    self.list_writer.announce_item(length);
                }
                drop(permit);
                tokio::task::yield_now().await;
            }
            fits = fits && retained.len() + objects.len() <= MAX_RETAINED_OBJECTS;
            match fits {
                true => retained.extend(objects),
                false => retained = Vec::new(),
            }
        }
    }

    /// Appends objects to the buffer until it is full. Returns false after the last object.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ApiError>> {
        while self.buffer.len() < BUFFER_BYTES {
            let Some(object) = self.objects.next() else {
                let objects = ready!(self.source.poll_next(cx))?;
                if objects.is_empty() {
                    let start = self.buffer.len();
                    self.list_writer.write_tail(&mut self.buffer)?;
                    if let Some(audited) = self.audited.take() {
                        audited.finish(&self.buffer[start..])?;
                    }
                    return Poll::Ready(Ok(false));
                }
                self.objects = objects.into_iter();
                continue;
            };
            let Self { format, item_encoder, list_writer, buffer, audited, .. } = self;
            let start = buffer.len();
            list_writer.write_item(buffer, |out| item_encoder.write(format, &object, out))?;
            if let Some(list) = audited
                && !list.add(&object, &buffer[start..])?
            {
                list.audit.omit_objects();
                *audited = None;
            }
        }
        Poll::Ready(Ok(true))
    }
}

impl BodySource for ListBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.buffer.capacity() < BUFFER_BYTES {
            self.buffer.reserve(BUFFER_BYTES + 16 * 1024);
        }
        let result = ready!(self.poll_fill(cx));
        self.ended = !matches!(result, Ok(true));
        let buffer = result.map(|_| std::mem::take(&mut self.buffer).into());
        Poll::Ready(Some(buffer.map_err(|error| io::Error::other(error.to_string()))))
    }

    fn is_done(&self) -> bool {
        self.ended
    }
}

impl ResponseFormat {
    /// Responds with a list.
    ///
    /// # Errors
    /// Returns an error if lists do not have the format, or if the first objects cannot be converted.
    pub(crate) async fn respond_list(&self, head: &ListHead, source: ObjectSource) -> Result<Response, ApiError> {
        let body = ListBody::start(self.clone(), head, source).await?;
        Ok(self.respond(StatusCode::OK, Body::from_source(Box::new(body), &self.cluster.limits.cpu_permits).await))
    }

    /// Returns the kind of a list in this format.
    pub(crate) fn list_kind(&self) -> GroupVersionKind {
        let (group, version, kind) = match self.media_type.transform {
            Some(Transform::Table(version)) => ("meta.k8s.io", version.api_version(), "Table"),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                ("meta.k8s.io", version.api_version(), "PartialObjectMetadataList")
            }
            None => (self.resource.group.as_str(), self.resource.version.as_str(), self.resource.list_kind.as_str()),
        };
        GroupVersionKind::new(group, version.rsplit('/').next().unwrap_or_default(), kind)
    }

    /// Rejects `PartialObjectMetadata`, which is not a list.
    fn check_list(&self) -> Result<(), ApiError> {
        self.check_table_options()?;
        let Some(Transform::Partial(_)) = self.media_type.transform else { return Ok(()) };
        let list = model(&self.resource).go_list_type(&self.resource);
        Err(ApiError::NotAcceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({list})"
        )))
    }

    /// Encodes a list of trees at the request's version.
    ///
    /// # Errors
    /// Returns an error if lists do not have the format.
    pub(crate) fn encode_list(&self, head: &ListHead, objects: Vec<Value>) -> Result<Bytes, ApiError> {
        self.check_list()?;
        let audited = self.audit.as_ref().filter(|_| !self.is_audited_form()).map(|_| objects.clone());
        let encoded = self.encode_items(head, objects)?;
        self.record(encoded, |format| format.encode_items(head, audited.unwrap_or_default()))
    }

    fn encode_items(&self, head: &ListHead, objects: Vec<Value>) -> Result<Vec<u8>, ApiError> {
        let mut list_writer = ListWriter::of(self, head);
        let item = |object| {
            let mut item = Vec::new();
            self.write_item(self.to_item(object), &mut item);
            item
        };
        let items: Vec<Vec<u8>> = objects.into_iter().map(item).collect();
        items.iter().for_each(|item| list_writer.announce_item(item.len()));
        let mut list = Vec::new();
        list_writer.write_head(&mut list);
        for item in items {
            list_writer.write_item(&mut list, |out| {
                out.extend_from_slice(&item);
                Ok(())
            })?;
        }
        list_writer.write_tail(&mut list)?;
        Ok(list)
    }

    pub(super) fn item_tree(&self, object: &Object) -> Result<Value, ApiError> {
        self.tree(object).map(|tree| self.to_item(tree))
    }

    /// Transforms an object to a list item in this format.
    pub(super) fn to_item(&self, mut object: Value) -> Value {
        match self.media_type.transform {
            Some(Transform::Table(version)) => self.row(version, &object),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => partial(&object, version),
            None => {
                model(&self.resource).strip_item_type(&mut object);
                object
            }
        }
    }

    pub(super) fn item_shape(&self) -> Shape<'_> {
        match self.media_type.transform {
            Some(Transform::Table(_)) => Shape::named(&self.cluster.served.catalog, "meta/v1.TableRow"),
            Some(Transform::Partial(_) | Transform::PartialList(_)) => {
                Shape::partial(&self.resource, &self.cluster.served.catalog)
            }
            None => self.shape(),
        }
    }
}
