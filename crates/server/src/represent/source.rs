//! The objects of a list: from where they are, as the list's version shows them, a stride at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pintle_cache::{Key, KeyRange, Object, RevisionPin, WatchCache};
use pintle_registry::{ApiError, BoxFuture};

use crate::conversion::Selection;
use crate::conversion::VersionView;

/// Keys looked at under one hold of the log's lock.
const STRIDE: usize = 512;

/// Where a list's objects come from.
pub(crate) enum Source {
    /// Objects at hand.
    Objects { objects: Vec<Arc<Object>>, next: usize },
    /// A walk over a log.
    Walk(Walk),
}

/// A walk over a log at a revision, which is pinned meanwhile.
pub(crate) struct Walk {
    pub(crate) watch_cache: Arc<WatchCache>,
    pub(crate) range: KeyRange,
    pub(crate) selection: Selection,
    /// The revision.
    pub(crate) at: u64,
    /// The key behind which it starts.
    pub(crate) start: Option<Key>,
    /// The key behind which it goes on, once it has begun.
    pub(crate) reached: Option<Key>,
    pub(crate) done: bool,
    pub(crate) _pin: RevisionPin,
}

impl Source {
    /// Objects at hand.
    pub(crate) fn objects(objects: Vec<Arc<Object>>) -> Self {
        Source::Objects { objects, next: 0 }
    }

    /// What is selected only once it is shown.
    fn late(&self, view: &VersionView) -> Option<Selection> {
        match self {
            Source::Walk(Walk { selection, .. }) if selection.is_late(view) => Some(selection.clone()),
            _ => None,
        }
    }

    /// The next objects; empty at the end. Those that are selected `late`, when they are shown, are not selected yet.
    fn next(&mut self, late: bool) -> Result<Vec<Arc<Object>>, ApiError> {
        match self {
            Source::Objects { objects, next } => {
                let stride = objects.get(*next..).unwrap_or_default();
                let stride = &stride[..stride.len().min(STRIDE)];
                *next += stride.len();
                Ok(stride.to_vec())
            }
            Source::Walk(walk) => walk.next(late),
        }
    }

    /// Begins anew. The objects are the same.
    fn rewind(&mut self) {
        match self {
            Source::Objects { next, .. } => *next = 0,
            Source::Walk(walk) => (walk.reached, walk.done) = (None, false),
        }
    }
}

impl Walk {
    fn next(&mut self, late: bool) -> Result<Vec<Arc<Object>>, ApiError> {
        while !self.done {
            let after = self.reached.as_deref().or(self.start.as_deref());
            let too_long = |_| ApiError::Internal("the list took longer than history is kept".to_owned());
            let page = self.watch_cache.page(&self.range, after, self.at, STRIDE).map_err(too_long)?;
            self.done = page.last.is_none();
            self.reached = page.last;
            let mut objects = page.objects;
            if !late {
                objects.retain(|object| self.selection.matches(object));
            }
            if !objects.is_empty() {
                return Ok(objects);
            }
        }
        Ok(Vec::new())
    }
}

/// The objects of a list as it shows them.
pub(super) struct Shown {
    view: VersionView,
    source: Source,
    /// Selects what is shown, where that is known only then.
    late: Option<Selection>,
    /// Objects that were shown before anything was said.
    ahead: VecDeque<Vec<Arc<Object>>>,
    /// Objects that are being converted.
    showing: Option<BoxFuture<'static, Result<Vec<Arc<Object>>, ApiError>>>,
}

/// A list is not begun before so many bytes of it are known to be convertible.
const AHEAD: usize = 4 << 20;

impl Shown {
    /// Shows the first objects, so that who asks hears why that does not work.
    pub(super) async fn begin(view: VersionView, source: Source) -> Result<Self, ApiError> {
        let late = source.late(&view);
        let mut shown = Self { view, source, late, ahead: VecDeque::new(), showing: None };
        let (mut ahead, mut bytes) = (VecDeque::new(), 0);
        while bytes < AHEAD && !shown.view.has_single_version() {
            let objects = shown.next().await?;
            if objects.is_empty() {
                break;
            }
            bytes += objects.iter().map(|object| object.json.len()).sum::<usize>();
            ahead.push_back(objects);
            // Others of this thread need not wait for all of them.
            tokio::task::yield_now().await;
        }
        shown.ahead = ahead;
        Ok(shown)
    }

    /// The next objects; empty at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<Arc<Object>>, ApiError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Begins anew, behind the end.
    pub(super) fn rewind(&mut self) {
        self.source.rewind();
    }

    /// The next objects; empty at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Object>>, ApiError>> {
        if let Some(objects) = self.ahead.pop_front() {
            return Poll::Ready(Ok(objects));
        }
        loop {
            let Some(showing) = &mut self.showing else {
                let objects = self.source.next(self.late.is_some())?;
                if objects.is_empty() || self.view.has_single_version() {
                    return Poll::Ready(Ok(objects));
                }
                let view = self.view.clone();
                self.showing = Some(Box::pin(async move { view.convert_shared(objects).await }));
                continue;
            };
            let shown = ready!(showing.as_mut().poll(cx));
            self.showing = None;
            let mut objects = shown?;
            if let Some(selection) = &self.late {
                objects.retain(|object| selection.matches(object));
            }
            if !objects.is_empty() {
                return Poll::Ready(Ok(objects));
            }
        }
    }
}
