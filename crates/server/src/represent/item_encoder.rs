//! Encoding of list items. Most items are copied from stored bytes: whole objects, metadata, or table rows. The cells
//! of a row are computed from the few fields that they show. Protobuf is encoded from the same bytes. All other formats
//! are encoded from the object's tree.

use std::ops::Range;
use std::sync::Arc;

use pintle_cache::Object;
use pintle_codec::json::{JsonCursor, Projection};
use pintle_codec::{protobuf, yaml};
use pintle_registry::ApiError;
use pintle_value::Value;

use super::{IncludeObject, ResponseFormat};
use crate::objects::encode::{Shape, write_cbor, write_json};
use crate::objects::model;
use crate::request::negotiate::{Encoding, MetaVersion, Transform};

/// The way in which list items are encoded.
#[derive(Clone)]
pub(super) enum ItemEncoder {
    /// Stored JSON, copied completely or from `ObjectModel::item_offset`.
    StoredJson,
    /// JSON of `PartialObjectMetadata` with copied metadata.
    PartialJson(MetaVersion),
    /// JSON of table rows. The cells need these fields. Rows include the object's metadata if it has a version.
    TableRows { cells: Arc<Projection>, metadata: Option<MetaVersion> },
    /// Protobuf of whole objects.
    Protobuf,
    /// Protobuf of `PartialObjectMetadata`.
    PartialProtobuf,
    /// Any format, from the object's tree.
    Tree,
}

impl ItemEncoder {
    /// Returns the cheapest encoder for a format.
    pub(super) fn of(format: &ResponseFormat) -> Self {
        match format.media_type.encoding {
            Encoding::Json => Self::json(format),
            Encoding::Protobuf => match format.media_type.transform {
                None if format.is_hub() => ItemEncoder::Protobuf,
                // Metadata is the same in all versions.
                Some(Transform::Partial(_) | Transform::PartialList(_)) => ItemEncoder::PartialProtobuf,
                _ => ItemEncoder::Tree,
            },
            Encoding::Yaml | Encoding::Cbor => ItemEncoder::Tree,
        }
    }

    fn json(format: &ResponseFormat) -> Self {
        let copies_metadata = model(&format.resource).has_metadata_first();
        match format.media_type.transform {
            None if format.is_hub() => ItemEncoder::StoredJson,
            Some(Transform::Partial(version) | Transform::PartialList(version)) if copies_metadata => {
                ItemEncoder::PartialJson(version)
            }
            Some(Transform::Table(version))
                if copies_metadata && format.is_hub() && format.include != IncludeObject::Object =>
            {
                let cells = Arc::new(Projection::of(format.hub.table.sources().iter().copied()));
                ItemEncoder::TableRows {
                    cells,
                    metadata: (format.include == IncludeObject::Metadata).then_some(version),
                }
            }
            _ => ItemEncoder::Tree,
        }
    }

    /// Appends an object as a list item.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn write(
        &self,
        format: &ResponseFormat,
        object: &Arc<Object>,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let unreadable = || ApiError::Internal("failed to decode the stored object".to_owned());
        match self {
            ItemEncoder::StoredJson => match model(&format.resource).item_offset(object) {
                Some(offset) => {
                    out.push(b'{');
                    object.write_json(offset, object.revision, out);
                }
                None => object.write_json(0, object.revision, out),
            },
            ItemEncoder::PartialJson(version) => write_partial_json(object, *version, out).ok_or_else(unreadable)?,
            ItemEncoder::TableRows { cells, metadata } => {
                let tree = cells.read(&object.json).ok_or_else(unreadable)?;
                format.write_row(&tree, out);
                out.extend_from_slice(b",\"object\":");
                match metadata {
                    Some(version) => write_partial_json(object, *version, out).ok_or_else(unreadable)?,
                    None => out.extend_from_slice(b"null"),
                }
                out.push(b'}');
            }
            ItemEncoder::Protobuf => format.write_cached_message(object, out)?,
            ItemEncoder::PartialProtobuf => format.write_partial_message(object, object.revision, out)?,
            ItemEncoder::Tree => format.write_item(format.item_tree(object)?, out),
        }
        Ok(())
    }

    /// Returns the length of an object's list item. `scratch` is a buffer with any content.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn length(
        &self,
        format: &ResponseFormat,
        object: &Arc<Object>,
        scratch: &mut Vec<u8>,
    ) -> Result<usize, ApiError> {
        scratch.clear();
        match self {
            ItemEncoder::Protobuf => {
                if let Some(length) = object.encoding.length() {
                    return Ok(length);
                }
                format.write_cached_message(object, scratch)?;
            }
            // Encoding the whole object is hardly more work than encoding its metadata. Once the encoding is cached, no
            // other work is left.
            ItemEncoder::PartialProtobuf
                if format.is_hub()
                    && model(&format.resource).has_metadata_first()
                    && object.encoding.length().is_none() =>
            {
                format.write_cached_message(object, scratch)?;
                scratch.clear();
                self.write(format, object, scratch)?;
            }
            _ => self.write(format, object, scratch)?,
        }
        Ok(scratch.len())
    }
}

impl ResponseFormat {
    /// Appends the tree of an item.
    pub(super) fn write_item(&self, item: Value, out: &mut Vec<u8>) {
        let shape = self.item_shape();
        match (self.media_type.encoding, shape) {
            (Encoding::Yaml, _) => out.extend_from_slice(&yaml::encode(&Value::Array(vec![item]))),
            (Encoding::Cbor, _) => write_cbor(&item, shape, out),
            (Encoding::Protobuf, Shape::Typed(types, id) | Shape::TypedFromUntyped(types, id)) => {
                protobuf::encode(&item, types, id, out)
            }
            (Encoding::Json, _) if matches!(self.media_type.transform, Some(Transform::Table(_))) => {
                self.write_json_row(&item, out);
            }
            (Encoding::Json | Encoding::Protobuf, _) => write_json(&item, shape, out),
        }
    }

    /// Appends a row without its object and without the closing brace.
    fn write_row(&self, tree: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"cells\":");
        write_json(&Value::Array(self.hub.table.cells(tree, self.now())), Shape::Untyped, out);
        let conditions = self.hub.table.conditions(tree);
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            self.write_conditions(&conditions, out);
        }
    }
}

/// Returns the range of an object's `metadata` member, including its key.
pub(super) fn metadata_range(object: &Object) -> Option<Range<u32>> {
    let from = object.index.item_offset;
    let mut cursor = JsonCursor::new(object.json.get(from as usize..)?);
    loop {
        let start = cursor.offset();
        let found = cursor.name()? == b"metadata";
        cursor.value()?;
        if found {
            return Some(from + u32::try_from(start).ok()?..from + u32::try_from(cursor.offset()).ok()?);
        }
        cursor.byte(b',')?;
    }
}

/// Appends a `PartialObjectMetadata` with the copied metadata of a built-in object.
fn write_partial_json(object: &Object, version: MetaVersion, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(b"\",");
    object.write_json_range(metadata_range(object)?, object.revision, out);
    out.push(b'}');
    Some(())
}
