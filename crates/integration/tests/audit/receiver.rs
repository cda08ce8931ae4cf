//! A webhook in the test's process that receives audit events, and requires a token.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle_integration::{HttpsServer, ReceivedRequest, SentBody, SentResponse, eventually};
use serde_json::Value;

/// How the webhook behaves at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Takes the events and answers with a status code.
    Answer(u16),
    /// Takes the events and closes the connection.
    Close,
    /// Takes the events, and does not answer before another behaviour is set.
    Hang,
    /// Takes the events and never answers.
    NeverAnswer,
}

/// A running webhook.
pub(crate) struct AuditReceiver {
    server: HttpsServer,
    state: Arc<State>,
}

struct State {
    /// The behaviour at the next calls.
    next: Mutex<VecDeque<Behaviour>>,
    /// The behaviour at all calls after them.
    finally: Mutex<Behaviour>,
    calls: Mutex<Vec<ReceivedRequest>>,
}

impl AuditReceiver {
    /// Starts a webhook that takes all events.
    pub(crate) async fn start() -> Self {
        let finally = Mutex::new(Behaviour::Answer(200));
        let state = Arc::new(State { next: Mutex::default(), finally, calls: Mutex::default() });
        let answering = state.clone();
        Self { server: HttpsServer::start(move |request| answering.clone().answer(request)).await, state }
    }

    /// A kubeconfig for the webhook.
    pub(crate) fn kubeconfig(&self) -> String {
        self.server.kubeconfig("/events")
    }

    /// Sets the behaviour at the next calls.
    pub(crate) fn set_next(&self, behaviours: &[Behaviour]) {
        *self.state.next.lock() = behaviours.iter().copied().collect();
    }

    /// Sets the behaviour at all calls.
    pub(crate) fn set(&self, behaviour: Behaviour) {
        *self.state.finally.lock() = behaviour;
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<ReceivedRequest> {
        self.state.calls.lock().clone()
    }

    /// The events of all calls so far, in order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let list = |call: &ReceivedRequest| -> Value { serde_json::from_slice(&call.body).expect("a list") };
        self.calls().iter().map(list).flat_map(|list| list["items"].as_array().expect("items").clone()).collect()
    }
}

impl State {
    async fn answer(self: Arc<Self>, request: ReceivedRequest) -> SentResponse {
        let is_expected = request.head.starts_with("POST /events?timeout=30s ")
            && request.header("authorization") == Some("Bearer hook-token");
        self.calls.lock().push(request);
        let next = self.next.lock().pop_front();
        let mut behaviour = next.unwrap_or_else(|| *self.finally.lock());
        if behaviour == Behaviour::Hang {
            eventually("another behaviour", async || *self.finally.lock() != Behaviour::Hang).await;
            behaviour = *self.finally.lock();
        }
        match behaviour {
            Behaviour::Answer(code) => SentResponse::new(if is_expected { code } else { 401 }, ""),
            Behaviour::Close => SentResponse {
                code: 0,
                headers: String::new(),
                body: SentBody::Verbatim { bytes: Vec::new(), is_whole: false },
            },
            Behaviour::NeverAnswer => std::future::pending().await,
            Behaviour::Hang => unreachable!("it waits for another behaviour"),
        }
    }
}
