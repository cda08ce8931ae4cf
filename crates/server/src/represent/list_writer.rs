//! Writes the parts of a list around its items: head, separators and tail, in each encoding. Items are written as they
//! arrive, so the list is never completely in memory.

use pintle_codec::json::{Indenter, JsonCursor};
use pintle_codec::{cbor, protobuf, yaml};
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use super::{ListHead, ResponseFormat};
use crate::objects::encode::{Shape, json};
use crate::request::negotiate::{Encoding, Transform};

/// A list in progress, in one of the encodings.
pub(super) enum ListWriter {
    Json(ListEnvelope),
    IndentedJson(ListEnvelope, IndentedJson),
    Yaml(ListEnvelope),
    Protobuf(ProtobufList),
    Cbor(ListEnvelope),
}

/// The bytes before and after the items, for encodings where both are known in advance.
pub(super) struct ListEnvelope {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The bytes of the list if it has no items.
    empty: Vec<u8>,
    started: bool,
}

/// State of the indentation (`?pretty`).
#[derive(Default)]
pub(super) struct IndentedJson {
    indent: Indenter,
    item: Vec<u8>,
}

/// A list in Protobuf. Its length precedes its content.
pub(super) struct ProtobufList {
    api_version: String,
    kind: String,
    metadata: Value,
    /// Bytes of items that were announced but not written yet.
    remaining_bytes: usize,
}

impl ListWriter {
    /// Creates the writer of a list in a format.
    pub(super) fn of(format: &ResponseFormat, head: &ListHead) -> Self {
        let (list, shape) = format.empty_list(head);
        match format.media_type.encoding {
            Encoding::Json if format.media_type.pretty => {
                ListWriter::IndentedJson(ListEnvelope::json(format, list, shape), IndentedJson::default())
            }
            Encoding::Json => ListWriter::Json(ListEnvelope::json(format, list, shape)),
            Encoding::Yaml => ListWriter::Yaml(ListEnvelope::yaml(format, list)),
            Encoding::Protobuf => ListWriter::Protobuf(ProtobufList {
                api_version: list.api_version().to_owned(),
                kind: list.kind().to_owned(),
                metadata: list["metadata"].clone(),
                remaining_bytes: 0,
            }),
            Encoding::Cbor => ListWriter::Cbor(ListEnvelope::cbor(format, list)),
        }
    }

    /// True if the lengths of all items must be known before the first item is written.
    pub(super) fn needs_lengths(&self) -> bool {
        matches!(self, ListWriter::Protobuf(_))
    }

    /// Announces an item of this length.
    pub(super) fn announce_item(&mut self, length: usize) {
        if let ListWriter::Protobuf(list) = self {
            list.remaining_bytes += protobuf::framed_len(length);
        }
    }

    /// Appends the bytes before the items, if they are known without the items.
    pub(super) fn write_head(&mut self, out: &mut Vec<u8>) {
        if let ListWriter::Protobuf(ProtobufList { api_version, kind, metadata, remaining_bytes }) = self {
            out.extend_from_slice(&protobuf::list_head(api_version, kind, metadata, *remaining_bytes));
        }
    }

    /// Appends an item, encoded by `write`, with the separator before it.
    ///
    /// # Errors
    /// Returns the error of `write`, or an error if the item's length was not announced.
    pub(super) fn write_item(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self {
            ListWriter::Json(envelope) => {
                out.extend_from_slice(if envelope.start() { &envelope.head } else { b"," });
                write(out)
            }
            ListWriter::IndentedJson(envelope, IndentedJson { indent, item }) => {
                item.clear();
                item.extend_from_slice(if envelope.start() { &envelope.head } else { b"," });
                write(item)?;
                indent.write(item, out);
                Ok(())
            }
            ListWriter::Yaml(envelope) | ListWriter::Cbor(envelope) => {
                if envelope.start() {
                    out.extend_from_slice(&envelope.head);
                }
                write(out)
            }
            ListWriter::Protobuf(list) => {
                let start = out.len();
                let mut written = Ok(());
                protobuf::write_item(out, |out| written = write(out));
                written?;
                let changed = || {
                    ApiError::Internal("the length of a list item has changed while the list was written".to_owned())
                };
                list.remaining_bytes = list.remaining_bytes.checked_sub(out.len() - start).ok_or_else(changed)?;
                Ok(())
            }
        }
    }

    /// Appends the bytes after the items.
    ///
    /// # Errors
    /// Returns an error if announced items are missing.
    pub(super) fn write_tail(&mut self, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self {
            ListWriter::Json(envelope) | ListWriter::Yaml(envelope) | ListWriter::Cbor(envelope) => {
                out.extend_from_slice(envelope.end());
            }
            ListWriter::IndentedJson(envelope, indented) => {
                indented.indent.write(envelope.end(), out);
            }
            ListWriter::Protobuf(ProtobufList { remaining_bytes: 0, .. }) => {
                out.extend_from_slice(&protobuf::ENVELOPE_TAIL);
            }
            ListWriter::Protobuf(_) => {
                return Err(ApiError::Internal("the list has fewer items than announced".to_owned()));
            }
        }
        Ok(())
    }
}

impl ListEnvelope {
    fn new(empty: Vec<u8>, items: std::ops::Range<usize>, head: &[u8]) -> Self {
        let head = [empty.get(..items.start).unwrap_or_default(), head].concat();
        let tail = empty.get(items.end..).unwrap_or_default().to_vec();
        Self { head, tail, empty, started: false }
    }

    /// Splits an empty list in JSON at its array of items.
    fn json(format: &ResponseFormat, list: Value, shape: Shape<'_>) -> Self {
        let encode = |list: &Value| {
            let mut encoded = json(list, shape);
            encoded.push(b'\n');
            encoded
        };
        let empty = encode(&list);
        let offset = member_offset(&empty, format.items_key().as_bytes()).unwrap_or(empty.len());
        let envelope = Self::new(empty, offset..offset + 1, b"[");
        envelope.with_nil_items(format, list, encode)
    }

    /// Splits an empty list in YAML. Each item is encoded as a list of one item, which is not indented.
    fn yaml(format: &ResponseFormat, list: Value) -> Self {
        let (empty, items) = (yaml::encode(&list), format.items_key());
        let line = format!("\n{items}: []\n");
        let offset = empty.windows(line.len()).position(|window| window == line.as_bytes()).unwrap_or(empty.len());
        let envelope = Self::new(empty, offset..offset + line.len(), format!("\n{items}:\n").as_bytes());
        envelope.with_nil_items(format, list, yaml::encode)
    }

    /// Splits an empty list in CBOR. The array of items has indefinite length, which upstream's decoder accepts.
    fn cbor(format: &ResponseFormat, list: Value) -> Self {
        let empty = cbor::encode(&list);
        let mut member = Vec::new();
        cbor::write_string(format.items_key().as_bytes(), &mut member);
        cbor::write_array_head(0, &mut member);
        let offset = empty.windows(member.len()).position(|window| window == member).unwrap_or(empty.len());
        let range = offset + member.len() - 1..offset + member.len();
        let mut envelope = Self::new(empty, range, &[cbor::INDEFINITE_ARRAY_HEAD]);
        envelope.tail.insert(0, cbor::BREAK);
        envelope.with_nil_items(format, list, cbor::encode)
    }

    /// Upstream collects partial objects in a slice that is nil until the first object. So a partial list without items
    /// has null instead of a list.
    fn with_nil_items(mut self, format: &ResponseFormat, mut list: Value, encode: impl Fn(&Value) -> Vec<u8>) -> Self {
        if matches!(format.media_type.transform, Some(Transform::Partial(_) | Transform::PartialList(_))) {
            list.set(format.items_key(), Value::Null);
            self.empty = encode(&list);
        }
        self
    }

    /// Marks the list as started. Returns true the first time.
    fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.started, true)
    }

    fn end(&self) -> &[u8] {
        if self.started { &self.tail } else { &self.empty }
    }
}

/// Returns the offset of a member's value in an object.
fn member_offset(object: &[u8], member: &[u8]) -> Option<usize> {
    let mut cursor = JsonCursor::new(object);
    cursor.byte(b'{')?;
    while cursor.name()? != member {
        cursor.value()?;
        cursor.byte(b',')?;
    }
    Some(cursor.offset())
}

impl ResponseFormat {
    /// The key of the items in a list of this format.
    fn items_key(&self) -> &'static str {
        match self.media_type.transform {
            Some(Transform::Table(_)) => "rows",
            _ => "items",
        }
    }

    /// A list without items in this format, and its shape.
    fn empty_list(&self, head: &ListHead) -> (Value, Shape<'_>) {
        let catalog = &self.cluster.served.catalog;
        if let Some(Transform::Table(version)) = self.media_type.transform {
            return (self.table(version, head, Vec::new(), true), Shape::named(catalog, "meta/v1.Table"));
        }
        let gvk = self.list_kind();
        let mut list = object! {
            "kind": gvk.kind.as_str(),
            "apiVersion": gvk.group_version().to_string(),
            "metadata": head.metadata(),
            "items": Value::Array(Vec::new()),
        };
        let id = match self.media_type.transform {
            Some(_) => catalog.struct_type("meta/v1.PartialObjectMetadataList"),
            None => catalog.kind_type(&gvk.group, &gvk.version, &gvk.kind),
        };
        let shape = id.map_or(Shape::Untyped, |id| Shape::Typed(catalog.types(), id));
        if let (Shape::Typed(..), None, Some(selector)) = (shape, self.media_type.transform, &head.shard) {
            list.set_at(&["metadata", "shardInfo"], object! { "selector": selector.as_str() });
        }
        if matches!(shape, Shape::Untyped) {
            // Lists of custom resources always have `continue`.
            list.at_mut(&["metadata"]).map(|metadata| metadata.set_default("continue", ""));
        }
        (list, shape)
    }
}
