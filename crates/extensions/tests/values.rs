//! Decoding, defaulting and validation of values by schemas. The tables are in `values/*.txt` and are read from top to
//! bottom. They contain the behavior of kube-apiserver 1.36. `UPDATE_EXPECT=1` updates the files.
//!
//! `schema {...}` is the schema of an object, and `field {...}` is the schema of its only field `a`. `new {...}` is an
//! object, and `val ...` is a value of the field. A preceding `from {...}` is the object that it replaces. The indented
//! lines that follow are the results:
//!
//! - `unknown`: an unknown field.
//! - `is`: the decoded and defaulted object, if it differs; or `malformed`: the decoding error.
//! - `error`, `embedded` and `list`: an error of the original object by the schema, in an embedded resource, or in a
//!   list. An error about a wrong type has the word `type` instead.

use pintle_extensions::schema::StructuralSchema;
use pintle_value::metadata::MissingFields;
use pintle_value::{ErrorKind, Errors, Object, Value};

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn in_field(value: Value) -> Value {
    Value::Object(Object::from_iter([("a", value)]))
}

fn field_schema(field: Value) -> Value {
    let mut schema = read(r#"{"type": "object"}"#);
    schema.set("properties", in_field(field));
    schema
}

fn write(value: &Value) -> String {
    serde_json::to_string(value).expect("values can be written")
}

/// Decodes, defaults and validates one object. All calls to the code under test are here.
fn check(schema: &StructuralSchema, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let mut object = new.clone();
    match schema.conform(&mut object) {
        Ok(unknown) => {
            found.extend(unknown.into_iter().map(|path| format!("unknown {path}")));
            schema.default(&mut object);
            if object != *new {
                found.push(format!("is {}", write(&object)));
            }
        }
        Err(error) => found.push(format!("malformed {error}")),
    }
    let mut say = |what: &str, errors: Errors| {
        for error in &errors {
            let what = if error.kind == ErrorKind::TypeInvalid { "type" } else { what };
            found.push(format!("{what} {error}"));
        }
    };
    say("error", old.map_or_else(|| schema.validate(new), |old| schema.validate_update(new, old)));
    say("embedded", schema.validate_embedded(new, MissingFields::Invalid));
    if old.is_none_or(|old| schema.validate_lists(old).is_empty()) {
        say("list", schema.validate_lists(new));
    }
    found
}

/// Runs a table. Returns the table with the actual results.
fn run(table: &str, rows: &mut usize) -> String {
    let mut out = String::new();
    let (mut schema, mut old) = (None, None);
    for line in table.lines().filter(|line| !line.starts_with("    ")) {
        out.push_str(line);
        out.push('\n');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "schema" => schema = Some(StructuralSchema::parse(&read(rest)).expect(line)),
            "field" => schema = Some(StructuralSchema::parse(&field_schema(read(rest))).expect(line)),
            "from" => old = Some(read(rest)),
            "new" | "val" => {
                let schema = schema.as_ref().expect("a schema comes first");
                let new = if word == "new" { read(rest) } else { in_field(read(rest)) };
                for found in check(schema, &new, old.take().as_ref()) {
                    out.push_str(&format!("    {found}\n"));
                }
                *rows += 1;
            }
            "" | "==" | "#" => {}
            _ => panic!("{line}"),
        }
    }
    out
}

#[test]
fn values_are_validated_like_upstream() {
    let mut rows = 0;
    pintle_scenarios::check_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/values"), |table| run(table, &mut rows));
    assert!(rows >= 250, "{rows} rows");
}
