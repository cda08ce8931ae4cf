//! List: a collection, a namespace of it or a selection, at a revision that the client may choose, in chunks if it
//! wants.

use std::sync::Arc;

use pintle_cache::{Key, KeyRange, Object, RevisionPin, TooOld, WatchCache};
use pintle_registry::{ApiError, Resource, Scope};
use pintle_selector::FieldSelector;
use pintle_value::Str;

use super::continue_token::{self, Continue};
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::conversion::Selection;
use crate::http::Response;
use crate::represent::{ListHead, ResponseFormat, Source, Walk, compress};
use crate::request::query::{ListOptions, VersionMatch, revision_parameter};

/// Keys looked at at once.
const STRIDE: usize = 512;

/// Answers a list.
pub(crate) async fn list(call: &RequestContext, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let options = ListOptions::read(&call.query)?;
    let selection = select(call, &form, &options)?;
    let reading = ListRead::begin(&form, selection, &options).await?;
    if reading.of_cache {
        form.view.check_all_readable(&reading.watch_cache)?;
    }
    let of_cache = reading.of_cache;
    let (head, source) = match reading.limit {
        Some(limit) => {
            let (head, objects) = reading.chunk(&form, limit).await?;
            (head, Source::objects(objects))
        }
        None => {
            // Finds out now, not in the middle of the answer, whether the revision is still there.
            reading.page(reading.after.as_deref(), 1)?;
            reading.check_readable(&form, None)?;
            let ListRead { watch_cache, range, selection, at, after, pin, .. } = reading;
            let head = ListHead { revision: at.to_string(), ..ListHead::default() };
            let walk = Walk { watch_cache, range, selection, at, start: after, reached: None, done: false, _pin: pin };
            (head, Source::Walk(walk))
        }
    };
    let response = form.respond_list(&head, source).await;
    Ok(compress(call, response.map_err(|error| if of_cache { form.view.initializing_error(error) } else { error })?))
}

/// What a deletecollection is about: the objects, and the head of the list that has them.
///
/// # Errors
/// As for a list.
pub(crate) async fn collect(
    form: &ResponseFormat,
    selection: Selection,
    mut options: ListOptions,
) -> Result<(ListHead, Vec<Arc<Object>>), ApiError> {
    // Upstream reads pages of its own where the client sets no limit, and pages of a revision are exact.
    if options.limit == 0 {
        options.limit = i64::MAX;
    }
    let reading = ListRead::begin(form, selection, &options).await?;
    if reading.of_cache {
        form.view.check_all_readable(&reading.watch_cache)?;
    }
    reading.chunk(form, reading.limit.unwrap_or(usize::MAX)).await
}

/// The selection of a list or watch.
///
/// # Errors
/// It selects by what the kind does not offer.
pub(crate) fn select(
    call: &RequestContext,
    form: &ResponseFormat,
    options: &ListOptions,
) -> Result<Selection, ApiError> {
    let namespace = call.namespace_of(&form.resource);
    let compile = |fields| Selection::compile(&form.resource, namespace, &options.labels, fields);
    let selection = compile(&options.fields)?;
    let name = &call.info.name;
    if !call.info.watch_path || name.is_empty() {
        return Ok(selection);
    }
    // The deprecated path of a single object's watch.
    if options.fields.is_everything() {
        return compile(&FieldSelector::equal("metadata.name", name));
    }
    if options.fields.required_value("metadata.name") != Some(name) {
        return Err(ApiError::BadRequest("fieldSelector metadata.name doesn't match requested name".to_owned()));
    }
    Ok(selection)
}

/// A list under way: what of which state it shows. The state stays readable meanwhile.
struct ListRead {
    watch_cache: Arc<WatchCache>,
    range: KeyRange,
    selection: Selection,
    /// The revision of the state.
    at: u64,
    /// The key behind which it goes on.
    after: Option<Key>,
    limit: Option<usize>,
    /// The index that upstream takes the objects from.
    index: Option<(usize, Str)>,
    continues: bool,
    /// True if upstream asks its cache of the version first; it asks etcd for anything old, and always for what may be
    /// few of many.
    of_cache: bool,
    pin: RevisionPin,
}

impl ListRead {
    async fn begin(form: &ResponseFormat, selection: Selection, options: &ListOptions) -> Result<Self, ApiError> {
        let namespaced = form.resource.scope == Scope::Namespaced;
        let range = match options.continue_token.as_str() {
            "" => selection.range(namespaced),
            // Whoever goes on goes through the collection, whatever is selected.
            _ => selection.collection(namespaced),
        };
        let single = matches!(range, KeyRange::Key(_));
        let watch_cache = form.cluster.watch_cache(&form.resource)?;
        let start = start(&form.cluster, &watch_cache, options, single).await?;
        let after = start.after.map(|after| match &range {
            KeyRange::Namespace(namespace) => Key::from(format!("{namespace}/{after}")),
            _ => Key::from(after),
        });
        // A list of anything that is there is whole.
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && options.resource_version != "0");
        let of_cache = start.newest && after.is_none();
        Ok(Self {
            watch_cache: form.cluster.watch_cache(&form.resource)?,
            index: selection.index(&form.hub).filter(|_| of_cache),
            of_cache: of_cache && (limit.is_none() || !selection.is_everything()),
            range,
            selection,
            at: start.at,
            continues: after.is_some(),
            after,
            limit,
            pin: form.cluster.cache.pin(start.at),
        })
    }

    fn page(&self, after: Option<&str>, max: usize) -> Result<pintle_cache::ObjectPage, ApiError> {
        self.watch_cache.page(&self.range, after, self.at, max).map_err(|_: TooOld| self.expired())
    }

    /// A key as it stands in tokens.
    fn relative<'k>(&self, key: &'k str) -> &'k str {
        match &self.range {
            KeyRange::Namespace(namespace) => &key[namespace.len() + 1..],
            _ => key,
        }
    }

    /// Why objects cannot be shown.
    fn told(&self, form: &ResponseFormat, error: ApiError) -> ApiError {
        if self.of_cache { form.view.initializing_error(error) } else { error }
    }

    fn expired(&self) -> ApiError {
        if !self.continues {
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
            continue_token: Some(continue_token::encode(&Continue { revision: None, after })),
        }
    }

    /// Up to a limit of objects, as they are shown where that decides whether they are selected.
    async fn chunk(&self, form: &ResponseFormat, limit: usize) -> Result<(ListHead, Vec<Arc<Object>>), ApiError> {
        let late = self.selection.is_late(&form.view);
        let stride = if late { STRIDE.min(limit.saturating_add(1)) } else { STRIDE };
        let mut head = ListHead { revision: self.at.to_string(), ..ListHead::default() };
        let mut objects: Vec<Arc<Object>> = Vec::new();
        let mut after = self.after.clone();
        loop {
            let page = self.page(after.as_deref(), stride)?;
            let found = if late {
                form.view.convert_shared(page.objects).await.map_err(|error| self.told(form, error))?
            } else {
                page.objects
            };
            for object in found {
                if objects.len() < limit {
                    if self.selection.matches(&object) {
                        objects.push(object);
                    }
                } else if self.is_counted(&object) {
                    let last = objects.last().map(|last| last.key.clone());
                    self.check_readable(form, last.as_ref())?;
                    if let Some(last) = last {
                        self.go_on(&mut head, objects.len(), &last)?;
                    }
                    return Ok((head, objects));
                }
            }
            match page.last {
                Some(last) => after = Some(last),
                None => {
                    self.check_readable(form, None)?;
                    return Ok((head, objects));
                }
            }
        }
    }

    /// Whether everything can be read up to a key, or to the end.
    fn check_readable(&self, form: &ResponseFormat, last: Option<&Key>) -> Result<(), ApiError> {
        let within = (self.after.as_ref(), last);
        form.cluster.check_readable(&form.resource, &self.watch_cache, &self.range, Some(self.at), within)
    }

    /// True if upstream takes the object for one more to come. It does not look whether it is selected, too.
    fn is_counted(&self, object: &Object) -> bool {
        self.index.as_ref().is_none_or(|(place, value)| object.field(*place) == value)
    }

    /// Says how the list goes on. One that went on inconsistently has become consistent at this revision.
    fn go_on(&self, head: &mut ListHead, shown: usize, last: &str) -> Result<(), ApiError> {
        let after = self.relative(last).to_owned();
        head.continue_token = continue_token::encode(&Continue { revision: Some(self.at), after });
        if self.selection.is_everything() {
            let remaining = self.watch_cache.remaining(&self.range, self.at, self.after.as_deref(), shown, last);
            head.remaining = Some(remaining.map_err(|_| self.expired())?);
        }
        Ok(())
    }
}

/// Where and when a list starts.
struct Start {
    at: u64,
    /// The last key that was shown, as it stands in the token.
    after: Option<String>,
    /// True if it shows the newest state, whatever revision that is.
    newest: bool,
}

/// Where a list starts. `single`: it is of one object by its name.
async fn start(
    cluster: &Cluster,
    watch_cache: &WatchCache,
    options: &ListOptions,
    single: bool,
) -> Result<Start, ApiError> {
    if !options.continue_token.is_empty() {
        let token = continue_token::decode(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            return Err(ApiError::BadRequest(
                "specifying resource version is not allowed when using continue".to_owned(),
            ));
        }
        let at = match token.revision {
            Some(revision) => {
                super::wait_for(cluster, revision).await?;
                revision
            }
            None => cluster.catch_up().await?,
        };
        return Ok(Start { at, after: Some(token.after), newest: token.revision.is_none() });
    }
    let invalid = |why| ApiError::BadRequest(format!("invalid resource version: {why}"));
    let revision = match revision_parameter(&options.resource_version).map_err(invalid)? {
        None => return Ok(Start { at: cluster.catch_up().await?, after: None, newest: true }),
        Some(0) => return Ok(Start { at: super::newest(cluster, watch_cache), after: None, newest: true }),
        Some(revision) => revision,
    };
    // Before it could be said, a list in chunks was meant exactly.
    let chunks = options.version_match.is_none() && options.limit > 0;
    if single && (chunks || options.version_match == Some(VersionMatch::Exact)) {
        // Upstream asks etcd for these, which does not wait.
        let current = cluster.catch_up().await?;
        if revision > current {
            return Err(ApiError::TooLargeResourceVersion { asked: revision, current, retry_after: 0 });
        }
    } else {
        super::wait_for(cluster, revision).await?;
    }
    let exact = options.version_match == Some(VersionMatch::Exact) || (chunks && !single);
    let at = if exact { revision } else { super::newest(cluster, watch_cache) };
    Ok(Start { at, after: None, newest: !exact })
}
