//! Checks that the type name of a nested object in a mutation matches the field that has the object: `Object.spec` in
//! the field `spec`. Fields are dynamic, so the type checker does not see a wrong name (upstream:
//! `CheckTypeNamesMatchFieldPathNames`).

use pintle_budget as budget;
use pintle_cel::{Map, Value};
use pintle_value::print::quote;

/// The number of errors that are reported.
const MAX_ERRORS: usize = 100;

/// Checks the names of the types in an object that an expression has made.
///
/// # Errors
/// Some names do not match.
pub(crate) fn check(value: &Value<'_>) -> Result<(), String> {
    let Value::Map(Map::Struct { name, .. }) = value else { return Ok(()) };
    let mut found = Vec::new();
    walk(value, name, &mut found);
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("type mismatch: {}", found.join("\n"))),
    }
}

/// Walks a value. Lists and maps have the path of their field.
fn walk(value: &Value<'_>, path: &str, found: &mut Vec<String>) {
    // A value can contain another value many times.
    if found.len() >= MAX_ERRORS || budget::step().is_err() {
        return;
    }
    match value {
        Value::Map(map @ Map::Struct { name, .. }) => {
            if *name != path {
                found.push(format!(
                    "unexpected type name {}, expected {}, which matches field name path from root Object type",
                    quote(name),
                    quote(path)
                ));
            }
            for (field, value) in map.iter() {
                if let Value::String(field) = &field {
                    walk(&value, &format!("{path}.{}", &**field), found);
                }
            }
        }
        Value::Map(map @ (Map::Owned(_) | Map::Borrowed(_))) => {
            map.iter().for_each(|(_, value)| walk(&value, path, found))
        }
        Value::List(list) => list.iter().for_each(|item| walk(&item, path, found)),
        _ => {}
    }
}
