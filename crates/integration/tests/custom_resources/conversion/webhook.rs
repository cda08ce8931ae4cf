//! A conversion webhook in the test's process, with configurable behavior.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{HttpsServer, ReceivedRequest, SentBody, SentResponse};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// How the webhook responds to a ConversionReview.
#[derive(Clone)]
pub(crate) enum WebhookBehavior {
    /// Converts all objects.
    ConvertAll(fn(Value, &str) -> Value),
    /// Converts a single object, and responds with 413 to more than one.
    ConvertSingle(fn(Value, &str) -> Value),
    /// Converts the first object, and omits the others from the response.
    ConvertFirst(fn(Value, &str) -> Value),
    /// Responds with this body, in which `$UID` is replaced with the request's UID.
    Respond { code: u16, media_type: String, body: String },
    /// Responds with a status code, a header line and a body.
    RespondWithHeader(u16, &'static str, &'static str),
    /// Sends an infinite body.
    SendForever,
    /// Closes the connection in the middle of a response.
    Disconnect,
    /// Converts all objects after it has acquired a permit.
    ConvertWhenAllowed(Arc<Semaphore>, fn(Value, &str) -> Value),
}

/// A running conversion webhook.
pub(crate) struct ConversionWebhook {
    server: HttpsServer,
    state: Arc<WebhookState>,
}

struct WebhookState {
    behavior: Mutex<WebhookBehavior>,
    /// The received requests, with their bodies.
    requests: Mutex<Vec<(ReceivedRequest, Value)>>,
}

impl ConversionWebhook {
    /// Starts a webhook.
    pub(crate) async fn start(behavior: WebhookBehavior) -> Self {
        let state = Arc::new(WebhookState { behavior: Mutex::new(behavior), requests: Mutex::default() });
        let answering = state.clone();
        let answer = move |request| {
            let state = answering.clone();
            async move { state.answer(request).await }
        };
        let names = ["127.0.0.1", "localhost", "hooks.default.svc"];
        Self { server: HttpsServer::start_with_names(&names, answer).await, state }
    }

    /// The port of the webhook on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.server.port
    }

    /// The certificate of the webhook in base64, for `caBundle`.
    pub(crate) fn ca_bundle(&self) -> String {
        self.server.ca_bundle()
    }

    /// The `clientConfig` with the webhook's URL.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": self.server.url("/convert"), "caBundle": self.ca_bundle()})
    }

    /// Changes the behavior.
    pub(crate) fn set_behavior(&self, behavior: WebhookBehavior) {
        *self.state.behavior.lock() = behavior;
    }

    /// The number of objects and the desired version of each request since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(usize, String)> {
        let requests = std::mem::take(&mut *self.state.requests.lock());
        let describe = |(_, review): &(_, Value)| {
            let review_request = &review["request"];
            let count = review_request["objects"].as_array().map_or(0, Vec::len);
            (count, review_request["desiredAPIVersion"].as_str().unwrap_or_default().to_owned())
        };
        requests.iter().map(describe).collect()
    }

    /// The number of requests since the last call of [`Self::take_requests`].
    pub(crate) fn request_count(&self) -> usize {
        self.state.requests.lock().len()
    }

    /// The HTTP head and the body of the last request.
    pub(crate) fn last_request(&self) -> (String, Value) {
        let requests = self.state.requests.lock();
        requests.last().map(|(request, review)| (request.head.clone(), review.clone())).unwrap_or_default()
    }

    /// The number of accepted connections.
    pub(crate) fn connection_count(&self) -> usize {
        self.server.connection_count()
    }
}

impl WebhookState {
    async fn answer(&self, request: ReceivedRequest) -> SentResponse {
        let mut review: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        self.requests.lock().push((request, review.clone()));
        let behavior = self.behavior.lock().clone();
        let convert = match behavior {
            WebhookBehavior::ConvertAll(convert) => convert,
            WebhookBehavior::ConvertSingle(convert) => {
                if review["request"]["objects"].as_array().is_some_and(|objects| objects.len() != 1) {
                    return SentResponse::new(413, "too large");
                }
                convert
            }
            WebhookBehavior::ConvertFirst(convert) => {
                if let Some(objects) = review["request"]["objects"].as_array_mut() {
                    objects.truncate(1);
                }
                convert
            }
            WebhookBehavior::ConvertWhenAllowed(permits, convert) => {
                let _ = permits.acquire().await;
                convert
            }
            WebhookBehavior::Respond { code, media_type, body } => {
                let uid = review["request"]["uid"].as_str().unwrap_or_default();
                let response = SentResponse::new(code, body.replace("$UID", uid));
                if media_type.is_empty() {
                    return response;
                }
                return response.header(&format!("Content-Type: {media_type}"));
            }
            WebhookBehavior::RespondWithHeader(code, line, body) => return SentResponse::new(code, body).header(line),
            WebhookBehavior::SendForever => {
                return SentResponse { body: SentBody::Endless, ..SentResponse::new(200, "") };
            }
            WebhookBehavior::Disconnect => {
                return SentResponse { body: SentBody::CutOff, ..SentResponse::new(200, "") };
            }
        };
        SentResponse::new(200, conversion_response(&review, convert))
    }
}

/// The response to a ConversionReview whose objects are all converted.
fn conversion_response(request: &Value, convert: fn(Value, &str) -> Value) -> String {
    let review_request = &request["request"];
    let desired = review_request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = review_request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects.into_iter().map(|object| convert(object, desired)).collect();
    json!({
        "apiVersion": request["apiVersion"],
        "kind": "ConversionReview",
        "response": {"uid": review_request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
    })
    .to_string()
}
