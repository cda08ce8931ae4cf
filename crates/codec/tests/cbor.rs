//! Compares the CBOR codec with apimachinery's own serializer, as recorded by `tools/cbor`: decoded values, errors and
//! encoded bytes.

mod support;

use std::fmt::Write;

use pintle_catalog::Catalog;
use pintle_codec::cbor::{self, Limits};
use pintle_codec::json;
use pintle_schema::{Problems, TypeId, Types, normalise};
use pintle_value::Value;
use sha2::{Digest, Sha256};

/// Stands for the error for a body of another kind, which the server reports.
const OTHER_KIND: &str = "another kind";

/// The result of decoding: the value as JSON, and the strict decoding error.
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

/// Decodes as the server does.
fn read(into: &str, bytes: &[u8], catalog: &Catalog) -> Read {
    let limits = Limits::default();
    let error_text = |error: cbor::DecodeError| error.to_string();
    let meta = || cbor::type_meta(bytes, limits).map_err(|e| format!("unable to determine group/version/kind: {e}"));
    match into {
        "any" => {
            cbor::decode(bytes, limits).map(|value| (text(json::encode(&value)), String::new())).map_err(error_text)
        }
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
            let read = cbor::decode_typed(bytes, catalog.types(), root, limits).map_err(error_text)?;
            let strict = read.unknown_field.map(|error| format!("strict decoding error: {error}")).unwrap_or_default();
            Ok((canonical(read.value, catalog.types(), root), strict))
        }
    }
}

/// The JSON of a normalised tree. Test cases are compared in this form, because upstream does not normalise decoded
/// structs.
fn canonical(mut value: Value, types: &Types, root: TypeId) -> String {
    let mut problems = Problems::default();
    normalise(types, root, &mut value, &mut problems);
    assert_eq!(problems.errors, Vec::<String>::new(), "{value:?}");
    text(json::encode(&value))
}

/// Upstream's result for a test case.
fn expected(case: &Value, catalog: &Catalog) -> Read {
    if let Some(error) = case.get("error").and_then(Value::as_str) {
        let other_kind = error.contains(" is registered for version ");
        // Invalid bytes are U+FFFD in trees, and so in messages.
        return Err(if other_kind { OTHER_KIND.to_owned() } else { error.replace(r"\xff", r"\xef\xbf\xbd") });
    }
    let recorded = case.str_at(&["json"]);
    let value = match case.str_at(&["into"]) {
        // Go escapes U+FFFD if it stands for invalid UTF-8.
        "any" | "unstructured" => recorded.replace(r"\ufffd", "\u{fffd}"),
        kind => {
            let value = json::decode(recorded.as_bytes(), json::DecodeOptions::default()).expect("recorded JSON").value;
            canonical(value, catalog.types(), type_of(catalog, kind))
        }
    };
    Ok((value, case.str_at(&["strict"]).to_owned()))
}

/// The recorded test cases.
fn cases(recorded: &str) -> Vec<Value> {
    let decoded = json::decode(recorded.as_bytes(), json::DecodeOptions::default()).expect("recorded JSON");
    decoded.value.as_array().expect("cases").clone()
}

/// Runs a test with a stack that is large enough for ten thousand levels, as the server's threads have.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(test).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn decoding_matches_upstream() {
    on_a_large_stack(|| {
        let catalog = pintle_catalog::complete();
        let cases = cases(include_str!("cbor/rows.json"));
        let mut failures = Vec::new();
        // Upstream cannot encode some of the values that it decodes.
        for case in cases.iter().filter(|case| case.get("unwritten").is_none()) {
            let (into, bytes) = (case.str_at(&["into"]), case.str_at(&["in"]));
            let (found, expected) = (read(into, &from_hex(bytes), catalog), expected(case, catalog));
            if found != expected {
                let bytes = &bytes[..bytes.len().min(400)];
                failures.push(format!("{into} {bytes}\n  found    {found:?}\n  expected {expected:?}"));
            }
        }
        assert!(
            failures.is_empty(),
            "{} of {} cases\n{}",
            failures.len(),
            cases.len(),
            failures[..failures.len().min(20)].join("\n")
        );
    });
}

#[test]
fn encoding_matches_upstream() {
    for case in cases(include_str!("cbor/written.json")) {
        let text = case.str_at(&["json"]);
        let value = json::decode(text.as_bytes(), json::DecodeOptions::default()).expect(text).value;
        let mut out = Vec::new();
        cbor::encode_into(&value, &mut out);
        assert_eq!(to_hex(&out), case.str_at(&["cbor"]), "{text}");
        assert_eq!(cbor::decode(&out, Limits::default()).as_ref(), Ok(&value), "{text}");
    }
}

#[test]
fn every_fixture_is_encoded_as_upstream_encodes_it_and_round_trips() {
    let catalog = pintle_catalog::complete();
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
        assert_eq!(again.unknown_field, None, "{name}");
        let mut problems = Problems::default();
        normalise(types, fixture.type_id, &mut again.value, &mut problems);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        assert_eq!(again.value, typed.value, "{name}");
        compared += 1;
    }
    assert!(compared >= 85, "only {compared} fixtures compared");
}

#[test]
fn truncated_items_are_rejected() {
    let catalog = pintle_catalog::complete();
    let root = type_of(catalog, "ConfigMap");
    let whole =
        from_hex("d9d9f7a3446b696e6449436f6e6669674d61704a61706956657273696f6e42763144646174619f41615f4161ffff");
    for length in 0..whole.len() {
        let cut = &whole[..length];
        assert!(cbor::decode(cut, Limits::default()).is_err());
        assert!(cbor::decode_typed(cut, catalog.types(), root, Limits::default()).is_err());
    }
}
