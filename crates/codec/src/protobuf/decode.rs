//! Decodes messages to normalised trees by the field numbers of the schema. As in generated code, unknown fields are
//! skipped, a repeated message field is merged, and repeated numbers may be packed.

use pintle_budget as budget;
use pintle_schema::{Field, List, Omit, Problems, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind};
use pintle_schema::{bare_name, base64, normalise, scalar};
use pintle_value::time::{Duration, Time};
use pintle_value::{MEMBER_BYTES, Object, Str, Value};

use super::envelope::Envelope;
use super::wire::{BYTES, DecodeError, FIXED64, VARINT, WireReader};
use crate::go::utf8 as text;
use crate::json;

/// Decodes a message of a struct type into a normalised tree.
///
/// # Errors
/// Returns an error if the bytes are not a message of the type.
pub fn decode(bytes: &[u8], types: &Types, type_id: TypeId) -> Result<Value, DecodeError> {
    let mut value = Value::object();
    let mut decoder = Decoder { types, depth: 0, has_unsorted_maps: false, content_error: None };
    decoder.merge_message(type_id, bytes, &mut value)?;
    if let Some(error) = decoder.content_error {
        return Err(error);
    }
    if decoder.has_unsorted_maps {
        decoder.sort_maps(type_id, &mut value);
    }
    let mut problems = Problems::default();
    normalise(types, type_id, &mut value, &mut problems);
    match problems.errors.into_iter().next() {
        Some(message) => Err(DecodeError::Malformed(message)),
        None => Ok(value),
    }
}

/// Decodes the object in an envelope. It takes its `apiVersion` and `kind` from the envelope.
///
/// # Errors
/// Returns an error if the content is not a message of the type.
pub fn decode_object(envelope: &Envelope<'_>, types: &Types, type_id: TypeId) -> Result<Value, DecodeError> {
    let mut value = decode(envelope.raw, types, type_id)?;
    for (name, text) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
        if !text.is_empty() {
            value.set(name, text.clone());
        }
    }
    Ok(value)
}

struct Decoder<'t> {
    types: &'t Types,
    depth: usize,
    /// The first error in the content of a leaf. Upstream finds such errors only when it uses the decoded message.
    content_error: Option<DecodeError>,
    /// Whether some maps are held as arrays of alternating keys and values, to be sorted at the end.
    has_unsorted_maps: bool,
}

/// Maximum number of map entries that are kept sorted while entries are added. Larger maps are sorted once, at the end,
/// because a message may repeat a map entry without limit.
const MAX_SORTED_ENTRIES: usize = 64;

impl Decoder<'_> {
    /// Decodes a message into a value that may have been decoded in part.
    fn merge_message(&mut self, id: TypeId, bytes: &[u8], value: &mut Value) -> Result<(), DecodeError> {
        let types = self.types;
        self.depth += 1;
        if self.depth > json::MAX_DEPTH {
            return Err(DecodeError::Malformed("proto: exceeded max depth".to_owned()));
        }
        match types.get(id) {
            Type::Struct(ty) => {
                let mut members = MemberBuilder::from_value(value.take());
                self.message(ty, 0, bytes, &mut members)?;
                let bytes = size_of::<Value>() + members.entries.len() * MEMBER_BYTES;
                budget::charge(bytes).map_err(|why| DecodeError::Malformed(why.to_string()))?;
                *value = Value::Object(Object::from_entries(members.entries));
            }
            Type::Union(union) => self.union(union, bytes, value)?,
            Type::Scalar(ScalarType { kind, .. }) => *value = self.leaf(*kind, bytes)?,
            Type::List(list) => self.items(list, bytes, value)?,
            Type::Map(_) | Type::Any => {}
        }
        self.depth -= 1;
        Ok(())
    }

    fn message(
        &mut self,
        ty: &Struct,
        message: u8,
        bytes: &[u8],
        members: &mut MemberBuilder,
    ) -> Result<(), DecodeError> {
        let (mut reader, mut hint) = (WireReader::new(bytes), 0);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag(&ty.name)?;
            if let Some((_, field)) = ty.numbered(message, number, &mut hint) {
                let is_new = members.is_new(message, number);
                // Most encoded scalar fields have their zero value, which the tree omits.
                if is_new && omits_zero(field) && self.zero_is_one_byte(field.ty, wire_type) && reader.skip_zero() {
                    continue;
                }
                self.field(field.ty, &field.name, wire_type, &mut reader, members.entry(field, is_new))?;
                members.remove_if_zero(field);
                continue;
            }
            let inlined = (1u8..).zip(&ty.embedded).find(|(_, e)| e.parent == message && e.number == number);
            match inlined {
                Some((inner, embedded)) => {
                    expect_wire_type(wire_type, BYTES, &embedded.name)?;
                    // The number and parent of an embedded struct are not validated in a schema from outside.
                    if inner <= message {
                        return Err(DecodeError::Malformed(format!("proto: {}: inlined in itself", ty.name)));
                    }
                    self.message(ty, inner, reader.bytes()?, members)?;
                }
                None => reader.skip(wire_type)?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        id: TypeId,
        name: &str,
        wire_type: u8,
        reader: &mut WireReader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        match self.types.get(id) {
            Type::Map(map) => {
                expect_wire_type(wire_type, BYTES, name)?;
                let (key, item) = self.map_entry(map.value, reader.bytes()?)?;
                self.add_map_entry(value, key, item);
            }
            Type::List(list) if !list.name.is_empty() => {
                expect_wire_type(wire_type, BYTES, name)?;
                self.items(list, reader.bytes()?, value)?;
            }
            Type::List(list) => self.repeated(list, name, wire_type, reader, value)?,
            _ => self.single(id, name, wire_type, reader, value)?,
        }
        Ok(())
    }

    /// Returns whether a single zero byte encodes the field's zero value.
    fn zero_is_one_byte(&self, id: TypeId, wire_type: u8) -> bool {
        let Type::Scalar(scalar) = self.types.get(id) else { return false };
        match scalar.kind {
            Scalar::String => wire_type == BYTES,
            Scalar::Bool => wire_type == VARINT,
            kind => wire_type == VARINT && kind.range().is_some(),
        }
    }

    /// Decodes a leaf that is a message.
    fn leaf(&mut self, kind: Scalar, bytes: &[u8]) -> Result<Value, DecodeError> {
        let fields = LeafFields::read(kind, bytes)?;
        if bytes.is_empty() && matches!(kind, Scalar::Time | Scalar::MicroTime) {
            return Ok(Value::Null);
        }
        leaf_value(kind, fields).or_else(|error| {
            self.content_error.get_or_insert(error);
            Ok(Value::Null)
        })
    }

    /// Adds an entry to a map.
    fn add_map_entry(&mut self, map: &mut Value, key: Str, value: Value) {
        if let Value::Object(entries) = map
            && entries.len() >= MAX_SORTED_ENTRIES
        {
            let pairs = entries.iter_mut().flat_map(|(key, value)| [Value::from(key), value.take()]);
            *map = Value::Array(pairs.collect());
            self.has_unsorted_maps = true;
        }
        if let Value::Array(pairs) = map {
            pairs.extend([Value::String(key), value]);
        } else if let Some(entries) = map.or_object() {
            entries.insert(key, value);
        }
    }

    /// Sorts the entries of maps. The last of duplicate keys wins.
    fn sort_maps(&self, id: TypeId, value: &mut Value) {
        match (self.types.get(id), value) {
            (Type::Struct(ty), Value::Object(object)) => {
                for (name, value) in object.iter_mut() {
                    if let Some(field) = ty.field(name) {
                        self.sort_maps(field.ty, value);
                    }
                }
            }
            (Type::Map(map), value) => {
                if let Value::Array(pairs) = value {
                    let mut pairs = std::mem::take(pairs).into_iter();
                    let mut entries = Vec::with_capacity(pairs.len() / 2);
                    while let (Some(Value::String(key)), Some(value)) = (pairs.next(), pairs.next()) {
                        entries.push((key, value));
                    }
                    *value = Value::Object(Object::from_entries(entries));
                }
                if let Value::Object(entries) = value {
                    entries.iter_mut().for_each(|(_, value)| self.sort_maps(map.value, value));
                }
            }
            (Type::List(list), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.sort_maps(list.item, item))
            }
            (Type::Union(union), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.sort_maps(union.schema, item));
            }
            (Type::Union(union), value) => self.sort_maps(union.schema, value),
            _ => {}
        }
    }

    /// Decodes one value after its tag.
    fn single(
        &mut self,
        id: TypeId,
        name: &str,
        wire_type: u8,
        reader: &mut WireReader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        let kind = match self.types.get(id) {
            Type::Scalar(scalar) => scalar.kind,
            Type::Any | Type::Map(_) => return reader.skip(wire_type),
            Type::Struct(ty) => {
                // The Go field of an embedded `ObjectMeta` is named after its type.
                if wire_type != BYTES {
                    expect_wire_type(wire_type, BYTES, if name == "metadata" { bare_name(&ty.name) } else { name })?;
                }
                return self.merge_message(id, reader.bytes()?, value);
            }
            Type::Union(_) | Type::List(_) => {
                expect_wire_type(wire_type, BYTES, name)?;
                return self.merge_message(id, reader.bytes()?, value);
            }
        };
        *value = match kind {
            Scalar::String => {
                expect_wire_type(wire_type, BYTES, name)?;
                Value::String(text(reader.bytes()?))
            }
            Scalar::Bytes => {
                expect_wire_type(wire_type, BYTES, name)?;
                Value::from(base64::encode(reader.bytes()?))
            }
            Scalar::Bool => {
                expect_wire_type(wire_type, VARINT, name)?;
                Value::Bool(reader.varint()? != 0)
            }
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => {
                expect_wire_type(wire_type, VARINT, name)?;
                integer(kind, reader.varint()?)
            }
            Scalar::Float64 => {
                expect_wire_type(wire_type, FIXED64, name)?;
                scalar::float_value(f64::from_bits(reader.fixed64()?))
            }
            _ => {
                expect_wire_type(wire_type, BYTES, name)?;
                self.leaf(kind, reader.bytes()?)?
            }
        };
        Ok(())
    }

    fn repeated(
        &mut self,
        list: &List,
        name: &str,
        wire_type: u8,
        reader: &mut WireReader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        let Some(items) = value.or_array() else { return Ok(()) };
        let can_be_packed =
            matches!(self.types.get(list.item), Type::Scalar(s) if s.kind.range().is_some() || s.kind == Scalar::Bool);
        if can_be_packed && wire_type == BYTES {
            let mut packed = WireReader::new(reader.bytes()?);
            while !packed.is_empty() {
                let mut item = Value::Null;
                self.single(list.item, name, VARINT, &mut packed, &mut item)?;
                items.push(item);
            }
            return Ok(());
        }
        let mut item = Value::Null;
        self.single(list.item, name, wire_type, reader, &mut item)?;
        items.push(item);
        Ok(())
    }

    /// Decodes a list of a Go type of its own, which is a message with its items in field 1.
    fn items(&mut self, list: &List, bytes: &[u8], value: &mut Value) -> Result<(), DecodeError> {
        value.or_array();
        let mut reader = WireReader::new(bytes);
        while !reader.is_empty() {
            match reader.tag(&list.name)? {
                (1, wire_type) => self.repeated(list, "items", wire_type, &mut reader, value)?,
                (_, wire_type) => reader.skip(wire_type)?,
            }
        }
        Ok(())
    }

    /// Decodes a map entry. Generated code lets keys and values extend beyond the entry to the end of the message. So
    /// in Go, a short message may have any number of long keys. Here they end with the entry.
    fn map_entry(&mut self, id: TypeId, bytes: &[u8]) -> Result<(Str, Value), DecodeError> {
        let mut key = Str::default();
        // Missing slices decode as empty ones.
        let mut value = match self.types.get(id) {
            Type::Scalar(ScalarType { kind: Scalar::Bytes, .. }) => Value::from(""),
            Type::List(_) => Value::Array(Vec::new()),
            _ => self.types.zero(id),
        };
        let mut reader = WireReader::new(bytes);
        while !reader.is_empty() {
            // Generated code does not check the wire types of key and value either.
            match reader.map_entry_tag()? {
                (1, _) => key = text(reader.bytes()?),
                (2, _) => self.single(id, "value", self.wire_type(id), &mut reader, &mut value)?,
                (_, wire_type) => reader.skip(wire_type)?,
            }
        }
        Ok((key, value))
    }

    /// The wire type of a single value.
    fn wire_type(&self, id: TypeId) -> u8 {
        match self.types.get(id) {
            Type::Scalar(ScalarType { kind: Scalar::Float64, .. }) => FIXED64,
            Type::Scalar(ScalarType { kind, .. }) if kind.range().is_some() || *kind == Scalar::Bool => VARINT,
            _ => BYTES,
        }
    }

    fn union(&mut self, union: &Union, bytes: &[u8], value: &mut Value) -> Result<(), DecodeError> {
        let mut schema = Value::Null;
        let mut allows = false;
        let mut items = Vec::new();
        let mut reader = WireReader::new(bytes);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag("JSONSchemaProps")?;
            match (union.kind, number) {
                (UnionKind::SchemaOrBool, 1) => {
                    expect_wire_type(wire_type, VARINT, "allows")?;
                    allows = reader.varint()? != 0;
                }
                (UnionKind::SchemaOrBool, 2) | (_, 1) => {
                    expect_wire_type(wire_type, BYTES, "schema")?;
                    self.merge_message(union.schema, reader.bytes()?, &mut schema)?;
                }
                (UnionKind::SchemaOrStringArray, 2) => {
                    expect_wire_type(wire_type, BYTES, "property")?;
                    items.push(Value::String(text(reader.bytes()?)));
                }
                (UnionKind::SchemaOrArray, 2) => {
                    expect_wire_type(wire_type, BYTES, "jSONSchemas")?;
                    let mut item = Value::object();
                    self.merge_message(union.schema, reader.bytes()?, &mut item)?;
                    items.push(item);
                }
                _ => reader.skip(wire_type)?,
            }
        }
        *value = match union.kind {
            _ if !items.is_empty() => Value::Array(items),
            UnionKind::SchemaOrBool if schema.is_null() => Value::Bool(allows),
            _ => schema,
        };
        Ok(())
    }
}

/// The members of an object that is being decoded.
struct MemberBuilder {
    entries: Vec<(Str, Value)>,
    /// The highest message and field number that has been decoded. Fields after it are new.
    highest_field: (u8, u32),
}

impl MemberBuilder {
    /// Starts with the members of a value that has been decoded in part.
    fn from_value(value: Value) -> Self {
        match value {
            Value::Object(object) if !object.is_empty() => {
                Self { entries: object.into_iter().collect(), highest_field: (u8::MAX, u32::MAX) }
            }
            _ => Self { entries: Vec::with_capacity(8), highest_field: (0, 0) },
        }
    }

    /// Returns whether a field is certainly new. Fields usually arrive in the order of their numbers.
    fn is_new(&mut self, message: u8, number: u32) -> bool {
        let is_new = (message, number) > self.highest_field;
        self.highest_field = self.highest_field.max((message, number));
        is_new
    }

    /// The value of a field, initially null. Moves it to the end of the members.
    fn entry(&mut self, field: &Field, is_new: bool) -> &mut Value {
        // The values of a repeated field are usually adjacent, and few fields appear again later.
        let existing = if is_new { None } else { self.entries.iter().rposition(|(name, _)| *name == field.name) };
        match existing {
            Some(existing) => self.entries[existing..].rotate_left(1),
            None => self.entries.push((field.name.clone(), Value::Null)),
        }
        let last = self.entries.len() - 1;
        &mut self.entries[last].1
    }

    /// Removes the last field if it has a zero value that the tree omits.
    fn remove_if_zero(&mut self, field: &Field) {
        let zero = match self.entries.last() {
            Some((_, Value::String(text))) => text.is_empty(),
            Some((_, Value::Int(i))) => *i == 0,
            Some((_, Value::Bool(b))) => !b,
            _ => false,
        };
        if zero && omits_zero(field) {
            self.entries.pop();
        }
    }
}

/// Returns whether a field is omitted if it has its zero value.
fn omits_zero(field: &Field) -> bool {
    field.omit == Omit::Empty && !field.pointer
}

/// Converts a varint to the integer type. Go truncates it to the bits that fit.
fn integer(kind: Scalar, bits: u64) -> Value {
    Value::Int(match kind {
        Scalar::Int32 => i64::from(bits as i32),
        Scalar::Uint32 => i64::from(bits as u32),
        Scalar::Uint8 => i64::from(bits as u8),
        _ => bits as i64,
    })
}

fn expect_wire_type(wire_type: u8, expected: u8, field: &str) -> Result<(), DecodeError> {
    if wire_type == expected {
        return Ok(());
    }
    Err(DecodeError::Malformed(format!("proto: wrong wireType = {wire_type} for field {}", go_name(field))))
}

/// The initialisms that Go writes in capitals in field names.
const INITIALISMS: &str = " api aws ca cidr cpu csi dns fc fs gce gmsa grpc http id ip iscsi json nfs os pd qos rbd se tcp tls ttl uid \
                        uri url wwid ";

/// The Go name of a field with a JSON name: `uid` is `UID`, `fsGroup` is `FSGroup`, `cidrs` is `CIDRs`. (A few volume
/// fields have unrelated Go names.)
fn go_name(json: &str) -> String {
    let first = json.find(|c: char| c.is_ascii_uppercase()).unwrap_or(json.len());
    let (word, rest) = json.split_at(first);
    let is_initialism = |word: &str| INITIALISMS.contains(&format!(" {word} "));
    if is_initialism(word) {
        return format!("{}{rest}", word.to_ascii_uppercase());
    }
    if let Some(single) = word.strip_suffix('s').filter(|single| is_initialism(single)) {
        return format!("{}s{rest}", single.to_ascii_uppercase());
    }
    let mut name = json.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

/// The value of a leaf that is a message.
fn leaf_value(kind: Scalar, fields: LeafFields<'_>) -> Result<Value, DecodeError> {
    Ok(match kind {
        Scalar::Time => {
            checked_time(Time { seconds: fields.first, nanos: 0 })?.map_or(Value::Null, |t| t.rfc3339().into())
        }
        Scalar::MicroTime => {
            let nanos = (fields.second as i32) / 1000 * 1000;
            let time_of = Time {
                seconds: fields.first.saturating_add(i64::from(nanos.div_euclid(1_000_000_000))),
                nanos: nanos.rem_euclid(1_000_000_000) as u32,
            };
            checked_time(time_of)?.map_or(Value::Null, |t| t.rfc3339_micro().into())
        }
        Scalar::Duration => Value::from(Duration(fields.first).to_string()),
        Scalar::Quantity => Value::String(if fields.has_text { fields.text } else { Str::const_new("0") }),
        Scalar::IntOrString if fields.first == 1 => Value::String(fields.text),
        Scalar::IntOrString => Value::Int(i64::from(fields.second as i32)),
        Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json if fields.raw.is_empty() => Value::Null,
        Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json => {
            let decoded = json::decode(fields.raw, json::DecodeOptions::default());
            decoded.map_err(|e| DecodeError::Malformed(e.to_string()))?.value
        }
        _ => Value::Null,
    })
}

/// Checks that a time's year has four digits. Go's zero time is `None`.
fn checked_time(time: Time) -> Result<Option<Time>, DecodeError> {
    const YEAR_0: i64 = -62_167_219_200;
    const YEAR_10000: i64 = 253_402_300_800;
    if !(YEAR_0..YEAR_10000).contains(&time.seconds) {
        return Err(DecodeError::Malformed("Time: year outside of range [0,9999]".to_owned()));
    }
    Ok(Some(time).filter(|t| !t.is_zero()))
}

/// The fields of any leaf message: numbers in fields 1 and 2, a string in field 1 or 3.
#[derive(Default)]
struct LeafFields<'a> {
    first: i64,
    second: i64,
    text: Str,
    has_text: bool,
    raw: &'a [u8],
}

impl<'a> LeafFields<'a> {
    fn read(kind: Scalar, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Self::default();
        let mut reader = WireReader::new(bytes);
        let name = match kind {
            Scalar::Time | Scalar::MicroTime => "Timestamp",
            _ => kind.go_name(),
        };
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag(name)?;
            match (kind, number) {
                (Scalar::Time | Scalar::MicroTime | Scalar::IntOrString, 1 | 2) | (Scalar::Duration, 1) => {
                    let name = match (kind, number) {
                        (Scalar::IntOrString, 1) => "type",
                        (Scalar::IntOrString, _) => "intVal",
                        (Scalar::Duration, _) => "duration",
                        (_, 1) => "seconds",
                        _ => "nanos",
                    };
                    expect_wire_type(wire_type, VARINT, name)?;
                    let slot = if number == 1 { &mut fields.first } else { &mut fields.second };
                    *slot = reader.varint()? as i64;
                }
                (Scalar::IntOrString, 3) | (Scalar::Quantity, 1) => {
                    expect_wire_type(wire_type, BYTES, if number == 3 { "strVal" } else { "string" })?;
                    fields.text = text(reader.bytes()?);
                    fields.has_text = true;
                }
                (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, 1) => {
                    expect_wire_type(wire_type, BYTES, "raw")?;
                    fields.raw = reader.bytes()?;
                }
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(fields)
    }
}
