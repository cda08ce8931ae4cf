//! Deletes of many objects, for clients and for the server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, TryStreamExt, future, stream};
use pintle_admission::{AdmissionOperation, RequestOptions};
use pintle_cache::{KeyRange, Object};
use pintle_registry::{ApiError, DeletionPropagation, Resource};

use super::options::delete_options;
use super::{corrupt, delete_object, warn_about_default_propagation};
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::http::Response;
use crate::read::{collect, select, select_shard};
use crate::represent::{ObjectSource, ResponseFormat};
use crate::request::query::{DeleteOptions, ListOptions};
use crate::write::LargeWrite;
use crate::write::internal_audit::{InternalAudit, InternalWrite};
use crate::write::update::{GuaranteedUpdate, UpdateMode};
use crate::write::writer::{InternalWriter, Writer};

/// Maximum number of objects of a collection that are deleted concurrently. Concurrent deletes share commits.
const MAX_CONCURRENT_DELETES: usize = 64;

/// Maximum number of objects of a collection that are converted at a time. Conversion decodes them.
const CONVERSION_BATCH: usize = 512;

/// Handles a deletecollection request. Every selected object is deleted separately; the response is the list of the
/// objects before the deletion. If the client disconnects or one delete fails, running deletes finish and no more
/// start.
pub(crate) async fn delete_collection(
    request: &Arc<RequestContext>,
    resource: &Arc<Resource>,
) -> Result<Response, ApiError> {
    let format = ResponseFormat::negotiate(request, resource, false)?;
    let list = ListOptions::read(&request.query, &request.cluster.settings.gates)?;
    let selection = select(request, resource, &list)?;
    let options = Arc::new(delete_options(request).await?);
    if options.ignores_read_error {
        return Err(corrupt::collection_not_supported_error());
    }
    warn_about_default_propagation(request, resource, &options);
    let selection = select_shard(request, resource, selection, false)?;
    let (head, mut objects) = collect(&format, selection, list).await?;
    for batch in objects.chunks_mut(CONVERSION_BATCH) {
        let converted = format.view.convert_list(batch.to_vec()).await?;
        batch.clone_from_slice(&converted);
    }
    let failed = AtomicBool::new(false);
    let failed = &failed;
    let deletions = objects.iter().cloned().enumerate().map(|(position, object)| {
        let (request, resource, options) = (request.clone(), resource.clone(), options.clone());
        async move {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            match delete_one(request, resource, options, object).await {
                // Another client may have deleted the object.
                Ok(()) | Err(ApiError::NotFound { .. }) => None,
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    Some((position, error))
                }
            }
        }
    });
    // With preconditions, all objects except one fail. As in upstream, no object is deleted after the first failure.
    let is_conditional = options.preconditions.uid.is_some() || options.preconditions.version.is_some();
    let concurrent = if is_conditional { 1 } else { MAX_CONCURRENT_DELETES };
    let errors = stream::iter(deletions).buffer_unordered(concurrent).filter_map(future::ready);
    let errors: Vec<(usize, ApiError)> = errors.collect().await;
    // Upstream deletes one object after the other, so its error is the error of the first object that fails.
    if let Some((_, error)) = errors.into_iter().min_by_key(|(position, _)| *position) {
        return Err(error);
    }
    format.respond_list(&head, ObjectSource::objects(objects)).await
}

/// Deletes an object of a collection in a task of its own, so that the delete finishes even if the client disconnects.
async fn delete_one(
    request: Arc<RequestContext>,
    resource: Arc<Resource>,
    options: Arc<DeleteOptions>,
    object: Arc<Object>,
) -> Result<(), ApiError> {
    let cluster = request.cluster.clone();
    let deletion = cluster.spawn_write(LargeWrite::new(request.clone(), async move {
        let writer = Writer::for_request(&request, &*options, options.dry_run);
        let update = GuaranteedUpdate {
            mode: UpdateMode::CollectionDelete,
            ..GuaranteedUpdate::new(writer, &resource, (object.namespace(), object.name()))
        };
        delete_object(&update, &options).await.map(drop)
    }));
    deletion.await.unwrap_or_else(|error| {
        tracing::error!(%error, "Delete task panicked");
        Err(ApiError::Internal("the request could not be completed".to_owned()))
    })
}

/// Deletes all current objects of a collection in a namespace, as the server itself, with background propagation.
pub(crate) async fn delete_all(
    cluster: &Arc<Cluster>,
    resource: &Arc<Resource>,
    namespace: &str,
) -> Result<(), ApiError> {
    delete_each(cluster, resource, namespace, Some(DeletionPropagation::Background)).await
}

/// Deletes all current objects of a kind, as the server itself, with the default propagation policy.
pub(crate) async fn delete_kind(cluster: &Arc<Cluster>, resource: &Arc<Resource>) -> Result<(), ApiError> {
    delete_each(cluster, resource, "", None).await
}

/// Deletes the current objects of a collection. The collection is read page by page as the deletes proceed. Only
/// objects that are being deleted are decoded, so memory does not grow with the collection.
async fn delete_each(
    cluster: &Arc<Cluster>,
    resource: &Arc<Resource>,
    namespace: &str,
    propagation: Option<DeletionPropagation>,
) -> Result<(), ApiError> {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    let hub = cluster.hub(resource);
    let watch_cache = cluster.watch_cache(&hub)?;
    let range = if namespace.is_empty() { KeyRange::All } else { KeyRange::Namespace(namespace.into()) };
    cluster.check_readable(&hub, &watch_cache, &range, None, (None, None))?;
    let deletions = watch_cache.objects(range).map(|object| {
        let (hub, options) = (&hub, &options);
        async move {
            match delete_internally(cluster, hub, (object.namespace(), object.name()), options).await {
                Ok(()) | Err(ApiError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    stream::iter(deletions).buffer_unordered(MAX_CONCURRENT_DELETES).try_collect().await
}

/// Deletes one object as the server itself.
///
/// # Errors
/// Returns an error if the object does not exist, fails the preconditions, or must not be deleted.
pub(crate) async fn delete_internally(
    cluster: &Arc<Cluster>,
    hub: &Arc<Resource>,
    target: (&str, &str),
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let internal = InternalWriter::default();
    let (namespace, name) = target;
    let body = cluster.audit.as_ref().map(|_| options.to_object(AdmissionOperation::Delete));
    let write = InternalWrite::update(hub, "", (namespace, name));
    let write = InternalWrite { verb: "delete", body: body.as_ref(), ..write };
    let audit = InternalAudit::begin(cluster, &internal, write).await?;
    let writer = Writer { options, ..internal.for_cluster(cluster) };
    // Objects must remain deletable if their conversion webhook fails.
    let update = GuaranteedUpdate { mode: UpdateMode::InternalDelete, ..GuaranteedUpdate::new(writer, hub, target) };
    let deleted = delete_object(&update, options).await.map(drop);
    audit.end(deleted.as_ref().map(|()| None)).await;
    deleted
}
