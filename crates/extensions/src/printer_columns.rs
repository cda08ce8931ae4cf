//! The table of a custom resource, from `additionalPrinterColumns` (upstream:
//! `registry/customresource/tableconvertor`).

use std::borrow::Cow;

use pintle_registry::{Column, TableConvertor};
use pintle_value::time::{Time, since};
use pintle_value::{Value, print};

use crate::json_path::JsonPath;

/// The maximum number of columns whose fields are selected. The rows of a table with more are made from whole objects.
const MAX_SELECTING_COLUMNS: usize = 32;

/// The table of a custom resource.
pub(crate) struct PrinterColumns {
    columns: Vec<Column>,
    /// The paths of all columns except the name.
    paths: Vec<JsonPath>,
    /// The fields that contain the values of all columns; none if the whole object is needed.
    sources: Vec<String>,
}

impl PrinterColumns {
    /// Returns the table of a version. If the version declares no columns, the table has a column with the age.
    pub(crate) fn of(version: &Value) -> Box<dyn TableConvertor> {
        let asked = version.items_at(&["additionalPrinterColumns"]);
        let mut table = Self { columns: vec![Column::NAME], paths: Vec::new(), sources: Vec::new() };
        if asked.is_empty() {
            table.columns.push(Column::new("Age", "date", "", "=meta/v1.ObjectMeta.creationTimestamp"));
            table.paths.extend(JsonPath::parse(".metadata.creationTimestamp"));
        }
        for column in asked {
            // Upstream shows the columns before the first invalid path.
            let Some(path) = JsonPath::parse(column.str_at(&["jsonPath"])) else { break };
            let text = |key: &str| Cow::Owned(column.str_at(&[key]).to_owned());
            let description = match column.str_at(&["description"]) {
                "" => {
                    let path = column.str_at(&["jsonPath"]);
                    format!("Custom resource definition column (in JSONPath format): {path}").into()
                }
                _ => text("description"),
            };
            let priority = column.int_at(&["priority"]).and_then(|p| i32::try_from(p).ok()).unwrap_or(0);
            table.columns.push(Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                description,
                priority,
            });
            table.paths.push(path);
        }
        let sources: Vec<Vec<String>> = table.paths.iter().map(JsonPath::sources).collect();
        if sources.len() <= MAX_SELECTING_COLUMNS && sources.iter().all(|sources| !sources.is_empty()) {
            table.sources = sources.into_iter().flatten().chain(["metadata.name".to_owned()]).collect();
        }
        Box::new(table)
    }
}

impl TableConvertor for PrinterColumns {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn sources(&self) -> Vec<&str> {
        self.sources.iter().map(String::as_str).collect()
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        let own = self.columns.iter().skip(1).zip(&self.paths);
        let cell = |(column, path): (&Column, &JsonPath)| {
            path.find(object).into_iter().next().map_or(Value::Null, |value| cell(&column.kind, value, now))
        };
        std::iter::once(Value::from(object.name())).chain(own.map(cell)).collect()
    }
}

/// Truncates a number as Go's conversion to `int64` does on amd64. A number out of range becomes the lowest integer.
fn truncate(number: f64) -> i64 {
    // Both ends are powers of two, which floats represent exactly.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

fn cell(kind: &str, value: &Value, now: Time) -> Value {
    match (kind, value) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::Array(_) | Value::Object(_)) => print::json(value).into(),
        ("string", value) => print::plain(value).into(),
        ("integer", Value::Int(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Float(_)) => value.clone(),
        ("number", Value::Int(number)) => Value::Float(*number as f64),
        ("integer", Value::Float(x)) => Value::Int(truncate(*x)),
        ("date", Value::String(text)) => match Time::parse_rfc3339(text) {
            _ if text.is_empty() || text == "null" => "<unknown>".into(),
            Ok(time) => since(Some(time), now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
