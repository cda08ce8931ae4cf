//! An authorization webhook in the test's process, which requires a token.

use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{HttpsServer, ReceivedRequest, SentResponse};
use serde_json::{Value, json};

/// The webhook's answer to the spec of a review: a status code and, for 200, the status of the review. With 429, it
/// asks for a retry after a very long time.
type Answer = fn(&Value) -> (u16, Value);

/// A running webhook.
pub(crate) struct AuthorizationWebhook {
    server: HttpsServer,
    state: Arc<WebhookState>,
}

struct WebhookState {
    answer: Mutex<Answer>,
    reviews: Mutex<Vec<Value>>,
}

impl AuthorizationWebhook {
    /// Starts a webhook.
    pub(crate) async fn start(answer: Answer) -> Self {
        Self::start_with_name(answer, "127.0.0.1").await
    }

    /// Starts a webhook with a certificate for a name.
    pub(crate) async fn start_with_name(answer: Answer, name: &str) -> Self {
        let state = Arc::new(WebhookState { answer: Mutex::new(answer), reviews: Mutex::default() });
        let answering = state.clone();
        let answer = move |request| std::future::ready(answering.answer(&request));
        Self { server: HttpsServer::start_with_names(&[name], answer).await, state }
    }

    /// A kubeconfig for the webhook.
    pub(crate) fn kubeconfig(&self) -> String {
        self.server.kubeconfig("/authorize")
    }

    /// Changes the answer.
    pub(crate) fn set_answer(&self, answer: Answer) {
        *self.state.answer.lock() = answer;
    }

    /// The reviews since the last call.
    pub(crate) fn take_reviews(&self) -> Vec<Value> {
        std::mem::take(&mut *self.state.reviews.lock())
    }
}

impl WebhookState {
    fn answer(&self, request: &ReceivedRequest) -> SentResponse {
        let review: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let is_expected = request.head.starts_with("POST /authorize?timeout=")
            && request.header("authorization") == Some("Bearer hook-token");
        let (code, status) = if is_expected { (*self.answer.lock())(&review["spec"]) } else { (401, Value::Null) };
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": status});
        self.reviews.lock().push(review);
        match code {
            200 => SentResponse::json(200, answer.to_string()),
            429 => SentResponse::json(429, "").header("Retry-After: 18446744073709551615"),
            _ => SentResponse::json(code, ""),
        }
    }
}
