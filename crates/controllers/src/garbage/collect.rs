//! What is done about one object.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use pintle_cache::Object;
use pintle_registry::{ApiError, DeletionPropagation, GroupVersionKind, Resource, Scope};
use pintle_value::metadata::{FOREGROUND, ORPHAN};
use pintle_value::{Str, Value};

use super::facts::{Owner, OwnerReferences};
use super::graph::Item;
use crate::ClusterClient;
use crate::client::{DeleteRequest, ObjectRef};
use crate::work_queue::ReconcileResult;

/// Dependents that lose their owner at a time.
const AT_A_TIME: usize = 32;
const OWNERS: [&str; 2] = ["metadata", "ownerReferences"];
const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

/// An object, and the kind that it is of.
pub(super) struct Subject {
    pub(super) item: Item,
    pub(super) resource: Arc<Resource>,
    /// What depends on it.
    pub(super) dependents: Vec<(Item, Arc<Resource>)>,
    /// True if a foreground deletion of it has to wait.
    pub(super) is_blocked: bool,
    /// The revision up to which its dependents are known.
    pub(super) heard: u64,
    /// Owners of it that were seen to go, whatever is known of their kinds now.
    pub(super) gone: Vec<Str>,
}

/// What has become of an owner.
pub(super) enum OwnerState {
    /// It is there.
    Lives,
    /// It goes once its dependents are gone.
    Waits,
    /// It is not there, or it is another one.
    Gone,
    /// Its kind is not known, or it cannot be read.
    Unknown,
    /// An object of the cluster names an owner that would be in a namespace; upstream leaves such objects alone.
    CrossNamespace,
}

/// What has become of the owner of an object in a namespace.
pub(super) fn fate_of(client: &Arc<dyn ClusterClient>, namespace: &str, owner: &Owner) -> OwnerState {
    let registry = client.registry();
    let Some(resource) = registry.kind(&owner.gvk()) else { return OwnerState::Unknown };
    let Some(watch_cache) = client.watch_cache(resource) else { return OwnerState::Unknown };
    let key: Str = match resource.scope {
        Scope::Cluster => owner.name.clone(),
        Scope::Namespaced if namespace.is_empty() => return OwnerState::CrossNamespace,
        Scope::Namespaced => format!("{namespace}/{}", owner.name).into(),
    };
    let Ok(found) = watch_cache.read(&key) else { return OwnerState::Unknown };
    let Some(object) = found else { return OwnerState::Gone };
    let facts = OwnerReferences::read(&object);
    match facts.uid == owner.uid {
        false => OwnerState::Gone,
        true if facts.is_foreground => OwnerState::Waits,
        true => OwnerState::Lives,
    }
}

/// Does what there is to do about an object. It waits for a kind to be known that something it depends on is of.
///
/// # Errors
/// Something could not be changed or deleted; it is to be tried again.
pub(super) async fn look(
    client: &Arc<dyn ClusterClient>,
    subject: &Subject,
) -> Result<ReconcileResult<GroupVersionKind>, ApiError> {
    // What is not seen yet is not taken for gone.
    client.clone().catch_up().await?;
    let Some(object) = current(client, &subject.item, &subject.resource) else { return Ok(ReconcileResult::Done) };
    let facts = OwnerReferences::read(&object);
    if facts.is_terminating {
        if object.revision > subject.heard {
            // Dependents may have come before it was to go: there will be another look when all of that is heard.
            return Ok(ReconcileResult::Done);
        }
        if facts.orphans {
            leave_behind(client, subject).await?;
        }
        if facts.is_foreground && !subject.is_blocked {
            without_finalizer(client, subject, FOREGROUND).await?;
        }
        return Ok(ReconcileResult::Done);
    }
    let (mut lives, mut waits, mut gone) = (0, Vec::new(), Vec::new());
    for owner in &facts.owners {
        match fate_of(client, object.namespace(), owner) {
            OwnerState::Lives => lives += 1,
            OwnerState::Waits => waits.push(owner.uid.clone()),
            OwnerState::Gone => gone.push(owner.uid.clone()),
            OwnerState::Unknown if subject.gone.contains(&owner.uid) => gone.push(owner.uid.clone()),
            OwnerState::Unknown => return Ok(ReconcileResult::Waits(owner.gvk())),
            OwnerState::CrossNamespace => return Ok(ReconcileResult::Done),
        }
    }
    if waits.is_empty() && gone.is_empty() {
        return Ok(ReconcileResult::Done);
    }
    if lives > 0 {
        waits.append(&mut gone);
        let done = change(client, &subject.item, &subject.resource, move |object| without_owners(object, &waits)).await;
        return done.map(|()| ReconcileResult::Done);
    }
    let propagation = match facts.finalizers {
        _ if !waits.is_empty() && !subject.dependents.is_empty() => {
            let is_waiting = |(item, resource): &(Item, Arc<Resource>)| {
                current(client, item, resource).is_some_and(|object| OwnerReferences::read(&object).is_foreground)
            };
            if subject.dependents.iter().any(is_waiting) {
                // A circle: nobody waits for this one any more.
                change(client, &subject.item, &subject.resource, unblocked).await?;
            }
            DeletionPropagation::Foreground
        }
        [true, _] => DeletionPropagation::Orphan,
        [_, true] => DeletionPropagation::Foreground,
        _ => DeletionPropagation::Background,
    };
    let Some(object) = current(client, &subject.item, &subject.resource) else { return Ok(ReconcileResult::Done) };
    let deletion = DeleteRequest { uid: facts.uid.clone(), revision: object.revision, propagation };
    if OwnerReferences::read(&object)
        .owners
        .iter()
        .map(|owner| &owner.uid)
        .ne(facts.owners.iter().map(|owner| &owner.uid))
    {
        // Someone has adopted it meanwhile: there will be another look.
        return Ok(ReconcileResult::Done);
    }
    found(client.clone().delete(place(&subject.item, &subject.resource), deletion).await)?;
    Ok(ReconcileResult::Done)
}

/// Takes an owner off its dependents, and then lets it go.
async fn leave_behind(client: &Arc<dyn ClusterClient>, subject: &Subject) -> Result<(), ApiError> {
    let owner = [subject.item.uid.clone()];
    let changes = subject.dependents.iter().cloned().map(|(item, resource)| {
        let (client, owner) = (client.clone(), owner.clone());
        async move { change(&client, &item, &resource, move |object| without_owners(object, &owner)).await }
    });
    stream::iter(changes).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
    without_finalizer(client, subject, ORPHAN).await
}

async fn without_finalizer(
    client: &Arc<dyn ClusterClient>,
    subject: &Subject,
    finalizer: &'static str,
) -> Result<(), ApiError> {
    change(client, &subject.item, &subject.resource, move |object| {
        let left = object.items_at(&FINALIZERS).iter().filter(|found| found.as_str() != Some(finalizer));
        with(object, &FINALIZERS, left.cloned().collect())
    })
    .await
}

/// An object that these no longer own.
fn without_owners(object: &Value, owners: &[Str]) -> Value {
    let left = object.items_at(&OWNERS).iter().filter(|owner| !owners.iter().any(|uid| uid == owner.str_at(&["uid"])));
    with(object, &OWNERS, left.cloned().collect())
}

/// An object that no owner waits for.
fn unblocked(object: &Value) -> Value {
    let mut owners = object.items_at(&OWNERS).to_vec();
    for owner in owners.iter_mut().filter(|owner| owner.bool_at(&["blockOwnerDeletion"])) {
        owner.set("blockOwnerDeletion", false);
    }
    with(object, &OWNERS, owners)
}

/// An object with another list at a path, or none if that is empty.
fn with(object: &Value, path: &[&str], list: Vec<Value>) -> Value {
    let mut object = object.clone();
    match list.is_empty() {
        true => drop(object.remove_at(path)),
        false => object.set_at(path, list),
    }
    object
}

/// Changes an object, if it is still there.
async fn change(
    client: &Arc<dyn ClusterClient>,
    item: &Item,
    resource: &Resource,
    compute: impl Fn(&Value) -> Value + Send + Sync + 'static,
) -> Result<(), ApiError> {
    let uid = item.uid.clone();
    let compute = move |object: &Value| if object.uid() == uid { compute(object) } else { object.clone() };
    found(client.clone().change(place(item, resource), "", Arc::new(compute)).await)
}

/// What is not there needs nothing done.
fn found<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn place(item: &Item, resource: &Resource) -> ObjectRef {
    let (namespace, name) = item.place();
    ObjectRef { resource: resource.group_resource(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The object as it is now, unless it is another by now.
pub(super) fn current(client: &Arc<dyn ClusterClient>, item: &Item, resource: &Resource) -> Option<Arc<Object>> {
    let object = client.watch_cache(resource)?.get(&item.key, None).ok().flatten()?;
    (OwnerReferences::read(&object).uid == item.uid).then_some(object)
}
