//! An object that several managers write to, request by request.

use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::{Cluster, ManualClock, Options, Response, manual_clock};
use serde_json::{Map, Value, json};

/// The kinds that the object may be of.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
}

const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, kind, plural, namespaced: true }
}

pub(crate) const MAP: Kind = namespaced("v1", "ConfigMap", "configmaps");
pub(crate) const ACCOUNT: Kind = namespaced("v1", "ServiceAccount", "serviceaccounts");
pub(crate) const LEASE: Kind = namespaced("coordination.k8s.io/v1", "Lease", "leases");
pub(crate) const POD: Kind = namespaced("v1", "Pod", "pods");
pub(crate) const SERVICE: Kind = namespaced("v1", "Service", "services");
pub(crate) const CONTROLLER: Kind = namespaced("v1", "ReplicationController", "replicationcontrollers");
pub(crate) const DEPLOYMENT: Kind = namespaced("apps/v1", "Deployment", "deployments");
pub(crate) const AUTOSCALER: Kind = namespaced("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
pub(crate) const CIDR: Kind =
    Kind { namespaced: false, ..namespaced("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs") };
pub(crate) const NODE: Kind = Kind { namespaced: false, ..namespaced("v1", "Node", "nodes") };

/// What a request leads to.
pub(crate) enum Expect<'a> {
    /// This code, an object that has this part, and afterwards these owners.
    Owners(u16, &'a str, &'a [&'a str]),
    /// 200, and the object is what it was to the last byte, resourceVersion included.
    Same,
    /// This code, an object that has this part, and what is stored stays what it was.
    Unstored(u16, &'a str),
    /// An error of this code, reason and message, and what is stored stays what it was.
    Error(u16, &'a str, &'a str),
    /// A conflict with this message; its causes are fields and what is said of each.
    Conflict(&'a str, &'a [(&'a str, &'a str)]),
}

pub(crate) use Expect::{Conflict, Error, Owners, Same, Unstored};

/// A request and what it leads to. Requests are written `verb manager [/subresource] [@apiVersion] [?query]`:
///
/// - `apply` and `force` apply the body, to which kind, version and name are added,
/// - `raw` applies the body as it is,
/// - `create` posts the body, to which the same is added,
/// - `put` puts what is there with the body as a merge patch on it,
/// - `replace` puts the body, to which the same is added,
/// - `merge` and `strategic` send the body as a patch,
/// - `delete` deletes.
///
/// The manager `-` is not named in the request.
pub(crate) type Step<'a> = (&'a str, &'a str, Expect<'a>);

/// The object `o`, in a cluster of its own. Each request takes a second.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    clock: Arc<ManualClock>,
    kind: Kind,
    /// Of what is owned, only fields that begin so are looked at.
    only: &'static str,
}

/// Plays steps on an object of a kind.
#[track_caller]
pub(crate) fn check(kind: Kind, only: &'static str, steps: &'static [Step<'static>]) {
    pintle_testkit::run(async move {
        let scene = Scene::of(kind, only).await;
        scene.play(steps).await;
    });
}

impl Scene {
    pub(crate) async fn of(kind: Kind, only: &'static str) -> Self {
        let clock = manual_clock();
        // Owners in recordings never were: nobody is to notice.
        let options = Options { clock: clock.clone(), controllers: false, ..Options::default() };
        let cluster = Cluster::with_options(options).await;
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata": {"name": "n"}}"#).await.expect(201);
        Self { cluster, clock, kind, only }
    }

    /// Plays steps one after another.
    pub(crate) async fn play(&self, steps: &[Step<'_>]) {
        for (i, (request, body, expect)) in steps.iter().enumerate() {
            self.step(&format!("step {}, {request} {body}", i + 1), request, body, expect).await;
        }
    }

    /// Lets a second pass.
    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_secs(1));
    }

    async fn step(&self, what: &str, request: &str, body: &str, expect: &Expect<'_>) {
        let before = self.stored().await;
        self.tick();
        let answer = self.ask(request, body).await;
        let (code, text) = (answer.status.as_u16(), answer.text());
        let after = self.stored().await;
        if !matches!(expect, Owners(..)) {
            assert_eq!(after, before, "{what}: {code} {text}");
        }
        match expect {
            Owners(expected, part, owners) => {
                assert_eq!(code, *expected, "{what}: {text}");
                assert!(has(&answer.json(), &read(part)), "{what}: no {part} in {text}");
                let stored = after.unwrap_or_default();
                assert_eq!(self.owners(&stored), *owners, "{what}: {stored}");
            }
            Same => {
                assert_eq!(code, 200, "{what}: {text}");
                if !request.contains('/') {
                    assert_eq!(Some(answer.json()), before, "{what}");
                }
            }
            Unstored(expected, part) => {
                assert_eq!(code, *expected, "{what}: {text}");
                assert!(has(&answer.json(), &read(part)), "{what}: no {part} in {text}");
            }
            Error(expected, reason, message) => {
                let status = answer.json();
                let said = (code, status["reason"].as_str().unwrap_or_default(), status["message"].as_str());
                assert_eq!(said, (*expected, *reason, Some(*message)), "{what}: {text}");
            }
            Conflict(message, causes) => {
                let cause = |(field, said): &(&str, &str)| json!({"reason": "FieldManagerConflict", "message": said, "field": field});
                let causes: Vec<Value> = causes.iter().map(cause).collect();
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                    "reason": "Conflict", "details": {"causes": causes}, "code": 409,
                });
                assert_eq!((code, answer.json()), (409, status), "{what}");
            }
        }
    }

    /// Sends a request.
    pub(crate) async fn ask(&self, request: &str, body: &str) -> Response {
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
                _ => panic!("{request}: what is {word}?"),
            }
        }
        let collection = self.collection(api_version);
        let path = format!("{collection}/o{subresource}");
        let (named, path) = match subresource {
            "/scale" => (json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"}}), path),
            _ => (json!({"apiVersion": api_version, "kind": self.kind.kind, "metadata": {"name": "o"}}), path),
        };
        match verb {
            "apply" => self.apply(&format!("{path}?{query}"), &merged(&named, &read(body)).to_string()).await,
            "force" => {
                self.apply(&format!("{path}?{query}&force=true"), &merged(&named, &read(body)).to_string()).await
            }
            "raw" => self.apply(&format!("{path}?{query}"), body).await,
            "create" => {
                self.cluster.post(&format!("{collection}?{query}"), merged(&named, &read(body)).to_string()).await
            }
            "put" => {
                let live = self.cluster.get(&path).await.expect(200).json();
                self.cluster.put(&format!("{path}?{query}"), merged(&live, &read(body)).to_string()).await
            }
            "replace" => self.cluster.put(&format!("{path}?{query}"), merged(&named, &read(body)).to_string()).await,
            "merge" => self.cluster.patch(&format!("{path}?{query}"), "merge", body).await,
            "strategic" => self.cluster.patch(&format!("{path}?{query}"), "strategic-merge", body).await,
            "delete" => self.cluster.delete(&path).await,
            _ => panic!("{request}: what is {verb}?"),
        }
    }

    /// Applies a configuration.
    pub(crate) async fn apply(&self, path: &str, body: &str) -> Response {
        self.cluster.request("PATCH", path).body("application/apply-patch+yaml", body.to_owned()).send().await
    }

    /// Where objects of the kind are.
    pub(crate) fn collection(&self, api_version: &str) -> String {
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let scope = if self.kind.namespaced { "/namespaces/n" } else { "" };
        format!("{root}/{api_version}{scope}/{}", self.kind.plural)
    }

    /// The object, if it is there.
    pub(crate) async fn stored(&self) -> Option<Value> {
        let answer = self.cluster.get(&format!("{}/o", self.collection(self.kind.api_version))).await;
        (answer.status.as_u16() == 200).then(|| answer.json())
    }

    /// Who owns what: `manager Operation apiVersion [/subresource]: fields`.
    fn owners(&self, object: &Value) -> Vec<String> {
        let mut owners = Vec::new();
        for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            let mut paths = fields(entry);
            paths.retain(|path| path.starts_with(self.only));
            if paths.is_empty() {
                continue;
            }
            let subresource = entry["subresource"].as_str().map(|name| format!(" /{name}")).unwrap_or_default();
            let who = format!("{} {} {}", text("manager"), text("operation"), text("apiVersion"));
            owners.push(format!("{who}{subresource}: {}", paths.join(" ")));
        }
        owners
    }
}

/// The fields of an entry as conflicts write them.
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
                let keys = read(key);
                let keys: Vec<String> =
                    keys.as_object().unwrap_or(&none).iter().map(|(name, value)| format!("{name}={value}")).collect();
                flatten(fields, &format!("{path}[{}]", keys.join(",")), paths);
            }
            Some(("v", value)) => flatten(fields, &format!("{path}[={value}]"), paths),
            _ => paths.push(path.to_owned()),
        }
    }
}

/// JSON of a test.
pub(crate) fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// True if everything in `part` is in `whole`; a null is what is not there.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (_, Value::Object(part)) => part.iter().all(|(key, part)| has(&whole[key], part)),
        (whole, part) => whole == part,
    }
}

/// A tree with a merge patch (RFC 7386) applied, of which a list replaces a list.
fn merged(base: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = base.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            result.remove(key);
        } else {
            let old = result.get(key).cloned().unwrap_or_default();
            result.insert(key.clone(), merged(&old, value));
        }
    }
    Value::Object(result)
}
