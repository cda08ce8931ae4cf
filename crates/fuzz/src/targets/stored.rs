//! Values that other servers put into etcd: any bytes, and valid objects of every kind in a random spelling. Such
//! objects must be read as the same objects that this server has stored.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_catalog::ResourceFacts;
use pintle_codec::{json, protobuf};
use pintle_gates::Gates;
use pintle_schema::{Problems, normalise};
use pintle_server::StoredForm;
use pintle_server::fuzzing::read_stored;
use pintle_store::ValueTransformer as _;
use pintle_value::quantity::Quantity;
use pintle_value::{Value, object};

use crate::{MemoryLimit, Random, sample, with_memory_limit};

/// Base64 of YAML is decoded twice, and a short list item may be a large struct.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 3_000, base: 256 << 10 };

const CUSTOM_KEY: &str = "/registry/example.com/things/n/a";

static FORM: LazyLock<StoredForm> = LazyLock::new(|| {
    StoredForm::new("/registry", true, &Gates::default()).unwrap_or_else(|error| unreachable!("{error}"))
});

/// The resources whose objects are stored.
static RESOURCES: LazyLock<Vec<&'static ResourceFacts>> = LazyLock::new(|| {
    let catalog = pintle_catalog::complete();
    let is_hub = |facts: &&ResourceFacts| {
        facts.storage().is_some_and(|stored| (stored.hub_group, stored.hub_version) == (facts.group, facts.version))
    };
    catalog.resources().iter().filter(is_hub).collect()
});

/// The key of an object of a kind, or of a custom resource.
fn key(facts: Option<&ResourceFacts>) -> String {
    let prefix = facts.and_then(ResourceFacts::storage).map(|stored| stored.prefix);
    prefix.map_or_else(|| CUSTOM_KEY.to_owned(), |prefix| format!("/registry/{prefix}/n/a"))
}

/// An input is the number of a kind and a stored value. A value that can be read can be served. Writing the object and
/// reading it again gives the same object.
pub(super) fn object(input: &[u8]) {
    let Some((chosen, stored)) = input.split_first_chunk::<2>() else { return };
    let number = usize::from(u16::from_le_bytes(*chosen)) % (RESOURCES.len() + 1);
    let key = key(RESOURCES.get(number).copied());
    let Ok(json) = with_memory_limit(stored.len(), LIMIT, || read_stored(&FORM, &key, stored)) else { return };
    let again = FORM.transform_to_storage(&key, json).expect("what is read is written");
    let _ = read_stored(&FORM, &key, &again.bytes).expect("what is written is read");
}

/// An input is the seed of an object and of its spelling.
pub(super) fn spelling(input: &[u8]) {
    let seed = input.iter().fold(0_u64, |seed, byte| seed.wrapping_mul(1_000_003) ^ u64::from(*byte));
    let mut random = Random::new(seed);
    let facts = RESOURCES.get(random.below(RESOURCES.len() * 4 / 3)).copied();
    let key = key(facts);
    let json = valid_object(&mut random, facts);
    let read = |stored: &[u8]| read_stored(&FORM, &key, stored);
    let write = |json: &[u8]| FORM.transform_to_storage(&key, json.to_vec().into()).expect("it is written").bytes;
    // For example, Protobuf has no empty lists. Some conversions change an object once more when it is read again.
    let Ok(json) = read(&write(&json)) else { return };
    let stored = write(&json);
    if read(&stored).as_ref() != Ok(&json) {
        return;
    }
    let spelled = match random.below(4) {
        0 if stored.starts_with(&protobuf::PREFIX) => spelled_protobuf(&mut random, &stored),
        _ => spelled_json(&mut random, &json, facts.is_some()),
    };
    // As upstream, only values of built-in kinds are wrapped.
    let is_wrapped = facts.is_some() && random.once_in(4);
    let spelled = if is_wrapped { STANDARD.encode(&spelled).into_bytes() } else { spelled };
    let found = read(&spelled);
    let text = |json: &[u8]| String::from_utf8_lossy(json).into_owned();
    assert_eq!(found.map(|json| text(&json)), Ok(text(&json)), "{key}: {}", spelled.escape_ascii());
}

/// The JSON of a random object.
fn valid_object(random: &mut Random, facts: Option<&ResourceFacts>) -> Vec<u8> {
    let metadata = object! { "name": "a", "namespace": "n", "uid": "u", "labels": object! { "a": "b" } };
    let catalog = pintle_catalog::complete();
    let Some((facts, id)) =
        facts.and_then(|facts| Some((facts, catalog.kind_type(facts.group, facts.version, facts.kind)?)))
    else {
        let schema = catalog.struct_type("meta/v1.ObjectMeta").unwrap_or_else(|| unreachable!("a known type"));
        let mut object = object! { "apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata };
        object.set("spec", sample(random, catalog.types(), schema));
        return json::encode(&object);
    };
    let mut object = sample(random, catalog.types(), id);
    object.set("metadata", metadata);
    object.set("kind", facts.kind);
    let (group, version) = (facts.group, facts.version);
    object.set("apiVersion", if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
    normalise(catalog.types(), id, &mut object, &mut Problems::default());
    let mut out = Vec::new();
    json::encode_typed(&object, catalog.types(), id, &mut out);
    out
}

/// The fields of an envelope in another order, and a message with a field that no type has.
fn spelled_protobuf(random: &mut Random, stored: &[u8]) -> Vec<u8> {
    let envelope = protobuf::open_envelope(stored).expect("an envelope");
    let unknown: &[u8] = if random.once_in(2) { b"\xfa\x7f\x01a" } else { b"" };
    let raw = match random.once_in(2) {
        true => [envelope.raw, unknown].concat(),
        false => [unknown, envelope.raw].concat(),
    };
    let field = |number: u8, bytes: &[u8]| {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length > 0x7f {
            out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap_or_default());
        out.extend_from_slice(bytes);
        out
    };
    let mut meta = [field(1, envelope.api_version.as_bytes()), field(2, envelope.kind.as_bytes())];
    if random.once_in(2) {
        meta.reverse();
    }
    let mut fields = [field(1, &meta.concat()), field(2, &raw), field(3, b""), field(4, b"")];
    shuffle(random, &mut fields);
    [&protobuf::PREFIX[..], &fields.concat()].concat()
}

fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

/// The JSON of an object with other spaces, escapes and orders of members, and with members that reading drops.
fn spelled_json(random: &mut Random, json: &[u8], is_typed: bool) -> Vec<u8> {
    let mut object = json::decode(json, json::DecodeOptions::default()).expect("JSON").value;
    if random.once_in(2) {
        object.set_at(&["metadata", "resourceVersion"], "7");
        object.set_at(&["metadata", "selfLink"], "/a");
        object.set_at(&["metadata", "notKnown"], vec![Value::Int(1)]);
        if is_typed {
            object.set("notKnown", Value::object());
        }
    }
    let mut out = String::new();
    spell(random, &object, &mut out);
    space(random, &mut out);
    out.into_bytes()
}

fn space(random: &mut Random, out: &mut String) {
    if random.once_in(3) {
        out.push_str(random.pick::<&str>(&[" ", "\n", "\t", "\r\n", "    "]));
    }
}

fn spell(random: &mut Random, value: &Value, out: &mut String) {
    space(random, out);
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&str, &Value)> = members.iter().collect();
            shuffle(random, &mut members);
            out.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                // If two members have the same name, the last one counts.
                let earlier = random.once_in(8).then_some(&Value::Null);
                for (twice, value) in earlier.into_iter().chain([value]).enumerate() {
                    if twice > 0 {
                        out.push(',');
                    }
                    space(random, out);
                    spell_string(random, name, out);
                    space(random, out);
                    out.push(':');
                    spell(random, value, out);
                }
            }
            space(random, out);
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                spell(random, item, out);
            }
            space(random, out);
            out.push(']');
        }
        // Go reads the text of a quantity without decoding its escapes.
        Value::String(text) if Quantity::parse(text).is_ok() => out.push_str(&format!("\"{text}\"")),
        Value::String(text) => spell_string(random, text, out),
        other => out.push_str(&String::from_utf8_lossy(&json::encode(other))),
    }
    space(random, out);
}

fn spell_string(random: &mut Random, text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if character < ' ' || matches!(character, '"' | '\\') || random.once_in(6) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                let escape = format!("\\u{unit:04x}");
                out.push_str(&if random.once_in(2) { escape.to_uppercase().replace("\\U", "\\u") } else { escape });
            }
        } else if character == '/' && random.once_in(2) {
            out.push_str("\\/");
        } else {
            out.push(character);
        }
    }
    out.push('"');
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(5);
    let seeds = (0..=RESOURCES.len()).flat_map(|number| {
        let facts = RESOURCES.get(number).copied();
        let json = valid_object(&mut random, facts);
        let stored = FORM.transform_to_storage(&key(facts), json.clone().into()).map(|stored| stored.bytes.to_vec());
        let chosen = u16::try_from(number).unwrap_or_default().to_le_bytes();
        [stored.unwrap_or_default(), json].map(|stored| [&chosen[..], &stored].concat())
    });
    seeds.collect()
}

pub(super) fn spelling_seeds() -> Vec<Vec<u8>> {
    (0..64_u8).map(|number| vec![number; 8]).collect()
}
