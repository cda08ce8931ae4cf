//! The objects of a list, read page by page and converted to the list's version.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pintle_cache::{Key, KeyRange, Object, RevisionPin, WatchCache};
use pintle_registry::{ApiError, BoxFuture};

use crate::cluster::CollectionSeries;
use crate::conversion::{Selection, VersionView};

/// Maximum number of keys per read of the watch cache. The cache's lock is held during a read.
const PAGE_SIZE: usize = 512;

/// The source of a list's objects.
pub(crate) enum ObjectSource {
    /// Objects in memory.
    Objects { objects: Vec<Arc<Object>>, next: usize },
    /// A range of a watch cache.
    Range(Box<RangeReader>),
}

/// Reads a range of a watch cache at a revision. The revision stays pinned meanwhile.
pub(crate) struct RangeReader {
    pub(crate) watch_cache: Arc<WatchCache>,
    pub(crate) range: KeyRange,
    pub(crate) selection: Selection,
    /// The revision to read at.
    pub(crate) revision: u64,
    /// The key after which the list starts.
    pub(crate) start_after: Option<Key>,
    /// The last key that was read.
    pub(crate) position: Option<Key>,
    pub(crate) done: bool,
    pub(crate) metrics: ListMetrics,
    pub(crate) _pin: RevisionPin,
}

/// The metrics of a list, which are recorded when it is dropped.
pub(crate) struct ListMetrics {
    collection: Arc<CollectionSeries>,
    /// The indexed field that the list uses.
    index: Option<&'static str>,
    /// The number of objects that were read.
    pub(crate) fetched: u64,
    /// The number of objects in the list.
    pub(crate) returned: u64,
}

impl ListMetrics {
    pub(crate) fn new(collection: Arc<CollectionSeries>, index: Option<&'static str>) -> Self {
        Self { collection, index, fetched: 0, returned: 0 }
    }
}

impl Drop for ListMetrics {
    fn drop(&mut self) {
        // Upstream's name for an index of a field.
        let index = self.index.map(|field| format!("f:{field}"));
        self.collection.record_list(index.as_deref().unwrap_or_default(), self.fetched, self.returned);
    }
}

impl ObjectSource {
    /// A source of objects in memory.
    pub(crate) fn objects(objects: Vec<Arc<Object>>) -> Self {
        ObjectSource::Objects { objects, next: 0 }
    }

    /// The selection, if it needs converted objects.
    fn deferred_selection(&self, view: &VersionView) -> Option<Selection> {
        match self {
            ObjectSource::Range(reader) if reader.selection.needs_conversion(view) => Some(reader.selection.clone()),
            _ => None,
        }
    }

    /// Returns the next objects, or `None` at the end. The objects may be an empty vector. With `selects_later`,
    /// objects are returned whether they are selected or not.
    fn next(&mut self, selects_later: bool) -> Result<Option<Vec<Arc<Object>>>, ApiError> {
        match self {
            ObjectSource::Objects { objects, next } => {
                let page = objects.get(*next..).unwrap_or_default();
                let page = &page[..page.len().min(PAGE_SIZE)];
                *next += page.len();
                Ok((!page.is_empty()).then(|| page.to_vec()))
            }
            ObjectSource::Range(reader) => reader.next(selects_later),
        }
    }

    /// Starts again with the same objects.
    fn rewind(&mut self) {
        match self {
            ObjectSource::Objects { next, .. } => *next = 0,
            ObjectSource::Range(reader) => {
                (reader.position, reader.done) = (None, false);
                (reader.metrics.fetched, reader.metrics.returned) = (0, 0);
            }
        }
    }
}

impl RangeReader {
    /// Reads and selects the next page. The page is small if the selector is costly.
    fn next(&mut self, selects_later: bool) -> Result<Option<Vec<Arc<Object>>>, ApiError> {
        if self.done {
            return Ok(None);
        }
        let after = self.position.as_deref().or(self.start_after.as_deref());
        let expired = |_| ApiError::Internal("the list took longer than the retention of history".to_owned());
        let page_size = PAGE_SIZE.min(self.selection.objects_per_turn());
        let page = self.watch_cache.page(&self.range, after, self.revision, page_size).map_err(expired)?;
        self.done = page.last.is_none();
        self.position = page.last;
        let mut objects = page.objects;
        self.metrics.fetched += objects.len() as u64;
        if !selects_later {
            objects.retain(|object| self.selection.matches(object));
        }
        self.metrics.returned += objects.len() as u64;
        Ok(Some(objects))
    }
}

/// The objects of a list, converted to its version.
pub(super) struct ListObjects {
    view: VersionView,
    source: ObjectSource,
    /// The selection, if it applies to converted objects.
    deferred_selection: Option<Selection>,
    /// Objects that were converted before the response starts.
    prefetched: VecDeque<Vec<Arc<Object>>>,
    /// The conversion in progress.
    conversion: Option<BoxFuture<'static, Result<Vec<Arc<Object>>, ApiError>>>,
}

/// Size of the objects that are converted before the response starts, in bytes.
const PREFETCH_BYTES: usize = 4 << 20;

impl ListObjects {
    /// Converts the first objects, so that the client gets an error response if that fails.
    pub(super) async fn start(view: VersionView, source: ObjectSource) -> Result<Self, ApiError> {
        let deferred_selection = source.deferred_selection(&view);
        let mut list = Self { view, source, deferred_selection, prefetched: VecDeque::new(), conversion: None };
        let (mut prefetched, mut bytes) = (VecDeque::new(), 0);
        while bytes < PREFETCH_BYTES && !list.view.has_single_version() {
            let objects = list.next().await?;
            if objects.is_empty() {
                break;
            }
            bytes += objects.iter().map(|object| object.json.len()).sum::<usize>();
            prefetched.push_back(objects);
            // This lets other tasks of the thread run.
            tokio::task::yield_now().await;
        }
        list.prefetched = prefetched;
        Ok(list)
    }

    /// Returns the next objects; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<Arc<Object>>, ApiError> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Starts again. Only called at the end.
    pub(super) fn rewind(&mut self) {
        self.source.rewind();
    }

    /// Polls for the next objects; none at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Arc<Object>>, ApiError>> {
        if let Some(objects) = self.prefetched.pop_front() {
            return Poll::Ready(Ok(objects));
        }
        loop {
            let Some(conversion) = &mut self.conversion else {
                let Some(objects) = self.source.next(self.deferred_selection.is_some())? else {
                    return Poll::Ready(Ok(Vec::new()));
                };
                if objects.is_empty() {
                    // No object is selected yet. Other tasks run before the next page, and the deadline can be noticed.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if self.view.has_single_version() {
                    return Poll::Ready(Ok(objects));
                }
                let view = self.view.clone();
                self.conversion = Some(Box::pin(async move { view.convert_list(objects).await }));
                continue;
            };
            let converted = ready!(conversion.as_mut().poll(cx));
            self.conversion = None;
            let mut objects = converted?;
            if let Some(selection) = &self.deferred_selection {
                objects.retain(|object| selection.matches(object));
            }
            if !objects.is_empty() {
                return Poll::Ready(Ok(objects));
            }
        }
    }
}
