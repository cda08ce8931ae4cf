//! Compares what becomes of the OpenAPI documents of aggregated API servers with upstream's results, which
//! `tools/openapi-merge` has recorded.

use pintle_openapi::{RemoteSpec, Spec, merge_v2, protobuf_of_v2, v3_of_v2};
use pintle_schema::base64;
use pintle_value::Value;

fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/aggregation/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the recorded rows");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!rows.is_empty(), "{name} has rows");
    rows
}

/// The numbers as Go reads them.
fn normal(document: &Value) -> Value {
    match document {
        Value::Int(_) | Value::Float(_) => Value::Float(document.as_float().expect("a number")),
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        Value::Object(object) => Value::Object(object.iter().map(|(key, value)| (key, normal(value))).collect()),
        other => other.clone(),
    }
}

/// The paths of the differences, with both values.
fn differences(path: &str, found: &Value, expect: &Value, result: &mut Vec<String>) {
    match (found, expect) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&str> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let (a, b) = (a.get(key), b.get(key));
                if let (Some(a), Some(b)) = (a, b) {
                    differences(&format!("{path} {key}"), a, b, result);
                } else {
                    result.push(format!("{path} {key}: found {a:?}, expected {b:?}"));
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path} {i}"), a, b, result);
            }
        }
        _ if found == expect => {}
        _ => result.push(format!("{path}: found {found:?}, expected {expect:?}")),
    }
}

fn assert_same(row: usize, found: &Value, expect: &Value) {
    let mut result = Vec::new();
    differences("", &normal(found), &normal(expect), &mut result);
    assert!(result.is_empty(), "row {row}:\n{}", result.join("\n"));
}

/// The documents in the order of merging that [`merge_v2`] expects.
fn in_order(remotes: &[Value]) -> Vec<&Value> {
    let group_priority = |group: &str| {
        let same = remotes.iter().filter(|remote| remote.str_at(&["group"]) == group);
        same.map(|remote| remote.int_at(&["groupPriority"])).max()
    };
    let mut remotes: Vec<&Value> = remotes.iter().collect();
    remotes.sort_by(|a, b| {
        let priority = |remote: &Value| group_priority(remote.str_at(&["group"]));
        priority(b).cmp(&priority(a)).then_with(|| a.str_at(&["name"]).cmp(b.str_at(&["name"])))
    });
    remotes
}

#[test]
fn documents_are_merged_as_upstream_does() {
    for (number, row) in rows("merge.jsonl").iter().enumerate() {
        let mut remotes = Vec::new();
        for remote in in_order(row.items_at(&["remotes"])) {
            let text = |key: &str| remote.str_at(&[key]);
            let spec = Spec::decode(remote["document"].clone());
            assert_eq!(
                spec.is_err(),
                remote.get("error").is_some(),
                "row {number}: {:?} {}",
                spec.err(),
                text("error")
            );
            remotes.extend(spec.ok().map(|spec| RemoteSpec::new(text("name"), text("group"), text("version"), spec)));
        }
        let (merged, errors) = merge_v2(row["local"].clone(), &remotes);
        // Upstream fails as a whole at an error. It also fails at a path that exists already and starts with a new path.
        let failure = row.str_at(&["failure"]);
        if !failure.is_empty() && !failure.starts_with("unable to merge: duplicated path") {
            let [error] = &errors[..] else { panic!("row {number}: {errors:?}") };
            // Upstream shows another value than the faulty one.
            let kind = |message: &str| message.split(", got").next().map(str::to_owned);
            assert_eq!(kind(&error.reason), kind(failure), "row {number}");
            continue;
        }
        assert_eq!(errors, [], "row {number}");
        if !failure.is_empty() {
            let paths = |paths: &Value| paths.entries_at(&[]).map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
            let mut expect = paths(&row["local"]["paths"]);
            expect.extend(remotes.iter().flat_map(RemoteSpec::paths).map(str::to_owned));
            expect.sort_unstable();
            expect.dedup();
            assert_eq!(paths(&merged["paths"]), expect, "row {number}");
            continue;
        }
        for field in ["paths", "definitions", "parameters"] {
            assert_same(number, &merged[field], &row["merged"][field]);
        }
    }
}

#[test]
fn documents_are_converted_as_upstream_does() {
    for (number, row) in rows("v3.jsonl").iter().enumerate() {
        let spec = Spec::decode(row["v2"].clone());
        if row.get("panic").is_some() {
            continue;
        }
        assert_eq!(spec.is_err(), row.get("v3").is_none(), "row {number}: {:?}", spec.err());
        if let Ok(spec) = spec {
            assert_same(number, &v3_of_v2(&spec), &row["v3"]);
        }
    }
}

#[test]
fn documents_are_encoded_in_protobuf_as_upstream_does() {
    for (number, row) in rows("protobuf.jsonl").iter().enumerate() {
        let expect = base64::decode(row.str_at(&["protobuf"]).as_bytes()).expect("base64");
        let found = protobuf_of_v2(&row["document"]);
        let common = found.iter().zip(&expect).take_while(|(a, b)| a == b).count();
        let text = |bytes: &[u8]| {
            let range = common.saturating_sub(60)..(common + 60).min(bytes.len());
            bytes[range].escape_ascii().to_string()
        };
        assert!(found == expect, "row {number} from {common}:\n{}\n{}", text(&found), text(&expect));
    }
}
