//! Watch events as frames. The frames that most watchers want are made once per event and shared by all of them.

use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{Event, FrameKey, Object};
use pintle_codec::{cbor, protobuf};
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use super::{ListHead, ResponseFormat, partial};
use crate::conversion::WatchEventType;
use crate::objects::encode::{Shape, encode, json};
use crate::objects::model;
use crate::request::negotiate::{Encoding, MetaVersion, Transform};

impl ResponseFormat {
    /// The frame of an event. `columns`: a table has to say its columns.
    pub(crate) fn event(&self, event: &Event, kind: WatchEventType, columns: bool) -> Result<Bytes, ApiError> {
        let object = match kind {
            WatchEventType::Deleted => event.previous.as_ref(),
            _ => event.object.as_ref(),
        };
        let Some(object) = object else { return Err(ApiError::Internal("an event without its object".to_owned())) };
        match self.frame_key(kind) {
            Some(key) if !columns => {
                let mut failed = None;
                let frame = event.frame(key, || {
                    self.frame(object, event.revision, kind, false).unwrap_or_else(|error| {
                        failed = Some(error);
                        Bytes::new()
                    })
                });
                failed.map_or(Ok(frame), Err)
            }
            _ => self.frame(object, event.revision, kind, columns),
        }
    }

    /// The frame of an object that is there when a watch begins. Others will ask for it, as they do for lists.
    pub(crate) fn added(&self, object: &Arc<Object>, columns: bool) -> Result<Bytes, ApiError> {
        if self.is_stored(Encoding::Protobuf) {
            let mut out = Vec::with_capacity(object.json.len());
            let mut written = Ok(());
            protobuf::watch_frame(WatchEventType::Added.name(), &mut out, |out| {
                written = self.write_object(out, |out| self.write_kept_message(object, out));
            });
            return written.map(|()| out.into());
        }
        self.frame(object, object.revision, WatchEventType::Added, columns)
    }

    fn frame(&self, object: &Object, revision: u64, kind: WatchEventType, columns: bool) -> Result<Bytes, ApiError> {
        if self.is_stored(Encoding::Json) {
            let mut out = Vec::with_capacity(object.json.len() + 80);
            open(kind, &mut out);
            object.write_json(0, revision, &mut out);
            out.extend_from_slice(b"}\n");
            return Ok(out.into());
        }
        if let Some(frame) = self.message_frame(object, revision, kind) {
            return frame;
        }
        let mut tree = self.tree(object)?;
        tree.set_at(&["metadata", "resourceVersion"], revision.to_string());
        Ok(self.tree_frame(&tree, kind, columns))
    }

    /// The frame of an object whose message is made of its stored bytes.
    fn message_frame(&self, object: &Object, revision: u64, kind: WatchEventType) -> Option<Result<Bytes, ApiError>> {
        let mut out = Vec::with_capacity(object.json.len());
        let mut written = Ok(());
        match self.accepted.transform {
            _ if self.accepted.encoding != Encoding::Protobuf => return None,
            None if self.resource.is_hub() => protobuf::watch_frame(kind.name(), &mut out, |out| {
                written = self.write_object(out, |out| self.write_message(object, revision, out));
            }),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                protobuf::watch_frame(kind.name(), &mut out, |out| {
                    written = self.write_partial_object(version, object, revision, out);
                });
            }
            _ => return None,
        }
        Some(written.map(|()| out.into()))
    }

    /// The frame of an object's tree.
    fn tree_frame(&self, tree: &Value, kind: WatchEventType, columns: bool) -> Bytes {
        let catalog = &self.cluster.catalog;
        match self.accepted.transform {
            None => self.wrap(tree, self.shape(), kind),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                let partial = partial(tree, version);
                self.wrap(&partial, Shape::named(catalog, "meta/v1.PartialObjectMetadata"), kind)
            }
            Some(Transform::Table(version)) => {
                let head = ListHead { revision: tree.resource_version().to_owned(), ..ListHead::default() };
                let table = self.table(version, &head, vec![self.row(tree)], columns);
                self.wrap(&table, Shape::named(catalog, "meta/v1.Table"), kind)
            }
        }
    }

    /// A bookmark: an object that is empty but for its resourceVersion. `columns`: a table has to say its columns.
    pub(crate) fn bookmark(&self, revision: u64, initial_events_end: bool, columns: bool) -> Bytes {
        let mut metadata = object! { "resourceVersion": revision.to_string() };
        if initial_events_end {
            metadata.set("annotations", object! { "k8s.io/initial-events-end": "true" });
        }
        let mut bookmark = object! {
            "kind": self.resource.kind.as_str(),
            "apiVersion": self.resource.group_version().to_string(),
            "metadata": metadata,
        };
        // A Go struct is encoded as it stands, empty members included.
        model(&self.resource).normalise(&self.resource.schema, None, &mut bookmark);
        self.tree_frame(&bookmark, WatchEventType::Bookmark, columns)
    }

    /// An error that ends the stream.
    pub(crate) fn error(&self, error: &ApiError) -> Bytes {
        let status = super::status::failure(error).status;
        self.wrap(&status, Shape::named(&self.cluster.catalog, "meta/v1.Status"), WatchEventType::Error)
    }

    fn wrap(&self, value: &Value, shape: Shape<'_>, kind: WatchEventType) -> Bytes {
        match self.accepted.encoding {
            Encoding::Protobuf => {
                let object = encode(value, shape, Encoding::Protobuf, false);
                let mut out = Vec::with_capacity(object.len() + 32);
                protobuf::watch_frame(kind.name(), &mut out, |out| out.extend_from_slice(&object));
                out.into()
            }
            Encoding::Cbor => {
                let mut out = cbor::SELF_DESCRIBED.to_vec();
                cbor::write_map_head(2, &mut out);
                for text in ["type", kind.name(), "object"] {
                    cbor::write_string(text.as_bytes(), &mut out);
                }
                out.extend_from_slice(&encode(value, shape, Encoding::Cbor, false));
                out.into()
            }
            Encoding::Json | Encoding::Yaml => {
                let mut out = Vec::with_capacity(512);
                open(kind, &mut out);
                out.extend_from_slice(&json(value, shape));
                out.extend_from_slice(b"}\n");
                out.into()
            }
        }
    }

    /// The key under which a frame is shared: forms that depend on nothing but the object, and when it is first seen.
    fn frame_key(&self, kind: WatchEventType) -> Option<FrameKey> {
        let form = match (self.accepted.encoding, self.accepted.transform) {
            (Encoding::Json, None) => 0,
            (Encoding::Protobuf, None) => 1,
            (Encoding::Json, Some(Transform::Partial(MetaVersion::V1))) => 2,
            (Encoding::Protobuf, Some(Transform::Partial(MetaVersion::V1))) => 3,
            (Encoding::Cbor, None) => 4,
            (Encoding::Cbor, Some(Transform::Partial(MetaVersion::V1))) => 5,
            // Ages in them are those of the first who sees the event, as upstream has it.
            (Encoding::Json, Some(Transform::Table(MetaVersion::V1))) => 6 + self.include as u32,
            _ => return None,
        };
        let version = || [self.resource.group.clone(), self.resource.version.clone()];
        let version = (!self.resource.is_hub()).then(version);
        Some(FrameKey { format: form * 8 + kind as u32, version })
    }
}

fn open(kind: WatchEventType, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}
