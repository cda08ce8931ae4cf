//! Delete and deletecollection: at once, or in two steps where a grace period or finalizers say so (upstream:
//! `registry/rest/delete.go`, `registry/generic/registry/store.go`).

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use pintle_admission::{Operation, Request};
use pintle_cache::Object;
use pintle_controllers::{Deletion, Place, Propagation};
use pintle_registry::{ApiError, GroupResource, GroupVersion, Objects, Resource, Write};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::time::{Duration, Time};
use pintle_value::{Object as Members, Value};

use super::commit::{Outcome, as_cached, at, commit};
use super::decode::{Expected, Undecodable, read};
use super::metadata;
use super::update::{Change, Judge};
use crate::cluster::{Cluster, tree};
use crate::http::Response;
use crate::negotiate;
use crate::pipeline::Call;
use crate::query::{DeleteOptions, ListOptions};
use crate::read::{collect, select};
use crate::represent::{Form, Source, from_hub, success};
use crate::warnings::Warnings;

/// How many objects of a collection are deleted at a time.
const DELETIONS: usize = 64;

/// What became of a delete.
enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object is still there, terminating.
    Terminating(Arc<Object>),
}

/// Answers a delete.
pub(crate) async fn delete(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let options = options(call).await?;
    let change = Change::of(call, resource, options.dry_run);
    let deleted = carry_out(&change, &options).await?;
    match deleted {
        Deleted::Terminating(object) => {
            // Upstream says "accepted" only to those who ask in the old way.
            let code = match options.orphan_dependents {
                Some(false) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            Ok(form.respond(code, form.body(&form.view.show_one(&object).await?)?))
        }
        Deleted::Gone(object) => {
            let returned = resource.collection().is_some_and(|c| c.returns_deleted);
            if returned {
                return Ok(form.respond(StatusCode::OK, form.body(&form.view.show_one(&object).await?)?));
            }
            let tree = tree(&object)?;
            Ok(success(call, &form, details(resource, tree.name(), tree.uid())))
        }
    }
}

fn details(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = Members::new();
    for (key, value) in [("name", name), ("group", &resource.group), ("kind", &resource.plural), ("uid", uid)] {
        if !value.is_empty() {
            details.insert(key, value);
        }
    }
    Value::Object(details)
}

/// The options, from the body or else from the query.
async fn options(call: &Call) -> Result<DeleteOptions, ApiError> {
    let body = call.body().await?;
    if body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let encoding = negotiate::input(&call.headers, call.endpoint())?;
    let catalog = &call.cluster.catalog;
    let schema = catalog
        .struct_type("meta/v1.DeleteOptions")
        .map(|id| catalog.schema(id))
        .ok_or_else(|| ApiError::Internal("DeleteOptions are not known".to_owned()))?;
    let group_version = GroupVersion::new("", "v1");
    let expected = Expected { group_version, kind: "DeleteOptions", schema: &schema, resource: None };
    let (value, _) =
        read(&body, encoding, &expected, &is_options).map_err(|error| ApiError::BadRequest(error.why()))?;
    DeleteOptions::from_body(&value)
}

/// Options may name any group and version that they like.
fn is_options(version: &GroupVersion, kind: &str) -> Result<(), Undecodable> {
    let why = match kind {
        "DeleteOptions" => return Ok(()),
        "CreateOptions" | "UpdateOptions" => {
            format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
        }
        _ => format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        ),
    };
    Err(Undecodable::Unfit { kind: kind.to_owned(), version: version.version.clone(), why })
}

/// True if an object that is terminating has nothing left that keeps it.
pub(crate) fn is_over(hub: &Resource, object: &Value) -> bool {
    object.is_terminating()
        && object.items_at(&["metadata", "finalizers"]).is_empty()
        && object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && hub.behaviour.is_finalized(object)
}

/// Deletes one object, as often as others get in between.
async fn carry_out(change: &Change<'_>, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    metadata::check_key(&change.name)?;
    change.cluster.catch_up().await?;
    loop {
        let Some(current) = change.current()? else { return Err(change.not_found()) };
        if let Some(deleted) = attempt(change, options, &current).await? {
            return Ok(deleted);
        }
    }
}

async fn attempt(
    change: &Change<'_>,
    options: &DeleteOptions,
    current: &Arc<Object>,
) -> Result<Option<Deleted>, ApiError> {
    let Change { cluster, resource, context, .. } = change;
    let hub = cluster.hub(resource);
    let shown = change.view(&hub);
    let old = shown.tree(current).await?;
    preconditions(change, options, &old, current.revision)?;
    let view = from_hub(resource, old.clone());
    let access = super::objects::Access((*cluster).clone());
    let objects: &dyn Objects = &access;
    let request = Request {
        operation: Operation::Delete,
        resource,
        subresource: "",
        namespace: &change.namespace,
        name: &change.name,
        identity: change.identity,
        dry_run: context.dry_run,
        old: Some(&view),
        objects,
    };
    cluster.admission.mutate(&request, &mut Value::Null).await?;
    cluster.admission.validate(&request, &Value::Null).await?;

    let grace = settle_grace(&hub, &old, options);
    if grace == Grace::Pending {
        // What runs already goes on as it is; not even its finalizers change.
        return Ok(Some(Deleted::Terminating(current.clone())));
    }
    let mut object = old.clone();
    object.remove_at(&["metadata", "resourceVersion"]);
    settle_finalizers(&hub, &mut object, options);
    if let Some(finalizer) = hub.behaviour.cleanup_finalizer().filter(|_| !old.is_terminating()) {
        add_finalizer(&mut object, finalizer);
    }
    let waits = !object.items_at(&["metadata", "finalizers"]).is_empty() || !hub.behaviour.is_finalized(&object);
    if grace == Grace::None && !waits {
        return remove(change, &hub, current, &old, objects).await;
    }
    let grace = mark(&hub, &mut object, grace, context.now);
    let json = shown.store(&object).await?;
    let marked = if json == current.json {
        current.clone()
    } else if context.dry_run {
        as_cached(&current.key, current.revision, json)?
    } else {
        match commit(cluster, &hub, &current.key, at(current.revision), Some(json.clone())).await? {
            Outcome::Done(revision) => as_cached(&current.key, revision, json)?,
            Outcome::Conflict => return Ok(None),
        }
    };
    if waits || grace > 0 {
        return Ok(Some(Deleted::Terminating(marked)));
    }
    // Gracefully and at once: watchers see the mark, and then the end.
    match remove(change, &hub, &marked, &object, objects).await? {
        // Someone else has finished what began here.
        None if change.current()?.is_none() => Ok(Some(Deleted::Gone(marked))),
        removed => Ok(removed),
    }
}

async fn remove(
    change: &Change<'_>,
    hub: &Arc<Resource>,
    current: &Arc<Object>,
    old: &Value,
    objects: &dyn Objects,
) -> Result<Option<Deleted>, ApiError> {
    let Change { cluster, context, .. } = change;
    if context.dry_run {
        return Ok(Some(Deleted::Gone(current.clone())));
    }
    match commit(cluster, hub, &current.key, at(current.revision), None).await? {
        Outcome::Done(revision) => {
            release(change, hub, &current.key, old, objects).await;
            let last = Object::new(current.key.clone(), revision, current.json.clone(), current.outline.clone());
            Ok(Some(Deleted::Gone(Arc::new(last))))
        }
        Outcome::Conflict => Ok(None),
    }
}

/// Gives back what an object that is gone held.
pub(crate) async fn release(change: &Change<'_>, hub: &Resource, key: &str, old: &Value, objects: &dyn Objects) {
    if let Some(allocation) = hub.behaviour.allocation() {
        match allocation.begin(&change.context, objects, Write::Delete(old)).await {
            Ok(ticket) => allocation.commit(objects, ticket).await,
            Err(error) => tracing::warn!(%error, %key, "what the object held is not released"),
        }
    }
}

fn preconditions(change: &Change<'_>, options: &DeleteOptions, old: &Value, revision: u64) -> Result<(), ApiError> {
    // Upstream names the kind here, not the resource.
    let conflict = |why: String| ApiError::Conflict {
        resource: GroupResource::new(change.resource.group.clone(), change.resource.kind.clone()),
        name: change.name.as_str().into(),
        why,
    };
    if let Some(uid) = &options.precondition_uid
        && uid != old.uid()
    {
        return Err(conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        )));
    }
    if let Some(version) = &options.precondition_version
        && *version != revision.to_string()
    {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        )));
    }
    Ok(())
}

/// How much time an object has (upstream: `rest.BeforeDelete`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grace {
    /// It is not deleted gracefully, or not any longer.
    None,
    /// It has a period that this delete does not shorten.
    Pending,
    /// It gets a period, in seconds.
    Starts(i64),
    /// Its period becomes shorter.
    Shrinks { from: i64, to: i64 },
}

fn settle_grace(hub: &Resource, old: &Value, options: &DeleteOptions) -> Grace {
    let Some(graceful) = hub.behaviour.graceful() else { return Grace::None };
    // A negative period means the least there is that is not at once.
    let least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let asked = options.grace_period_seconds.map(least);
    if !old.is_terminating() {
        return graceful.grace_period(old, asked).map_or(Grace::None, Grace::Starts);
    }
    match (old.int_at(&["metadata", "deletionGracePeriodSeconds"]).map(least), asked) {
        (None | Some(0), _) => Grace::None,
        (Some(from), Some(to)) if to < from => Grace::Shrinks { from, to },
        _ => Grace::Pending,
    }
}

/// Adds or removes the finalizers that make the garbage collector look after dependents.
fn settle_finalizers(hub: &Resource, object: &mut Value, options: &DeleteOptions) {
    let mut finalizers: Vec<Value> = object.items_at(&["metadata", "finalizers"]).to_vec();
    let has = |list: &[Value], name: &str| list.iter().any(|f| f.as_str() == Some(name));
    let (orphan, foreground) = match (options.propagation, options.orphan_dependents) {
        (Some(policy), _) => (policy == Propagation::Orphan, policy == Propagation::Foreground),
        (None, Some(orphan)) => (orphan, false),
        // Without a word from the client, a finalizer that is there already decides.
        (None, None) => {
            let (orphan, foreground) = (has(&finalizers, ORPHAN), has(&finalizers, FOREGROUND));
            (orphan || (hub.behaviour.orphans_by_default() && !foreground), foreground)
        }
    };
    if (orphan, foreground) == (has(&finalizers, ORPHAN), has(&finalizers, FOREGROUND)) {
        return;
    }
    finalizers.retain(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND)));
    if orphan {
        finalizers.push(ORPHAN.into());
    }
    if foreground {
        finalizers.push(FOREGROUND.into());
    }
    if finalizers.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set_at(&["metadata", "finalizers"], finalizers);
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|f| f.as_str() == Some(finalizer)) {
        finalizers.push(finalizer.into());
        object.set_at(&["metadata", "finalizers"], finalizers);
    }
}

/// Deletes all objects of a collection that are there now, in a namespace or (with an empty one) in all, as the server
/// itself. What depends on them does not keep them.
pub(crate) async fn delete_all(
    cluster: &Arc<Cluster>,
    resource: &Arc<Resource>,
    namespace: &str,
) -> Result<(), ApiError> {
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let hub = cluster.hub(resource);
    let objects = super::objects::Access(cluster.clone()).list(&hub.group_resource(), namespace)?;
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
async fn delete_ours(
    cluster: &Arc<Cluster>,
    hub: &Arc<Resource>,
    (namespace, name): (&str, &str),
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let change = Change {
        cluster,
        resource: hub,
        identity: &super::objects::own_identity(),
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

impl super::Access {
    /// Deletes an object as a controller asks.
    ///
    /// # Errors
    /// It is not there, or not as it has to be.
    pub(crate) async fn delete_as_asked(&self, place: &Place, deletion: &Deletion) -> Result<(), ApiError> {
        let hub = self.0.stored(&place.resource)?;
        let options = DeleteOptions {
            propagation: Some(deletion.propagation),
            precondition_uid: Some(deletion.uid.to_string()),
            precondition_version: Some(deletion.revision.to_string()),
            ..DeleteOptions::default()
        };
        delete_ours(&self.0, &hub, (&place.namespace, &place.name), &options).await
    }
}

/// Marks an object as terminating; the seconds that it has from now on.
fn mark(hub: &Resource, object: &mut Value, grace: Grace, now: Time) -> i64 {
    let running = object.time_at(&["metadata", "deletionTimestamp"]);
    if hub.behaviour.cleanup_finalizer().is_some() {
        // Such kinds are marked by hand: what is there stays until someone has cleaned up.
        object.set_at(&["metadata", "deletionTimestamp"], running.unwrap_or(now).rfc3339());
        hub.behaviour.mark_terminating(object);
        return 0;
    }
    let generation = object.generation();
    if running.is_none() && generation > 0 {
        object.set_at(&["metadata", "generation"], generation + 1);
    }
    let (end, seconds) = match (grace, running) {
        (Grace::Starts(seconds), _) => (now.plus(Duration::from_seconds(seconds)), seconds),
        (Grace::Shrinks { from, to }, Some(running)) => {
            let end = running.plus(Duration::from_seconds(to - from));
            // An end that has passed is now, and who asked for grace gets the least there is.
            if end < now { (now, to.min(1)) } else { (end, to) }
        }
        (_, Some(running)) => (running.min(now), 0),
        (_, None) => (now, 0),
    };
    object.set_at(&["metadata", "deletionTimestamp"], end.rfc3339());
    object.set_at(&["metadata", "deletionGracePeriodSeconds"], seconds);
    hub.behaviour.mark_terminating(object);
    seconds
}

/// Answers a deletecollection: every selected object is deleted by itself; the answer is the list of them as they were.
pub(crate) async fn delete_collection(call: &Call, resource: &Arc<Resource>) -> Result<Response, ApiError> {
    let form = Form::negotiate(call, resource, false)?;
    let list = ListOptions::read(&call.query)?;
    let selection = select(call, &form, &list)?;
    let options = options(call).await?;
    let (head, objects) = collect(&form, selection, list).await?;
    let objects = form.view.show(objects).await?;
    // Many at a time, so that they share commits.
    let deletions = objects.clone().into_iter().map(|object| {
        let mut change = Change::of(call, resource, options.dry_run);
        change.namespace = object.namespace().to_owned();
        change.name = object.name().to_owned();
        let options = &options;
        async move {
            match carry_out(&change, options).await {
                // Someone else was faster.
                Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
    });
    stream::iter(deletions).buffer_unordered(DELETIONS).try_collect::<()>().await?;
    form.respond_list(&head, Source::objects(objects)).await
}
