//! Deletion of many: for a client, and for the server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, TryStreamExt, stream};
use pintle_cache::Object;
use pintle_controllers::{DeleteRequest, ObjectRef, Propagation};
use pintle_registry::{ApiError, ObjectClient, Resource};

use super::{carry_out, corrupt, options, warn_of_silence};
use crate::cluster::Cluster;
use crate::http::Response;
use crate::pipeline::RequestContext;
use crate::query::{DeleteOptions, ListOptions, Preconditions};
use crate::read::{collect, select};
use crate::represent::{ResponseFormat, Source};
use crate::warnings::Warnings;
use crate::write::objects::{InternalClient, api_server_user};
use crate::write::update::{GuaranteedUpdate, Judge};

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
    let objects = form.view.show(objects).await?;
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
        let mut change = GuaranteedUpdate::of(&call, &resource, options.dry_run);
        change.namespace = object.namespace().to_owned();
        change.name = object.name().to_owned();
        carry_out(&change, &options).await.map(drop)
    });
    deletion.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a deletion ended early");
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
    delete_each(cluster, resource, namespace, Some(Propagation::Background)).await
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
    propagation: Option<Propagation>,
) -> Result<(), ApiError> {
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    let hub = cluster.hub(resource);
    let objects = InternalClient(cluster.clone()).list(&hub.group_resource(), namespace)?;
    let deletions = objects.into_iter().map(|object| {
        let (hub, options) = (&hub, &options);
        async move {
            match delete_ours(cluster, hub, (object.namespace(), object.name()), options).await {
                Ok(()) | Err(ApiError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    stream::iter(deletions).buffer_unordered(DELETIONS).try_collect().await
}

/// Deletes one object as the server itself.
pub(crate) async fn delete_ours(
    cluster: &Arc<Cluster>,
    hub: &Arc<Resource>,
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let change = GuaranteedUpdate {
        cluster,
        resource: hub,
        user: &api_server_user(),
        context: cluster.own_context(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: "",
        judge: Judge::Object,
        uid_is_precondition: true,
        warnings: &Warnings::default(),
        conversions: Arc::default(),
        // They can go although nobody knows any more how to convert them.
        as_stored: true,
    };
    carry_out(&change, options).await.map(drop)
}

impl InternalClient {
    /// Deletes an object as a controller asks.
    ///
    /// # Errors
    /// It is not there, or not as it has to be.
    pub(crate) async fn delete_as_asked(&self, place: &ObjectRef, deletion: &DeleteRequest) -> Result<(), ApiError> {
        let hub = self.0.stored(&place.resource)?;
        let preconditions =
            Preconditions { uid: Some(deletion.uid.to_string()), version: Some(deletion.revision.to_string()) };
        let propagation = Some(deletion.propagation);
        let options = DeleteOptions { propagation, preconditions, ..DeleteOptions::default() };
        delete_ours(&self.0, &hub, (&place.namespace, &place.name), &options).await
    }
}
