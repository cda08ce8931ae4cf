//! CBOR beside apimachinery's own serializer: what `tools/cbor` recorded of it is what this codec reads, refuses and writes.

mod support;

use std::fmt::Write;

use pintle_catalog::Catalog;
use pintle_codec::cbor::{self, Limits};
use pintle_codec::json;
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;
use sha2::{Digest, Sha256};

/// What a body of another kind is refused with is the server's to say.
const OTHER_KIND: &str = "another kind";

/// What is read: JSON, and what strict decoding says besides.
type Read = Result<(String, String), String>;

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).expect("a digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}

fn type_of(catalog: &Catalog, kind: &str) -> TypeId {
    let mut found = catalog.kinds().filter(|(.., name, _)| *name == kind);
    found.next().unwrap_or_else(|| panic!("no kind {kind}")).3
}

/// Reads as the server does.
fn read(into: &str, bytes: &[u8], catalog: &Catalog) -> Read {
    let limits = Limits::default();
    let told = |error: cbor::Error| error.to_string();
    let meta = || cbor::type_meta(bytes, limits).map_err(|e| format!("unable to determine group/version/kind: {e}"));
    match into {
        "any" => cbor::decode(bytes, limits).map(|value| (text(json::encode(&value)), String::new())).map_err(told),
        "unstructured" => {
            let value = match cbor::decode_object(bytes, limits) {
                Ok(value) => value,
                Err(error) => return Err(meta().err().unwrap_or_else(|| error.to_string())),
            };
            for (key, name) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
                if value.str_at(&[key]).is_empty() {
                    return Err(format!("Object '{name}' is missing in '{}'", cbor::diagnostic(bytes)));
                }
            }
            Ok((text(json::encode(&value)), String::new()))
        }
        kind => {
            let meta = meta()?;
            if meta.kind != kind && !meta.kind.is_empty() {
                return Err(OTHER_KIND.to_owned());
            }
            let root = type_of(catalog, kind);
            let read = cbor::decode_typed(bytes, catalog.types(), root, limits).map_err(told)?;
            let strict = read.unknown.map(|error| format!("strict decoding error: {error}")).unwrap_or_default();
            Ok((canonical(read.value, catalog.types(), root), strict))
        }
    }
}

/// A tree as its Go struct is written, by which rows are compared: upstream does not normalise where it fills structs.
fn canonical(mut value: Value, types: &Types, root: TypeId) -> String {
    let mut problems = Problems::default();
    normalise(types, root, &mut value, &mut problems);
    assert_eq!(problems.errors, Vec::<String>::new(), "{value:?}");
    text(json::encode(&value))
}

/// What upstream made of the bytes of a row.
fn expected(row: &Value, catalog: &Catalog) -> Read {
    if let Some(error) = row.get("error").and_then(Value::as_str) {
        let other_kind = error.contains(" is registered for version ");
        // Trees hold the same character for it, which is what messages quote then.
        return Err(if other_kind { OTHER_KIND.to_owned() } else { error.replace(r"\xff", r"\xef\xbf\xbd") });
    }
    let recorded = row.str_at(&["json"]);
    let value = match row.str_at(&["into"]) {
        // Go writes a character for what is not UTF-8 that it would not escape otherwise.
        "any" | "unstructured" => recorded.replace(r"\ufffd", "\u{fffd}"),
        kind => {
            let value = json::decode(recorded.as_bytes(), json::Options::default()).expect("recorded JSON").value;
            canonical(value, catalog.types(), type_of(catalog, kind))
        }
    };
    Ok((value, row.str_at(&["strict"]).to_owned()))
}

/// Recorded rows.
fn rows(recorded: &str) -> Vec<Value> {
    let decoded = json::decode(recorded.as_bytes(), json::Options::default()).expect("recorded JSON");
    decoded.value.as_array().expect("rows").clone()
}

/// Runs on a stack on which ten thousand levels fit, as those of the server's threads do.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_is_read_is_what_upstream_reads() {
    on_a_large_stack(|| {
        let catalog = pintle_catalog::shared();
        let rows = rows(include_str!("cbor/rows.json"));
        let mut wrong = Vec::new();
        // Some of what upstream reads it cannot show.
        for row in rows.iter().filter(|row| row.get("unwritten").is_none()) {
            let (into, bytes) = (row.str_at(&["into"]), row.str_at(&["in"]));
            let (found, expected) = (read(into, &from_hex(bytes), catalog), expected(row, catalog));
            if found != expected {
                let bytes = &bytes[..bytes.len().min(400)];
                wrong.push(format!("{into} {bytes}\n  found    {found:?}\n  expected {expected:?}"));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} rows\n{}",
            wrong.len(),
            rows.len(),
            wrong[..wrong.len().min(20)].join("\n")
        );
    });
}

#[test]
fn what_is_written_is_what_upstream_writes() {
    for row in rows(include_str!("cbor/written.json")) {
        let text = row.str_at(&["json"]);
        let value = json::decode(text.as_bytes(), json::Options::default()).expect(text).value;
        let mut out = Vec::new();
        cbor::encode_into(&value, &mut out);
        assert_eq!(to_hex(&out), row.str_at(&["cbor"]), "{text}");
        assert_eq!(cbor::decode(&out, Limits::default()).as_ref(), Ok(&value), "{text}");
    }
}

#[test]
fn every_fixture_is_written_as_upstream_writes_it_and_read_again() {
    let catalog = pintle_catalog::shared();
    let types = catalog.types();
    let recorded: Vec<(&str, usize, &str)> = include_str!("cbor/fixtures.txt")
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("three words");
            (word(), word().parse().expect("a length"), word())
        })
        .collect();
    let mut compared = 0;
    for fixture in support::fixtures() {
        let group = if fixture.group.is_empty() { "core" } else { fixture.group };
        let name = format!("{group}.{}.{}", fixture.version, fixture.kind);
        let Some((_, length, hash)) = recorded.iter().find(|(found, ..)| *found == name) else { continue };
        let typed = json::decode_typed(&fixture.bytes("json"), types, fixture.type_id).expect(&name);
        let mut out = cbor::SELF_DESCRIBED.to_vec();
        cbor::encode_typed(&typed.value, types, fixture.type_id, &mut out);
        assert_eq!((out.len(), to_hex(&Sha256::digest(&out))), (*length, (*hash).to_owned()), "{name}");
        let mut again = cbor::decode_typed(&out, types, fixture.type_id, Limits::default()).expect(&name);
        assert_eq!(again.unknown, None, "{name}");
        let mut problems = Problems::default();
        normalise(types, fixture.type_id, &mut again.value, &mut problems);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        assert_eq!(again.value, typed.value, "{name}");
        compared += 1;
    }
    assert!(compared >= 85, "only {compared} fixtures compared");
}

#[test]
fn no_cut_is_taken_for_the_whole() {
    let catalog = pintle_catalog::shared();
    let root = type_of(catalog, "ConfigMap");
    let whole =
        from_hex("d9d9f7a3446b696e6449436f6e6669674d61704a61706956657273696f6e42763144646174619f41615f4161ffff");
    for length in 0..whole.len() {
        let cut = &whole[..length];
        assert!(cbor::decode(cut, Limits::default()).is_err());
        assert!(cbor::decode_typed(cut, catalog.types(), root, Limits::default()).is_err());
    }
}
