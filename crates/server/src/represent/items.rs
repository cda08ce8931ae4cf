//! Items of JSON lists. Most are copied out of the stored bytes: whole objects, metadata alone, and tables' rows, of which
//! only the cells are made, from the few fields that they show. Whatever is left is made from the object's tree.

use std::sync::Arc;

use pintle_cache::Object;
use pintle_codec::json::{Projection, Walk};
use pintle_registry::ApiError;
use pintle_value::Value;

use super::encode::{Shape, write_json};
use super::{Form, IncludeObject};
use crate::negotiate::{Encoding, MetaVersion, Transform};

/// How the items of a list are made.
#[derive(Clone)]
pub(super) enum Items {
    /// Copied, from the place where an item of a typed list starts or from the first byte.
    Stored { typed: bool },
    /// Metadata copied into objects of this version.
    Partial(MetaVersion),
    /// Rows with cells made of these fields, with metadata or without.
    Rows { cells: Arc<Projection>, metadata: bool },
    /// Made of the tree.
    Tree,
}

impl Items {
    /// The cheapest way to make the items of a list in JSON in this form.
    pub(super) fn of(form: &Form) -> Self {
        if form.accepted.encoding != Encoding::Json || form.accepted.pretty {
            return Items::Tree;
        }
        let typed = form.resource.typed;
        match form.accepted.transform {
            None if form.resource.is_hub() => Items::Stored { typed },
            // Metadata is the same in every version.
            Some(Transform::Partial(version) | Transform::PartialList(version)) if typed => Items::Partial(version),
            Some(Transform::Table(_)) if typed && form.resource.is_hub() && form.include != IncludeObject::Object => {
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
    pub(super) fn write(&self, form: &Form, object: &Object, out: &mut Vec<u8>) -> Result<(), ApiError> {
        let unreadable = || ApiError::Internal("the stored object cannot be read".to_owned());
        match self {
            Items::Stored { typed: true } => {
                out.push(b'{');
                object.write_json(object.outline.item_at, object.revision, out);
            }
            Items::Stored { typed: false } => object.write_json(0, object.revision, out),
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
            Items::Tree => write_json(&form.item_tree(object)?, form.item_shape(), out),
        }
        Ok(())
    }
}

impl Form {
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

/// Appends a typed object's metadata as an object of its own.
fn write_partial(object: &Object, version: MetaVersion, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(version.api_version().as_bytes());
    out.extend_from_slice(b"\",");
    // An item starts with its metadata.
    let rest = object.json.get(object.outline.item_at as usize..)?;
    let mut walk = Walk::new(rest);
    (walk.name()? == b"metadata").then_some(())?;
    walk.value()?;
    let end = object.outline.item_at + u32::try_from(walk.at()).ok()?;
    object.write_part(object.outline.item_at..end, out);
    out.push(b'}');
    Some(())
}
