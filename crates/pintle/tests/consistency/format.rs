//! The response formats of lists and watches, and their parsers.

use pintle_codec::{json, protobuf};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::history::EventType;
use crate::kind::TestKind;
use crate::object::{Detail, ObjectVersion, parse_object, parse_revision};

/// The format that a client requests with `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    Json,
    Metadata,
    Table,
    Protobuf,
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    Object(EventType, ObjectVersion),
    /// An event about an object of the server itself.
    Foreign,
    /// The revision of a bookmark, and whether it has the annotation `k8s.io/initial-events-end`.
    Bookmark(u64, bool),
    /// The code and message of a `Status`.
    Error(u16, String),
}

/// A list, or one chunk of a list.
#[derive(Debug)]
pub(crate) struct ListPage {
    pub(crate) revision: u64,
    /// Empty in the last chunk.
    pub(crate) continue_token: String,
    pub(crate) remaining_item_count: Option<usize>,
    pub(crate) items: Vec<ObjectVersion>,
    /// The number of objects of the server itself, which `items` omits.
    pub(crate) foreign: usize,
}

#[derive(Deserialize)]
struct EventLine<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The fields of lists, tables, bookmarks and `Status` objects.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    metadata: EnvelopeMetadata<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    rows: Vec<TableRow<'a>>,
    code: Option<u16>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeMetadata<'a> {
    resource_version: Option<&'a str>,
    r#continue: Option<&'a str>,
    remaining_item_count: Option<usize>,
    #[serde(borrow, default)]
    annotations: std::collections::BTreeMap<&'a str, &'a str>,
}

#[derive(Deserialize)]
struct TableRow<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

fn parse_envelope(text: &str) -> Envelope<'_> {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Removes the complete events from the buffer of a watch.
pub(crate) fn take_events(format: ResponseFormat, kind: &TestKind, buffer: &mut Vec<u8>) -> Vec<WatchEvent> {
    let mut events = Vec::new();
    let mut used = 0;
    loop {
        let rest = &buffer[used..];
        let length = match format {
            ResponseFormat::Protobuf => {
                rest.split_first_chunk::<4>().map(|(size, _)| 4 + u32::from_be_bytes(*size) as usize)
            }
            _ => rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
        };
        match length.filter(|length| *length <= rest.len()) {
            Some(length) if format == ResponseFormat::Protobuf => {
                events.push(parse_protobuf_event(kind, &rest[4..length]));
            }
            Some(length) => events.push(parse_json_event(format, kind, &rest[..length])),
            None => break,
        }
        used += length.unwrap_or_default();
    }
    buffer.drain(..used);
    events
}

fn parse_json_event(format: ResponseFormat, kind: &TestKind, line: &[u8]) -> WatchEvent {
    let text = std::str::from_utf8(line).expect("an event in UTF-8");
    let line: EventLine<'_> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let detail = if format == ResponseFormat::Json { Detail::ExactJson } else { Detail::Metadata };
    parse_event(line.r#type, line.object.get(), detail, kind)
}

fn parse_protobuf_event(kind: &TestKind, frame: &[u8]) -> WatchEvent {
    let event_type = std::str::from_utf8(protobuf_field(frame, 1)).expect("an event type in UTF-8");
    let text = protobuf_to_json(protobuf_field(protobuf_field(frame, 2), 1), kind);
    parse_event(event_type, &text, Detail::Object, kind)
}

fn parse_event(event_type: &str, object: &str, detail: Detail, kind: &TestKind) -> WatchEvent {
    let object_event = |event_type| {
        // An event of a watch of tables has a table with one row.
        let row_object = if detail == Detail::Metadata {
            parse_envelope(object).rows.pop().map(|row| row.object.get())
        } else {
            None
        };
        parse_object(kind, row_object.unwrap_or(object), detail)
            .map_or(WatchEvent::Foreign, |object| WatchEvent::Object(event_type, object))
    };
    match event_type {
        "ADDED" => object_event(EventType::Added),
        "MODIFIED" => object_event(EventType::Modified),
        "DELETED" => object_event(EventType::Deleted),
        "BOOKMARK" => {
            let envelope = parse_envelope(object);
            // The table itself has the resourceVersion, and the object of its row has the annotations.
            let row = envelope.rows.first().map(|row| parse_envelope(row.object.get()).metadata);
            let annotations = &row.as_ref().unwrap_or(&envelope.metadata).annotations;
            let ends_initial_events = annotations.get("k8s.io/initial-events-end") == Some(&"true");
            WatchEvent::Bookmark(parse_revision(envelope.metadata.resource_version), ends_initial_events)
        }
        "ERROR" => {
            let envelope = parse_envelope(object);
            WatchEvent::Error(envelope.code.unwrap_or_default(), envelope.message.unwrap_or_default())
        }
        other => panic!("unknown event type {other:?}: {object}"),
    }
}

/// Converts a Protobuf object in its `runtime.Unknown` envelope to JSON.
fn protobuf_to_json(body: &[u8], kind: &TestKind) -> String {
    let envelope = protobuf::open_envelope(body).expect("a runtime.Unknown envelope");
    let catalog = pintle_catalog::shared();
    let id = match envelope.kind.as_str() {
        "Status" => catalog.struct_type("meta/v1.Status"),
        name => catalog.kind_type(kind.group, kind.version, name),
    };
    let id = id.unwrap_or_else(|| panic!("no type {}", envelope.kind));
    let tree = protobuf::decode_object(&envelope, catalog.types(), id).expect("a Protobuf message of the type");
    String::from_utf8(json::encode(&tree)).expect("JSON in UTF-8")
}

/// The bytes of a length-delimited field of a Protobuf message.
fn protobuf_field(message: &[u8], number: u64) -> &[u8] {
    let mut rest = message;
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        assert_eq!(tag & 7, 2, "the field is length-delimited");
        let length = varint(&mut rest) as usize;
        let (bytes, after) = rest.split_at(length);
        if tag >> 3 == number {
            return bytes;
        }
        rest = after;
    }
    panic!("no field {number} in {message:?}");
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, after) = rest.split_first().expect("a complete varint");
        *rest = after;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

impl ResponseFormat {
    /// This format, or JSON if the kind does not have it.
    pub(crate) fn for_kind(self, kind: &TestKind) -> Self {
        if kind.is_custom && self == Self::Protobuf { Self::Json } else { self }
    }

    /// The `Accept` header of a list or of a watch.
    pub(crate) fn accept(self, list: bool) -> &'static str {
        match (self, list) {
            (ResponseFormat::Json, _) => "application/json",
            (ResponseFormat::Protobuf, _) => "application/vnd.kubernetes.protobuf",
            (ResponseFormat::Table, _) => "application/json;as=Table;v=v1;g=meta.k8s.io",
            (ResponseFormat::Metadata, false) => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            (ResponseFormat::Metadata, true) => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        }
    }

    /// The JSON of a list or a `Status`.
    fn json(self, kind: &TestKind, body: &[u8]) -> String {
        match self {
            ResponseFormat::Protobuf => protobuf_to_json(body, kind),
            _ => std::str::from_utf8(body).expect("a response in UTF-8").to_owned(),
        }
    }

    /// Parses the new continue token in the `Status` about an expired token.
    pub(crate) fn parse_continue_token(self, kind: &TestKind, body: &[u8]) -> String {
        let text = self.json(kind, body);
        parse_envelope(&text).metadata.r#continue.unwrap_or_else(|| panic!("no continue token: {text}")).to_owned()
    }

    /// Parses a list.
    pub(crate) fn parse_list(self, kind: &TestKind, body: &[u8]) -> ListPage {
        let text = self.json(kind, body);
        let detail = match self {
            ResponseFormat::Json => Detail::ExactJson,
            ResponseFormat::Protobuf => Detail::Object,
            ResponseFormat::Table | ResponseFormat::Metadata => Detail::Metadata,
        };
        let envelope = parse_envelope(&text);
        let objects = envelope.items.iter().flatten().copied().chain(envelope.rows.iter().map(|row| row.object));
        let objects: Vec<_> = objects.map(|object| parse_object(kind, object.get(), detail)).collect();
        let foreign = objects.iter().filter(|object| object.is_none()).count();
        ListPage {
            revision: parse_revision(envelope.metadata.resource_version),
            continue_token: envelope.metadata.r#continue.unwrap_or_default().to_owned(),
            remaining_item_count: envelope.metadata.remaining_item_count,
            items: objects.into_iter().flatten().collect(),
            foreign,
        }
    }
}
