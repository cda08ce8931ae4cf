//! An admission webhook in the test's process, which records the reviews that it gets.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{Cluster, HttpsServer, ReceivedRequest, SentBody, SentResponse};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// The answers of the webhook.
#[derive(Clone)]
pub(crate) enum Behavior {
    /// The response that a function computes from the request. The UID is added.
    Respond(fn(&Value) -> Value),
    /// This response. The UID is added.
    With(Value),
    /// A body and a status code. In the body, `$UID` stands for the request's UID.
    Send(u16, String),
    /// A redirect to a URL.
    Redirect(String),
    /// An endless body.
    Endless,
    /// A body that is shorter than its `Content-Length`, and the end of the connection.
    CutOff,
    /// An answer that waits for a permit.
    Wait(Arc<Semaphore>),
}

/// A running webhook.
pub(crate) struct Webhook {
    pub(crate) server: HttpsServer,
    state: Arc<State>,
}

struct State {
    behavior: Mutex<Behavior>,
    requests: Mutex<Vec<(ReceivedRequest, Value)>>,
}

pub(crate) const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A response that allows a request.
pub(crate) fn allow(_: &Value) -> Value {
    json!({"allowed": true})
}

/// A response with a patch.
pub(crate) fn patch(operations: &Value) -> Value {
    let patch = pintle_base64(operations.to_string().as_bytes());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

fn pintle_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A rule for resources of all groups and versions.
pub(crate) fn rule(operations: &[&str], resources: &[&str]) -> Value {
    json!({"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources})
}

impl Webhook {
    pub(crate) async fn start(behavior: Behavior) -> Self {
        Self::start_with_names(&["127.0.0.1", "hooks.default.svc"], behavior).await
    }

    pub(crate) async fn start_with_names(names: &[&str], behavior: Behavior) -> Self {
        let state = State::new(behavior);
        Self { server: HttpsServer::start_with_names(names, state.answering()).await, state }
    }

    /// Starts a webhook that also supports HTTP/2.
    pub(crate) async fn start_with_http2(behavior: Behavior) -> Self {
        let state = State::new(behavior);
        let names = ["127.0.0.1", "hooks.default.svc"];
        Self { server: HttpsServer::start_with_http2(&names, state.answering()).await, state }
    }

    pub(crate) fn set(&self, behavior: Behavior) {
        *self.state.behavior.lock() = behavior;
    }

    /// The requests of the reviews since the last call.
    pub(crate) fn take(&self) -> Vec<Value> {
        let requests = std::mem::take(&mut *self.state.requests.lock());
        requests.into_iter().map(|(_, review)| review["request"].clone()).collect()
    }

    /// The HTTP request of the last review, and the review.
    pub(crate) fn last(&self) -> (ReceivedRequest, Value) {
        self.state.requests.lock().last().cloned().expect("a request")
    }

    /// The webhook of a configuration, with additional fields.
    pub(crate) fn configured(&self, name: &str, rules: &[Value], more: &Value) -> Value {
        let mut webhook = json!({
            "name": name,
            "clientConfig": {"url": self.server.url("/review"), "caBundle": self.server.ca_bundle()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": rules,
        });
        for (key, value) in more.as_object().expect("fields") {
            webhook[key] = value.clone();
        }
        webhook
    }
}

impl State {
    fn new(behavior: Behavior) -> Arc<Self> {
        Arc::new(Self { behavior: Mutex::new(behavior), requests: Mutex::default() })
    }

    fn answering(
        self: &Arc<Self>,
    ) -> impl Fn(ReceivedRequest) -> Pin<Box<dyn Future<Output = SentResponse> + Send>> + use<> {
        let state = self.clone();
        move |request| {
            let state = state.clone();
            Box::pin(async move { state.answer(request).await })
        }
    }

    async fn answer(&self, request: ReceivedRequest) -> SentResponse {
        let review: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        self.requests.lock().push((request, review.clone()));
        let behavior = self.behavior.lock().clone();
        let endless = |body| SentResponse { code: 200, headers: "Content-Type: application/json\r\n".to_owned(), body };
        match behavior {
            Behavior::Respond(respond) => answer(&review, respond(&review["request"])),
            Behavior::With(response) => answer(&review, response),
            Behavior::Send(code, body) => {
                let uid = review["request"]["uid"].as_str().unwrap_or_default();
                SentResponse::json(code, body.replace("$UID", uid))
            }
            Behavior::Redirect(location) => {
                SentResponse::json(307, Vec::new()).header(&format!("Location: {location}"))
            }
            Behavior::Endless => endless(SentBody::Endless),
            Behavior::CutOff => endless(SentBody::CutOff),
            Behavior::Wait(semaphore) => {
                drop(semaphore.acquire().await);
                answer(&review, json!({"allowed": true}))
            }
        }
    }
}

fn answer(review: &Value, mut response: Value) -> SentResponse {
    response["uid"] = review["request"]["uid"].clone();
    let answer = json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response});
    SentResponse::json(200, answer.to_string())
}

/// Creates or replaces a webhook configuration. `path` is the collection of validating or mutating configurations.
pub(crate) async fn configure(cluster: &Cluster, path: &str, name: &str, webhooks: &[Value]) {
    let object = json!({"metadata": {"name": name}, "webhooks": webhooks}).to_string();
    let _ = cluster.delete(&format!("{path}/{name}")).await;
    let _ = cluster.post(path, object).await.expect(201);
}
