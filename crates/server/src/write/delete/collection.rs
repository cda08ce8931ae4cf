//! Deletion of many: for a client, and for the server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, TryStreamExt, stream};
use pintle_cache::Object;
use pintle_registry::{ApiError, DeletionPropagation, Resource};

use super::{carry_out, corrupt, options, warn_of_silence};
use crate::cluster::Cluster;
use crate::context::RequestContext;
use crate::http::Response;
use crate::read::{collect, select};
use crate::represent::{ResponseFormat, Source};
use crate::request::query::{DeleteOptions, ListOptions};
use crate::write::update::GuaranteedUpdate;
use crate::write::writer::{InternalWriter, Writer};

/// How many objects of a collection are deleted at a time, so that they share commits.
const DELETIONS: usize = 64;

/// Answers a deletecollection: every selected object is deleted by itself; the answer is the list of them as they were.
/// If the client goes away or one cannot be deleted, those that have begun come to their end and no more begin.
pub(crate) async fn delete_collection(
    call: &Arc<RequestContext>,
    resource: &Arc<Resource>,
) -> Result<Response, ApiError> {
    let form = ResponseFormat::negotiate(call, resource, false)?;
    let list = ListOptions::read(&call.query)?;
    let selection = select(call, &form, &list)?;
    let options = Arc::new(options(call).await?);
    if options.ignores_read_error {
        return Err(corrupt::not_of_many());
    }
    warn_of_silence(call, resource, &options);
    let (head, objects) = collect(&form, selection, list).await?;
    let objects = form.view.convert_shared(objects).await?;
    let failed = AtomicBool::new(false);
    let failed = &failed;
    let deletions = objects.clone().into_iter().map(|object| {
        let (call, resource, options) = (call.clone(), resource.clone(), options.clone());
        async move {
            if failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            match delete_one(call, resource, options, object).await {
                // Someone else was faster.
                Err(ApiError::NotFound { .. }) => Ok(()),
                result => result.inspect_err(|_| failed.store(true, Ordering::Relaxed)),
            }
        }
    });
    let results: Vec<_> = stream::iter(deletions).buffer_unordered(DELETIONS).collect().await;
    results.into_iter().collect::<Result<(), _>>()?;
    form.respond_list(&head, Source::objects(objects)).await
}

/// Deletes an object of a collection, in a task of its own so that it comes to its end once it has begun.
async fn delete_one(
    call: Arc<RequestContext>,
    resource: Arc<Resource>,
    options: Arc<DeleteOptions>,
    object: Arc<Object>,
) -> Result<(), ApiError> {
    let deletion = tokio::spawn(async move {
        let writer = Writer::of(&call, &*options, options.dry_run);
        let update = GuaranteedUpdate::by(writer, &resource, (object.namespace(), object.name()));
        carry_out(&update, &options).await.map(drop)
    });
    deletion.await.unwrap_or_else(|error| {
        tracing::error!(%error, "Delete task panicked");
        Err(ApiError::Internal("the request could not be completed".to_owned()))
    })
}

/// Deletes all objects of a collection that are there now in a namespace, as the server itself. What depends on them does
/// not keep them.
pub(crate) async fn delete_all(
    cluster: &Arc<Cluster>,
    resource: &Arc<Resource>,
    namespace: &str,
) -> Result<(), ApiError> {
    delete_each(cluster, resource, namespace, Some(DeletionPropagation::Background)).await
}

/// Deletes all objects of a kind that are there now, as the server itself. Their finalizers say what becomes of those that
/// depend on them, as where a client says nothing.
pub(crate) async fn delete_kind(cluster: &Arc<Cluster>, resource: &Arc<Resource>) -> Result<(), ApiError> {
    delete_each(cluster, resource, "", None).await
}

async fn delete_each(
    cluster: &Arc<Cluster>,
    resource: &Arc<Resource>,
    namespace: &str,
    propagation: Option<DeletionPropagation>,
) -> Result<(), ApiError> {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    let hub = cluster.hub(resource);
    let objects = cluster.list_objects(&hub.group_resource(), namespace)?;
    let deletions = objects.into_iter().map(|object| {
        let (hub, options) = (&hub, &options);
        async move {
            match delete_internally(cluster, hub, (object.namespace(), object.name()), options).await {
                Ok(()) | Err(ApiError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    stream::iter(deletions).buffer_unordered(DELETIONS).try_collect().await
}

/// Deletes one object as the server itself.
///
/// # Errors
/// The object does not exist, does not fulfil the preconditions, or must not be deleted.
pub(crate) async fn delete_internally(
    cluster: &Arc<Cluster>,
    hub: &Arc<Resource>,
    target: (&str, &str),
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let writer = InternalWriter::default();
    let writer = Writer { options, ..writer.on(cluster) };
    // Objects that nobody can convert any more must remain deletable.
    let update = GuaranteedUpdate { as_stored: true, ..GuaranteedUpdate::by(writer, hub, target) };
    carry_out(&update, options).await.map(drop)
}
