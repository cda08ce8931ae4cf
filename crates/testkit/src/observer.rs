//! The observer of a cluster's requests, which records them and injects faults.

use std::collections::VecDeque;
use std::future::ready;
use std::pin::Pin;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::Mutex;
use pintle::{
    Interruption, Interruptions, Intervention, ObservedAnswer, ObservedConnection, ObservedRequest, RequestObserver,
};
use tokio::sync::watch;

use crate::access::KIT_USER;
use crate::faults::{Action, Fault};
use crate::filter::{RequestFilter, Subject};
use crate::requests::RecordedRequest;

/// The observer of a cluster.
#[derive(Debug)]
pub(crate) struct Observer {
    state: Mutex<ObserverState>,
    /// Maximum number of requests that are kept.
    max_recorded: usize,
    /// Notifies its receivers of each recorded request.
    recorded: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ObserverState {
    requests: VecDeque<RecordedRequest>,
    faults: Vec<FaultRule>,
    last_fault: u64,
    watches: Vec<OpenWatch>,
    connections: Vec<ObservedConnection>,
}

#[derive(Debug)]
struct FaultRule {
    id: u64,
    filter: RequestFilter,
    action: Action,
    times: Option<u32>,
    count: u32,
}

#[derive(Debug)]
struct OpenWatch {
    request: Subject,
    interruption: watch::Sender<Option<Interruption>>,
}

impl Observer {
    pub(crate) fn new(max_recorded: usize) -> Self {
        Self { state: Mutex::default(), max_recorded, recorded: watch::Sender::new(()) }
    }

    pub(crate) fn recorded(&self, filter: &RequestFilter) -> Vec<RecordedRequest> {
        self.state.lock().requests.iter().filter(|request| filter.matches(request)).cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.recorded.subscribe()
    }

    pub(crate) fn clear(&self) {
        self.state.lock().requests.clear();
    }

    /// Adds a fault, and returns its ID.
    pub(crate) fn inject(&self, filter: RequestFilter, Fault { action, times }: Fault) -> u64 {
        let mut state = self.state.lock();
        state.last_fault += 1;
        let id = state.last_fault;
        state.faults.push(FaultRule { id, filter, action, times, count: 0 });
        id
    }

    /// Removes one fault, or all. The counts of their uses stay available.
    pub(crate) fn remove_faults(&self, id: Option<u64>) {
        let mut state = self.state.lock();
        for fault in state.faults.iter_mut().filter(|fault| id.is_none_or(|id| fault.id == id)) {
            fault.times = Some(0);
        }
    }

    pub(crate) fn fault_count(&self, id: u64) -> u32 {
        self.state.lock().faults.iter().find(|fault| fault.id == id).map_or(0, |fault| fault.count)
    }

    /// Interrupts the open watches that a filter selects.
    pub(crate) fn interrupt(&self, filter: &RequestFilter, interruption: Interruption) -> usize {
        let mut state = self.state.lock();
        // An ended watch has dropped its receivers.
        state.watches.retain(|watch| !watch.interruption.is_closed());
        let mut count = 0;
        for watch in state.watches.iter().filter(|watch| filter.selects(&watch.request)) {
            watch.interruption.send_replace(Some(interruption));
            count += 1;
        }
        count
    }

    pub(crate) fn close_connections(&self) -> usize {
        let connections = std::mem::take(&mut self.state.lock().connections);
        connections.iter().filter(|connection| connection.close()).count()
    }
}

fn is_of_kit(request: &ObservedRequest<'_>) -> bool {
    request.user().name == KIT_USER
}

fn subject(request: &ObservedRequest<'_>) -> Subject {
    Subject {
        verb: request.verb().to_owned(),
        group: request.group().to_owned(),
        resource: request.resource().to_owned(),
        subresource: request.subresource().to_owned(),
        namespace: request.namespace().to_owned(),
        name: request.name().to_owned(),
        user: request.user().name.to_string(),
        user_agent: request.user_agent().to_owned(),
        code: None,
    }
}

impl RequestObserver for Observer {
    fn intervene(
        &self,
        request: &ObservedRequest<'_>,
    ) -> Option<Pin<Box<dyn Future<Output = Intervention> + Send + 'static>>> {
        if is_of_kit(request) {
            return None;
        }
        let mut state = self.state.lock();
        let connection = request.connection();
        if !state.connections.iter().any(|known| known.is_same(&connection)) {
            state.connections.retain(ObservedConnection::is_open);
            state.connections.push(connection);
        }
        let is_left = |fault: &&mut FaultRule| fault.times.is_none_or(|times| fault.count < times);
        let request = subject(request);
        let fault = state.faults.iter_mut().filter(is_left).find(|fault| fault.filter.selects(&request))?;
        fault.count += 1;
        let intervention = match &fault.action {
            Action::Delay(by) => {
                let by: Duration = *by;
                return Some(Box::pin(async move {
                    tokio::time::sleep(by).await;
                    Intervention::Handle
                }));
            }
            Action::Fail(failure) => Intervention::Fail(failure.clone()),
            Action::CloseConnection => Intervention::CloseConnection,
            Action::LoseAnswer => Intervention::LoseAnswer,
        };
        Some(Box::pin(ready(intervention)))
    }

    fn interruptions(&self, request: &ObservedRequest<'_>) -> Option<Interruptions> {
        if is_of_kit(request) {
            return None;
        }
        let (interruption, receiver) = watch::channel(None);
        let mut state = self.state.lock();
        state.watches.retain(|watch| !watch.interruption.is_closed());
        state.watches.push(OpenWatch { request: subject(request), interruption });
        Some(receiver)
    }

    fn answered(&self, request: &ObservedRequest<'_>, answer: &ObservedAnswer) {
        if is_of_kit(request) || self.max_recorded == 0 {
            return;
        }
        let body = request.body().and_then(|body| serde_json::from_slice(&body.json()?).ok());
        let request = describe(request, body, answer);
        let mut state = self.state.lock();
        if state.requests.len() == self.max_recorded {
            state.requests.pop_front();
        }
        state.requests.push_back(request);
        drop(state);
        self.recorded.send_replace(());
    }
}

fn describe(
    request: &ObservedRequest<'_>,
    body: Option<serde_json::Value>,
    answer: &ObservedAnswer,
) -> RecordedRequest {
    let name_in_body = || body.as_ref().and_then(|body| body["metadata"]["name"].as_str()).unwrap_or_default();
    let has_own_name = !request.name().is_empty() || request.verb() != "create";
    let name = if has_own_name { request.name() } else { name_in_body() }.to_owned();
    RecordedRequest {
        time: UNIX_EPOCH + Duration::from_millis(request.time().0),
        user: request.user().name.to_string(),
        groups: request.user().groups.iter().map(ToString::to_string).collect(),
        verb: request.verb().to_owned(),
        path: request.path().to_owned(),
        group: request.group().to_owned(),
        version: request.version().to_owned(),
        resource: request.resource().to_owned(),
        subresource: request.subresource().to_owned(),
        namespace: request.namespace().to_owned(),
        name,
        user_agent: request.user_agent().to_owned(),
        body,
        code: answer.code,
        reason: answer.reason.clone(),
        message: answer.message.clone(),
        latency: answer.latency,
    }
}
