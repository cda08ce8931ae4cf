//! What schemas do to values and say of them. The tables are in `values/*.txt` and read top to bottom; what they expect is
//! what kube-apiserver 1.36 does. `UPDATE_EXPECT=1` writes what is found into them.
//!
//! `schema {…}` is the schema of an object, `field {…}` that of its only field `a`. `new {…}` is an object, `val …` a value of
//! the field; `from {…}` before it is the object that it replaces. What follows is indented: `unknown` fields, what reading it
//! and filling in defaults make of it (`is`) or why it cannot be read (`malformed`), and what is found wrong with it as it
//! came: by the schema (`error`, or `type` for those of a wrong type), with embedded resources, with lists.

mod tables;

use pintle_extensions::schema::Schema;
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

/// The one place that calls the code under test.
fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
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
        for error in errors.0 {
            let what = if error.kind == ErrorKind::TypeInvalid { "type" } else { what };
            found.push(format!("{what} {error}"));
        }
    };
    say("error", old.map_or_else(|| schema.validate(new), |old| schema.validate_update(new, old)));
    say("embedded", schema.validate_embedded(new));
    if old.is_none_or(|old| schema.validate_lists(old).is_empty()) {
        say("list", schema.validate_lists(new));
    }
    found
}

/// Runs a table and returns it with what was found.
fn run(table: &str, rows: &mut usize) -> String {
    let mut out = String::new();
    let (mut schema, mut old) = (None, None);
    for line in table.lines().filter(|line| !line.starts_with("    ")) {
        out.push_str(line);
        out.push('\n');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "schema" => schema = Some(Schema::parse(&read(rest)).expect(line)),
            "field" => schema = Some(Schema::parse(&field_schema(read(rest))).expect(line)),
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
fn values_are_judged_as_upstream_judges_them() {
    tables::check_tables("values", run);
}
