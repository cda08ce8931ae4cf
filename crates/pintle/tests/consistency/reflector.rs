//! A client that lists and watches like client-go's reflector. It gets an initial state in one of several ways and
//! watches. It resumes after the end of a watch or a restart of the server. It lists again after 410 Gone.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_integration::{ConnectionError, Protocol, ResponseStream};
use tokio::sync::{Notify, watch};

use crate::checker::Observation;
use crate::format::{ResponseFormat, WatchEvent, take_events};
use crate::history::EventType;
use crate::lister;
use crate::object::ObjectVersion;
use crate::query::ResourceQuery;
use crate::shared::{ReconnectingClient, SharedState, TIMEOUT, increment, is_temporary, lock};

/// How many events a reflector with [`WatchPattern::FewEvents`] reads from each watch.
const EVENTS_PER_WATCH: usize = 4;

/// How a reflector gets its initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialState {
    /// A list at the newest revision.
    List,
    /// A list at any revision (`resourceVersion=0`).
    CachedList,
    /// A list at the newest revision, in chunks.
    ChunkedList,
    /// The initial events of a watch with `sendInitialEvents`, up to the bookmark that ends them.
    WatchList,
    /// The initial events of a watch without a resourceVersion.
    WatchWithoutRevision,
    /// The initial events of a watch with `resourceVersion=0`.
    WatchFromZero,
}

impl InitialState {
    /// Whether the reflector knows the revision of the initial state. Then it can resume after the end of a watch.
    fn can_resume(self) -> bool {
        !matches!(self, InitialState::WatchWithoutRevision | InitialState::WatchFromZero)
    }
}

/// How a reflector watches while others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchPattern {
    /// Without interruption.
    Continuous,
    /// With bookmarks and a timeout of a few seconds, after which it watches again.
    ShortTimeout,
    /// For a few events, after which it watches again. Most watches start while others write.
    FewEvents,
    /// The reflector closes its watch in some rounds.
    Disconnects,
    /// The reflector keeps its watch open in some rounds, but does not read from it.
    StopsReading,
}

impl WatchPattern {
    /// Whether the reflector pauses in some rounds.
    fn can_pause(self) -> bool {
        matches!(self, WatchPattern::Disconnects | WatchPattern::StopsReading)
    }
}

/// The configuration of a reflector.
pub(crate) struct ReflectorConfig {
    pub(crate) query: ResourceQuery,
    pub(crate) format: ResponseFormat,
    pub(crate) initial_state: InitialState,
    pub(crate) pattern: WatchPattern,
    pub(crate) protocol: Protocol,
    /// Whether its events are the history, with which all other reflectors are compared.
    pub(crate) is_reference: bool,
}

/// A reflector and its observations.
pub(crate) struct Reflector {
    pub(crate) config: ReflectorConfig,
    observations: Mutex<Vec<Observation>>,
    observed: Notify,
    /// Whether a watch is open. If an event is missing while the watch is open, the server has not sent it.
    is_watching: AtomicBool,
}

/// Why a watch ended.
enum WatchEnd {
    /// The server or the reflector closed the watch.
    Closed,
    /// The revision has expired (410 Gone).
    Expired,
}

impl Reflector {
    pub(crate) fn new(config: ReflectorConfig) -> Self {
        Self { config, observations: Mutex::default(), observed: Notify::new(), is_watching: AtomicBool::new(false) }
    }

    /// Takes the observations since the last call.
    pub(crate) fn take_observations(&self) -> Vec<Observation> {
        std::mem::take(&mut lock(&self.observations))
    }

    /// Waits for an observation; `false` after a timeout. The timeout is longer than the reflector's own, so that the
    /// reflector reports a missing response first.
    pub(crate) async fn wait_for_observation(&self) -> bool {
        tokio::time::timeout(2 * TIMEOUT, self.observed.notified()).await.is_ok()
    }

    fn record(&self, shared: &SharedState, observation: Observation) {
        if self.config.is_reference {
            let record = &shared.records[self.config.query.kind_index];
            match observation {
                Observation::Event(event_type, object) => record.record_event(event_type, object),
                Observation::Snapshot { items, .. } => {
                    assert!(items.is_empty(), "the reference reflector starts before the first write");
                    shared.started_references.send_modify(|started| *started += 1);
                }
                Observation::WatchStarted { .. } | Observation::Bookmark(_) => {}
            }
        } else {
            lock(&self.observations).push(observation);
            self.observed.notify_one();
        }
    }

    /// Lists and watches until the task is aborted.
    pub(crate) async fn run(&self, shared: &SharedState) {
        // A reference reflector never has to list again, so it stays with the server that keeps a complete history.
        let mut client = match self.config.is_reference {
            true => ReconnectingClient::pinned(shared, self.config.protocol),
            false => ReconnectingClient::connect(shared, self.config.protocol),
        };
        let mut revision = None;
        loop {
            match self.list_and_watch(shared, &mut client, &mut revision).await {
                Ok(WatchEnd::Closed) => {}
                Ok(WatchEnd::Expired) => {
                    let may_expire = shared.may_have_expired(revision) && !self.config.is_reference;
                    assert!(may_expire, "{}: expired after revision {revision:?}", self.request(""));
                    increment(&shared.counters.relists);
                    revision = None;
                }
                Err(error) => client.reconnect(shared, &error).await,
            }
            // Initial events without a bookmark at their end cannot be distinguished from later events.
            if !self.config.initial_state.can_resume() {
                revision = None;
            }
            self.wait_while_paused(shared).await;
        }
    }

    async fn wait_while_paused(&self, shared: &SharedState) {
        if self.config.pattern.can_pause() {
            // The channel cannot be closed: the shared state outlives the reflectors.
            let _ = shared.paused.subscribe().wait_for(|paused| !paused).await;
        }
    }

    fn request(&self, parameters: &str) -> String {
        self.config.query.request(parameters)
    }

    /// Gets the initial state if there is no revision to resume from, and watches until the watch ends.
    async fn list_and_watch(
        &self,
        shared: &SharedState,
        client: &mut ReconnectingClient,
        revision: &mut Option<u64>,
    ) -> Result<WatchEnd, ConnectionError> {
        let mut parameters = match (&*revision, self.config.initial_state) {
            (Some(revision), _) => format!("watch=1&resourceVersion={revision}"),
            (None, InitialState::List | InitialState::CachedList | InitialState::ChunkedList) => {
                let revision = *revision.insert(self.list(shared, client).await);
                format!("watch=1&resourceVersion={revision}")
            }
            (None, InitialState::WatchList) => {
                "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned()
            }
            (None, InitialState::WatchWithoutRevision) => "watch=1".to_owned(),
            (None, InitialState::WatchFromZero) => "watch=1&resourceVersion=0".to_owned(),
        };
        if self.config.pattern == WatchPattern::ShortTimeout {
            parameters += "&timeoutSeconds=4";
        }
        if self.config.pattern == WatchPattern::ShortTimeout || self.config.initial_state == InitialState::WatchList {
            parameters += "&allowWatchBookmarks=true";
        }
        let record = &shared.records[self.config.query.kind_index];
        let min_revision = match self.config.initial_state {
            InitialState::WatchFromZero => shared.oldest_visible(self.config.query.kind_index),
            _ => record.acknowledged(),
        };
        let path = self.request(&parameters);
        let request = client.inner.request("GET", &path).header("accept", self.config.format.accept(false));
        let stream = match request.stream().await? {
            Ok(stream) => stream,
            Err(response) if response.status == 410 => return Ok(WatchEnd::Expired),
            Err(response) if shared.is_replicated() && is_temporary(&response) => {
                client.reconnect(shared, &response.text()).await;
                return Ok(WatchEnd::Closed);
            }
            // A stopping server responds with 429 until it closes its connections.
            Err(response) if response.status == 429 => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                return Ok(WatchEnd::Closed);
            }
            Err(response) => panic!("{path}: {}: {}", response.status, response.text()),
        };
        client.report_success();
        increment(&shared.counters.watches);
        let ReflectorConfig { format, query, .. } = self.config;
        let mut events = EventReader { stream, format, query, buffer: Vec::new(), pending: Vec::new() };
        if revision.is_none() {
            if self.config.initial_state == InitialState::WatchList {
                match events.initial_state(&path).await? {
                    Ok((initial_revision, items)) => {
                        let snapshot = Observation::Snapshot { revision: initial_revision, min_revision, items };
                        self.record(shared, snapshot);
                        *revision = Some(initial_revision);
                    }
                    Err(end) => return Ok(end),
                }
            } else {
                self.record(shared, Observation::WatchStarted { min_revision });
            }
        }
        self.is_watching.store(true, Ordering::Relaxed);
        let end = self.read_events(shared, events, revision).await;
        self.is_watching.store(false, Ordering::Relaxed);
        end
    }

    /// Lists, and returns the revision of the list.
    async fn list(&self, shared: &SharedState, client: &mut ReconnectingClient) -> u64 {
        let ReflectorConfig { format, query, .. } = self.config;
        let record = &shared.records[query.kind_index];
        let (parameters, limit, min_revision) = match self.config.initial_state {
            InitialState::CachedList => ("resourceVersion=0", None, shared.oldest_visible(query.kind_index)),
            InitialState::ChunkedList => ("", Some(3), record.acknowledged()),
            _ => ("", None, record.acknowledged()),
        };
        loop {
            // A chunked list whose revision expires has to start again.
            let Some(list) = lister::list_chunks(shared, client, &query, format, (parameters, None), limit).await
            else {
                continue;
            };
            let snapshot = Observation::Snapshot { revision: list.revision, min_revision, items: list.items };
            self.record(shared, snapshot);
            return list.revision;
        }
    }

    /// Reads events until the watch ends.
    async fn read_events(
        &self,
        shared: &SharedState,
        mut events: EventReader,
        revision: &mut Option<u64>,
    ) -> Result<WatchEnd, ConnectionError> {
        let mut paused = shared.paused.subscribe();
        let pattern = self.config.pattern;
        // A reflector that cannot resume would read the same initial events again and again, and never the last event.
        let is_limited = pattern == WatchPattern::FewEvents && self.config.initial_state.can_resume();
        let mut left = if is_limited { EVENTS_PER_WATCH } else { usize::MAX };
        while left > 0 {
            let batch = tokio::select! {
                biased;
                () = wait_for_pause(&mut paused), if pattern.can_pause() => {
                    if pattern == WatchPattern::Disconnects {
                        return Ok(WatchEnd::Closed);
                    }
                    self.wait_while_paused(shared).await;
                    continue;
                }
                batch = events.next() => batch?,
            };
            let Some(batch) = batch else { return Ok(WatchEnd::Closed) };
            for event in batch {
                match event {
                    WatchEvent::Object(event_type, object) => {
                        *revision = Some(object.revision);
                        self.record(shared, Observation::Event(event_type, object));
                        left = left.saturating_sub(1);
                    }
                    WatchEvent::Bookmark(bookmark, _) => {
                        *revision = Some(bookmark);
                        increment(&shared.counters.bookmarks);
                        lock(&shared.bookmarks).push(bookmark);
                        self.record(shared, Observation::Bookmark(bookmark));
                    }
                    WatchEvent::Foreign => {}
                    WatchEvent::Error(410, _) => return Ok(WatchEnd::Expired),
                    WatchEvent::Error(code, message) => panic!("{}: {code} {message}", self.request("")),
                }
            }
        }
        Ok(WatchEnd::Closed)
    }

    /// Describes the reflector for messages.
    pub(crate) fn describe(&self) -> String {
        let ReflectorConfig { format, initial_state, pattern, protocol, .. } = &self.config;
        let state = if self.is_watching.load(Ordering::Relaxed) { "watching" } else { "not watching" };
        format!("{} ({format:?}, {initial_state:?}, {pattern:?}, {protocol:?}; {state})", self.request(""))
    }
}

/// Waits until the run pauses its reflectors.
async fn wait_for_pause(paused: &mut watch::Receiver<bool>) {
    // The channel cannot be closed: the shared state outlives the reflectors.
    let _ = paused.wait_for(|paused| *paused).await;
}

/// Reads the events of a watch.
struct EventReader {
    stream: ResponseStream,
    format: ResponseFormat,
    query: ResourceQuery,
    buffer: Vec<u8>,
    /// Events that were received together with the end of the initial events.
    pending: Vec<WatchEvent>,
}

impl EventReader {
    /// Waits for the next events; `None` at the end of the watch.
    async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, ConnectionError> {
        if !self.pending.is_empty() {
            return Ok(Some(std::mem::take(&mut self.pending)));
        }
        let Some(chunk) = self.stream.next().await? else { return Ok(None) };
        self.buffer.extend_from_slice(&chunk);
        Ok(Some(take_events(self.format, self.query.kind(), &mut self.buffer)))
    }

    /// Reads the initial events up to the bookmark that ends them. [`Self::next`] returns the events after the
    /// bookmark.
    async fn initial_state(
        &mut self,
        path: &str,
    ) -> Result<Result<(u64, Vec<ObjectVersion>), WatchEnd>, ConnectionError> {
        let mut items = Vec::new();
        loop {
            let Some(batch) = self.next().await? else { return Ok(Err(WatchEnd::Closed)) };
            let mut batch = VecDeque::from(batch);
            while let Some(event) = batch.pop_front() {
                match event {
                    WatchEvent::Object(EventType::Added, object) => items.push(object),
                    WatchEvent::Foreign => {}
                    WatchEvent::Bookmark(revision, true) => {
                        self.pending = batch.into();
                        return Ok(Ok((revision, items)));
                    }
                    WatchEvent::Error(410, _) => return Ok(Err(WatchEnd::Expired)),
                    other => panic!("{path}: {other:?} among the initial events"),
                }
            }
        }
    }
}
