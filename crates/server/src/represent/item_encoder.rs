//! Encoding of list items. Most items are copied from stored bytes: whole objects, metadata, or table rows. The cells
//! of a row are computed from the few fields that they show. Protobuf is encoded from the same bytes. All other formats
//! are encoded from the object's tree.

use std::ops::Range;
use std::sync::Arc;

use pintle_cache::Object;
use pintle_codec::json::{JsonCursor, Projection};
use pintle_codec::{protobuf, yaml};
use pintle_registry::{ApiError, TableConvertor};
use pintle_value::Value;

use super::{IncludeObject, ResponseFormat};
use crate::cluster::set_resource_version;
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
    /// JSON of table rows. Rows include the object's metadata if it has a version.
    TableRows { cells: Arc<CellSources>, metadata: Option<MetaVersion> },
    /// Protobuf of whole objects.
    Protobuf,
    /// Protobuf of `PartialObjectMetadata`.
    PartialProtobuf,
    /// Any format, from the object's tree.
    Tree,
    /// Any format that needs only these fields, from a tree of them.
    PartialTree(Arc<Projection>),
}

/// The fields that the cells of a row need.
pub(super) struct CellSources {
    metadata: Projection,
    /// The fields outside the metadata. `None` if there are none.
    others: Option<Projection>,
}

impl CellSources {
    /// The sources of a table. `None` if the table needs whole objects.
    fn of(table: &dyn TableConvertor) -> Option<Self> {
        let mut others = Projection::of(table.sources());
        let metadata = others.remove(METADATA)?;
        Some(Self { metadata, others: (!others.is_empty()).then_some(others) })
    }

    /// Reads the fields of an object with this range of its `metadata` member, which precedes all other fields.
    fn read(&self, object: &Object, metadata: &Range<usize>) -> Option<Value> {
        let mut tree = match &self.others {
            Some(others) => others.read_members_behind(&object.json, metadata.end)?,
            None => Value::object(),
        };
        let value = metadata.start + METADATA.len() + r#""":"#.len();
        tree.set(METADATA, self.metadata.read(object.json.get(value..metadata.end)?)?);
        Some(tree)
    }
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
                _ => Self::tree(format),
            },
            Encoding::Yaml | Encoding::Cbor => Self::tree(format),
        }
    }

    fn tree(format: &ResponseFormat) -> Self {
        let mut fields = match format.media_type.transform {
            Some(Transform::Partial(_) | Transform::PartialList(_)) => vec![METADATA],
            Some(Transform::Table(_)) if format.include != IncludeObject::Object => format.hub.table.sources(),
            _ => Vec::new(),
        };
        if fields.is_empty() || !format.is_hub() {
            return ItemEncoder::Tree;
        }
        if format.include == IncludeObject::Metadata {
            fields.push(METADATA);
        }
        ItemEncoder::PartialTree(Arc::new(Projection::of(fields)))
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
                let metadata = (format.include == IncludeObject::Metadata).then_some(version);
                match CellSources::of(&*format.hub.table) {
                    Some(cells) => ItemEncoder::TableRows { cells: Arc::new(cells), metadata },
                    None => Self::tree(format),
                }
            }
            _ => Self::tree(format),
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
            ItemEncoder::PartialJson(version) => {
                let metadata = metadata_range(object).ok_or_else(unreadable)?;
                write_partial_json(object, metadata, *version, out);
            }
            ItemEncoder::TableRows { cells, metadata } => {
                let range = metadata_range(object).ok_or_else(unreadable)?;
                let tree = cells.read(object, &range).ok_or_else(unreadable)?;
                format.write_row(&tree, out);
                out.extend_from_slice(b",\"object\":");
                match metadata {
                    Some(version) => write_partial_json(object, range, *version, out),
                    None => out.extend_from_slice(b"null"),
                }
                out.push(b'}');
            }
            ItemEncoder::Protobuf => format.write_cached_message(object, out)?,
            ItemEncoder::PartialProtobuf => format.write_partial_message(object, object.revision, out)?,
            ItemEncoder::Tree => format.write_item(format.item_tree(object)?, out),
            ItemEncoder::PartialTree(fields) => {
                let mut tree = fields.read(&object.json).ok_or_else(unreadable)?;
                set_resource_version(&mut tree, object);
                format.write_item(format.to_item(tree), out);
            }
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

const METADATA: &str = "metadata";

/// Returns the range of an object's `metadata` member, including its key.
pub(super) fn metadata_range(object: &Object) -> Option<Range<usize>> {
    let from = object.index.item_offset as usize;
    let mut cursor = JsonCursor::new(object.json.get(from..)?);
    loop {
        let start = cursor.offset();
        let found = cursor.name()? == METADATA.as_bytes();
        cursor.value()?;
        if found {
            return Some(from + start..from + cursor.offset());
        }
        cursor.byte(b',')?;
    }
}

/// Appends a `PartialObjectMetadata` of a built-in object with its `metadata` member, which is copied.
fn write_partial_json(object: &Object, metadata: Range<usize>, version: MetaVersion, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(b"\",");
    object.write_json_range(metadata, object.revision, out);
    out.push(b'}');
}
