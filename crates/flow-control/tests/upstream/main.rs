//! Compares with the answers of upstream's library, recorded by `tools/flow-control`. The Go files of that program
//! describe the formats.

mod allocations;
mod estimates;
mod levels;
mod matching;
mod queue_sets;
mod rejections;
mod sharding;
mod texts;
mod watches;

use std::path::Path;

use serde_json::Value;

/// The text of a recording.
fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    std::fs::read_to_string(path).expect("a recording")
}

/// The rows of a recording with a JSON value in each line.
fn rows(name: &str) -> Vec<Value> {
    recorded(name).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A text of a row; empty if it is absent.
fn text<'v>(row: &'v Value, name: &str) -> &'v str {
    row[name].as_str().unwrap_or_default()
}

/// A number of a row; zero if it is absent.
fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_default()
}

fn items<'v>(row: &'v Value, name: &str) -> &'v [Value] {
    row[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A row as a Kubernetes object.
fn object(row: &Value) -> pintle_value::Value {
    serde_json::from_str(&row.to_string()).expect("an object")
}

/// Whether two numbers are equal except for rounding.
fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1.0)
}
