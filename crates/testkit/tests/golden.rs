//! Replays requests that were recorded against a real Go API server, in their order, and compares the answers. What
//! differs is listed in `known_differences.txt` with the reason, and that list must be exact: a difference that has gone
//! has to leave it.

use std::collections::BTreeMap;
use std::path::Path;

use pintle_testkit::Cluster;
use serde_json::Value;

/// One recorded request with its answer.
struct Recording {
    id: String,
    request: Value,
    /// The body as it was sent: its members in their order, each as often as it stood there.
    body: Option<String>,
    response: Option<Value>,
}

/// The parts of a file whose text matters.
#[derive(serde::Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    request: RawRequest<'a>,
}

#[derive(serde::Deserialize)]
struct RawRequest<'a> {
    #[serde(borrow)]
    body: Option<&'a serde_json::value::RawValue>,
}

fn recordings(server: &str) -> Vec<Recording> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(server)))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a recording");
            let mut value: Value = serde_json::from_str(&text).expect("JSON");
            let raw: Raw<'_> = serde_json::from_str(&text).expect("JSON");
            let body = match &value["request"]["body"] {
                Value::Null => None,
                // Text that is no JSON object is recorded as a string.
                Value::String(text) => Some(text.clone()),
                _ => raw.request.body.map(|body| body.get().to_owned()),
            };
            Recording {
                body,
                id: path.file_stem().expect("a name").to_string_lossy().into_owned(),
                request: value["request"].take(),
                response: value.get("response").cloned(),
            }
        })
        .collect()
}

/// The reasons why answers differ, by the recording's id.
fn known() -> BTreeMap<String, String> {
    include_str!("known_differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, why) = line.split_once(": ").expect("`id: reason`");
            (id.to_owned(), why.to_owned())
        })
        .collect()
}

/// Blanks what cannot be the same twice: uids, times, resourceVersions and generated names.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for key in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time"] {
                if let Some(member) = members.get_mut(key)
                    && member.is_string()
                {
                    *member = Value::from("-");
                }
            }
            if members.contains_key("generateName") {
                members.insert("name".to_owned(), Value::from("-"));
            }
            if let Some(token) = members.get_mut("continue")
                && token.as_str().is_some_and(|t| !t.is_empty())
            {
                *token = Value::from("-");
            }
            members.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::String(text) => *text = blank(text),
        _ => {}
    }
}

/// Blanks uids within a text.
fn blank(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let uid = rest.get(..36).filter(|t| {
            t.char_indices().all(|(i, c)| if [8, 13, 18, 23].contains(&i) { c == '-' } else { c.is_ascii_hexdigit() })
        });
        if uid.is_some() {
            out.push_str("UID");
            rest = &rest[36..];
        } else {
            let next = rest.chars().next().expect("a character");
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// What is compared of an answer.
fn answer_of(status: u16, content_type: &str, warnings: Vec<String>, body: Value) -> Value {
    let mut body = body;
    normalise(&mut body);
    serde_json::json!({ "status": status, "contentType": content_type, "warnings": warnings, "body": body })
}

fn recorded(response: &Value) -> Value {
    let headers = &response["headers"];
    let warnings = match &headers["Warning"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let body = &response["body"];
    let body = match body {
        Value::Object(forms) if forms.contains_key("json") => forms["json"].clone(),
        Value::Object(forms) if forms.contains_key("events") => forms["events"].clone(),
        Value::Object(forms) if forms.contains_key("base64") => Value::from("binary"),
        Value::Object(forms) if forms.contains_key("text") => yaml_blanked(forms["text"].as_str().unwrap_or_default()),
        other => other.clone(),
    };
    let content_type = headers["Content-Type"].as_str().unwrap_or_default();
    answer_of(response["status"].as_u64().unwrap_or(0) as u16, content_type, warnings, body)
}

/// Text with the values of volatile lines blanked, as YAML shows them.
fn yaml_blanked(text: &str) -> Value {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let (key, volatile) = (line.trim_start(), ["uid:", "resourceVersion:", "creationTimestamp:", "time:"]);
            let volatile = volatile.iter().find(|v| key.starts_with(**v));
            volatile.map_or_else(|| line.to_owned(), |key| format!("{key} -"))
        })
        .collect();
    Value::from(lines.join("\n"))
}

async fn replay(cluster: &Cluster, recording: &Recording) -> Option<(Value, Value)> {
    let request = &recording.request;
    let method = request["method"].as_str().expect("a method");
    let mut ask = cluster.ask(method, request["path"].as_str().expect("a path")).anonymous();
    if let Value::Object(headers) = &request["headers"] {
        for (name, value) in headers {
            ask = ask.header(name, value.as_str().unwrap_or_default());
        }
    }
    if let Some(body) = &recording.body {
        ask = ask.raw(body.clone());
    }
    let expect = recording.response.as_ref();
    if expect.is_some_and(|r| r["body"].get("events").is_some()) {
        // Events come as long as the recording listened; what is compared is as many as it heard.
        let wanted = expect.map_or(0, |r| r["body"]["events"].as_array().map_or(0, Vec::len));
        let found = match ask.try_watch().await {
            Ok(mut watch) => {
                let mut events = Vec::new();
                while events.len() < wanted {
                    match watch.next().await {
                        Some(event) => events.push(event),
                        None => break,
                    }
                }
                answer_of(200, "application/json", Vec::new(), Value::from(events))
            }
            Err(answer) => {
                let body = serde_json::from_slice(&answer.body).unwrap_or_else(|_| Value::from(answer.text()));
                answer_of(answer.status.as_u16(), answer.header("content-type"), Vec::new(), body)
            }
        };
        return expect.map(|r| (found, recorded(r)));
    }
    let answer = ask.send().await;
    let expect = expect?;
    let body = if expect["body"].get("base64").is_some() {
        Value::from("binary")
    } else if expect["body"].get("json").is_some() {
        serde_json::from_slice(&answer.body).unwrap_or_else(|_| Value::from(answer.text()))
    } else {
        yaml_blanked(&answer.text())
    };
    let warnings =
        answer.headers.get_all("warning").iter().filter_map(|w| w.to_str().ok().map(str::to_owned)).collect();
    let found = answer_of(answer.status.as_u16(), answer.header("content-type"), warnings, body);
    Some((found, recorded(expect)))
}

#[test]
fn built_in_kinds_answer_as_recorded() {
    pintle_testkit::run(replayed("core-"));
}

#[test]
fn custom_resources_answer_as_recorded() {
    pintle_testkit::run(replayed("crd-"));
}

async fn replayed(server: &'static str) {
    let cluster = Cluster::with_tokens("bench,admin,1,\"system:masters\"\n").await;
    let known = known();
    let mut unexpected = Vec::new();
    let mut gone = Vec::new();
    let mut same = 0;
    for recording in recordings(server) {
        let Some((found, expect)) = replay(&cluster, &recording).await else { continue };
        match (found == expect, known.get(&recording.id)) {
            (true, None) => same += 1,
            (true, Some(_)) => gone.push(recording.id),
            (false, Some(_)) => {}
            (false, None) => unexpected.push(format!("{}\n  found:  {found}\n  expect: {expect}", recording.id)),
        }
    }
    assert!(gone.is_empty(), "these differ no longer; take them off the list: {gone:?}");
    assert!(unexpected.is_empty(), "{} differ, {same} are the same:\n{}", unexpected.len(), unexpected.join("\n"));
    cluster.stop().await;
}
