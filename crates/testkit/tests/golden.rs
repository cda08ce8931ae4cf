//! Replays requests that were recorded with a Go API server, in their order, and compares the responses. Known
//! differences are listed in `known_differences.txt` with the reason. The test also fails if a listed difference no
//! longer occurs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pintle_testkit::Cluster;
use serde_json::Value;

/// One recorded request with its response.
struct Recording {
    id: String,
    request: Value,
    /// The request body as it was sent, with the order of its members and duplicates.
    body: Option<String>,
    response: Option<Value>,
}

/// The parts of a recording whose exact text is needed.
#[derive(serde::Deserialize)]
struct RecordingText<'a> {
    #[serde(borrow)]
    request: RequestText<'a>,
}

#[derive(serde::Deserialize)]
struct RequestText<'a> {
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
            let raw: RecordingText<'_> = serde_json::from_str(&text).expect("JSON");
            let body = match &value["request"]["body"] {
                Value::Null => None,
                // A body that is not a JSON object is recorded as a string.
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

/// The reasons of the known differences, by the recording's id.
fn known_differences() -> BTreeMap<String, String> {
    include_str!("known_differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, why) = line.split_once(": ").expect("`id: reason`");
            (id.to_owned(), why.to_owned())
        })
        .collect()
}

/// Sorts managedFields as if all entries had been written in the same second, because a second may end between any two
/// requests. Asserts that the original order follows the times.
fn sort_as_of_one_second(entries: &mut [Value]) {
    let key = |entry: &Value, time: &str| {
        ["operation", time, "manager", "apiVersion", "subresource"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    };
    assert!(entries.is_sorted_by_key(|entry| key(entry, "time")), "{entries:?}");
    entries.sort_by_key(|entry| key(entry, ""));
}

/// Replaces values that differ from run to run: uids, times, ages, resourceVersions and generated names.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(entries) = members.get_mut("managedFields").and_then(Value::as_array_mut) {
                sort_as_of_one_second(entries);
            }
            for key in
                ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "time"]
            {
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
            for cell in members.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten() {
                if cell.as_str().is_some_and(is_age) {
                    *cell = Value::from("-");
                }
            }
            // The recorded server wrote some objects itself, with its own name as the manager.
            if members.get("manager").is_some_and(|manager| manager == "minikas") {
                members.insert("manager".to_owned(), Value::from("kube-apiserver"));
            }
            members.values_mut().for_each(normalize);
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::String(text) => *text = replace_uids(text),
        _ => {}
    }
}

/// True for an age in the format of tables: `3s`, `2m5s`.
fn is_age(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h', 'd'])
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm' | 'h' | 'd'))
}

/// Replaces the uids in a text.
fn replace_uids(text: &str) -> String {
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

/// The parts of a response that are compared.
fn comparable_response(status: u16, content_type: &str, warnings: Vec<String>, body: Value) -> Value {
    let mut body = body;
    normalize(&mut body);
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
        Value::Object(forms) if forms.contains_key("text") => {
            replace_yaml_values(forms["text"].as_str().unwrap_or_default())
        }
        other => other.clone(),
    };
    let content_type = headers["Content-Type"].as_str().unwrap_or_default();
    comparable_response(response["status"].as_u64().unwrap_or(0) as u16, content_type, warnings, body)
}

/// Replaces the values in a YAML text that differ from run to run.
fn replace_yaml_values(text: &str) -> Value {
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

/// The time without events after which a watch is assumed to have no more events.
const IDLE_TIMEOUT: Duration = Duration::from_millis(700);

/// Maps recorded resourceVersions and uids to those of this run, as far as responses have shown them.
#[derive(Default)]
struct ValueMapping {
    revisions: BTreeMap<u64, u64>,
    uids: BTreeMap<String, String>,
}

impl ValueMapping {
    /// Adds the values of a response. It must not be normalized yet.
    fn learn(&mut self, recorded: &Value, found: &Value) {
        let uid = |response: &Value| response["metadata"]["uid"].as_str().map(str::to_owned);
        if let (Some(recorded), Some(found)) = (uid(recorded), uid(found)) {
            self.uids.insert(recorded, found);
        }
        let revision = |response: &Value| response["metadata"]["resourceVersion"].as_str()?.parse().ok();
        if let (Some(recorded), Some(found)) = (revision(recorded), revision(found)) {
            self.revisions.insert(recorded, found);
        }
    }

    /// Replaces the recorded revision that follows `before` with the one of this run. If the recorded revision is
    /// unknown, the next lower known one is used.
    fn translate(&self, text: &str, before: &str) -> String {
        let Some((head, rest)) = text.split_once(before) else { return text.to_owned() };
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        let known = digits.parse().ok().and_then(|recorded: u64| self.revisions.range(..=recorded).next_back());
        let near = known.filter(|(recorded, _)| digits.parse().is_ok_and(|wanted: u64| wanted - **recorded < 100));
        let ours = near.map_or_else(|| digits.to_owned(), |(_, ours)| ours.to_string());
        format!("{head}{before}{ours}{rest}")
    }
}

/// Waits until the status of a new definition has conditions.
async fn wait_for_conditions(cluster: &Cluster, definitions: &str, name: &str) {
    let path = format!("{}/{name}", definitions.split('?').next().unwrap_or_default());
    loop {
        let found = cluster.request("GET", &path).anonymous().header("authorization", "Bearer bench").send().await;
        let found: Value = serde_json::from_slice(&found.body).expect("JSON");
        let conditions = found["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        if conditions.len() > 1 && conditions.iter().all(|condition| condition["reason"] != "Installing") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn replay(cluster: &Cluster, recording: &Recording, mapping: &mut ValueMapping) -> Option<(Value, Value)> {
    let request = &recording.request;
    let method = request["method"].as_str().expect("a method");
    let path = mapping.translate(request["path"].as_str().expect("a path"), "resourceVersion=");
    let mut builder = cluster.request(method, &path).anonymous();
    if let Value::Object(headers) = &request["headers"] {
        for (name, value) in headers {
            builder = builder.header(name, value.as_str().unwrap_or_default());
        }
    }
    if let Some(body) = &recording.body {
        let mut body = mapping.translate(body, "\"resourceVersion\": \"");
        for (recorded, ours) in &mapping.uids {
            body = body.replace(recorded, ours);
        }
        builder = builder.raw(body);
    }
    let expect = recording.response.as_ref();
    // The events of this watch were not recorded.
    if (path.contains("watch=") || path.contains("/watch/")) && expect.is_none() {
        return None;
    }
    if expect.is_some_and(|r| r["body"].get("events").is_some()) {
        // Compares as many events as were recorded.
        let wanted = expect.map_or(0, |r| r["body"]["events"].as_array().map_or(0, Vec::len));
        let found = match builder.try_watch().await {
            Ok(mut watch) => {
                let mut events = Vec::new();
                while events.len() < wanted {
                    // Events of other clients' writes during the recording are missing here.
                    match tokio::time::timeout(IDLE_TIMEOUT, watch.next()).await {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) | Err(_) => break,
                    }
                }
                comparable_response(200, "application/json", Vec::new(), Value::from(events))
            }
            Err(response) => {
                let body = serde_json::from_slice(&response.body).unwrap_or_else(|_| Value::from(response.text()));
                comparable_response(response.status.as_u16(), response.header("content-type"), Vec::new(), body)
            }
        };
        return expect.map(|r| (found, recorded(r)));
    }
    let response = builder.send().await;
    let expect = expect?;
    if let Ok(found) = serde_json::from_slice::<Value>(&response.body) {
        mapping.learn(&expect["body"]["json"], &found);
        if method == "POST" && response.status == 201 && found["kind"] == "CustomResourceDefinition" {
            wait_for_conditions(cluster, &path, found["metadata"]["name"].as_str().expect("a name")).await;
        }
    }
    let body = if expect["body"].get("base64").is_some() {
        Value::from("binary")
    } else if expect["body"].get("json").is_some() {
        serde_json::from_slice(&response.body).unwrap_or_else(|_| Value::from(response.text()))
    } else {
        replace_yaml_values(&response.text())
    };
    let warnings =
        response.headers.get_all("warning").iter().filter_map(|w| w.to_str().ok().map(str::to_owned)).collect();
    let found = comparable_response(response.status.as_u16(), response.header("content-type"), warnings, body);
    Some((found, recorded(expect)))
}

#[test]
fn responses_for_built_in_kinds_are_as_recorded() {
    pintle_testkit::run(replay_all("core-"));
}

#[test]
fn responses_for_custom_resources_are_as_recorded() {
    pintle_testkit::run(replay_all("crd-"));
}

async fn replay_all(server: &'static str) {
    let cluster = Cluster::with_tokens("bench,admin,1,\"system:masters\"\n").await;
    let (known, mut mapping) = (known_differences(), ValueMapping::default());
    let mut unexpected = Vec::new();
    let mut outdated = Vec::new();
    let mut equal = 0;
    for recording in recordings(server) {
        let Some((found, expect)) = replay(&cluster, &recording, &mut mapping).await else { continue };
        match (found == expect, known.get(&recording.id)) {
            (true, None) => equal += 1,
            (true, Some(_)) => outdated.push(recording.id),
            (false, Some(_)) => {}
            (false, None) => unexpected.push(format!("{}\n  found:  {found}\n  expect: {expect}", recording.id)),
        }
    }
    assert!(outdated.is_empty(), "no longer different, remove from known_differences.txt: {outdated:?}");
    assert!(unexpected.is_empty(), "{} differ, {equal} are equal:\n{}", unexpected.len(), unexpected.join("\n"));
    cluster.stop().await;
}
