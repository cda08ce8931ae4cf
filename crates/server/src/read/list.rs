//! List: a collection, a namespace of it or a selection, at a requested or the newest revision, optionally in chunks.

use std::sync::Arc;
use std::time::Instant;

use pintle_cache::{Key, KeyRange, Object, RevisionPin, TooOld, WatchCache};
use pintle_gates::Feature;
use pintle_registry::{ApiError, Resource, Scope};
use pintle_selector::FieldSelector;
use pintle_value::Str;

use super::continue_token::{self, ContinueToken};
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::{Selection, ShardSelector};
use crate::http::Response;
use crate::represent::{ListHead, ListMetrics, ObjectSource, RangeReader, ResponseFormat, compress};
use crate::request::query::{ListOptions, VersionMatch, revision_parameter};

/// Maximum number of keys per read of the watch cache.
const PAGE_SIZE: usize = 512;

/// Handles a list.
pub(crate) async fn list(request: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let options = ListOptions::read(&request.query, &request.cluster.settings.gates)?;
    let selection = select_shard(request, resource, select(request, resource, &options)?, false)?;
    let read = ListRead::start(&format, selection, &options).await?;
    if read.from_cache {
        format.view.check_all_readable(&read.watch_cache)?;
    }
    let from_cache = read.from_cache;
    let (head, source) = match read.limit {
        Some(limit) => {
            let (head, objects) = read.chunk(&format, limit).await?;
            (head, ObjectSource::objects(objects))
        }
        None => {
            // Checks that the revision is still available before the response starts.
            read.page(read.after.as_deref(), 1)?;
            read.check_readable(&format, None)?;
            let ListRead { watch_cache, range, selection, revision, after, pin, metrics, .. } = read;
            let head =
                ListHead { revision: revision.to_string(), shard: shard_text(&selection), ..ListHead::default() };
            let reader = RangeReader {
                watch_cache,
                range,
                selection,
                revision,
                start_after: after,
                position: None,
                done: false,
                metrics,
                _pin: pin,
            };
            (head, ObjectSource::Range(Box::new(reader)))
        }
    };
    let response = format.respond_list(&head, source).await;
    Ok(compress(
        request,
        response.map_err(|error| if from_cache { format.view.initializing_error(error) } else { error })?,
    ))
}

/// Returns the objects that a deletecollection selects, and the head of their list.
///
/// # Errors
/// See [`list`].
pub(crate) async fn collect(
    format: &ResponseFormat,
    selection: Selection,
    mut options: ListOptions,
) -> Result<(ListHead, Vec<Arc<Object>>), ApiError> {
    // Upstream pages through the collection even if the client sets no limit, and later pages are read at an exact
    // revision.
    if options.limit == 0 {
        options.limit = i64::MAX;
    }
    let read = ListRead::start(format, selection, &options).await?;
    if read.from_cache {
        format.view.check_all_readable(&read.watch_cache)?;
    }
    let limit = read.limit.unwrap_or(usize::MAX);
    read.chunk(format, limit).await
}

/// Compiles the selection of a list or watch.
///
/// # Errors
/// Returns an error for a field that the kind does not support.
pub(crate) fn select(
    request: &RequestContext,
    resource: &Arc<Resource>,
    options: &ListOptions,
) -> Result<Selection, ApiError> {
    let namespace = request.namespace_of(resource);
    let compile = |fields| Selection::compile(resource, namespace, &options.labels, fields);
    let selection = compile(&options.fields)?;
    let name = &request.info.name;
    if !request.info.is_watch_path || name.is_empty() {
        return Ok(selection);
    }
    // This is the deprecated path for watching a single object.
    if options.fields.is_everything() {
        return compile(&FieldSelector::equal("metadata.name", name));
    }
    if options.fields.required_value("metadata.name") != Some(name) {
        return Err(ApiError::BadRequest("fieldSelector metadata.name doesn't match requested name".to_owned()));
    }
    Ok(selection)
}

/// Selects the part of the collection that `shardSelector` names. With `is_watch`, the events of other parts are
/// counted.
///
/// # Errors
/// Returns an error if the selector is malformed.
pub(crate) fn select_shard(
    request: &RequestContext,
    resource: &Resource,
    selection: Selection,
    is_watch: bool,
) -> Result<Selection, ApiError> {
    let text = request.query.get("shardSelector").filter(|text| !text.is_empty());
    let Some(text) = text.filter(|_| request.cluster.settings.gates.is_enabled(Feature::SHARDED_LIST_AND_WATCH)) else {
        return Ok(selection);
    };
    let invalid = |error| ApiError::Unclassified(format!("invalid shard selector: {error}"));
    let selector = ShardSelector::parse(text, request.cluster.gates().version()).map_err(invalid)?;
    let filtered = is_watch.then(|| request.cluster.metrics.collection(resource).filtered_events().clone());
    Ok(selection.with_shard(selector, filtered))
}

/// The selector of a list's part, as the list repeats it.
fn shard_text(selection: &Selection) -> Option<String> {
    selection.shard().map(ShardSelector::to_string)
}

/// A list in progress. Its revision stays pinned.
struct ListRead {
    watch_cache: Arc<WatchCache>,
    range: KeyRange,
    selection: Selection,
    /// The revision to read at.
    revision: u64,
    /// The key after which the list continues.
    after: Option<Key>,
    limit: Option<usize>,
    /// The index that upstream's watch cache would use.
    index: Option<(usize, Str)>,
    is_continued: bool,
    /// True if upstream would read from the watch cache of the version. Upstream reads old revisions, and chunks
    /// without a selector, from etcd.
    from_cache: bool,
    metrics: ListMetrics,
    pin: RevisionPin,
}

impl ListRead {
    async fn start(format: &ResponseFormat, selection: Selection, options: &ListOptions) -> Result<Self, ApiError> {
        let namespaced = format.resource.scope == Scope::Namespaced;
        let range = match options.continue_token.as_str() {
            "" => selection.range(namespaced),
            // A continued list reads the whole collection, whatever the selection.
            _ => selection.collection(namespaced),
        };
        let is_single_object = matches!(range, KeyRange::Key(_));
        let watch_cache = format.cluster.watch_cache(&format.resource)?;
        let collection = format.cluster.metrics.collection(&format.resource);
        let (started, waits) = (Instant::now(), options.resource_version != "0");
        let start = resolve_start(&format.cluster, &watch_cache, options, is_single_object).await;
        if waits {
            collection.record_read_wait(started.elapsed());
        }
        if options.resource_version.is_empty() && options.continue_token.is_empty() {
            collection.record_consistent_read(start.is_ok());
        }
        let start = start?;
        let after = start.after.map(|after| match &range {
            KeyRange::Namespace(namespace) => Key::from(format!("{namespace}/{after}")),
            _ => Key::from(after),
        });
        // A list with resourceVersion "0" ignores the limit.
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && options.resource_version != "0");
        let from_cache = start.is_newest && after.is_none();
        let index = selection.index(&format.hub).filter(|_| from_cache);
        let index_name = index.as_ref().and_then(|_| format.hub.strategy.indexed_field());
        let pin = format.cluster.storage_of(watch_cache.prefix()).cache.pin(start.revision);
        Ok(Self {
            watch_cache,
            metrics: ListMetrics::new(collection, index_name),
            index,
            from_cache: from_cache && (limit.is_none() || !selection.is_everything()),
            range,
            selection,
            revision: start.revision,
            is_continued: after.is_some(),
            after,
            limit,
            pin,
        })
    }

    fn page(&self, after: Option<&str>, max: usize) -> Result<pintle_cache::ObjectPage, ApiError> {
        self.watch_cache.page(&self.range, after, self.revision, max).map_err(|_: TooOld| self.expired())
    }

    /// Returns a key in the form of tokens.
    fn relative<'k>(&self, key: &'k str) -> &'k str {
        match &self.range {
            KeyRange::Namespace(namespace) => &key[namespace.len() + 1..],
            _ => key,
        }
    }

    /// The error for objects that cannot be converted.
    fn map_error(&self, format: &ResponseFormat, error: ApiError) -> ApiError {
        if self.from_cache { format.view.initializing_error(error) } else { error }
    }

    fn expired(&self) -> ApiError {
        if !self.is_continued {
            return ApiError::Expired {
                message: "The resourceVersion for the provided list is too old.".to_owned(),
                continue_token: None,
            };
        }
        let after = self.after.as_deref().map(|after| self.relative(after).to_owned()).unwrap_or_default();
        ApiError::Expired {
            message: "The provided continue parameter is too old to display a consistent list result. You can \
                      start a new list without the continue parameter, or use the continue token in this response \
                      to retrieve the remainder of the results. Continuing with the provided token results in an \
                      inconsistent list - objects that were created, modified, or deleted between the time the \
                      first chunk was returned and now may show up in the list."
                .to_owned(),
            continue_token: Some(continue_token::encode(&ContinueToken { revision: None, after })),
        }
    }

    /// Returns at most `limit` objects, converted if the selection needs that.
    async fn chunk(mut self, format: &ResponseFormat, limit: usize) -> Result<(ListHead, Vec<Arc<Object>>), ApiError> {
        let needs_conversion = self.selection.needs_conversion(&format.view);
        let page_size = if needs_conversion { PAGE_SIZE.min(limit.saturating_add(1)) } else { PAGE_SIZE };
        let page_size = page_size.min(self.selection.objects_per_turn());
        let revision = self.revision.to_string();
        let mut head = ListHead { revision, shard: shard_text(&self.selection), ..ListHead::default() };
        let mut objects: Vec<Arc<Object>> = Vec::new();
        let mut after = self.after.clone();
        loop {
            let page = self.page(after.as_deref(), page_size)?;
            self.metrics.fetched += page.objects.len() as u64;
            let candidates = if needs_conversion {
                format.view.convert_list(page.objects).await.map_err(|error| self.map_error(format, error))?
            } else {
                page.objects
            };
            for object in candidates {
                if objects.len() < limit {
                    if self.selection.matches(&object) {
                        objects.push(object);
                    }
                } else if self.counts_as_remaining(&object) {
                    let last = objects.last().map(|last| last.key.clone());
                    self.check_readable(format, last.as_ref())?;
                    if let Some(last) = last {
                        self.set_continue(&mut head, objects.len(), &last)?;
                    }
                    self.metrics.returned = objects.len() as u64;
                    return Ok((head, objects));
                }
            }
            match page.last {
                Some(last) => {
                    after = Some(last);
                    // The selector may match nothing in many pages.
                    tokio::task::yield_now().await;
                }
                None => {
                    self.check_readable(format, None)?;
                    self.metrics.returned = objects.len() as u64;
                    return Ok((head, objects));
                }
            }
        }
    }

    /// Checks that all objects up to a key, or up to the end, can be decoded.
    fn check_readable(&self, format: &ResponseFormat, last: Option<&Key>) -> Result<(), ApiError> {
        let bounds = (self.after.as_ref(), last);
        format.cluster.check_readable(&format.resource, &self.watch_cache, &self.range, Some(self.revision), bounds)
    }

    /// True if upstream counts the object among the remaining objects. Upstream does not check whether the object is
    /// selected.
    fn counts_as_remaining(&self, object: &Object) -> bool {
        self.index.as_ref().is_none_or(|(index, value)| object.field(*index) == value)
    }

    /// Sets the continue token and the remaining count. A list that continued inconsistently becomes consistent at this
    /// revision.
    fn set_continue(&self, head: &mut ListHead, count: usize, last: &str) -> Result<(), ApiError> {
        let after = self.relative(last).to_owned();
        head.continue_token = continue_token::encode(&ContinueToken { revision: Some(self.revision), after });
        if self.selection.is_everything() {
            let (range, at, after) = (&self.range, self.revision, self.after.as_deref());
            let remaining = match self.selection.shard() {
                None => self.watch_cache.remaining(range, at, after, count, last),
                // Upstream counts the objects of other parts as remaining objects.
                Some(_) => self.watch_cache.count(range, after, at).map(|all| all.saturating_sub(count)),
            };
            head.remaining = Some(remaining.map_err(|_| self.expired())?);
        }
        Ok(())
    }
}

/// The revision and the key at which a list starts.
struct ListStart {
    revision: u64,
    /// The last key of the previous chunk, as encoded in the token.
    after: Option<String>,
    /// True if the list reads the newest revision.
    is_newest: bool,
}

/// Determines where a list starts. `is_single_object` is true if the selection requires a name.
async fn resolve_start(
    cluster: &Cluster,
    watch_cache: &WatchCache,
    options: &ListOptions,
    is_single_object: bool,
) -> Result<ListStart, ApiError> {
    let storage = cluster.storage_of(watch_cache.prefix());
    if !options.continue_token.is_empty() {
        let token = continue_token::decode(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::BadRequest(
                "specifying resource version is not allowed when using continue".to_owned(),
            ));
        }
        let revision = match token.revision {
            Some(revision) => {
                super::wait_for_revision(cluster, storage, revision).await?;
                revision
            }
            None => super::catch_up(cluster, storage).await?,
        };
        return Ok(ListStart { revision, after: Some(token.after), is_newest: token.revision.is_none() });
    }
    let invalid = |why| ApiError::BadRequest(format!("invalid resource version: {why}"));
    let revision = match revision_parameter(&options.resource_version).map_err(invalid)? {
        None => {
            return Ok(ListStart { revision: super::catch_up(cluster, storage).await?, after: None, is_newest: true });
        }
        Some(0) => {
            return Ok(ListStart {
                revision: super::newest_revision(cluster, watch_cache),
                after: None,
                is_newest: true,
            });
        }
        Some(revision) => revision,
    };
    // Before `resourceVersionMatch` existed, a list with a limit required an exact match.
    let is_chunked = options.version_match.is_none() && options.limit > 0;
    if is_single_object && (is_chunked || options.version_match == Some(VersionMatch::Exact)) {
        // Upstream reads these lists from etcd, which does not wait for a revision.
        let current = super::catch_up(cluster, storage).await?;
        if revision > current {
            return Err(ApiError::TooLargeResourceVersion { asked: revision, current, retry_after: 0 });
        }
    } else {
        super::wait_for_revision(cluster, storage, revision).await?;
    }
    let exact = options.version_match == Some(VersionMatch::Exact) || (is_chunked && !is_single_object);
    let revision = if exact { revision } else { super::newest_revision(cluster, watch_cache) };
    Ok(ListStart { revision, after: None, is_newest: !exact })
}
