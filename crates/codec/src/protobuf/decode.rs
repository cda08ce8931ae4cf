//! Messages to normalised trees, by the field numbers of the schema. Unknown fields are skipped, a field that comes twice
//! is merged, repeated numbers may be packed, as in generated code.

use pintle_schema::{Field, List, Omit, Problems, Scalar, ScalarType, Struct, Type, TypeId, Types, Union, UnionKind};
use pintle_schema::{bare_name, base64, leaf, normalise};
use pintle_value::time::{Duration, Time};
use pintle_value::{Object, Str, Value};

use super::envelope::Envelope;
use super::wire::{BYTES, DecodeError, FIXED64, Reader, VARINT};
use crate::go::utf8 as text;
use crate::json;

/// Reads a message of a struct type into a normalised tree.
///
/// # Errors
/// If the bytes are not a message of the type.
pub fn decode(bytes: &[u8], types: &Types, type_id: TypeId) -> Result<Value, DecodeError> {
    let mut value = Value::object();
    let mut decoder = Decoder { types, depth: 0, unsorted: false, refused: None };
    decoder.merge(type_id, bytes, &mut value)?;
    if let Some(error) = decoder.refused {
        return Err(error);
    }
    if decoder.unsorted {
        decoder.sort(type_id, &mut value);
    }
    let mut problems = Problems::default();
    normalise(types, type_id, &mut value, &mut problems);
    match problems.errors.into_iter().next() {
        Some(message) => Err(DecodeError::Malformed(message)),
        None => Ok(value),
    }
}

/// Reads the object in an envelope; its `apiVersion` and `kind` are those of the envelope.
///
/// # Errors
/// If the content is not a message of the type.
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
    /// The first leaf whose content is refused. Upstream finds that when it makes use of the whole message.
    refused: Option<DecodeError>,
    /// Some maps are lists of keys and values, in turn, so far.
    unsorted: bool,
}

/// How many entries of a map are kept in order while more come. Those of larger maps are put in order once, at the end:
/// there is no limit to how often a message may add one.
const SORTED: usize = 64;

impl Decoder<'_> {
    /// Reads a message into what is already known of the value.
    fn merge(&mut self, id: TypeId, bytes: &[u8], value: &mut Value) -> Result<(), DecodeError> {
        let types = self.types;
        self.depth += 1;
        if self.depth > json::MAX_DEPTH {
            return Err(DecodeError::Malformed("proto: exceeded max depth".to_owned()));
        }
        match types.get(id) {
            Type::Struct(ty) => {
                let mut members = Members::of(value.take());
                self.message(ty, 0, bytes, &mut members)?;
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

    fn message(&mut self, ty: &Struct, message: u8, bytes: &[u8], members: &mut Members) -> Result<(), DecodeError> {
        let (mut reader, mut near) = (Reader::new(bytes), 0);
        while !reader.is_empty() {
            let (number, wire) = reader.tag(&ty.name)?;
            if let Some((_, field)) = ty.numbered(message, number, &mut near) {
                let is_new = members.is_new(message, number);
                // Most fields that are sent say no more than if they were not there.
                if is_new && is_silent(field) && self.is_scalar(field.ty, wire) && reader.take_zero() {
                    continue;
                }
                self.field(field.ty, &field.name, wire, &mut reader, members.entry(field, is_new))?;
                members.settle(field);
                continue;
            }
            let inlined = (1u8..).zip(&ty.embedded).find(|(_, e)| e.parent == message && e.number == number);
            match inlined {
                Some((inner, embedded)) => {
                    expect(wire, BYTES, &embedded.name)?;
                    // Number and parent of an inlined struct may be anything in a schema that is not ours to trust.
                    if inner <= message {
                        return Err(DecodeError::Malformed(format!("proto: {}: inlined in itself", ty.name)));
                    }
                    self.message(ty, inner, reader.bytes()?, members)?;
                }
                None => reader.skip(wire)?,
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        id: TypeId,
        name: &str,
        wire: u8,
        reader: &mut Reader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        match self.types.get(id) {
            Type::Map(map) => {
                expect(wire, BYTES, name)?;
                let (key, item) = self.entry(map.value, reader.bytes()?)?;
                self.add(value, key, item);
            }
            Type::List(list) if !list.name.is_empty() => {
                expect(wire, BYTES, name)?;
                self.items(list, reader.bytes()?, value)?;
            }
            Type::List(list) => self.repeated(list, name, wire, reader, value)?,
            _ => self.single(id, name, wire, reader, value)?,
        }
        Ok(())
    }

    /// True if a zero byte is the whole of a field's zero value.
    fn is_scalar(&self, id: TypeId, wire: u8) -> bool {
        let Type::Scalar(scalar) = self.types.get(id) else { return false };
        match scalar.kind {
            Scalar::String => wire == BYTES,
            Scalar::Bool => wire == VARINT,
            kind => wire == VARINT && kind.range().is_some(),
        }
    }

    /// A leaf that is a message of its own.
    fn leaf(&mut self, kind: Scalar, bytes: &[u8]) -> Result<Value, DecodeError> {
        let fields = LeafFields::read(kind, bytes)?;
        if bytes.is_empty() && matches!(kind, Scalar::Time | Scalar::MicroTime) {
            return Ok(Value::Null);
        }
        leaf_value(kind, fields).or_else(|error| {
            self.refused.get_or_insert(error);
            Ok(Value::Null)
        })
    }

    /// Adds an entry to a map.
    fn add(&mut self, map: &mut Value, key: Str, value: Value) {
        if let Value::Object(entries) = map
            && entries.len() >= SORTED
        {
            let pairs = entries.iter_mut().flat_map(|(key, value)| [Value::from(key), value.take()]);
            *map = Value::Array(pairs.collect());
            self.unsorted = true;
        }
        if let Value::Array(pairs) = map {
            pairs.extend([Value::String(key), value]);
        } else if let Some(entries) = map.or_object() {
            entries.insert(key, value);
        }
    }

    /// Puts the entries of maps in order; of equal keys the last wins.
    fn sort(&self, id: TypeId, value: &mut Value) {
        match (self.types.get(id), value) {
            (Type::Struct(ty), Value::Object(object)) => {
                for (name, value) in object.iter_mut() {
                    if let Some(field) = ty.field(name) {
                        self.sort(field.ty, value);
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
                    entries.iter_mut().for_each(|(_, value)| self.sort(map.value, value));
                }
            }
            (Type::List(list), Value::Array(items)) => items.iter_mut().for_each(|item| self.sort(list.item, item)),
            (Type::Union(union), Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.sort(union.schema, item));
            }
            (Type::Union(union), value) => self.sort(union.schema, value),
            _ => {}
        }
    }

    /// One value behind its tag.
    fn single(
        &mut self,
        id: TypeId,
        name: &str,
        wire: u8,
        reader: &mut Reader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        let kind = match self.types.get(id) {
            Type::Scalar(scalar) => scalar.kind,
            Type::Any | Type::Map(_) => return reader.skip(wire),
            Type::Struct(ty) => {
                // Go's field is called after its type here.
                if wire != BYTES {
                    expect(wire, BYTES, if name == "metadata" { bare_name(&ty.name) } else { name })?;
                }
                return self.merge(id, reader.bytes()?, value);
            }
            Type::Union(_) | Type::List(_) => {
                expect(wire, BYTES, name)?;
                return self.merge(id, reader.bytes()?, value);
            }
        };
        *value = match kind {
            Scalar::String => {
                expect(wire, BYTES, name)?;
                Value::String(text(reader.bytes()?))
            }
            Scalar::Bytes => {
                expect(wire, BYTES, name)?;
                Value::from(base64::encode(reader.bytes()?))
            }
            Scalar::Bool => {
                expect(wire, VARINT, name)?;
                Value::Bool(reader.varint()? != 0)
            }
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => {
                expect(wire, VARINT, name)?;
                integer(kind, reader.varint()?)
            }
            Scalar::Float64 => {
                expect(wire, FIXED64, name)?;
                leaf::float_value(f64::from_bits(reader.fixed64()?))
            }
            _ => {
                expect(wire, BYTES, name)?;
                self.leaf(kind, reader.bytes()?)?
            }
        };
        Ok(())
    }

    fn repeated(
        &mut self,
        list: &List,
        name: &str,
        wire: u8,
        reader: &mut Reader<'_>,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        let Some(items) = value.or_array() else { return Ok(()) };
        let packs =
            matches!(self.types.get(list.item), Type::Scalar(s) if s.kind.range().is_some() || s.kind == Scalar::Bool);
        if packs && wire == BYTES {
            let mut packed = Reader::new(reader.bytes()?);
            while !packed.is_empty() {
                let mut item = Value::Null;
                self.single(list.item, name, VARINT, &mut packed, &mut item)?;
                items.push(item);
            }
            return Ok(());
        }
        let mut item = Value::Null;
        self.single(list.item, name, wire, reader, &mut item)?;
        items.push(item);
        Ok(())
    }

    /// The message that a named list is: its items are field 1.
    fn items(&mut self, list: &List, bytes: &[u8], value: &mut Value) -> Result<(), DecodeError> {
        value.or_array();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            match reader.tag(&list.name)? {
                (1, wire) => self.repeated(list, "items", wire, &mut reader, value)?,
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok(())
    }

    /// An entry of a map. Generated code lets keys and values go on behind the entry, to the end of the message, so that a
    /// short message may have long keys without number; here they end with the entry.
    fn entry(&mut self, id: TypeId, bytes: &[u8]) -> Result<(Str, Value), DecodeError> {
        let mut key = Str::default();
        // Slices that are not there are read as empty ones.
        let mut value = match self.types.get(id) {
            Type::Scalar(ScalarType { kind: Scalar::Bytes, .. }) => Value::from(""),
            Type::List(_) => Value::Array(Vec::new()),
            _ => self.types.zero(id),
        };
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            // Nor does it look at the wire types of key and value.
            match reader.entry_tag()? {
                (1, _) => key = text(reader.bytes()?),
                (2, _) => self.single(id, "value", self.wire(id), &mut reader, &mut value)?,
                (_, wire) => reader.skip(wire)?,
            }
        }
        Ok((key, value))
    }

    /// The wire type of a single value.
    fn wire(&self, id: TypeId) -> u8 {
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
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, wire) = reader.tag("JSONSchemaProps")?;
            match (union.kind, number) {
                (UnionKind::SchemaOrBool, 1) => {
                    expect(wire, VARINT, "allows")?;
                    allows = reader.varint()? != 0;
                }
                (UnionKind::SchemaOrBool, 2) | (_, 1) => {
                    expect(wire, BYTES, "schema")?;
                    self.merge(union.schema, reader.bytes()?, &mut schema)?;
                }
                (UnionKind::SchemaOrStringArray, 2) => {
                    expect(wire, BYTES, "property")?;
                    items.push(Value::String(text(reader.bytes()?)));
                }
                (UnionKind::SchemaOrArray, 2) => {
                    expect(wire, BYTES, "jSONSchemas")?;
                    let mut item = Value::object();
                    self.merge(union.schema, reader.bytes()?, &mut item)?;
                    items.push(item);
                }
                _ => reader.skip(wire)?,
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

/// The members of an object that is being read.
struct Members {
    entries: Vec<(Str, Value)>,
    /// The message and number up to which fields have been read: those behind it are new.
    seen: (u8, u32),
}

impl Members {
    /// The members that a value has already, if it was read in part before.
    fn of(value: Value) -> Self {
        match value {
            Value::Object(object) if !object.is_empty() => {
                Self { entries: object.into_iter().collect(), seen: (u8::MAX, u32::MAX) }
            }
            _ => Self { entries: Vec::with_capacity(8), seen: (0, 0) },
        }
    }

    /// True if a field has not been read yet, as far as that shows by its number: they come in order, as a rule.
    fn is_new(&mut self, message: u8, number: u32) -> bool {
        let is_new = (message, number) > self.seen;
        self.seen = self.seen.max((message, number));
        is_new
    }

    /// The value of a field, null at first. It is the last one from now on.
    fn entry(&mut self, field: &Field, is_new: bool) -> &mut Value {
        // Repeated fields stand together, and few fields come again later.
        let known = if is_new { None } else { self.entries.iter().rposition(|(name, _)| *name == field.name) };
        match known {
            Some(known) => self.entries[known..].rotate_left(1),
            None => self.entries.push((field.name.clone(), Value::Null)),
        }
        let last = self.entries.len() - 1;
        &mut self.entries[last].1
    }

    /// Forgets the last field if it says no more than if it were not there.
    fn settle(&mut self, field: &Field) {
        let zero = match self.entries.last() {
            Some((_, Value::String(text))) => text.is_empty(),
            Some((_, Value::Int(i))) => *i == 0,
            Some((_, Value::Bool(b))) => !b,
            _ => false,
        };
        if zero && is_silent(field) {
            self.entries.pop();
        }
    }
}

/// True if a field that has its zero value is left out.
fn is_silent(field: &Field) -> bool {
    field.omit == Omit::Empty && !field.pointer
}

/// A varint as an integer of that type: Go keeps the bits that fit.
fn integer(kind: Scalar, bits: u64) -> Value {
    Value::Int(match kind {
        Scalar::Int32 => i64::from(bits as i32),
        Scalar::Uint32 => i64::from(bits as u32),
        Scalar::Uint8 => i64::from(bits as u8),
        _ => bits as i64,
    })
}

fn expect(wire: u8, wanted: u8, field: &str) -> Result<(), DecodeError> {
    if wire == wanted {
        return Ok(());
    }
    Err(DecodeError::Malformed(format!("proto: wrong wireType = {wire} for field {}", go_name(field))))
}

/// The words at the beginning of names that Go writes in capitals.
const CAPITALS: &str = " api aws ca cidr cpu csi dns fc fs gce gmsa grpc http id ip iscsi json nfs os pd qos rbd se tcp tls ttl uid \
                        uri url wwid ";

/// The name of a field in Go, of that in JSON: `uid` is `UID`, `fsGroup` is `FSGroup`, `cidrs` is `CIDRs`. (A few volumes
/// have fields with other names altogether.)
fn go_name(json: &str) -> String {
    let first = json.find(|c: char| c.is_ascii_uppercase()).unwrap_or(json.len());
    let (word, rest) = json.split_at(first);
    let is_capital = |word: &str| CAPITALS.contains(&format!(" {word} "));
    if is_capital(word) {
        return format!("{}{rest}", word.to_ascii_uppercase());
    }
    if let Some(single) = word.strip_suffix('s').filter(|single| is_capital(single)) {
        return format!("{}s{rest}", single.to_ascii_uppercase());
    }
    let mut name = json.to_owned();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

/// The content of a leaf that is a message of its own.
fn leaf_value(kind: Scalar, fields: LeafFields<'_>) -> Result<Value, DecodeError> {
    Ok(match kind {
        Scalar::Time => time(Time { seconds: fields.first, nanos: 0 })?.map_or(Value::Null, |t| t.rfc3339().into()),
        Scalar::MicroTime => {
            let nanos = (fields.second as i32) / 1000 * 1000;
            let time_of = Time {
                seconds: fields.first.saturating_add(i64::from(nanos.div_euclid(1_000_000_000))),
                nanos: nanos.rem_euclid(1_000_000_000) as u32,
            };
            time(time_of)?.map_or(Value::Null, |t| t.rfc3339_micro().into())
        }
        Scalar::Duration => Value::from(Duration(fields.first).to_string()),
        Scalar::Quantity => Value::String(if fields.text_read { fields.text } else { Str::const_new("0") }),
        Scalar::IntOrString if fields.first == 1 => Value::String(fields.text),
        Scalar::IntOrString => Value::Int(i64::from(fields.second as i32)),
        Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json if fields.raw.is_empty() => Value::Null,
        Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json => {
            let decoded = json::decode(fields.raw, json::Options::default());
            decoded.map_err(|e| DecodeError::Malformed(e.to_string()))?.value
        }
        _ => Value::Null,
    })
}

/// A time that has four digits in its year, or none for Go's zero time.
fn time(time: Time) -> Result<Option<Time>, DecodeError> {
    const YEAR_0: i64 = -62_167_219_200;
    const YEAR_10000: i64 = 253_402_300_800;
    if !(YEAR_0..YEAR_10000).contains(&time.seconds) {
        return Err(DecodeError::Malformed("Time: year outside of range [0,9999]".to_owned()));
    }
    Ok(Some(time).filter(|t| !t.is_zero()))
}

/// What the messages of leaves consist of, whatever the leaf: numbers in fields 1 and 2, a text in field 1 or 3.
#[derive(Default)]
struct LeafFields<'a> {
    first: i64,
    second: i64,
    text: Str,
    text_read: bool,
    raw: &'a [u8],
}

impl<'a> LeafFields<'a> {
    fn read(kind: Scalar, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut fields = Self::default();
        let mut reader = Reader::new(bytes);
        let name = match kind {
            Scalar::Time | Scalar::MicroTime => "Timestamp",
            _ => kind.go_name(),
        };
        while !reader.is_empty() {
            let (number, wire) = reader.tag(name)?;
            match (kind, number) {
                (Scalar::Time | Scalar::MicroTime | Scalar::IntOrString, 1 | 2) | (Scalar::Duration, 1) => {
                    let name = match (kind, number) {
                        (Scalar::IntOrString, 1) => "type",
                        (Scalar::IntOrString, _) => "intVal",
                        (Scalar::Duration, _) => "duration",
                        (_, 1) => "seconds",
                        _ => "nanos",
                    };
                    expect(wire, VARINT, name)?;
                    let slot = if number == 1 { &mut fields.first } else { &mut fields.second };
                    *slot = reader.varint()? as i64;
                }
                (Scalar::IntOrString, 3) | (Scalar::Quantity, 1) => {
                    expect(wire, BYTES, if number == 3 { "strVal" } else { "string" })?;
                    fields.text = text(reader.bytes()?);
                    fields.text_read = true;
                }
                (Scalar::RawExtension | Scalar::FieldsV1 | Scalar::Json, 1) => {
                    expect(wire, BYTES, "raw")?;
                    fields.raw = reader.bytes()?;
                }
                _ => reader.skip(wire)?,
            }
        }
        Ok(fields)
    }
}
