//! Admission webhooks for all resources see every write once in each phase. The reviews have its operation, kind, old
//! object and dry-run flag.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{Cluster, HttpsServer, ReceivedRequest, Response, SentResponse};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::served_kind::{SELECTOR, ServedKind, ServedSubresource, name};

/// The user of the tests.
const USER: &str = "kubernetes-admin";

/// A mutating and a validating webhook, which record the reviews of the test's own writes.
pub(crate) struct Recorder {
    reviews: Arc<Mutex<Vec<(String, Value)>>>,
    /// The server of the webhooks, which ends with this value.
    _server: HttpsServer,
}

impl Recorder {
    async fn start(cluster: &Cluster) -> Arc<Self> {
        let reviews: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let recording = reviews.clone();
        let server = HttpsServer::start(move |request: ReceivedRequest| {
            let recording = recording.clone();
            async move {
                let review: Value = serde_json::from_slice(&request.body).expect("a review");
                let uid = review["request"]["uid"].clone();
                if review["request"]["userInfo"]["username"] == USER {
                    let phase = request.path.trim_start_matches('/').split('?').next().unwrap_or_default();
                    recording.lock().push((phase.to_owned(), review["request"].clone()));
                }
                let answer = json!({
                    "kind": "AdmissionReview",
                    "apiVersion": "admission.k8s.io/v1",
                    "response": {"uid": uid, "allowed": true},
                });
                SentResponse::json(200, answer.to_string())
            }
        })
        .await;
        for phase in ["mutating", "validating"] {
            let rule = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]});
            let webhook = json!({
                "name": format!("{phase}.example.com"),
                "clientConfig": {"url": server.url(&format!("/{phase}")), "caBundle": server.ca_bundle()},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "rules": [rule],
            });
            let path = format!("/apis/admissionregistration.k8s.io/v1/{phase}webhookconfigurations");
            // The configuration does not have the label of the samples, so that no check deletes it.
            let configuration = json!({"metadata": {"name": "recorder"}, "webhooks": [webhook]});
            let _ = cluster.post(&path, configuration.to_string()).await.expect(201);
        }
        Arc::new(Self { reviews, _server: server })
    }

    /// The reviews since the last call.
    fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.reviews.lock())
    }
}

/// A recorder that the first check starts.
pub(crate) type SharedRecorder = Arc<OnceCell<Arc<Recorder>>>;

/// A write, with the expected content of its reviews.
struct Write<'a> {
    operation: &'a str,
    subresource: &'a str,
    /// The kind of the object, with its `apiVersion`, if it differs from the kind of the resource.
    kind: Option<(&'a str, &'a str)>,
    name: Option<&'a str>,
    has_old: bool,
    dry_run: bool,
}

struct Check<'a> {
    kind: &'a ServedKind,
    recorder: &'a Recorder,
}

impl Check<'_> {
    /// True for the kinds that webhooks do not see.
    fn is_exempt(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
    }

    /// Checks the response to a write and its reviews.
    fn check(&self, response: &Response, write: &Write<'_>) {
        assert!(matches!(response.status.as_u16(), 200..=202), "{}", response.text());
        let reviews = self.recorder.take();
        let phases: Vec<&str> = reviews.iter().map(|(phase, _)| phase.as_str()).collect();
        if self.is_exempt() {
            assert_eq!(phases, [""; 0]);
            return;
        }
        assert_eq!(phases, ["mutating", "validating"], "{} {}", write.operation, write.subresource);
        for (phase, review) in &reviews {
            let what = format!("{phase} {} {}: {review}", write.operation, write.subresource);
            let api_version = self.kind.api_version();
            let (version, kind) = write.kind.unwrap_or((&api_version, &self.kind.kind));
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let kind = json!({"group": group, "version": version, "kind": kind});
            let resource =
                json!({"group": self.kind.group, "version": self.kind.version, "resource": self.kind.plural});
            let text = |value: &str| if value.is_empty() { Value::Null } else { json!(value) };
            for (field, expect) in [
                ("operation", json!(write.operation)),
                ("kind", kind.clone()),
                ("requestKind", kind),
                ("resource", resource.clone()),
                ("requestResource", resource),
                ("subResource", text(write.subresource)),
                ("requestSubResource", text(write.subresource)),
                ("name", write.name.map_or(Value::Null, |name| json!(name))),
                ("dryRun", json!(write.dry_run)),
            ] {
                assert_eq!(review[field], expect, "{field} of {what}");
            }
            assert_eq!(review["object"].is_null(), write.operation == "DELETE", "the object of {what}");
            assert_eq!(review["oldObject"].is_null(), !write.has_old, "the old object of {what}");
            let options = match write.operation {
                "CREATE" => "CreateOptions",
                "UPDATE" => "UpdateOptions",
                _ => "DeleteOptions",
            };
            assert_eq!(review["options"]["kind"], options, "{what}");
        }
    }
}

fn write<'a>(operation: &'a str, name: &'a str) -> Write<'a> {
    let has_old = operation != "CREATE";
    Write { operation, subresource: "", kind: None, name: Some(name), has_old, dry_run: false }
}

fn dry_run(write: Write<'_>) -> Write<'_> {
    Write { dry_run: true, ..write }
}

/// Checks the reviews of all writes of a kind.
pub(crate) async fn check_reviews(cluster: Arc<Cluster>, kind: Arc<ServedKind>, recorder: SharedRecorder) {
    let recorder = recorder.get_or_init(|| Recorder::start(&cluster)).await.clone();
    recorder.take();
    let check = Check { kind: &kind, recorder: &recorder };
    let sample = kind.sample();
    let (collection, name) = (kind.collection(), name(&sample.object).to_owned());
    if !kind.has_verb("create") {
        return;
    }
    if !kind.is_stored() {
        let response = cluster.post(&collection, sample.object.to_string()).await;
        if response.status.is_success() {
            let name = Some(&*name).filter(|name| !name.is_empty());
            check.check(&response, &Write { name, ..write("CREATE", "") });
        }
        return;
    }
    let path = kind.path(&sample.object);
    let dry = |path: &str| format!("{path}?dryRun=All");
    let response = cluster.post(&dry(&collection), sample.object.to_string()).await;
    check.check(&response, &dry_run(write("CREATE", &name)));
    let created = cluster.post(&collection, sample.object.to_string()).await;
    check.check(&created, &write("CREATE", &name));
    if kind.has_verb("update") {
        let response = cluster.put(&dry(&path), created.text()).await;
        check.check(&response, &dry_run(write("UPDATE", &name)));
    }
    if kind.has_verb("patch") {
        let response = cluster.patch(&path, "merge", sample.change.to_string()).await;
        check.check(&response, &write("UPDATE", &name));
    }
    for subresource in &kind.subresources {
        check_subresource(&cluster, &check, &path, &name, subresource).await;
    }
    let response = cluster.delete(&dry(&path)).await;
    check.check(&response, &dry_run(write("DELETE", &name)));
    match kind.has_verb("deletecollection") {
        true => {
            let response = cluster
                .delete(&format!("{collection}?{SELECTOR}&propagationPolicy=Background&gracePeriodSeconds=0"))
                .await;
            check.check(&response, &Write { name: None, ..write("DELETE", "") });
        }
        false => {
            let response = cluster.delete(&format!("{path}?propagationPolicy=Background&gracePeriodSeconds=0")).await;
            check.check(&response, &write("DELETE", &name));
        }
    }
    kind.remove(&cluster, &sample.object).await;
    recorder.take();
}

/// The body of a create through a subresource, by its kind.
fn action_body(kind: &str, name: &str) -> String {
    let more = match kind {
        "Binding" => json!({"target": {"kind": "Node", "name": "n"}}),
        "Eviction" => json!({"deleteOptions": {"gracePeriodSeconds": 0}}),
        "TokenRequest" => json!({"spec": {"expirationSeconds": 3600}}),
        kind => panic!("no body of the kind {kind}"),
    };
    let mut body = json!({"metadata": {"name": name}});
    for (key, value) in more.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body.to_string()
}

/// Checks the reviews of the writes of a subresource.
async fn check_subresource(
    cluster: &Cluster,
    check: &Check<'_>,
    path: &str,
    name: &str,
    subresource: &ServedSubresource,
) {
    let path = format!("{path}/{}", subresource.name);
    let has = |verb: &str| subresource.verbs.iter().any(|own| own == verb);
    let kind = match &*subresource.kind {
        kind if kind == check.kind.kind => None,
        kind => Some((&*subresource.api_version, kind)),
    };
    if has("create") {
        let response = cluster.post(&format!("{path}?dryRun=All"), action_body(&subresource.kind, name)).await;
        check.check(
            &response,
            &Write { subresource: &subresource.name, kind, dry_run: true, ..self::write("CREATE", name) },
        );
    }
    let write = Write { subresource: &subresource.name, kind, ..write("UPDATE", name) };
    check.kind.write_required_status(cluster).await;
    check.recorder.take();
    if has("update") && has("get") {
        let found = cluster.get(&path).await.expect(200);
        let response = cluster.put(&path, found.text()).await;
        check.check(&response, &write);
    }
    if has("patch") {
        let response = cluster.patch(&format!("{path}?dryRun=All"), "merge", "{}").await;
        check.check(&response, &Write { dry_run: true, ..write });
    }
}
