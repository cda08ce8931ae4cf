//! Replays requests that were recorded against a real Go API server, in their order, and compares the answers. What
//! differs is listed in `known_differences.txt` with the reason, and that list must be exact: a difference that has gone
//! has to leave it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

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

/// Puts entries of managers into the order that they have if all are of one second: a second may end between any two
/// requests. Their own order has to be that of their times.
fn in_one_second(entries: &mut [Value]) {
    let key = |entry: &Value, time: &str| {
        ["operation", time, "manager", "apiVersion", "subresource"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    };
    assert!(entries.is_sorted_by_key(|entry| key(entry, "time")), "{entries:?}");
    entries.sort_by_key(|entry| key(entry, ""));
}

/// Blanks what cannot be the same twice: uids, times, ages, resourceVersions and generated names.
fn normalise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(entries) = members.get_mut("managedFields").and_then(Value::as_array_mut) {
                in_one_second(entries);
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
            // What the recorded server wrote by itself, under its own name.
            if members.get("manager").is_some_and(|manager| manager == "minikas") {
                members.insert("manager".to_owned(), Value::from("kube-apiserver"));
            }
            members.values_mut().for_each(normalise);
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::String(text) => *text = blank(text),
        _ => {}
    }
}

/// True for an age as tables show it: `3s`, `2m5s`.
fn is_age(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h', 'd'])
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm' | 'h' | 'd'))
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

/// How long a watch may say nothing before it is taken to have nothing more to say.
const SILENCE: Duration = Duration::from_millis(700);

/// Which of our resourceVersions and uids are those of the recording, as far as answers have shown it.
#[derive(Default)]
struct Translation {
    revisions: BTreeMap<u64, u64>,
    uids: BTreeMap<String, String>,
}

impl Translation {
    /// Learns from an answer, before anything of it is blanked.
    fn learn(&mut self, recorded: &Value, found: &Value) {
        let uid = |answer: &Value| answer["metadata"]["uid"].as_str().map(str::to_owned);
        if let (Some(recorded), Some(found)) = (uid(recorded), uid(found)) {
            self.uids.insert(recorded, found);
        }
        let revision = |answer: &Value| answer["metadata"]["resourceVersion"].as_str()?.parse().ok();
        if let (Some(recorded), Some(found)) = (revision(recorded), revision(found)) {
            self.revisions.insert(recorded, found);
        }
    }

    /// A text with our revision in the place of the recorded one, which follows `before` and ends with something else
    /// than a digit. One that was never seen is as good as the one before it.
    fn translate(&self, text: &str, before: &str) -> String {
        let Some((head, rest)) = text.split_once(before) else { return text.to_owned() };
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, rest) = rest.split_at(end);
        let known = digits.parse().ok().and_then(|recorded: u64| self.revisions.range(..=recorded).next_back());
        let past = known.filter(|(recorded, _)| digits.parse().is_ok_and(|wanted: u64| wanted - **recorded < 100));
        let ours = past.map_or_else(|| digits.to_owned(), |(_, ours)| ours.to_string());
        format!("{head}{before}{ours}{rest}")
    }
}

/// Waits until the status of a new definition says something.
async fn judged(cluster: &Cluster, definitions: &str, name: &str) {
    let path = format!("{}/{name}", definitions.split('?').next().unwrap_or_default());
    loop {
        let found = cluster.request("GET", &path).anonymous().header("authorization", "Bearer bench").send().await;
        let found: Value = serde_json::from_slice(&found.body).expect("JSON");
        if found["status"]["conditions"].as_array().is_some_and(|conditions| conditions.len() > 1) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn replay(cluster: &Cluster, recording: &Recording, translation: &mut Translation) -> Option<(Value, Value)> {
    let request = &recording.request;
    let method = request["method"].as_str().expect("a method");
    let path = translation.translate(request["path"].as_str().expect("a path"), "resourceVersion=");
    let mut ask = cluster.request(method, &path).anonymous();
    if let Value::Object(headers) = &request["headers"] {
        for (name, value) in headers {
            ask = ask.header(name, value.as_str().unwrap_or_default());
        }
    }
    if let Some(body) = &recording.body {
        let mut body = translation.translate(body, "\"resourceVersion\": \"");
        for (recorded, ours) in &translation.uids {
            body = body.replace(recorded, ours);
        }
        ask = ask.raw(body);
    }
    let expect = recording.response.as_ref();
    // Nothing comes of a watch whose events were not kept.
    if (path.contains("watch=") || path.contains("/watch/")) && expect.is_none() {
        return None;
    }
    if expect.is_some_and(|r| r["body"].get("events").is_some()) {
        // Events come as long as the recording listened; what is compared is as many as it heard.
        let wanted = expect.map_or(0, |r| r["body"]["events"].as_array().map_or(0, Vec::len));
        let found = match ask.try_watch().await {
            Ok(mut watch) => {
                let mut events = Vec::new();
                while events.len() < wanted {
                    // What others wrote while the recording listened does not come here.
                    match tokio::time::timeout(SILENCE, watch.next()).await {
                        Ok(Some(event)) => events.push(event),
                        Ok(None) | Err(_) => break,
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
    if let Ok(found) = serde_json::from_slice::<Value>(&answer.body) {
        translation.learn(&expect["body"]["json"], &found);
        if method == "POST" && answer.status == 201 && found["kind"] == "CustomResourceDefinition" {
            judged(cluster, &path, found["metadata"]["name"].as_str().expect("a name")).await;
        }
    }
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
    let (known, mut translation) = (known(), Translation::default());
    let mut unexpected = Vec::new();
    let mut gone = Vec::new();
    let mut same = 0;
    for recording in recordings(server) {
        let Some((found, expect)) = replay(&cluster, &recording, &mut translation).await else { continue };
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
