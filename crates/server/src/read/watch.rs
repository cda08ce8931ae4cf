//! Watch: the existing objects if the client wants them, then all changes. The stream ends at its timeout, when the
//! client disconnects, or when history is no longer available.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use pintle_auth::is_websocket_request;
use pintle_cache::{CompressedBlocks, Event, KeyRange, Object, RevisionPin, TooOld, WatchCache, Watcher};
use pintle_gates::Feature;
use pintle_metrics::GaugeGuard;
use pintle_registry::{ApiError, Resource, Scope};

use super::lifetime::{BookmarkSchedule, LifetimeEvent, WatchLifetime, watch_duration};
use super::list::{select, select_shard};
use crate::cluster::{Cluster, CollectionSeries, WatchSeries};
use crate::context::RequestContext;
use crate::conversion::Selection;
use crate::http::{Body, BodySender, Chunk, Response};
use crate::represent::{ResponseFormat, gzip_member, set_gzip_headers};
use crate::request::flow::{Flow, timed};
use crate::request::negotiate::Transform;
use crate::request::observed::{Interruption, Interruptions, interrupted};
use crate::request::query::{ListOptions, revision_parameter};

/// Maximum size of frames that are sent in one write, in bytes.
const MAX_WRITE_BYTES: usize = 64 * 1024;
/// The time for which a watch continues after the server shuts down, to send its last events.
const SHUTDOWN_TIME: Duration = Duration::from_secs(1);
/// The time for which the client of a watch may read nothing although there are events. Upstream closes a watcher as
/// soon as its buffer is full. Here a watcher with a full buffer continues to read from the history.
const MAX_UNREAD_TIME: Duration = Duration::from_secs(60);
/// The interval between checks for clients that do not read.
const UNREAD_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The name of the task that ends watches whose clients do not read.
const TERMINATOR_TASK: &str = "watch-terminator";
/// Maximum number of objects per read of the initial state.
const PAGE_SIZE: usize = 256;

/// Handles a watch.
pub(crate) async fn watch(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    if request.cluster.is_shutting_down() {
        // An empty watch would make clients list again. This error makes them wait for the next server.
        return Err(ApiError::TooManyRequests {
            message: "The apiserver is shutting down, please try again later.".to_owned(),
            retry_after: 1,
            causes: Vec::new(),
        });
    }
    // The client has to accept a list, too. The stream is negotiated only after the options are checked.
    ResponseFormat::negotiate_media_type(request, resource, false)?;
    let options = ListOptions::read(&request.query, &request.cluster.settings.gates)?;
    let selection = select_shard(request, resource, select(request, resource, &options)?, true)?;
    let revision = revision_parameter(&options.resource_version).map_err(ApiError::Unclassified)?;
    let format = ResponseFormat::negotiate(request, resource, true)?;
    format.check_table_options()?;
    let watch_cache = request.cluster.watch_cache(resource)?;
    let namespaced = resource.scope == Scope::Namespaced;
    let send_initial_events = options.send_initial_events;

    let bookmarks = options.allow_watch_bookmarks;
    let duration = watch_duration(options.timeout_seconds, request.cluster.settings.min_request_timeout);
    let schedule = match (bookmarks, send_initial_events) {
        (false, _) => BookmarkSchedule::None,
        (true, Some(true)) => BookmarkSchedule::WatchList,
        (true, _) => BookmarkSchedule::Periodic,
    };
    let lifetime = WatchLifetime::start(&request.cluster.clock, duration, schedule);
    let sharded = selection.shard().is_some().then(|| request.cluster.metrics.begin_sharded_watch(resource));
    // Only the watches that replace lists are compressed. A bookmark ends their list.
    let is_compressed = send_initial_events == Some(true)
        && bookmarks
        && request.cluster.gates().is_enabled(Feature::WATCH_LIST_COMPRESSION)
        && request.accepts_gzip()
        && !is_websocket_request(&request.headers);
    let blocks = is_compressed.then(|| request.cluster.stores.cache.encoding_cache().compressed_blocks().clone());
    let mut stream = WatchStream {
        scope: selection.scope(namespaced, &format.hub),
        range: selection.range(namespaced),
        needs_columns: matches!(format.media_type.transform, Some(Transform::Table(_))),
        bookmarks,
        watch_cache,
        format,
        selection,
        sender: BodySender::default(),
        compressed_blocks: blocks,
        start: 0,
        delivered: 0,
        _sharded: sharded,
        metrics: request.cluster.metrics.watch(resource),
        interruptions: request.observed.as_ref().and_then(|observed| observed.take_interruptions()),
        flow: request.flow.clone(),
    };
    // Existing objects are sent if the client asks for them. In the legacy way, they are also sent if the client sends
    // no resourceVersion or "0".
    let sends_initial_state = send_initial_events.unwrap_or(matches!(revision, None | Some(0)));
    let cluster = &request.cluster;
    let storage = cluster.storage_of(stream.watch_cache.prefix());
    let from = match revision {
        None if send_initial_events.is_some() => super::catch_up(cluster, storage).await?,
        None | Some(0) => super::newest_revision(cluster, &stream.watch_cache),
        Some(revision) if send_initial_events == Some(true) => {
            match super::wait_for_revision(cluster, storage, revision).await {
                Ok(()) => super::newest_revision(cluster, &stream.watch_cache),
                Err(error) => {
                    let frame = stream.encode(stream.format.error_frame(&error).into());
                    let mut frame = frame.unwrap_or_else(|_: WatchEnded| Bytes::new().into());
                    let body = frame.copy_to_bytes(frame.remaining());
                    return Ok(respond(&stream.format, is_compressed, body.into()));
                }
            }
        }
        Some(revision) => revision,
    };
    stream.format.view.check_all_readable(&stream.watch_cache)?;
    if sends_initial_state {
        stream.check_convertible(from).await?;
    }
    // The watcher starts before the response and before the initial state is read, so no event is missed.
    let watcher = stream.watch_cache.watch_until_corrupt(stream.scope.clone(), from);
    stream.start = from.max(stream.watch_cache.newest_revision());
    let pin = sends_initial_state.then(|| storage.cache.pin(from));
    let ending = wait_for_ending(request.cluster.clone(), resource.clone(), stream.interruptions.clone());
    let shutdown = request.cluster.shutdown();
    let format = stream.format.clone();
    let long_running = request.cluster.metrics.begin_long_running(&request.recorded(), resource);
    let body = Body::from_writer(|sender| {
        stream.sender = sender;
        async move {
            let _long_running = long_running;
            let ends_initial_events = schedule == BookmarkSchedule::WatchList;
            tokio::select! {
                _ = stream.run(watcher, lifetime, from, pin, ends_initial_events, ending) => {}
                // The client reads too slowly. A client that reads nothing loses its connection when the server stops.
                () = async { shutdown.await; tokio::time::sleep(SHUTDOWN_TIME).await } => {}
            }
        }
    });
    let body = body.ended_if_unread(&request.cluster.limits.unresponsive_watches, {
        let (cluster, resource) = (request.cluster.clone(), resource.clone());
        move || {
            tracing::info!(resource = %resource.plural, "Forcing watcher close due to unresponsiveness");
            cluster.metrics.collection(&resource).record_terminated_watcher();
        }
    });
    Ok(respond(&format, is_compressed, body))
}

/// Starts the task that ends watches whose clients do not read although there are events. Until their connections end,
/// such watches would keep a position in the history, or the pinned revision of their initial state.
pub(crate) fn start_watch_terminator(cluster: &Arc<Cluster>) {
    let task = cluster.lifecycle.background_tasks.task(TERMINATOR_TASK);
    let (weak, reported) = (Arc::downgrade(cluster), task.clone());
    let start = move || {
        let (weak, task) = (weak.clone(), reported.clone());
        async move {
            loop {
                let Some(sleep) = weak.upgrade().map(|cluster| cluster.sleep(UNREAD_CHECK_INTERVAL)) else { break };
                sleep.await;
                let Some(cluster) = weak.upgrade() else { break };
                cluster.limits.unresponsive_watches.end_unread(UNREAD_CHECK_INTERVAL, MAX_UNREAD_TIME);
                task.report_success();
            }
            Ok(())
        }
    };
    let weak = Arc::downgrade(cluster);
    let is_over = move || weak.strong_count() == 0;
    cluster.spawn_until_shutdown(async move { task.supervise(start, is_over).await });
}

/// The reason why a watch ends before its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEnding {
    /// The resource is no longer served, or its CRD has changed.
    Unserved,
    /// The server shuts down.
    Shutdown,
    /// An observer of the request interrupts it.
    Interrupted(Interruption),
}

/// Completes when a watch has to end.
async fn wait_for_ending(
    cluster: Arc<Cluster>,
    resource: Arc<Resource>,
    mut interruptions: Option<Interruptions>,
) -> WatchEnding {
    let shutdown = cluster.shutdown();
    tokio::select! {
        interruption = interrupted(&mut interruptions) => WatchEnding::Interrupted(interruption),
        () = wait_until_unserved(cluster, resource) => WatchEnding::Unserved,
        () = shutdown => WatchEnding::Shutdown,
    }
}

/// Completes when a custom resource is no longer served or its CRD has changed. Never completes for built-in kinds.
async fn wait_until_unserved(cluster: Arc<Cluster>, resource: Arc<Resource>) {
    if resource.crd.is_none() {
        return std::future::pending().await;
    }
    let mut changes = cluster.served.changed.subscribe();
    let served = || {
        let registry = cluster.registry();
        let now = registry.resource(&resource.group, &resource.version, &resource.plural);
        now.is_some_and(|now| same_crd(now, &resource))
    };
    while served() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// True if two resources have the same CRD at the same generation.
fn same_crd(a: &Resource, b: &Resource) -> bool {
    match (&a.crd, &b.crd) {
        (Some(a), Some(b)) => a.fingerprint() == b.fingerprint(),
        (None, None) => true,
        _ => false,
    }
}

/// Creates the response of a watch.
fn respond(format: &ResponseFormat, is_compressed: bool, body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(format.media_type.encoding.stream_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    if is_compressed {
        set_gzip_headers(&mut response);
    }
    response
}

/// The number of simultaneous events from which on the next events are batched.
const BATCH_THRESHOLD: usize = 4;
/// The time for which a watch waits for more events to batch.
const BATCH_DELAY: Duration = Duration::from_millis(4);

/// Charges the flow of a watch for processor time.
fn charge(flow: Option<&Flow>, took: Duration) {
    if let Some(flow) = flow {
        flow.charge(took);
    }
}

/// The watch ended before its timeout.
struct WatchEnded;

struct WatchStream {
    format: ResponseFormat,
    selection: Selection,
    scope: pintle_cache::WatchScope,
    range: KeyRange,
    watch_cache: Arc<WatchCache>,
    sender: BodySender,
    /// The shared blocks, if the watch is compressed.
    compressed_blocks: Option<Arc<CompressedBlocks>>,
    needs_columns: bool,
    /// The client has asked for bookmarks.
    bookmarks: bool,
    /// The starting revision. It is the revision of the collection's newest event when the watch started, selected or
    /// not. If the client watches from a newer revision, it is that revision. Bookmarks are sent for newer revisions
    /// only (upstream: `cacheWatcher.process`).
    start: u64,
    delivered: u64,
    metrics: Arc<WatchSeries>,
    /// Counts the watch of a part of the collection.
    _sharded: Option<GaugeGuard<CollectionSeries>>,
    /// The interruptions of the watch by the observers of the request.
    interruptions: Option<Interruptions>,
    /// The flow of the watch, with its seats until its initial state is sent, and the watch as writes count it.
    flow: Option<Arc<Flow>>,
}

impl WatchStream {
    /// Sends the initial state at a pinned revision, if there is one, and the events after it. After `ending` has
    /// completed, sends the remaining events and ends.
    async fn run(
        &mut self,
        mut watcher: Watcher,
        mut lifetime: WatchLifetime,
        from: u64,
        pin: Option<RevisionPin>,
        sends_initial_events_end: bool,
        ending: impl Future<Output = WatchEnding>,
    ) -> Result<(), WatchEnded> {
        tokio::pin!(ending);
        self.delivered = from;
        if let Some(pin) = pin {
            let flow = self.flow.clone();
            timed(pin!(self.send_initial_state(from)), |took| charge(flow.as_deref(), took)).await?;
            drop(pin);
            if sends_initial_events_end {
                let needs_columns = std::mem::take(&mut self.needs_columns);
                let frame = self.format.bookmark_frame(from, true, needs_columns);
                self.metrics.record_event(frame.len());
                self.send(frame).await?;
            }
        }
        if let Some(flow) = &self.flow {
            flow.release_seats();
        }
        loop {
            tokio::select! {
                biased;
                ending = &mut ending => return match ending {
                    WatchEnding::Unserved => self.send_remaining_events(&mut watcher).await,
                    // The client continues at another server, or later at this one.
                    WatchEnding::Shutdown if self.bookmarks => self.send_bookmark(&mut watcher, from).await,
                    WatchEnding::Shutdown => self.send_pending_events(&mut watcher).await,
                    WatchEnding::Interrupted(Interruption::Disconnect) => {
                        self.sender.break_off();
                        Err(WatchEnded)
                    }
                    WatchEnding::Interrupted(Interruption::Expire | Interruption::ExpireAtNextEvent) => {
                        self.fail_as_too_old(self.delivered, self.watch_cache.newest_revision()).await
                    }
                },
                // This branch precedes the events, because a busy collection may always have events.
                event = lifetime.next() => match event {
                    LifetimeEvent::Bookmark => self.send_bookmark(&mut watcher, self.start).await?,
                    LifetimeEvent::End => return self.send_pending_events(&mut watcher).await,
                },
                events = watcher.next() => match events {
                    Ok(events) => {
                        if self.expires_at(&events) {
                            return self.fail_as_too_old(self.delivered, self.watch_cache.newest_revision()).await;
                        }
                        let flow = self.flow.clone();
                        timed(pin!(self.send_events(&events)), |took| charge(flow.as_deref(), took)).await?;
                        // A write costs as much for one event as for ten. If a watcher receives many events at once,
                        // the next events are batched. A watcher that receives single events gets them without delay.
                        if events.len() >= BATCH_THRESHOLD {
                            tokio::time::sleep(BATCH_DELAY).await;
                        }
                    }
                    Err(too_old) => {
                        if self.delivered > from {
                            let metrics = &self.format.cluster.metrics;
                            metrics.collection(&self.format.resource).record_terminated_watcher();
                        }
                        return self.fail_as_behind(too_old).await;
                    }
                },
            }
        }
    }

    /// True if an observer makes the watch expire at its next event, and one of these events is selected.
    fn expires_at(&self, events: &[Arc<Event>]) -> bool {
        let expires = |found: &Interruptions| *found.borrow() == Some(Interruption::ExpireAtNextEvent);
        self.interruptions.as_ref().is_some_and(expires)
            && events.iter().any(|event| self.selection.event_type(event).is_some())
    }

    /// Checks, before the response starts, that existing objects can be converted.
    async fn check_convertible(&self, at: u64) -> Result<(), ApiError> {
        if self.format.view.uses_webhook()
            && let Ok(page) = self.watch_cache.page(&self.range, None, at, PAGE_SIZE)
        {
            self.select_and_convert(page.objects).await.map_err(|error| self.format.view.initializing_error(error))?;
        }
        Ok(())
    }

    /// Sends the objects at a revision as `ADDED` events.
    async fn send_initial_state(&mut self, at: u64) -> Result<(), WatchEnded> {
        let mut after = None;
        let page_size = PAGE_SIZE.min(self.selection.objects_per_turn());
        let permits = self.format.cluster.limits.cpu_permits.clone();
        let mut is_long = false;
        loop {
            let page = match self.watch_cache.page(&self.range, after.as_deref(), at, page_size) {
                Ok(page) => page,
                Err(TooOld { oldest }) => return self.fail_as_too_old(at, oldest).await,
            };
            let found = match self.select_and_convert(page.objects).await {
                Ok(found) => found,
                Err(error) => return self.fail(&error).await,
            };
            if !found.is_empty() {
                let collection = self.format.cluster.metrics.collection(&self.format.resource);
                collection.record_initial_events(found.len() as u64);
            }
            let mut objects = found.iter();
            while objects.len() > 0 {
                // As for lists, the first chunk is made without a permit. Before each other chunk, other tasks run.
                let permit = if is_long {
                    tokio::task::yield_now().await;
                    Some(permits.acquire().await)
                } else {
                    None
                };
                let chunk = self.initial_events(&mut objects);
                drop(permit);
                match chunk {
                    Ok(chunk) => self.send(chunk).await?,
                    Err(error) => return self.fail(&error).await,
                }
                is_long = true;
            }
            match page.last {
                Some(last) => {
                    after = Some(last);
                    // The selector may match nothing in many pages.
                    tokio::task::yield_now().await;
                }
                None => return Ok(()),
            }
        }
    }

    /// Takes objects for a chunk, and encodes them as initial events.
    fn initial_events(&mut self, objects: &mut std::slice::Iter<'_, Arc<Object>>) -> Result<Bytes, ApiError> {
        let mut chunk = BytesMut::new();
        for object in objects {
            let frame = self.format.initial_event_frame(object, std::mem::take(&mut self.needs_columns))?;
            self.metrics.record_event(frame.len());
            chunk.extend_from_slice(&frame);
            if chunk.len() >= MAX_WRITE_BYTES {
                break;
            }
        }
        Ok(chunk.freeze())
    }

    /// Sends the selected events. All of them go into as few writes as possible.
    async fn send_events(&mut self, events: &[Arc<Event>]) -> Result<(), WatchEnded> {
        let converted;
        let events = if self.format.view.are_at_version(events) {
            events
        } else {
            converted = self.select_and_convert_events(events).await?;
            &converted
        };
        let mut frames = Vec::with_capacity(events.len());
        let mut bytes = 0;
        let mut failed = None;
        let per_turn = self.selection.objects_per_turn();
        for (n, event) in (1..).zip(events) {
            if n % per_turn == 0 {
                tokio::task::yield_now().await;
            }
            self.delivered = event.revision;
            let Some(kind) = self.selection.event_type(event) else { continue };
            match self.format.event_frame(event, kind, std::mem::take(&mut self.needs_columns)) {
                Ok(frame) => {
                    self.metrics.record_event(frame.len());
                    bytes += frame.len();
                    frames.push(frame);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            if bytes >= MAX_WRITE_BYTES {
                bytes = 0;
                self.send(Chunk::of(std::mem::take(&mut frames))).await?;
            }
        }
        if !frames.is_empty() {
            self.send(Chunk::of(frames)).await?;
        }
        match failed {
            Some(error) => self.fail(&error).await,
            None => Ok(()),
        }
    }

    /// Selects objects and converts them to the client's version.
    async fn select_and_convert(&self, mut objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        let view = &self.format.view;
        if !self.selection.needs_conversion(view) {
            objects.retain(|object| self.selection.matches(object));
            return view.convert_list(objects).await;
        }
        let mut converted = view.convert_list(objects).await?;
        converted.retain(|object| self.selection.matches(object));
        Ok(converted)
    }

    /// Selects events and converts them to the client's version. If the conversion fails, the watch ends without an
    /// error. So does a watch of upstream when its watch cache of the version fails.
    async fn select_and_convert_events(&self, events: &[Arc<Event>]) -> Result<Vec<Arc<Event>>, WatchEnded> {
        let view = &self.format.view;
        let needs_conversion = self.selection.needs_conversion(view);
        let selected = |event: &&Arc<Event>| needs_conversion || self.selection.event_type(event).is_some();
        let selected: Vec<Arc<Event>> = events.iter().filter(selected).cloned().collect();
        view.convert_events(&selected).await.map_err(|error| {
            tracing::warn!(%error, "Ending watch: failed to convert objects");
            WatchEnded
        })
    }

    /// Sends the events that are already available. Watchers are woken with a short delay.
    async fn send_pending_events(&mut self, watcher: &mut Watcher) -> Result<(), WatchEnded> {
        match watcher.pending() {
            Ok(events) => self.send_events(&events).await,
            Err(TooOld { oldest }) => self.fail_as_too_old(self.delivered, oldest).await,
        }
    }

    /// Sends the events up to the newest event. The CRD of a custom resource is removed after its objects, so these are
    /// all events of the collection.
    async fn send_remaining_events(&mut self, watcher: &mut Watcher) -> Result<(), WatchEnded> {
        let newest = self.watch_cache.newest_revision();
        loop {
            let events = match watcher.pending() {
                Ok(events) => events,
                Err(too_old) => return self.fail_as_behind(too_old).await,
            };
            self.send_events(&events).await?;
            if events.last().is_none_or(|last| last.revision >= newest) {
                return Ok(());
            }
        }
    }

    /// Sends a bookmark if the watch has progressed beyond a revision.
    async fn send_bookmark(&mut self, watcher: &mut Watcher, from: u64) -> Result<(), WatchEnded> {
        // Events are delivered before progress is recorded, so the pending events complete the history up to this
        // revision.
        let applied = self.format.cluster.storage_of(self.watch_cache.prefix()).cache.applied_revision();
        self.send_pending_events(watcher).await?;
        let revision = applied.max(self.delivered);
        if revision <= from {
            return Ok(());
        }
        self.delivered = revision;
        let needs_columns = std::mem::take(&mut self.needs_columns);
        let frame = self.format.bookmark_frame(revision, false, needs_columns);
        self.metrics.record_event(frame.len());
        self.send(frame).await
    }

    /// Ends a watch that has missed events.
    async fn fail_as_behind(&mut self, TooOld { oldest }: TooOld) -> Result<(), WatchEnded> {
        // An object has become corrupt, which no event can report.
        if self.format.view.check_all_readable(&self.watch_cache).is_err() {
            return Err(WatchEnded);
        }
        self.fail_as_too_old(self.delivered, oldest).await
    }

    async fn fail_as_too_old(&mut self, from: u64, oldest: u64) -> Result<(), WatchEnded> {
        self.fail(&ApiError::Expired {
            message: format!("too old resource version: {from} ({oldest})"),
            continue_token: None,
        })
        .await
    }

    /// Sends an error as the last event.
    async fn fail(&mut self, error: &ApiError) -> Result<(), WatchEnded> {
        let frame = self.format.error_frame(error);
        self.metrics.record_event(frame.len());
        self.sender.send(self.encode(frame.into())?).await;
        Err(WatchEnded)
    }

    /// Sends events. A single object is not a list, so a watch for partial lists ends at its first event. So does a
    /// watch of upstream when an event cannot be transformed.
    async fn send(&self, chunk: impl Into<Chunk>) -> Result<(), WatchEnded> {
        if matches!(self.format.media_type.transform, Some(Transform::PartialList(_))) {
            return Err(WatchEnded);
        }
        self.sender.send(self.encode(chunk.into())?).await;
        Ok(())
    }

    /// Compresses a chunk, if the watch is compressed. Each chunk is a complete gzip member, so an idle watch keeps no
    /// compressor.
    fn encode(&self, chunk: Chunk) -> Result<Chunk, WatchEnded> {
        let Some(blocks) = &self.compressed_blocks else { return Ok(chunk) };
        let compressed = gzip_member(blocks, chunk).map_err(|error| {
            tracing::error!(%error, "Failed to compress watch events");
            self.sender.break_off();
            WatchEnded
        })?;
        Ok(compressed.into())
    }
}
