//! Scenarios: a table of requests by several field managers to one object, with the expected object and managed fields
//! after each request.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, ManualClock, Options, Response, generic_admission, manual_clock};
use serde_json::{Map, Value, json};

/// The kind of a scenario's object.
#[derive(Clone, Copy)]
pub(crate) struct ScenarioKind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
}

const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str) -> ScenarioKind {
    ScenarioKind { api_version, kind, plural, namespaced: true }
}

pub(crate) const CONFIGMAP: ScenarioKind = namespaced("v1", "ConfigMap", "configmaps");
pub(crate) const SERVICE_ACCOUNT: ScenarioKind = namespaced("v1", "ServiceAccount", "serviceaccounts");
pub(crate) const LEASE: ScenarioKind = namespaced("coordination.k8s.io/v1", "Lease", "leases");
pub(crate) const POD: ScenarioKind = namespaced("v1", "Pod", "pods");
pub(crate) const SERVICE: ScenarioKind = namespaced("v1", "Service", "services");
pub(crate) const REPLICATION_CONTROLLER: ScenarioKind =
    namespaced("v1", "ReplicationController", "replicationcontrollers");
pub(crate) const DEPLOYMENT: ScenarioKind = namespaced("apps/v1", "Deployment", "deployments");
pub(crate) const HPA: ScenarioKind =
    namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
pub(crate) const SERVICE_CIDR: ScenarioKind =
    ScenarioKind { namespaced: false, ..namespaced("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs") };
pub(crate) const NODE: ScenarioKind = ScenarioKind { namespaced: false, ..namespaced("v1", "Node", "nodes") };

/// The expected outcome of a request.
pub(crate) enum Expectation<'a> {
    /// The response has this status code and an object that contains this JSON. The stored object has these managed
    /// fields.
    Managed(u16, &'a str, &'a [&'a str]),
    /// The status code is 200 and the object is unchanged, including its resourceVersion.
    Unchanged,
    /// The response has this status code and an object that contains this JSON. The stored object is unchanged.
    NotPersisted(u16, &'a str),
    /// The response is an error with this code, reason and message. The stored object is unchanged.
    Error(u16, &'a str, &'a str),
    /// The response is a conflict with this message and these causes, each a field and its message.
    Conflict(&'a str, &'a [(&'a str, &'a str)]),
}

pub(crate) use Expectation::{Conflict, Error, Managed, NotPersisted, Unchanged};

/// A request, its body and the expected outcome. Requests are written
/// `verb manager [/subresource] [@apiVersion] [?query]`:
///
/// - `apply` and `force` apply the body after adding kind, apiVersion and name,
/// - `raw` applies the body as it is,
/// - `create` sends POST with the body after adding the same fields,
/// - `put` sends PUT with the live object after applying the body as a merge patch,
/// - `replace` sends PUT with the body after adding the same fields,
/// - `merge` and `strategic` send the body as a patch,
/// - `delete` sends DELETE.
///
/// With the manager `-`, the request has no `fieldManager` parameter.
pub(crate) type Step<'a> = (&'a str, &'a str, Expectation<'a>);

/// The object `o` in a cluster of its own. The clock advances by one second before each request.
pub(crate) struct Scenario {
    pub(crate) cluster: Cluster,
    clock: Arc<ManualClock>,
    kind: ScenarioKind,
    /// The prefix of the compared managed fields: other paths are ignored.
    field_prefix: &'static str,
}

/// Runs the steps of a scenario on an object of the given kind.
#[track_caller]
pub(crate) fn check(kind: ScenarioKind, field_prefix: &'static str, steps: &'static [Step<'static>]) {
    pintle_integration::run(async move {
        let scenario = Scenario::new(kind, field_prefix).await;
        scenario.run_steps(steps).await;
    });
}

impl Scenario {
    pub(crate) async fn new(kind: ScenarioKind, field_prefix: &'static str) -> Self {
        let clock = manual_clock();
        // The garbage collector would delete objects whose recorded owners do not exist.
        let admission = generic_admission();
        let options = Options { clock: clock.clone(), controllers: false, admission, ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        Self { cluster, clock, kind, field_prefix }
    }

    /// Runs steps one after another.
    pub(crate) async fn run_steps(&self, steps: &[Step<'_>]) {
        for (i, (request, body, expect)) in steps.iter().enumerate() {
            self.run_step(&format!("step {}, {request} {body}", i + 1), request, body, expect).await;
        }
    }

    /// Advances the clock by one second.
    pub(crate) fn advance_clock(&self) {
        self.clock.advance(Duration::from_secs(1));
    }

    async fn run_step(&self, what: &str, request: &str, body: &str, expect: &Expectation<'_>) {
        let before = self.stored().await;
        self.advance_clock();
        let response = self.send(request, body).await;
        let (code, text) = (response.status.as_u16(), response.text());
        let after = self.stored().await;
        if !matches!(expect, Managed(..)) {
            assert_eq!(after, before, "{what}: {code} {text}");
        }
        match expect {
            Managed(expected, subset, managers) => {
                assert_eq!(code, *expected, "{what}: {text}");
                assert!(contains(&response.json(), &parse_json(subset)), "{what}: {text} does not contain {subset}");
                let stored = after.unwrap_or_default();
                assert_eq!(self.format_managed_fields(&stored), *managers, "{what}: {stored}");
            }
            Unchanged => {
                assert_eq!(code, 200, "{what}: {text}");
                if !request.contains('/') {
                    assert_eq!(Some(response.json()), before, "{what}");
                }
            }
            NotPersisted(expected, subset) => {
                assert_eq!(code, *expected, "{what}: {text}");
                assert!(contains(&response.json(), &parse_json(subset)), "{what}: {text} does not contain {subset}");
            }
            Error(expected, reason, message) => {
                let status = response.json();
                let found = (code, status["reason"].as_str().unwrap_or_default(), status["message"].as_str());
                assert_eq!(found, (*expected, *reason, Some(*message)), "{what}: {text}");
            }
            Conflict(message, causes) => {
                let cause = |(field, message): &(&str, &str)| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
                let causes: Vec<Value> = causes.iter().map(cause).collect();
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                    "reason": "Conflict", "details": {"causes": causes}, "code": 409,
                });
                assert_eq!((code, response.json()), (409, status), "{what}");
            }
        }
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: &str, body: &str) -> Response {
        let mut words = request.split(' ');
        let (verb, manager) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut subresource, mut api_version, mut query) = ("", self.kind.api_version, String::new());
        if manager != "-" {
            query = format!("fieldManager={manager}");
        }
        for word in words {
            match word.split_at(1) {
                ("/", _) => subresource = word,
                ("@", version) => api_version = version,
                ("?", more) => query = format!("{query}&{more}"),
                _ => panic!("{request}: unknown part {word}"),
            }
        }
        let collection = self.collection(api_version);
        let path = format!("{collection}/o{subresource}");
        let (named, path) = match subresource {
            "/scale" => (json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}}), path),
            _ => (json!({"apiVersion": api_version, "kind": self.kind.kind, "metadata": {"name": "o"}}), path),
        };
        match verb {
            "apply" => {
                self.apply(&format!("{path}?{query}"), &apply_merge_patch(&named, &parse_json(body)).to_string()).await
            }
            "force" => {
                self.apply(
                    &format!("{path}?{query}&force=true"),
                    &apply_merge_patch(&named, &parse_json(body)).to_string(),
                )
                .await
            }
            "raw" => self.apply(&format!("{path}?{query}"), body).await,
            "create" => {
                self.cluster
                    .post(&format!("{collection}?{query}"), apply_merge_patch(&named, &parse_json(body)).to_string())
                    .await
            }
            "put" => {
                let live = self.cluster.get(&path).await.expect(200).json();
                self.cluster
                    .put(&format!("{path}?{query}"), apply_merge_patch(&live, &parse_json(body)).to_string())
                    .await
            }
            "replace" => {
                self.cluster
                    .put(&format!("{path}?{query}"), apply_merge_patch(&named, &parse_json(body)).to_string())
                    .await
            }
            "merge" => self.cluster.patch(&format!("{path}?{query}"), "merge", body).await,
            "strategic" => self.cluster.patch(&format!("{path}?{query}"), "strategic-merge", body).await,
            "delete" => self.cluster.delete(&path).await,
            _ => panic!("{request}: unknown verb {verb}"),
        }
    }

    /// Sends a server-side apply request.
    pub(crate) async fn apply(&self, path: &str, body: &str) -> Response {
        self.cluster.request("PATCH", path).body("application/apply-patch+yaml", body.to_owned()).send().await
    }

    /// Returns the path of the collection.
    pub(crate) fn collection(&self, api_version: &str) -> String {
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let scope = if self.kind.namespaced { "/namespaces/n" } else { "" };
        format!("{root}/{api_version}{scope}/{}", self.kind.plural)
    }

    /// Returns the stored object, if it exists.
    pub(crate) async fn stored(&self) -> Option<Value> {
        let response = self.cluster.get(&format!("{}/o", self.collection(self.kind.api_version))).await;
        (response.status.as_u16() == 200).then(|| response.json())
    }

    /// Formats the managed fields, one entry per manager: `manager Operation apiVersion [/subresource]: fields`.
    fn format_managed_fields(&self, object: &Value) -> Vec<String> {
        let mut managers = Vec::new();
        for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let mut paths = fields(entry);
            paths.retain(|path| path.starts_with(self.field_prefix));
            if paths.is_empty() {
                continue;
            }
            let subresource = entry["subresource"].as_str().map(|name| format!(" /{name}")).unwrap_or_default();
            let who = format!("{} {} {}", text("manager"), text("operation"), text("apiVersion"));
            managers.push(format!("{who}{subresource}: {}", paths.join(" ")));
        }
        managers
    }
}

/// Formats the fields of a managed fields entry as conflict messages do.
pub(crate) fn fields(entry: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    flatten(&entry["fieldsV1"], "", &mut paths);
    paths
}

fn flatten(fields: &Value, path: &str, paths: &mut Vec<String>) {
    let none = Map::new();
    let members = fields.as_object().unwrap_or(&none);
    if members.is_empty() {
        paths.push(path.to_owned());
    }
    for (name, fields) in members {
        match name.split_once(':') {
            Some(("f", name)) => flatten(fields, &format!("{path}.{name}"), paths),
            Some(("k", key)) => {
                let keys = parse_json(key);
                let keys: Vec<String> =
                    keys.as_object().unwrap_or(&none).iter().map(|(name, value)| format!("{name}={value}")).collect();
                flatten(fields, &format!("{path}[{}]", keys.join(",")), paths);
            }
            Some(("v", value)) => flatten(fields, &format!("{path}[={value}]"), paths),
            _ => paths.push(path.to_owned()),
        }
    }
}

/// Parses JSON of a test.
pub(crate) fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Returns true if `whole` contains every field of `subset`. A null in `subset` stands for an absent field.
fn contains(whole: &Value, subset: &Value) -> bool {
    match (whole, subset) {
        (_, Value::Object(subset)) => subset.iter().all(|(key, subset)| contains(&whole[key], subset)),
        (whole, subset) => whole == subset,
    }
}

/// Applies a merge patch (RFC 7386).
fn apply_merge_patch(base: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = base.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            result.remove(key);
        } else {
            let old = result.get(key).cloned().unwrap_or_default();
            result.insert(key.clone(), apply_merge_patch(&old, value));
        }
    }
    Value::Object(result)
}
