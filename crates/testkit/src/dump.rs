//! The state of a cluster as text, for people who look for the cause of a failed test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::discovery::{ApiResource, verbs};
use kube::{Api, Discovery};
use serde_json::Value;

use crate::access::Access;
use crate::error::Error;
use crate::filter::RequestFilter;
use crate::observer::Observer;
use crate::requests::RecordedRequest;

/// The environment variable with the folder for dumps of failed tests.
const FOLDER_VARIABLE: &str = "PINTLE_TESTKIT_DUMP_DIR";
/// Maximum time for the dump of a failed test.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of requests in a dump.
const REQUESTS: usize = 50;
const REDACTED: &str = "REDACTED";

/// Objects that the server makes by itself, by kind, namespace and name. An empty namespace stands for any namespace.
const OWN_OBJECTS: [(&str, &str, &str); 3] =
    [("ServiceAccount", "", "default"), ("ConfigMap", "", "kube-root-ca.crt"), ("ServiceCIDR", "", "kubernetes")];
/// The label of the roles and bindings of RBAC's bootstrap policy, some of which are aggregated after the start.
const BOOTSTRAP_POLICY: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// The annotation of the priority levels and flow schemas that every cluster has.
const FLOW_CONTROL_BOOTSTRAP: (&str, &str) = ("apf.kubernetes.io/autoupdate-spec", "true");
/// The label of the APIServices of the versions that the server serves.
const AUTO_MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Kinds in the namespace `kube-system` that the server writes periodically.
const OWN_KINDS: [(&str, &str); 1] = [("Lease", "kube-system")];
/// Fields with secrets, by kind.
const SECRET_FIELDS: [(&str, &str); 2] = [("Secret", "data"), ("Secret", "stringData")];
/// The annotation in which kubectl keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind whose objects a missing controller would create for objects of another kind.
struct MissingController {
    owner: &'static str,
    dependent: &'static str,
}

const MISSING_CONTROLLERS: [MissingController; 6] = [
    MissingController { owner: "Deployment", dependent: "ReplicaSet" },
    MissingController { owner: "ReplicaSet", dependent: "Pod" },
    MissingController { owner: "StatefulSet", dependent: "Pod" },
    MissingController { owner: "DaemonSet", dependent: "Pod" },
    MissingController { owner: "Job", dependent: "Pod" },
    MissingController { owner: "CronJob", dependent: "Job" },
];

/// Kinds whose objects stay pending, and the reason.
const PENDING: [(&str, &str); 2] = [
    ("Pod", "Pintle runs no pods: it has no scheduler and no kubelet. A test sets the status of pods itself"),
    (
        "PersistentVolumeClaim",
        "Pintle binds no volumes: it has no controller manager. A test sets the status of claims itself",
    ),
];

/// Creates dumps of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    access: Access,
    observer: Arc<Observer>,
    /// The revision of the objects with which the cluster has started.
    start: u64,
}

/// The objects of a kind.
struct KindObjects {
    /// The plural name with the group.
    resource: String,
    kind: String,
    objects: Vec<Value>,
}

impl Dump {
    /// The revision of the objects with which the cluster has started.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn new(access: Access, observer: Arc<Observer>, start: u64) -> Self {
        Self { access, observer, start }
    }

    pub(crate) async fn text(&self) -> Result<String, Error> {
        let kinds = self.kinds().await?;
        let mut text = String::new();
        let mut section = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(text, "## {title}\n{}\n", lines.join("\n"));
            }
        };
        section("What Pintle does not do", &notes(&kinds));
        let requests = self.observer.recorded(&RequestFilter::any());
        let last = requests.iter().skip(requests.len().saturating_sub(REQUESTS));
        section("Last requests", &last.map(RecordedRequest::line).collect::<Vec<_>>());
        section("Events", &events(&kinds));
        for kind in kinds.iter().filter(|kind| kind.kind != "Event") {
            let objects: Vec<String> = kind.objects.iter().map(yaml).collect();
            section(&kind.resource, &[objects.join("---\n").trim_end().to_owned()]);
        }
        Ok(text)
    }

    /// The kinds that have objects.
    async fn kinds(&self) -> Result<Vec<KindObjects>, Error> {
        let client = self.access.own_client();
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        let mut kinds: BTreeMap<String, KindObjects> = BTreeMap::new();
        for (resource, capabilities) in
            discovery.groups_alphabetical().into_iter().flat_map(|group| group.recommended_resources())
        {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let objects = self.objects(&client, &resource).await?;
            // Events are in two groups.
            let is_known = resource.kind == "Event" && kinds.contains_key("events");
            if !objects.is_empty() && !is_known {
                let name = match &*resource.group {
                    "" => resource.plural.clone(),
                    group => format!("{}.{group}", resource.plural),
                };
                kinds.insert(name.clone(), KindObjects { resource: name, kind: resource.kind, objects });
            }
        }
        Ok(kinds.into_values().collect())
    }

    async fn objects(&self, client: &kube::Client, resource: &ApiResource) -> Result<Vec<Value>, Error> {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            // The kind was removed in the meantime.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut objects = Vec::new();
        for mut object in list.items {
            let revision = object.metadata.resource_version.as_deref().and_then(|revision| revision.parse().ok());
            object.metadata.managed_fields = None;
            let name = object.metadata.name.clone().unwrap_or_default();
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let is_own = OWN_OBJECTS
                .iter()
                .any(|(kind, of, own)| resource.kind == *kind && name == *own && (of.is_empty() || namespace == *of))
                || OWN_KINDS.contains(&(&resource.kind, &namespace));
            let mut labels = object.metadata.labels.iter().flatten();
            let is_labelled = labels.any(|(key, value)| (&**key, &**value) == BOOTSTRAP_POLICY || key == AUTO_MANAGED);
            let mut annotations = object.metadata.annotations.iter().flatten();
            let is_flow_control = annotations.any(|(key, value)| (&**key, &**value) == FLOW_CONTROL_BOOTSTRAP);
            // An object without a resourceVersion is computed and not stored.
            let is_new = revision.is_some_and(|revision: u64| revision > self.start);
            if is_own || is_labelled || is_flow_control || !is_new {
                continue;
            }
            let mut object = serde_json::to_value(object).map_err(|error| Error::Manifest(error.to_string()))?;
            object["kind"] = resource.kind.clone().into();
            object["apiVersion"] = resource.api_version.clone().into();
            redact(&mut object);
            objects.push(object);
        }
        Ok(objects)
    }
}

/// Replaces values of secrets.
fn redact(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let fields: Vec<&str> = SECRET_FIELDS.iter().filter(|(of, _)| *of == kind).map(|(_, field)| *field).collect();
    for field in &fields {
        if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
            values.values_mut().for_each(|value| *value = REDACTED.into());
        }
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(last_applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED))
        && !fields.is_empty()
    {
        *last_applied = REDACTED.into();
    }
}

fn yaml(object: &Value) -> String {
    let json = object.to_string();
    let tree = pintle_codec::json::decode(json.as_bytes(), pintle_codec::json::DecodeOptions::default());
    tree.map_or(json, |tree| String::from_utf8_lossy(&pintle_codec::yaml::encode(&tree.value)).into_owned())
}

/// Notes about objects that seem to wait for a feature that this server does not have.
fn notes(kinds: &[KindObjects]) -> Vec<String> {
    let objects = |kind: &str| -> Vec<&Value> {
        kinds.iter().filter(|found| found.kind == kind).flat_map(|found| &found.objects).collect()
    };
    let names = |objects: &[&Value]| {
        let name = |object: &&Value| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", text("namespace"), text("name"))
        };
        objects.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let mut notes = Vec::new();
    for (kind, why) in PENDING {
        let mut pending = objects(kind);
        pending.retain(|object| object["status"]["phase"] == "Pending");
        if !pending.is_empty() {
            notes.push(format!("{kind} Pending: {}. {why}.", names(&pending)));
        }
    }
    for MissingController { owner, dependent } in MISSING_CONTROLLERS {
        let mut owners = objects(owner);
        let dependents = objects(dependent);
        owners.retain(|object| {
            let uid = &object["metadata"]["uid"];
            let owns = |reference: &Value| reference["uid"] == *uid;
            !dependents
                .iter()
                .any(|object| object["metadata"]["ownerReferences"].as_array().is_some_and(|all| all.iter().any(owns)))
        });
        if !owners.is_empty() {
            notes.push(format!(
                "{owner} without {dependent}: {}. Pintle has no controller manager: nothing makes a {dependent} for a \
                 {owner}. A test makes it, or sets the status of the {owner} itself.",
                names(&owners)
            ));
        }
    }
    notes
}

/// Events, one per line.
fn events(kinds: &[KindObjects]) -> Vec<String> {
    let events = kinds.iter().filter(|kind| kind.kind == "Event").flat_map(|kind| &kind.objects);
    let line = |event: &Value| {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, name, kind_of) = (text("/involvedObject/kind"), text("/involvedObject/name"), text("/type"));
        let namespace = text("/involvedObject/namespace");
        format!("{kind_of} {kind} {namespace}/{name} {}: {}", text("/reason"), text("/message"))
    };
    events.map(line).collect()
}

/// Prints the dump of a cluster whose test fails. Never panics: the test is panicking already.
pub(crate) fn print(dump: &Dump) {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    let dump = dump.clone();
    // The test's runtime may be panicking, so the dump has its own thread and runtime.
    let made = std::thread::Builder::new().name("pintle-dump".to_owned()).spawn(move || -> Result<String, Error> {
        let failed = |error: std::io::Error| Error::Start(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let timeout = |_| Error::Timeout("the objects cannot be read".to_owned());
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, dump.text()).await.map_err(timeout)? })
    });
    let text = match made.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(text))) => text,
        Ok(Ok(Err(error))) => format!("No dump of the cluster: {error}\n"),
        Ok(Err(_)) | Err(_) => "No dump of the cluster: its thread has failed\n".to_owned(),
    };
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        match write(Path::new(&folder), &test, &text) {
            Ok(path) => return print_error(&format!("The dump of the cluster is in {path}\n")),
            Err(error) => print_error(&format!("Failed to write the dump of the cluster: {error}\n")),
        }
    }
    print_error(&format!("# The cluster of {test}\n\n{text}"));
}

#[expect(clippy::print_stderr, reason = "the harness shows it with the test, unlike what is written to stderr itself")]
fn print_error(text: &str) {
    // `eprint!` panics if it cannot write, and a second panic would end the process.
    let _ = std::panic::catch_unwind(|| eprint!("{text}"));
}

/// Writes the dump of a test to a file of its own.
fn write(folder: &Path, test: &str, text: &str) -> std::io::Result<String> {
    static DUMPS: AtomicUsize = AtomicUsize::new(0);
    std::fs::create_dir_all(folder)?;
    let name: String =
        test.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    let number = DUMPS.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{name}-{}-{number}.txt", std::process::id()));
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}
