//! A kind as discovery lists it, with its paths, verbs and sample object, and helpers for JSON values.

use std::fmt;
use std::path::{Path, PathBuf};

use pintle_catalog::ResourceFacts;
use pintle_codec::{json, yaml};
use pintle_integration::{Cluster, Response};
use pintle_schema::{TypeId, Types};
use serde_json::{Value, json};

/// The namespace of the samples.
pub(crate) const NAMESPACE: &str = "sweep";
/// A query that selects the samples.
pub(crate) const SELECTOR: &str = "labelSelector=sweep%3Dyes";

/// A subresource of a served kind.
pub(crate) struct ServedSubresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// The `apiVersion` of the kind.
    pub(crate) api_version: String,
    pub(crate) verbs: Vec<String>,
}

/// A kind of a served resource.
pub(crate) struct ServedKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<ServedSubresource>,
}

/// The objects and patches for the tests of a kind.
pub(crate) struct Sample {
    /// A valid object.
    pub(crate) object: Value,
    /// Another valid object.
    pub(crate) second: Value,
    /// A merge patch that changes the object but not its status.
    pub(crate) change: Value,
    /// A status to write, if the kind has one.
    pub(crate) status: Option<Value>,
    /// True if the kind rejects a status without values.
    pub(crate) requires_status: bool,
    /// The error message of a strategic merge patch with the object itself, if upstream rejects it.
    pub(crate) strategic_merge_error: Option<String>,
    /// Objects to create first, with the paths of their collections.
    pub(crate) prerequisites: Vec<(String, Value)>,
}

impl fmt::Display for ServedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        write!(f, "{group}.{}.{}", self.version, self.plural)
    }
}

/// Returns the folder of the samples.
pub(crate) fn samples_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects/every_kind/samples")
}

fn yaml_to_json(text: &str, what: &Path) -> Value {
    let read = yaml::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", what.display())).value;
    serde_json::from_slice(&json::encode(&read)).expect("JSON")
}

impl ServedKind {
    /// Reads an entry of aggregated discovery.
    pub(crate) fn from_discovery(group: &str, version: &str, entry: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        let subresources = entry["subresources"].as_array().into_iter().flatten().map(|entry| ServedSubresource {
            name: text(&entry["subresource"]),
            kind: text(&entry["responseKind"]["kind"]),
            api_version: match (&*text(&entry["responseKind"]["group"]), text(&entry["responseKind"]["version"])) {
                ("", version) => version,
                (group, version) => format!("{group}/{version}"),
            },
            verbs: texts(&entry["verbs"]),
        });
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: text(&entry["resource"]),
            kind: text(&entry["responseKind"]["kind"]),
            namespaced: entry["scope"] == "Namespaced",
            verbs: texts(&entry["verbs"]),
            // Subresources that connect with a node, pod or service have their own tests (`tests/connect`).
            subresources: subresources.filter(|it| it.name != "log" && !it.kind.ends_with("Options")).collect(),
        }
    }

    /// Returns true if the objects of the resource are stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.facts().storage().is_some()
    }

    /// Returns true if the resource supports a verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Returns the subresource of this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Returns the catalog's entry of the resource.
    pub(crate) fn facts(&self) -> &'static ResourceFacts {
        pintle_catalog::shared().resource(&self.group, &self.version, &self.plural).expect("a kind of the catalog")
    }

    /// Returns the type of the kind or of its list.
    pub(crate) fn type_of(&self, kind: &str) -> (&'static Types, TypeId) {
        let catalog = pintle_catalog::complete();
        (catalog.types(), catalog.kind_type(&self.group, &self.version, kind).expect("a type"))
    }

    /// Returns the sample, with a label that [`SELECTOR`] matches.
    pub(crate) fn sample(&self) -> Sample {
        let path = samples_dir().join(format!("{self}.yaml"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (object, rest) = text.split_once("\n---\n").unwrap_or((&text, "{}"));
        let (object, mut rest) = (yaml_to_json(object, &path), yaml_to_json(rest, &path));
        // Create-only objects cannot be selected, and some must not have labels.
        let label = if self.is_stored() { json!({ "metadata": { "labels": { "sweep": "yes" } } }) } else { json!({}) };
        let object = apply_merge_patch(&object, &label);
        let second_patch = match rest["second"].take() {
            Value::Null => json!({ "metadata": { "name": format!("{}-2", name(&object)) } }),
            second_patch => second_patch,
        };
        let change = match rest["change"].take() {
            Value::Null => json!({ "metadata": { "annotations": { "changed": "yes" } } }),
            change => change,
        };
        let prerequisites = rest["needs"].as_array().into_iter().flatten();
        let prerequisites =
            prerequisites.map(|n| (n["path"].as_str().unwrap_or_default().to_owned(), n["object"].clone())).collect();
        let second = apply_merge_patch(&object, &second_patch);
        let strategic_merge_error = rest["strategic"].as_str().map(str::to_owned);
        let requires_status = rest["requiresStatus"] == true;
        let status = rest.get("status").cloned();
        Sample { object, second, change, status, requires_status, strategic_merge_error, prerequisites }
    }

    /// Returns the `apiVersion` of the objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the resource with its group, as error messages name it.
    pub(crate) fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the path of the collection.
    pub(crate) fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let scope = if self.namespaced { format!("/namespaces/{NAMESPACE}") } else { String::new() };
        format!("{root}/{}{scope}/{}", self.api_version(), self.plural)
    }

    /// Returns the path of an object.
    pub(crate) fn path(&self, object: &Value) -> String {
        format!("{}/{}", self.collection(), name(object))
    }

    /// Creates an object.
    pub(crate) async fn create(&self, cluster: &Cluster, object: &Value) -> Response {
        cluster.post(&self.collection(), object.to_string()).await.expect(201)
    }

    /// Writes the status of a new sample if the kind requires a status.
    pub(crate) async fn write_required_status(&self, cluster: &Cluster) {
        let sample = self.sample();
        if let Some(status) = sample.status.filter(|_| sample.requires_status) {
            let path = format!("{}/status", self.path(&sample.object));
            let _ = cluster.patch(&path, "merge", json!({ "status": status }).to_string()).await.expect(200);
        }
    }

    /// Deletes a sample completely, including its finalizers.
    pub(crate) async fn remove(&self, cluster: &Cluster, object: &Value) {
        let path = self.path(object);
        let response = cluster.delete(&format!("{path}?propagationPolicy=Background&gracePeriodSeconds=0")).await;
        assert!(matches!(response.status.as_u16(), 200 | 202 | 404), "{path}: {}", response.text());
        self.remove_finalizers(cluster, &path).await;
        let _ = cluster.get(&path).await.expect(404);
    }

    /// Removes the finalizers of a terminating object, as external controllers would. The server removes its own
    /// finalizers.
    pub(crate) async fn remove_finalizers(&self, cluster: &Cluster, path: &str) {
        loop {
            let found = cluster.get(path).await;
            if found.status.as_u16() != 200 {
                return;
            }
            let object = found.json();
            let finalizing =
                self.subresource("finalize").is_some() && object["metadata"].get("deletionTimestamp").is_some();
            if object["metadata"].get("finalizers").is_some() {
                let patched = cluster.patch(path, "merge", r#"{"metadata": {"finalizers": null}}"#).await;
                assert!(matches!(patched.status.as_u16(), 200 | 404), "{path}: {}", patched.text());
            } else if !finalizing {
                return;
            }
        }
    }
}

/// Returns an object's name.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns an object's resourceVersion.
pub(crate) fn resource_version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

/// Applies a merge patch (RFC 7386).
pub(crate) fn apply_merge_patch(base: &Value, patch: &Value) -> Value {
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

/// Returns true if `whole` contains every field of `part`. It may have more fields.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| contains(whole.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        // Go omits empty fields.
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

/// Returns an object without the fields that differ between two creates, such as times and allocated addresses.
pub(crate) fn without_volatile_fields(mut object: Value) -> Value {
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
