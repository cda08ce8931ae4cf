//! Watch: what is there (if the client wants it), then every change, as a stream that lasts until its time is up, the
//! client goes, or the history that it needs is gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{CONTENT_TYPE, HeaderValue};
use pintle_cache::{Event, KeyRange, Object, RevisionPin, TooOld, WatchCache, Watcher};
use pintle_registry::{ApiError, Resource, Scope};

use super::lifetime::{Due, Lifetime, lasts};
use super::list::select;
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::Selection;
use crate::http::{Body, BodySender, Chunk, Response};
use crate::represent::ResponseFormat;
use crate::request::negotiate::Transform;
use crate::request::query::{ListOptions, revision_parameter};

/// Frames go out in one write up to this size.
const PIECE: usize = 64 * 1024;
/// Objects of the initial state looked at at once.
const STRIDE: usize = 256;

/// Answers a watch.
pub(crate) async fn watch(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    if call.cluster.is_shutting_down() {
        // An empty watch would make clients believe that they have to list again; this makes them wait for who comes.
        return Err(ApiError::TooManyRequests {
            message: "The apiserver is shutting down, please try again later.".to_owned(),
            retry_after: 1,
        });
    }
    let form = ResponseFormat::negotiate(call, resource, true)?;
    let options = ListOptions::read(&call.query)?;
    let selection = select(call, &form, &options)?;
    let revision = revision_parameter(&options.resource_version).map_err(ApiError::Unclassified)?;
    let watch_cache = call.cluster.watch_cache(resource)?;
    let namespaced = resource.scope == Scope::Namespaced;
    let initial = options.send_initial_events;

    let bookmarks = options.allow_watch_bookmarks;
    let lasts = lasts(options.timeout_seconds, call.cluster.min_request_timeout);
    let lifetime = Lifetime::begin(&call.cluster.clock, lasts, bookmarks);
    let mut stream = Stream {
        scope: selection.scope(namespaced, &form.hub),
        range: selection.range(namespaced),
        columns: matches!(form.accepted.transform, Some(Transform::Table(_))),
        watch_cache,
        form,
        selection,
        sender: BodySender::default(),
        delivered: 0,
    };
    // What is there comes first if the client asks for it, or if it comes in the old way without a revision.
    let state_first = initial.unwrap_or(matches!(revision, None | Some(0)));
    let from = match revision {
        None if initial.is_some() => call.cluster.catch_up().await?,
        None | Some(0) => super::newest(&call.cluster, &stream.watch_cache),
        Some(revision) if initial == Some(true) => match super::wait_for(&call.cluster, revision).await {
            Ok(()) => super::newest(&call.cluster, &stream.watch_cache),
            Err(error) => {
                let frame = stream.form.error(&error);
                return Ok(respond(&stream.form, frame.into()));
            }
        },
        Some(revision) => revision,
    };
    stream.form.view.check_all_readable(&stream.watch_cache)?;
    if state_first {
        stream.is_ready(from).await?;
    }
    // Watching starts before the client hears that it does, and before the state is read: nothing is missed in between.
    let watcher = stream.watch_cache.watch_until_corrupt(stream.scope.clone(), from);
    let pin = state_first.then(|| call.cluster.cache.pin(from));
    let shutdown = call.cluster.shutdown();
    let gone = unserved(call.cluster.clone(), resource.clone());
    let form = stream.form.clone();
    let body = Body::written(|sender| {
        stream.sender = sender;
        async move {
            tokio::select! {
                _ = stream.run(watcher, lifetime, from, pin, initial == Some(true) && bookmarks) => {}
                () = shutdown => {}
                () = gone => {}
            }
        }
    });
    Ok(respond(&form, body))
}

/// Ends when a kind is served no longer, or otherwise than it was; built-in kinds always are.
async fn unserved(cluster: Arc<Cluster>, resource: Arc<Resource>) {
    if resource.definition.is_none() {
        return std::future::pending().await;
    }
    let mut changes = cluster.registry_changed.subscribe();
    let served = || {
        let registry = cluster.registry();
        let now = registry.resource(&resource.group, &resource.version, &resource.plural);
        now.is_some_and(|now| same_definition(now, &resource))
    };
    while served() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// True if two records of a kind are of one definition at one generation.
fn same_definition(a: &Resource, b: &Resource) -> bool {
    match (&a.definition, &b.definition) {
        (Some(a), Some(b)) => a.mark() == b.mark(),
        (None, None) => true,
        _ => false,
    }
}

/// The head of a stream.
fn respond(form: &ResponseFormat, body: Body) -> Response {
    let mut response = Response::new(body);
    let media_type = HeaderValue::from_static(form.accepted.encoding.stream_type());
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// So many events at once are many.
const MANY: usize = 4;
/// How long the next of many are waited for, to go out in one write.
const PAUSE: Duration = Duration::from_millis(4);

/// The watch is over before its time: the client has been told why.
struct Over;

struct Stream {
    form: ResponseFormat,
    selection: Selection,
    scope: pintle_cache::WatchScope,
    range: KeyRange,
    watch_cache: Arc<WatchCache>,
    sender: BodySender,
    columns: bool,
    delivered: u64,
}

impl Stream {
    /// Serves the state at a revision, if it is pinned, and the events after it.
    async fn run(
        &mut self,
        mut watcher: Watcher,
        mut lifetime: Lifetime,
        from: u64,
        pin: Option<RevisionPin>,
        say_end: bool,
    ) -> Result<(), Over> {
        self.delivered = from;
        if let Some(pin) = pin {
            self.state(from).await?;
            drop(pin);
            if say_end {
                let columns = std::mem::take(&mut self.columns);
                self.send(self.form.bookmark(from, true, columns)).await?;
            }
        }
        loop {
            tokio::select! {
                biased;
                events = watcher.next() => match events {
                    Ok(events) => {
                        self.events(&events).await?;
                        // A write costs as much for one event as for ten: who hears many at once gets the next together,
                        // and who hears one now and then hears it at once.
                        if events.len() >= MANY {
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                    // Something has come that cannot be read, which nobody can be told of.
                    Err(_) if self.form.view.check_all_readable(&self.watch_cache).is_err() => return Err(Over),
                    Err(TooOld { oldest }) => return self.too_old(from.max(self.delivered), oldest).await,
                },
                due = lifetime.next() => match due {
                    Due::Bookmark => self.bookmark(&mut watcher, from).await?,
                    Due::End => return self.pending(&mut watcher).await,
                },
            }
        }
    }

    /// Finds out, before the client hears that it watches, whether what is there can be shown to it at all.
    async fn is_ready(&self, at: u64) -> Result<(), ApiError> {
        if self.form.view.uses_webhook()
            && let Ok(page) = self.watch_cache.page(&self.range, None, at, STRIDE)
        {
            self.shown(page.objects).await.map_err(|error| self.form.view.initializing_error(error))?;
        }
        Ok(())
    }

    /// What is there at a revision, as additions.
    async fn state(&mut self, at: u64) -> Result<(), Over> {
        let mut after = None;
        loop {
            let page = match self.watch_cache.page(&self.range, after.as_deref(), at, STRIDE) {
                Ok(page) => page,
                Err(TooOld { oldest }) => return self.too_old(at, oldest).await,
            };
            let mut buffer = BytesMut::new();
            let found = match self.shown(page.objects).await {
                Ok(found) => found,
                Err(error) => return self.fail(&error).await,
            };
            for object in &found {
                match self.form.added(object, std::mem::take(&mut self.columns)) {
                    Ok(frame) => buffer.extend_from_slice(&frame),
                    Err(error) => return self.fail(&error).await,
                }
                if buffer.len() >= PIECE {
                    self.send(buffer.split().freeze()).await?;
                }
            }
            if !buffer.is_empty() {
                self.send(buffer.freeze()).await?;
            }
            match page.last {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// The events that the client selects; those that are pending go out in one write.
    async fn events(&mut self, events: &[Arc<Event>]) -> Result<(), Over> {
        let shown;
        let events = if self.form.view.are_at_version(events) {
            events
        } else {
            shown = self.shown_events(events).await?;
            &shown
        };
        let mut frames = Vec::with_capacity(events.len());
        let mut bytes = 0;
        let mut failed = None;
        for event in events {
            self.delivered = event.revision;
            let Some(kind) = self.selection.event_type(event) else { continue };
            match self.form.event(event, kind, std::mem::take(&mut self.columns)) {
                Ok(frame) => {
                    bytes += frame.len();
                    frames.push(frame);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            if bytes >= PIECE {
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

    /// The objects that the client selects, as its version shows them.
    async fn shown(&self, mut objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, ApiError> {
        let view = &self.form.view;
        if !self.selection.is_late(view) {
            objects.retain(|object| self.selection.matches(object));
            return view.convert_shared(objects).await;
        }
        let mut shown = view.convert_shared(objects).await?;
        shown.retain(|object| self.selection.matches(object));
        Ok(shown)
    }

    /// Events as the client's version shows them. Where that cannot be done the watch just ends, as upstream's does when
    /// its cache of the version cannot go on.
    async fn shown_events(&self, events: &[Arc<Event>]) -> Result<Vec<Arc<Event>>, Over> {
        let view = &self.form.view;
        let late = self.selection.is_late(view);
        let selected = |event: &&Arc<Event>| late || self.selection.event_type(event).is_some();
        let selected: Vec<Arc<Event>> = events.iter().filter(selected).cloned().collect();
        view.convert_events(&selected).await.map_err(|error| {
            tracing::warn!(%error, "a watch ends: objects cannot be shown at its version");
            Over
        })
    }

    /// The events that are there by now: those who watch are woken a little after they are handed something.
    async fn pending(&mut self, watcher: &mut Watcher) -> Result<(), Over> {
        match watcher.pending() {
            Ok(events) => self.events(&events).await,
            Err(TooOld { oldest }) => self.too_old(self.delivered, oldest).await,
        }
    }

    /// Says how far the watch has come, if that is further than where it started.
    async fn bookmark(&mut self, watcher: &mut Watcher, from: u64) -> Result<(), Over> {
        // Events are handed over before progress is: what is pending now is all there is up to here.
        let applied = self.form.cluster.cache.applied_revision();
        self.pending(watcher).await?;
        let revision = applied.max(self.delivered);
        if revision <= from {
            return Ok(());
        }
        self.delivered = revision;
        let columns = std::mem::take(&mut self.columns);
        self.send(self.form.bookmark(revision, false, columns)).await
    }

    async fn too_old(&mut self, from: u64, oldest: u64) -> Result<(), Over> {
        self.fail(&ApiError::Expired {
            message: format!("too old resource version: {from} ({oldest})"),
            continue_token: None,
        })
        .await
    }

    /// Says an error as the stream's last event.
    async fn fail(&mut self, error: &ApiError) -> Result<(), Over> {
        let frame = self.form.error(error);
        let _ = self.send(frame).await;
        Err(Over)
    }

    async fn send(&self, piece: impl Into<Chunk>) -> Result<(), Over> {
        self.sender.send(piece.into()).await;
        Ok(())
    }
}
