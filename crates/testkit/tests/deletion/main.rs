//! Deletion to the letter: options, grace periods, finalizers, preconditions, answers, collections. A scenario is a table
//! of requests, each with the code of its answer and what is in it.

mod answers;
mod collections;
mod corrupt;
mod finalizers;
mod grace;
mod options;
mod preconditions;
mod terminating;

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_testkit::{Cluster, ManualClock, Options, Response, manual_clock};
use serde_json::{Value, json};

/// A request (`DELETE pods/p?gracePeriodSeconds=5`), its body, the code of its answer, and what the answer has.
///
/// Paths begin at the namespace `default` for core kinds (`pods/p`), at the group for others in it
/// (`apps/v1/deployments/d`), or at the root. `MERGE`, `JSON` and `APPLY` are patches. Texts in bodies and expectations can
/// name what is known of an object by its last answer: `$p.uid`, `$p.rv`. An expectation has some of the members that an
/// answer has; null stands for a member that is not there.
type Row<'a> = (&'a str, Value, u16, Value);

/// A cluster with a clock that stands still, in which nobody acts but the test.
struct Scene {
    cluster: Cluster,
    clock: Arc<ManualClock>,
    known: BTreeMap<String, String>,
}

impl Scene {
    async fn begin() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let clock = manual_clock();
        let options = Options { clock: clock.clone(), controllers: false, ..options };
        Self { cluster: Cluster::with_options(options).await, clock, known: BTreeMap::new() }
    }

    /// Makes requests one after the other and compares what comes.
    async fn check(&mut self, rows: &[Row<'_>]) {
        for (request, body, code, expect) in rows {
            let answer = self.send(request, body).await;
            assert_eq!(answer.status.as_u16(), *code, "{request} {body}: {}", answer.text());
            let found = answer.json();
            let expect = self.filled(expect);
            if let Err(difference) = has(&found, &expect, "") {
                panic!("{request} {body}: {difference}\nin {found}");
            }
            self.learn(&found);
        }
    }

    async fn send(&self, request: &str, body: &Value) -> Response {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let (method, media_type) = match method {
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "JSON" => ("PATCH", "application/json-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            other => (other, "application/json"),
        };
        let ask = self.cluster.request(method, &whole(path));
        match body {
            Value::Null => ask.send().await,
            body => ask.body(media_type, self.filled(body).to_string()).send().await,
        }
    }

    /// The same with what is known in the place of its names.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.starts_with('$') => {
                json!(self.known.get(&text[1..]).unwrap_or_else(|| panic!("nothing is known of {text}")))
            }
            Value::String(text) if text.contains('$') => {
                let mut text = text.clone();
                for (name, known) in self.known.iter().rev() {
                    text = text.replace(&format!("${name}"), known);
                }
                json!(text)
            }
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), self.filled(value))).collect(),
            other => other.clone(),
        }
    }

    fn learn(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let Some(name) = metadata["name"].as_str() else { return };
        for (key, field) in [("uid", "uid"), ("rv", "resourceVersion")] {
            if let Some(text) = metadata[field].as_str() {
                self.known.insert(format!("{name}.{key}"), text.to_owned());
            }
        }
    }

    async fn end(self) {
        self.cluster.stop().await;
    }
}

/// The path of something in the namespace `default`, or any path from the root on.
fn whole(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let (name, query) = path.split_once('?').map_or((path, String::new()), |(name, query)| (name, format!("?{query}")));
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [group, version, rest @ ..] if group.contains('.') || ["apps", "batch", "policy"].contains(group) => {
            format!("/apis/{group}/{version}/namespaces/default/{}{query}", rest.join("/"))
        }
        _ => format!("/api/v1/namespaces/default/{name}{query}"),
    }
}

/// Whether a value has all that is expected of it.
fn has(found: &Value, expect: &Value, path: &str) -> Result<(), String> {
    match expect {
        Value::Object(members) => {
            members.iter().try_for_each(|(key, value)| has(&found[key], value, &format!("{path}.{key}")))
        }
        expect if found == expect => Ok(()),
        expect => Err(format!("{path} is {found}, not {expect}")),
    }
}

/// A map of this name.
fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A map of this name with finalizers.
fn held(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}})
}

/// The `Status` about something of a resource (`configmaps`, `apps/deployments`) that is gone.
fn gone(resource: &str, name: &str) -> Value {
    let (group, plural) =
        resource.split_once('/').map_or((Value::Null, resource), |(group, plural)| (json!(group), plural));
    let details = json!({"name": name, "group": group, "kind": plural, "uid": format!("${name}.uid")});
    json!({"kind": "Status", "status": "Success", "code": null, "details": details})
}

/// A `Status` that refuses.
fn refused(reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message})
}

/// Nothing.
const NONE: Value = Value::Null;

/// Nothing in particular.
fn any() -> Value {
    json!({})
}
