//! What stands around the items of a list: its head, what is between two items, and its tail, in each encoding. A list is
//! written as its items come, so that none of it has to be held.

use pintle_codec::json::{Indenter, JsonCursor};
use pintle_codec::{cbor, protobuf, yaml};
use pintle_registry::ApiError;
use pintle_value::{Value, object};

use super::{ListHead, ResponseFormat};
use crate::objects::encode::{Shape, json};
use crate::request::negotiate::{Encoding, Transform};

/// A list without its items, in an encoding, on its way out.
pub(super) enum Framing {
    Json(Text),
    Pretty(Text, Pretty),
    Yaml(Text),
    Protobuf(Messages),
    Cbor(Text),
}

/// What stands before the items and behind them where both are known at the start.
pub(super) struct Text {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The list, if it has no items.
    empty: Vec<u8>,
    begun: bool,
}

/// JSON for people.
#[derive(Default)]
pub(super) struct Pretty {
    indent: Indenter,
    item: Vec<u8>,
}

/// A list as a message. Every message says how long it is before it begins.
pub(super) struct Messages {
    api_version: String,
    kind: String,
    metadata: Value,
    /// How many bytes of items are to come.
    left: usize,
}

impl Framing {
    /// The framing of a list in this form.
    pub(super) fn of(form: &ResponseFormat, head: &ListHead) -> Self {
        let (list, shape) = form.empty_list(head);
        match form.accepted.encoding {
            Encoding::Json if form.accepted.pretty => {
                Framing::Pretty(Text::json(&list, shape, form.items_name()), Pretty::default())
            }
            Encoding::Json => Framing::Json(Text::json(&list, shape, form.items_name())),
            Encoding::Yaml => Framing::Yaml(Text::yaml(&list, form.items_name())),
            Encoding::Protobuf => Framing::Protobuf(Messages {
                api_version: list.api_version().to_owned(),
                kind: list.kind().to_owned(),
                metadata: list["metadata"].clone(),
                left: 0,
            }),
            Encoding::Cbor => Framing::Cbor(Text::cbor(&list, form.items_name())),
        }
    }

    /// True if items have to be measured before the first one is written.
    pub(super) fn measures(&self) -> bool {
        matches!(self, Framing::Protobuf(_))
    }

    /// Takes an item of this length into account that will be written.
    pub(super) fn measure(&mut self, item: usize) {
        if let Framing::Protobuf(messages) = self {
            messages.left += protobuf::framed_len(item);
        }
    }

    /// Appends what stands before the items, as far as that is known without them.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        if let Framing::Protobuf(Messages { api_version, kind, metadata, left }) = self {
            out.extend_from_slice(&protobuf::list_head(api_version, kind, metadata, *left));
        }
    }

    /// Appends an item that is appended by `write`, with what stands before it.
    ///
    /// # Errors
    /// That of `write`, or the item is not one of those that were measured.
    pub(super) fn item(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self {
            Framing::Json(text) => {
                out.extend_from_slice(if text.begins() { &text.head } else { b"," });
                write(out)
            }
            Framing::Pretty(text, Pretty { indent, item }) => {
                item.clear();
                item.extend_from_slice(if text.begins() { &text.head } else { b"," });
                write(item)?;
                indent.write(item, out);
                Ok(())
            }
            Framing::Yaml(text) | Framing::Cbor(text) => {
                if text.begins() {
                    out.extend_from_slice(&text.head);
                }
                write(out)
            }
            Framing::Protobuf(messages) => {
                let start = out.len();
                let mut written = Ok(());
                protobuf::write_item(out, |out| written = write(out));
                written?;
                let other = || ApiError::Internal("an object was shown otherwise than when it was measured".to_owned());
                messages.left = messages.left.checked_sub(out.len() - start).ok_or_else(other)?;
                Ok(())
            }
        }
    }

    /// Appends what stands behind the items.
    ///
    /// # Errors
    /// Items that were measured are missing.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), ApiError> {
        match self {
            Framing::Json(text) | Framing::Yaml(text) | Framing::Cbor(text) => out.extend_from_slice(text.end()),
            Framing::Pretty(text, pretty) => {
                pretty.indent.write(text.end(), out);
                out.push(b'\n');
            }
            Framing::Protobuf(Messages { left: 0, .. }) => out.extend_from_slice(&protobuf::ENVELOPE_TAIL),
            Framing::Protobuf(_) => return Err(ApiError::Internal("a list ended early".to_owned())),
        }
        Ok(())
    }
}

impl Text {
    fn new(empty: Vec<u8>, items: std::ops::Range<usize>, head: &[u8]) -> Self {
        let head = [empty.get(..items.start).unwrap_or_default(), head].concat();
        let tail = empty.get(items.end..).unwrap_or_default().to_vec();
        Self { head, tail, empty, begun: false }
    }

    /// A list in JSON, around the array of its items.
    fn json(list: &Value, shape: Shape<'_>, items: &str) -> Self {
        let mut empty = json(list, shape);
        let at = place_of(&empty, items.as_bytes()).unwrap_or(empty.len());
        empty.push(b'\n');
        Self::new(empty, at..at + 1, b"[")
    }

    /// A list in YAML. Each item is written as a list of itself, which begins as far left as the name.
    fn yaml(list: &Value, items: &str) -> Self {
        let empty = yaml::encode(list);
        let line = format!("\n{items}: []\n");
        let at = empty.windows(line.len()).position(|window| window == line.as_bytes()).unwrap_or(empty.len());
        Self::new(empty, at..at + line.len(), format!("\n{items}:\n").as_bytes())
    }

    /// A list in CBOR, around the array of its items, which ends where it ends: upstream's decoder takes such arrays.
    fn cbor(list: &Value, items: &str) -> Self {
        let empty = cbor::encode(list);
        let mut member = Vec::new();
        cbor::write_string(items.as_bytes(), &mut member);
        cbor::write_array_head(0, &mut member);
        let at = empty.windows(member.len()).position(|window| window == member).unwrap_or(empty.len());
        let place = at + member.len() - 1..at + member.len();
        let mut text = Self::new(empty, place, &[cbor::INDEFINITE_ARRAY_HEAD]);
        text.tail.insert(0, cbor::BREAK);
        text
    }

    /// True the first time.
    fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    fn end(&self) -> &[u8] {
        if self.begun { &self.tail } else { &self.empty }
    }
}

/// Where the value of a member of an object begins.
fn place_of(object: &[u8], member: &[u8]) -> Option<usize> {
    let mut cursor = JsonCursor::new(object);
    cursor.byte(b'{')?;
    while cursor.name()? != member {
        cursor.value()?;
        cursor.byte(b',')?;
    }
    Some(cursor.offset())
}

impl ResponseFormat {
    /// What a list in this form calls its items.
    fn items_name(&self) -> &'static str {
        match self.accepted.transform {
            Some(Transform::Table(_)) => "rows",
            _ => "items",
        }
    }

    /// A list in this form that has no items, and its shape.
    fn empty_list(&self, head: &ListHead) -> (Value, Shape<'_>) {
        let catalog = &self.cluster.catalog;
        if let Some(Transform::Table(version)) = self.accepted.transform {
            return (self.table(version, head, Vec::new(), true), Shape::named(catalog, "meta/v1.Table"));
        }
        let gvk = self.list_kind();
        let mut list = object! {
            "kind": gvk.kind.as_str(),
            "apiVersion": gvk.group_version().to_string(),
            "metadata": head.metadata(),
            "items": Value::Array(Vec::new()),
        };
        let id = match self.accepted.transform {
            Some(_) => catalog.struct_type("meta/v1.PartialObjectMetadataList"),
            None => catalog.kind_type(&gvk.group, &gvk.version, &gvk.kind),
        };
        let shape = id.map_or(Shape::Untyped, |id| Shape::Typed(catalog.types(), id));
        if matches!(shape, Shape::Untyped) {
            // Lists of custom kinds always say whether they go on.
            list.at_mut(&["metadata"]).map(|metadata| metadata.set_default("continue", ""));
        }
        (list, shape)
    }
}
