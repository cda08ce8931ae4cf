//! Watch events as frames. Frames in common formats are encoded once per event and shared by all watchers.

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

/// The annotation of the bookmark that ends the initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl ResponseFormat {
    /// Encodes an event. With `needs_columns`, a table includes its column definitions.
    pub(crate) fn event_frame(
        &self,
        event: &Event,
        event_type: WatchEventType,
        needs_columns: bool,
    ) -> Result<Bytes, ApiError> {
        let object = match event_type {
            WatchEventType::Deleted => event.previous.as_ref(),
            _ => event.object.as_ref(),
        };
        let Some(object) = object else { return Err(ApiError::Internal("the event has no object".to_owned())) };
        match self.frame_key(event_type) {
            Some(key) if !needs_columns => {
                let mut failed = None;
                let frame = event.frame(key, || {
                    self.frame(object, event.revision, event_type, false).unwrap_or_else(|error| {
                        failed = Some(error);
                        Bytes::new()
                    })
                });
                failed.map_or(Ok(frame), Err)
            }
            _ => self.frame(object, event.revision, event_type, needs_columns),
        }
    }

    /// Encodes an object that exists when a watch begins. As for lists, its Protobuf encoding is cached.
    pub(crate) fn initial_event_frame(&self, object: &Arc<Object>, needs_columns: bool) -> Result<Bytes, ApiError> {
        if self.is_stored(Encoding::Protobuf) {
            let mut out = Vec::with_capacity(object.json.len());
            let mut result = Ok(());
            protobuf::watch_frame(WatchEventType::Added.name(), &mut out, |out| {
                result = self.write_envelope(out, |out| self.write_cached_message(object, out));
            });
            return result.map(|()| out.into());
        }
        self.frame(object, object.revision, WatchEventType::Added, needs_columns)
    }

    fn frame(
        &self,
        object: &Object,
        revision: u64,
        event_type: WatchEventType,
        needs_columns: bool,
    ) -> Result<Bytes, ApiError> {
        if self.is_stored(Encoding::Json) {
            let mut out = Vec::with_capacity(object.json.len() + 80);
            write_frame_head(event_type, &mut out);
            object.write_json(0, revision, &mut out);
            out.extend_from_slice(b"}\n");
            return Ok(out.into());
        }
        if let Some(frame) = self.protobuf_frame(object, revision, event_type) {
            return frame;
        }
        let mut tree = self.tree(object)?;
        tree.set_at(&["metadata", "resourceVersion"], revision.to_string());
        Ok(self.tree_frame(&tree, event_type, needs_columns))
    }

    /// Encodes an event in Protobuf directly from the stored bytes. `None` if the format needs the object's tree.
    fn protobuf_frame(
        &self,
        object: &Object,
        revision: u64,
        event_type: WatchEventType,
    ) -> Option<Result<Bytes, ApiError>> {
        let mut out = Vec::with_capacity(object.json.len());
        let mut result = Ok(());
        match self.media_type.transform {
            _ if self.media_type.encoding != Encoding::Protobuf => return None,
            None if self.resource.is_hub() => protobuf::watch_frame(event_type.name(), &mut out, |out| {
                result = self.write_envelope(out, |out| self.write_message(object, revision, out));
            }),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                protobuf::watch_frame(event_type.name(), &mut out, |out| {
                    result = self.write_partial_envelope(version, object, revision, out);
                });
            }
            _ => return None,
        }
        Some(result.map(|()| out.into()))
    }

    /// Encodes an event from the object's tree.
    fn tree_frame(&self, tree: &Value, event_type: WatchEventType, needs_columns: bool) -> Bytes {
        let catalog = &self.cluster.served.catalog;
        match self.media_type.transform {
            None => self.encode_frame(tree, self.shape(), event_type),
            Some(Transform::Partial(version) | Transform::PartialList(version)) => {
                let partial = partial(tree, version);
                self.encode_frame(&partial, Shape::partial(&self.resource, catalog), event_type)
            }
            Some(Transform::Table(version)) => {
                let head = ListHead { revision: tree.resource_version().to_owned(), ..ListHead::default() };
                let table = self.table(version, &head, vec![self.row(version, tree)], needs_columns);
                if self.media_type.encoding == Encoding::Json {
                    return json_frame(self.encode_table(table, Encoding::Json, false).trim_ascii_end(), event_type);
                }
                self.encode_frame(&table, Shape::named(catalog, "meta/v1.Table"), event_type)
            }
        }
    }

    /// Encodes a bookmark: an object with only a resourceVersion. With `needs_columns`, a table includes its column
    /// definitions.
    pub(crate) fn bookmark_frame(&self, revision: u64, initial_events_end: bool, needs_columns: bool) -> Bytes {
        let mut metadata = object! { "resourceVersion": revision.to_string() };
        if initial_events_end {
            metadata.set_at(&["annotations", INITIAL_EVENTS_END], "true");
        }
        let mut bookmark = object! {
            "kind": self.resource.kind.as_str(),
            "apiVersion": self.resource.group_version().to_string(),
            "metadata": metadata,
        };
        // Built-in kinds encode empty fields, too.
        model(&self.resource).normalise(&self.resource.schema, None, &mut bookmark, None);
        self.tree_frame(&bookmark, WatchEventType::Bookmark, needs_columns)
    }

    /// Encodes an error, which ends the stream.
    pub(crate) fn error_frame(&self, error: &ApiError) -> Bytes {
        let status = super::status::error_status(error).status;
        self.encode_frame(&status, Shape::named(&self.cluster.served.catalog, "meta/v1.Status"), WatchEventType::Error)
    }

    fn encode_frame(&self, value: &Value, shape: Shape<'_>, event_type: WatchEventType) -> Bytes {
        match self.media_type.encoding {
            Encoding::Protobuf => {
                let object = encode(value, shape, Encoding::Protobuf, false);
                let mut out = Vec::with_capacity(object.len() + 32);
                protobuf::watch_frame(event_type.name(), &mut out, |out| out.extend_from_slice(&object));
                out.into()
            }
            Encoding::Cbor => {
                let mut out = cbor::SELF_DESCRIBED.to_vec();
                cbor::write_map_head(2, &mut out);
                for text in ["type", event_type.name(), "object"] {
                    cbor::write_string(text.as_bytes(), &mut out);
                }
                out.extend_from_slice(&encode(value, shape, Encoding::Cbor, false));
                out.into()
            }
            Encoding::Json | Encoding::Yaml => json_frame(&json(value, shape), event_type),
        }
    }

    /// The key under which a frame is shared. `None` for formats that depend on more than the object.
    fn frame_key(&self, event_type: WatchEventType) -> Option<FrameKey> {
        let format_id = match (self.media_type.encoding, self.media_type.transform) {
            (Encoding::Json, None) => 0,
            (Encoding::Protobuf, None) => 1,
            (Encoding::Json, Some(Transform::Partial(MetaVersion::V1))) => 2,
            (Encoding::Protobuf, Some(Transform::Partial(MetaVersion::V1))) => 3,
            (Encoding::Cbor, None) => 4,
            (Encoding::Cbor, Some(Transform::Partial(MetaVersion::V1))) => 5,
            // As in upstream, the ages in a table are the ages at the time of the first watcher.
            (Encoding::Json, Some(Transform::Table(MetaVersion::V1))) => 6 + self.include as u32,
            _ => return None,
        };
        let version = || [self.resource.group.clone(), self.resource.version.clone()];
        let version = (!self.resource.is_hub()).then(version);
        Some(FrameKey { format: format_id * 8 + event_type as u32, version })
    }
}

/// The JSON frame of an encoded object.
fn json_frame(object: &[u8], event_type: WatchEventType) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 32);
    write_frame_head(event_type, &mut out);
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out.into()
}

fn write_frame_head(event_type: WatchEventType, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(event_type.name().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}
