//! The forms in which lists and events come, and how the test reads them.

use pintle_codec::{json, protobuf};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::journal::Turn;
use crate::kind::Kind;
use crate::object::{Extent, Item, item, revision};

/// How a client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Metadata,
    Table,
    Protobuf,
}

/// Something that a watch said.
#[derive(Debug)]
pub(crate) enum Event {
    Turn(Turn, Item),
    /// A bookmark, and whether it ends the initial events.
    Bookmark(u64, bool),
    /// An error: its code and what it says.
    Error(u16, String),
}

/// A list or a part of one.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) at: u64,
    /// How to go on; empty at the end.
    pub(crate) token: String,
    pub(crate) remaining: Option<usize>,
    pub(crate) items: Vec<Item>,
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What lists, tables, bookmarks and errors have.
#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    rows: Vec<Row<'a>>,
    code: Option<u16>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    resource_version: Option<&'a str>,
    r#continue: Option<&'a str>,
    remaining_item_count: Option<usize>,
    #[serde(borrow, default)]
    annotations: std::collections::BTreeMap<&'a str, &'a str>,
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

fn outer(text: &str) -> Outer<'_> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Takes what is whole off a watch's buffer.
pub(crate) fn events(form: Form, kind: &Kind, buffer: &mut Vec<u8>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut used = 0;
    loop {
        let rest = &buffer[used..];
        let length = match form {
            Form::Protobuf => rest.split_first_chunk::<4>().map(|(size, _)| 4 + u32::from_be_bytes(*size) as usize),
            _ => rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
        };
        match length.filter(|length| *length <= rest.len()) {
            Some(length) if form == Form::Protobuf => events.push(message(kind, &rest[4..length])),
            Some(length) => events.push(line(form, kind, &rest[..length])),
            None => break,
        }
        used += length.unwrap_or_default();
    }
    buffer.drain(..used);
    events
}

fn line(form: Form, kind: &Kind, line: &[u8]) -> Event {
    let text = std::str::from_utf8(line).expect("an event in UTF-8");
    let line: Line<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let extent = if form == Form::Json { Extent::Text } else { Extent::Metadata };
    event(line.r#type, line.object.get(), extent, kind)
}

fn message(kind: &Kind, frame: &[u8]) -> Event {
    let turn = std::str::from_utf8(field(frame, 1)).expect("a type in UTF-8");
    let text = transcoded(field(field(frame, 2), 1), kind);
    event(turn, &text, Extent::Members, kind)
}

fn event(turn: &str, object: &str, extent: Extent, kind: &Kind) -> Event {
    let read = |turn| {
        // A table has a row for each object, which are one here.
        let shown =
            if extent == Extent::Metadata { outer(object).rows.pop().map(|row| row.object.get()) } else { None };
        Event::Turn(turn, item(kind, shown.unwrap_or(object), extent))
    };
    match turn {
        "ADDED" => read(Turn::Added),
        "MODIFIED" => read(Turn::Modified),
        "DELETED" => read(Turn::Deleted),
        "BOOKMARK" => {
            let outer = outer(object);
            // A table has the revision for itself, and the annotations with its row's object.
            let row = outer.rows.first().map(|row| crate::form::outer(row.object.get()).metadata);
            let annotations = &row.as_ref().unwrap_or(&outer.metadata).annotations;
            let ends = annotations.get("k8s.io/initial-events-end") == Some(&"true");
            Event::Bookmark(revision(outer.metadata.resource_version), ends)
        }
        "ERROR" => {
            let outer = outer(object);
            Event::Error(outer.code.unwrap_or_default(), outer.message.unwrap_or_default())
        }
        other => panic!("an event of type {other:?}: {object}"),
    }
}

/// The JSON of a message in its envelope.
fn transcoded(body: &[u8], kind: &Kind) -> String {
    let envelope = protobuf::open_envelope(body).expect("an envelope");
    let catalog = pintle_catalog::shared();
    let id = match envelope.kind.as_str() {
        "Status" => catalog.struct_type("meta/v1.Status"),
        name => catalog.kind_type(kind.group, kind.version, name),
    };
    let id = id.unwrap_or_else(|| panic!("no type {}", envelope.kind));
    let tree = protobuf::decode_object(&envelope, catalog.types(), id).expect("a message");
    String::from_utf8(json::encode(&tree)).expect("JSON in UTF-8")
}

/// The bytes of a message's field, which is there.
fn field(message: &[u8], wanted: u64) -> &[u8] {
    let mut rest = message;
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        assert_eq!(tag & 7, 2, "a field of bytes");
        let length = varint(&mut rest) as usize;
        let (bytes, after) = rest.split_at(length);
        if tag >> 3 == wanted {
            return bytes;
        }
        rest = after;
    }
    panic!("no field {wanted} in {message:?}");
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first().expect("more of a number");
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

impl Form {
    /// What a client sends as `Accept`.
    pub(crate) fn accept(self, list: bool) -> &'static str {
        match (self, list) {
            (Form::Json, _) => "application/json",
            (Form::Protobuf, _) => "application/vnd.kubernetes.protobuf",
            (Form::Table, _) => "application/json;as=Table;v=v1;g=meta.k8s.io",
            (Form::Metadata, false) => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            (Form::Metadata, true) => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        }
    }

    /// The JSON of a list or a `Status`.
    fn text(self, kind: &Kind, body: &[u8]) -> String {
        match self {
            Form::Protobuf => transcoded(body, kind),
            _ => std::str::from_utf8(body).expect("an answer in UTF-8").to_owned(),
        }
    }

    /// Reads the token of a `Status` that says that another one is too old.
    pub(crate) fn token(self, kind: &Kind, body: &[u8]) -> String {
        let text = self.text(kind, body);
        outer(&text).metadata.r#continue.unwrap_or_else(|| panic!("no token: {text}")).to_owned()
    }

    /// Reads a list.
    pub(crate) fn page(self, kind: &Kind, body: &[u8]) -> Page {
        let text = self.text(kind, body);
        let extent = match self {
            Form::Json => Extent::Text,
            Form::Protobuf => Extent::Members,
            Form::Table | Form::Metadata => Extent::Metadata,
        };
        let outer = outer(&text);
        let objects = outer.items.iter().flatten().copied().chain(outer.rows.iter().map(|row| row.object));
        Page {
            at: revision(outer.metadata.resource_version),
            token: outer.metadata.r#continue.unwrap_or_default().to_owned(),
            remaining: outer.metadata.remaining_item_count,
            items: objects.map(|object| item(kind, object.get(), extent)).collect(),
        }
    }
}
