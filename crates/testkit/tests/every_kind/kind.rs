//! A kind as discovery names it, with its sample: where it is, what it can do, and small questions about JSON trees.

use std::fmt;
use std::path::{Path, PathBuf};

use pintle_catalog::ResourceFacts;
use pintle_codec::{json, yaml};
use pintle_schema::{TypeId, Types};
use pintle_testkit::{Cluster, Response};
use serde_json::{Value, json};

/// The namespace of the samples.
pub(crate) const NAMESPACE: &str = "sweep";
/// What selects the samples.
pub(crate) const SELECTOR: &str = "labelSelector=sweep%3Dyes";

/// A subresource.
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

/// A served resource.
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
}

/// What there is to try a kind with.
pub(crate) struct Sample {
    /// A valid object.
    pub(crate) object: Value,
    /// Another one.
    pub(crate) second: Value,
    /// A merge patch that changes the object and not its status.
    pub(crate) change: Value,
    /// A status to write, where there is one.
    pub(crate) status: Option<Value>,
    /// What a strategic patch with the object itself is refused with, where upstream does.
    pub(crate) strategic: Option<String>,
    /// What has to be there before: collections with their objects.
    pub(crate) needs: Vec<(String, Value)>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        write!(f, "{group}.{}.{}", self.version, self.plural)
    }
}

/// The folder of the samples.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/every_kind/samples")
}

fn tree(text: &str, what: &Path) -> Value {
    let read = yaml::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", what.display())).value;
    serde_json::from_slice(&json::encode(&read)).expect("JSON")
}

impl Kind {
    /// Its entry of aggregated discovery.
    pub(crate) fn of(group: &str, version: &str, entry: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        let subresources = entry["subresources"].as_array().into_iter().flatten().map(|entry| Subresource {
            name: text(&entry["subresource"]),
            kind: text(&entry["responseKind"]["kind"]),
            verbs: texts(&entry["verbs"]),
        });
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: text(&entry["resource"]),
            kind: text(&entry["responseKind"]["kind"]),
            namespaced: entry["scope"] == "Namespaced",
            verbs: texts(&entry["verbs"]),
            subresources: subresources.collect(),
        }
    }

    /// True for a resource that keeps its objects.
    pub(crate) fn stored(&self) -> bool {
        self.facts().storage().is_some()
    }

    /// True if it has a verb.
    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// The subresource of this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// What the catalog says of it.
    pub(crate) fn facts(&self) -> &'static ResourceFacts {
        pintle_catalog::shared().resource(&self.group, &self.version, &self.plural).expect("a kind of the catalog")
    }

    /// The type of the kind or of its list.
    pub(crate) fn type_of(&self, kind: &str) -> (&'static Types, TypeId) {
        let catalog = pintle_catalog::shared();
        (catalog.types(), catalog.kind_type(&self.group, &self.version, kind).expect("a type"))
    }

    /// The sample, labelled so that [`SELECTOR`] finds it.
    pub(crate) fn sample(&self) -> Sample {
        let path = folder().join(format!("{self}.yaml"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (object, rest) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
        let (object, mut rest) = (tree(object, &path), tree(rest, &path));
        // What is only created is not selected, and may be refused with labels.
        let label = if self.stored() { json!({ "metadata": { "labels": { "sweep": "yes" } } }) } else { json!({}) };
        let object = merged(&object, &label);
        let other = match rest["second"].take() {
            Value::Null => json!({ "metadata": { "name": format!("{}-2", name(&object)) } }),
            other => other,
        };
        let change = match rest["change"].take() {
            Value::Null => json!({ "metadata": { "annotations": { "changed": "yes" } } }),
            change => change,
        };
        let needs = rest["needs"].as_array().into_iter().flatten();
        let needs = needs.map(|n| (n["path"].as_str().unwrap_or_default().to_owned(), n["object"].clone())).collect();
        let second = merged(&object, &other);
        let strategic = rest["strategic"].as_str().map(str::to_owned);
        Sample { object, second, change, status: rest.get("status").cloned(), strategic, needs }
    }

    /// The `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The resource with its group, as messages name it.
    pub(crate) fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The path of the collection.
    pub(crate) fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let scope = if self.namespaced { format!("/namespaces/{NAMESPACE}") } else { String::new() };
        format!("{root}/{}{scope}/{}", self.api_version(), self.plural)
    }

    /// The path of an object.
    pub(crate) fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.collection(), name(object))
    }

    /// Creates an object.
    pub(crate) async fn create(&self, cluster: &Cluster, object: &Value) -> Response {
        cluster.post(&self.collection(), object.to_string()).await.expect(201)
    }

    /// Takes a sample away again, whatever keeps it.
    pub(crate) async fn remove(&self, cluster: &Cluster, object: &Value) {
        let path = self.path(object);
        let gone = cluster.delete(&format!("{path}?propagationPolicy=Background&gracePeriodSeconds=0")).await;
        assert!(matches!(gone.status.as_u16(), 200 | 202 | 404), "{path}: {}", gone.text());
        self.let_go(cluster, &path).await;
        let _ = cluster.get(&path).await.expect(404);
    }

    /// Does what controllers elsewhere do to let a terminating object go: takes its finalizers away. What the server
    /// itself holds it lets go.
    pub(crate) async fn let_go(&self, cluster: &Cluster, path: &str) {
        loop {
            let found = cluster.get(path).await;
            if found.status.as_u16() != 200 {
                return;
            }
            let object = found.json();
            let held = self.subresource("finalize").is_some() && object["metadata"].get("deletionTimestamp").is_some();
            if object["metadata"].get("finalizers").is_some() {
                let patched = cluster.patch(path, "merge", r#"{"metadata": {"finalizers": null}}"#).await;
                assert!(matches!(patched.status.as_u16(), 200 | 404), "{path}: {}", patched.text());
            } else if !held {
                return;
            }
        }
    }
}

/// An object's name.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// An object's resourceVersion.
pub(crate) fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// A tree with a merge patch (RFC 7386) applied.
pub(crate) fn merged(base: &Value, patch: &Value) -> Value {
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

/// True if everything in `part` is in `whole`, which may have more members.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| contains(whole.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        // Go leaves out what is empty.
        (Value::Null, part) => match part {
            Value::Array(part) => part.is_empty(),
            Value::Object(part) => part.is_empty(),
            Value::String(part) => part.is_empty(),
            Value::Number(part) => part.as_f64() == Some(0.0),
            Value::Bool(part) => !part,
            Value::Null => true,
        },
        (whole, part) => whole == part,
    }
}

/// An object without what is never the same twice, allocated addresses and times among it.
pub(crate) fn blanked(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(key);
        }
    }
    if object["kind"] == "PersistentVolume" {
        object["status"]["lastPhaseTransitionTime"].take();
    }
    if object["kind"] == "Service" {
        object["spec"]["clusterIP"].take();
        object["spec"]["clusterIPs"].take();
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            port["nodePort"].take();
        }
    }
    object
}
