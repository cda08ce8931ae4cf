//! List: a collection, a namespace of it or a selection, at a revision that the client may choose, in chunks if it
//! wants.

use std::sync::Arc;

use http::StatusCode;
use pintle_cache::{KeyRange, Log, Object};
use pintle_registry::{ApiError, Resource, Scope};

use super::Selection;
use super::continue_token::{self, Continue};
use crate::cluster::Cluster;
use crate::http::{Body, Response};
use crate::pipeline::Call;
use crate::query::{ListOptions, VersionMatch, revision_parameter};
use crate::represent::{Form, ListBody, ListHead, Source, compress};

/// Keys looked at at once.
const STRIDE: usize = 512;

/// Answers a list.
pub(crate) async fn list(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let options = ListOptions::read(&call.query, false)?;
    let selection = select(call, &form, &options)?;
    let namespaced = resource.scope == Scope::Namespaced;
    let range = selection.range(namespaced);
    let log = call.cluster.log(resource)?;
    let start = start(&call.cluster, &options).await?;
    let after = start.after.as_ref().map(|after| match &range {
        KeyRange::Namespace(namespace) => format!("{namespace}/{after}"),
        _ => after.clone(),
    });
    let pin = call.cluster.cache.pin(start.at);
    let too_old = |_| start.expired();
    let mut head = ListHead { revision: start.at.to_string(), ..ListHead::default() };
    let source = if options.limit > 0 {
        let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
        let chunk = chunk(&log, &range, &selection, after.as_deref(), start.at, limit).map_err(too_old)?;
        if let Some(last) = chunk.last {
            let relative = match &range {
                KeyRange::Namespace(namespace) => last[namespace.len() + 1..].to_owned(),
                _ => last.clone(),
            };
            // A list that goes on inconsistently has become consistent at this revision.
            head.continue_token = continue_token::encode(&Continue { revision: Some(start.at), after: relative });
            if selection.is_everything() {
                head.remaining = Some(log.count(&range, Some(&last), start.at).map_err(too_old)?);
            }
        }
        Source::Objects(chunk.objects.into_iter())
    } else {
        // Finds out now, not in the middle of the answer, whether the revision is still there.
        log.page(&range, after.as_deref(), start.at, 1).map_err(too_old)?;
        let after = after.map(Into::into);
        Source::Walk { log, range, selection, at: start.at, after, done: false, _pin: pin }
    };
    let response = match ListBody::make(form.clone(), &head, source)? {
        Ok(body) => form.respond(StatusCode::OK, Body::from_producer(Box::new(body))),
        Err(bytes) => form.respond(StatusCode::OK, bytes),
    };
    Ok(compress(response, call.accepts_gzip()))
}

/// The selection of a list or watch.
pub(crate) fn select(call: &Call, form: &Form, options: &ListOptions) -> Result<Selection, ApiError> {
    let fields = if call.info.watch_path && !call.info.name.is_empty() {
        // The deprecated path of a single object's watch.
        format!("metadata.name={}", call.info.name)
    } else {
        options.field_selector.clone()
    };
    let namespace = call.namespace_of(&form.resource);
    Selection::compile(&form.resource, &form.hub, namespace, &options.label_selector, &fields)
}

/// Where and when a list starts.
struct Start {
    at: u64,
    after: Option<String>,
}

impl Start {
    fn expired(&self) -> ApiError {
        match &self.after {
            Some(after) => ApiError::Expired {
                message: "The provided continue parameter is too old to display a consistent list result. You can \
                          start a new list without the continue parameter, or use the continue token in this response \
                          to retrieve the remainder of the results. Continuing with the provided token results in an \
                          inconsistent list - objects that were created, modified, or deleted between the time the \
                          first chunk was returned and now may show up in the list."
                    .to_owned(),
                continue_token: Some(continue_token::encode(&Continue { revision: None, after: after.clone() })),
            },
            None => ApiError::Expired {
                message: "The resourceVersion for the provided list is too old.".to_owned(),
                continue_token: None,
            },
        }
    }
}

async fn start(cluster: &Cluster, options: &ListOptions) -> Result<Start, ApiError> {
    if !options.continue_token.is_empty() {
        let token = continue_token::decode(&options.continue_token)?;
        if !options.resource_version.is_empty() && options.resource_version != "0" {
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
        return Ok(Start { at, after: Some(token.after) });
    }
    let at = match revision_parameter(&options.resource_version)? {
        None => cluster.catch_up().await?,
        Some(0) => cluster.cache.applied(),
        Some(revision) => {
            super::wait_for(cluster, revision).await?;
            let exact = match options.version_match {
                Some(meant) => meant == VersionMatch::Exact,
                // Before it could be said, a list in chunks was meant exactly.
                None => options.limit > 0,
            };
            if exact { revision } else { cluster.cache.applied() }
        }
    };
    Ok(Start { at, after: None })
}

/// Up to a limit of objects, and the last key if there are more.
struct Chunk {
    objects: Vec<Arc<Object>>,
    last: Option<String>,
}

fn chunk(
    log: &Log,
    range: &KeyRange,
    selection: &Selection,
    after: Option<&str>,
    at: u64,
    limit: usize,
) -> Result<Chunk, pintle_cache::TooOld> {
    let mut chunk = Chunk { objects: Vec::new(), last: None };
    let mut after = after.map(str::to_owned);
    loop {
        let page = log.page(range, after.as_deref(), at, STRIDE)?;
        for object in page.objects {
            if !selection.matches(&object) {
                continue;
            }
            if chunk.objects.len() == limit {
                chunk.last = chunk.objects.last().map(|o| o.key.to_string());
                return Ok(chunk);
            }
            chunk.objects.push(object);
        }
        match page.last {
            Some(last) => after = Some(last.to_string()),
            None => return Ok(chunk),
        }
    }
}

/// All selected objects at a revision.
///
/// # Errors
/// The revision is too old.
pub(crate) fn collect(
    call: &Call,
    resource: &Arc<Resource>,
    selection: &Selection,
    at: u64,
) -> Result<Vec<Arc<Object>>, ApiError> {
    let log = call.cluster.log(resource)?;
    let range = selection.range(resource.scope == Scope::Namespaced);
    let all = chunk(&log, &range, selection, None, at, usize::MAX);
    let start = Start { at, after: None };
    Ok(all.map_err(|_| start.expired())?.objects)
}
