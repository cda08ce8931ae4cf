//! Items of lists. Most are copied out of stored bytes: whole objects, metadata alone, and tables' rows, of which only the
//! cells are made, from the few fields that they show; Protobuf is made of the same bytes. Whatever is left is made from the
//! object's tree.

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

/// How the items of a list are made.
#[derive(Clone)]
pub(super) enum Items {
    /// Stored JSON, copied whole or from where `ObjectModel::item_offset` says that an item starts.
    Stored,
    /// JSON of metadata, copied into objects of this version.
    Partial(MetaVersion),
    /// JSON of rows with cells made of these fields, with metadata or without.
    Rows { cells: Arc<Projection>, metadata: bool },
    /// Messages of whole objects.
    Messages,
    /// Messages of metadata.
    PartialMessages,
    /// Made of the tree.
    Tree,
}

impl Items {
    /// The cheapest way to make the items of a list in this form.
    pub(super) fn of(form: &ResponseFormat) -> Self {
        match form.accepted.encoding {
            Encoding::Json => Self::json(form),
            Encoding::Protobuf => match form.accepted.transform {
                None if form.is_hub() => Items::Messages,
                // Metadata is the same in every version.
                Some(Transform::Partial(_) | Transform::PartialList(_)) => Items::PartialMessages,
                _ => Items::Tree,
            },
            Encoding::Yaml | Encoding::Cbor => Items::Tree,
        }
    }

    fn json(form: &ResponseFormat) -> Self {
        let copies_metadata = model(&form.resource).has_metadata_first();
        match form.accepted.transform {
            None if form.is_hub() => Items::Stored,
            Some(Transform::Partial(version) | Transform::PartialList(version)) if copies_metadata => {
                Items::Partial(version)
            }
            Some(Transform::Table(_)) if copies_metadata && form.is_hub() && form.include != IncludeObject::Object => {
                let cells = Arc::new(Projection::of(form.hub.table.sources().iter().copied()));
                Items::Rows { cells, metadata: form.include == IncludeObject::Metadata }
            }
            _ => Items::Tree,
        }
    }

    /// Appends an object as an item.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn write(&self, form: &ResponseFormat, object: &Arc<Object>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let unreadable = || ApiError::Internal("the stored object cannot be read".to_owned());
        match self {
            Items::Stored => match model(&form.resource).item_offset(object) {
                Some(offset) => {
                    out.push(b'{');
                    object.write_json(offset, object.revision, out);
                }
                None => object.write_json(0, object.revision, out),
            },
            Items::Partial(version) => write_partial(object, *version, out).ok_or_else(unreadable)?,
            Items::Rows { cells, metadata } => {
                let tree = cells.read(&object.json).ok_or_else(unreadable)?;
                form.write_row(&tree, out);
                if *metadata {
                    out.extend_from_slice(b",\"object\":");
                    // The metadata in a row is that of meta.k8s.io/v1 whatever the table's version.
                    write_partial(object, MetaVersion::V1, out).ok_or_else(unreadable)?;
                }
                out.push(b'}');
            }
            Items::Messages => form.write_kept_message(object, out)?,
            Items::PartialMessages => form.write_partial_message(object, object.revision, out)?,
            Items::Tree => form.write_item(form.item_tree(object)?, out),
        }
        Ok(())
    }

    /// How long an object's item is. `work` is anything.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn length(
        &self,
        form: &ResponseFormat,
        object: &Arc<Object>,
        work: &mut Vec<u8>,
    ) -> Result<usize, ApiError> {
        work.clear();
        match self {
            Items::Messages => {
                if let Some(length) = object.encoding.length() {
                    return Ok(length);
                }
                form.write_kept_message(object, work)?;
            }
            // The whole message is hardly more work than the metadata in it, and if it is kept, this is all there is to do.
            Items::PartialMessages
                if form.is_hub()
                    && model(&form.resource).has_metadata_first()
                    && object.encoding.length().is_none() =>
            {
                form.write_kept_message(object, work)?;
                work.clear();
                self.write(form, object, work)?;
            }
            _ => self.write(form, object, work)?,
        }
        Ok(work.len())
    }
}

impl ResponseFormat {
    /// Appends an item's tree.
    pub(super) fn write_item(&self, item: Value, out: &mut Vec<u8>) {
        let shape = self.item_shape();
        match (self.accepted.encoding, shape) {
            (Encoding::Yaml, _) => out.extend_from_slice(&yaml::encode(&Value::Array(vec![item]))),
            (Encoding::Cbor, _) => write_cbor(&item, shape, out),
            (Encoding::Protobuf, Shape::Typed(types, id)) => protobuf::encode(&item, types, id, out),
            (Encoding::Json | Encoding::Protobuf, _) => write_json(&item, shape, out),
        }
    }

    /// Appends a row without its object and without its end.
    fn write_row(&self, tree: &Value, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"cells\":");
        write_json(&Value::Array(self.hub.table.cells(tree, self.now())), Shape::Untyped, out);
        let conditions = self.hub.table.conditions(tree);
        if !conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            let condition = Shape::named(&self.cluster.catalog, "meta/v1.TableRowCondition");
            for (place, value) in conditions.iter().enumerate() {
                out.push(if place == 0 { b'[' } else { b',' });
                write_json(value, condition, out);
            }
            out.push(b']');
        }
    }
}

/// Where an object's metadata is, its name included.
pub(super) fn metadata_of(object: &Object) -> Option<Range<u32>> {
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

/// Appends a typed object's metadata as an object of its own.
fn write_partial(object: &Object, version: MetaVersion, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(b"\",");
    object.write_json_range(metadata_of(object)?, object.revision, out);
    out.push(b'}');
    Some(())
}
