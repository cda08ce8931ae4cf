//! Deletion: options, grace periods, finalizers, preconditions, responses and collections. A scenario is a table of
//! requests, each with the expected status code and response fields.

mod collections;
mod corrupt_objects;
mod finalizers;
mod grace_periods;
mod options;
mod preconditions;
mod responses;
mod terminating;

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_integration::{Cluster, ManualClock, Options, Response, manual_clock};
use serde_json::{Value, json};

/// A step of a scenario: a request (`DELETE pods/p?gracePeriodSeconds=5`), its body, and the expected status code and
/// response fields.
///
/// Paths are relative to the namespace `default` (`pods/p` for core kinds, `apps/v1/deployments/d` for others) or
/// absolute. `MERGE`, `JSON` and `APPLY` are patches. Strings in bodies and expectations can refer to the UID and
/// resourceVersion of the last response for an object: `$p.uid`, `$p.rv`. The response must contain the expected
/// fields; null stands for an absent field.
type Step<'a> = (&'a str, Value, u16, Value);

/// A cluster with a manual clock and without controllers.
struct Scenario {
    cluster: Cluster,
    clock: Arc<ManualClock>,
    variables: BTreeMap<String, String>,
}

impl Scenario {
    async fn start() -> Self {
        Self::with_options(Options::default()).await
    }

    async fn with_options(options: Options) -> Self {
        let clock = manual_clock();
        let options = Options { clock: clock.clone(), controllers: false, ..options };
        Self { cluster: Cluster::with_options(options).await, clock, variables: BTreeMap::new() }
    }

    /// Runs the steps one after another and checks the responses.
    async fn run_steps(&mut self, steps: &[Step<'_>]) {
        for (request, body, code, expect) in steps {
            let response = self.send(request, body).await;
            assert_eq!(response.status.as_u16(), *code, "{request} {body}: {}", response.text());
            let found = response.json();
            let expect = self.substitute(expect);
            if let Err(difference) = check_contains(&found, &expect, "") {
                panic!("{request} {body}: {difference}\nin {found}");
            }
            self.record_variables(&found);
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
        let request = self.cluster.request(method, &absolute_path(path));
        match body {
            Value::Null => request.send().await,
            body => request.body(media_type, self.substitute(body).to_string()).send().await,
        }
    }

    /// Replaces references to variables in a value.
    fn substitute(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.starts_with('$') => {
                json!(self.variables.get(&text[1..]).unwrap_or_else(|| panic!("unknown variable {text}")))
            }
            Value::String(text) if text.contains('$') => {
                let mut text = text.clone();
                for (name, value) in self.variables.iter().rev() {
                    text = text.replace(&format!("${name}"), value);
                }
                json!(text)
            }
            Value::Array(items) => items.iter().map(|item| self.substitute(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), self.substitute(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn record_variables(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let Some(name) = metadata["name"].as_str() else { return };
        for (key, field) in [("uid", "uid"), ("rv", "resourceVersion")] {
            if let Some(text) = metadata[field].as_str() {
                self.variables.insert(format!("{name}.{key}"), text.to_owned());
            }
        }
    }

    async fn stop(self) {
        self.cluster.stop().await;
    }
}

/// Expands a path that is relative to the namespace `default`.
fn absolute_path(path: &str) -> String {
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

/// Checks that a value contains the expected fields.
fn check_contains(found: &Value, expect: &Value, path: &str) -> Result<(), String> {
    match expect {
        Value::Object(members) => {
            members.iter().try_for_each(|(key, value)| check_contains(&found[key], value, &format!("{path}.{key}")))
        }
        expect if found == expect => Ok(()),
        expect => Err(format!("{path} is {found}, not {expect}")),
    }
}

/// Returns a ConfigMap.
fn configmap(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Returns a ConfigMap with finalizers.
fn with_finalizers(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}})
}

/// Returns the `Status` of a successful delete of an object of a resource (`configmaps`, `apps/deployments`).
fn deleted_status(resource: &str, name: &str) -> Value {
    let (group, plural) =
        resource.split_once('/').map_or((Value::Null, resource), |(group, plural)| (json!(group), plural));
    let details = json!({"name": name, "group": group, "kind": plural, "uid": format!("${name}.uid")});
    json!({"kind": "Status", "status": "Success", "code": null, "details": details})
}

/// Returns the `Status` of a failed request.
fn failure_status(reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "reason": reason, "message": message})
}

/// No request body.
const NO_BODY: Value = Value::Null;

/// Matches any response.
fn any() -> Value {
    json!({})
}
