//! Objects that are to be there whatever is done to them: they are made where they are missing, and put right where they
//! are not as they should be.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::future::{join_all, select_all};
use pintle_cache::{Event, KeyRange, WatchCache, WatchScope, Watcher};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::{Str, Value};
use tokio::sync::watch;

use crate::objects::{find, watch_cache_of};
use crate::work_queue::WorkQueue;
use crate::{ClusterClient, DeleteRequest, ObjectRef, others};

/// Where there is to be an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceScope {
    /// In the cluster's scope.
    Cluster,
    /// In one namespace.
    Namespace(&'static str),
    /// In every namespace that does not go.
    EveryNamespace,
}

impl NamespaceScope {
    fn includes(self, namespace: &str) -> bool {
        match self {
            NamespaceScope::Cluster => namespace.is_empty(),
            NamespaceScope::Namespace(only) => only == namespace,
            NamespaceScope::EveryNamespace => !namespace.is_empty(),
        }
    }
}

/// What is thought of an object that is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Diff {
    /// It can stay as it is.
    Right,
    /// It is to become this one.
    Update(Value),
    /// It cannot become what it should be: it goes, and comes anew.
    Replace,
}

/// When an object that is there is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// When the server starts.
    AtStart,
    /// Whenever it has changed.
    Always,
}

/// When an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Occasion {
    /// Before the server is ready, which is not to wait for more than what is missing.
    Before,
    /// When the server starts.
    Start,
    /// When something has changed.
    Change,
}

/// An object that is to be there.
#[derive(Clone, Debug)]
pub struct DesiredObject {
    /// Its group and resource.
    pub(crate) resource: GroupResource,
    /// Where it is to be.
    pub(crate) namespace_scope: NamespaceScope,
    /// As it is made, but for its namespace.
    pub(crate) object: Value,
    /// Compares the one that is there with that.
    pub(crate) judge: fn(found: &Value, wanted: &Value) -> Diff,
    /// When it is put right.
    pub(crate) when: When,
    /// True for what a controller manager does where there is one.
    pub(crate) gives_way: bool,
}

impl DesiredObject {
    fn place(&self, namespace: &str) -> ObjectRef {
        let (namespace, name) = (namespace.to_owned(), self.object.name().to_owned());
        ObjectRef { resource: self.resource.clone(), namespace, name }
    }

    /// Where changes of it are heard of.
    fn scope(&self) -> WatchScope {
        match self.namespace_scope {
            NamespaceScope::Cluster => WatchScope::Key(self.object.name().into()),
            NamespaceScope::Namespace(namespace) => {
                WatchScope::Key(format!("{namespace}/{}", self.object.name()).into())
            }
            NamespaceScope::EveryNamespace => WatchScope::All,
        }
    }

    /// Sees to it that the object is there. Returns false if that has to be tried again.
    async fn see_to_it(&self, client: &Arc<dyn ClusterClient>, namespace: &str, occasion: Occasion) -> bool {
        match self.attempt(client, namespace, occasion).await {
            Ok(is_done) => is_done,
            // Someone else was faster: their change is heard of.
            Err(ApiError::AlreadyExists { .. } | ApiError::NotFound { .. }) => true,
            Err(error) => {
                tracing::info!(%error, resource = %self.resource, namespace, "what is to be there is not yet");
                false
            }
        }
    }

    async fn attempt(
        &self,
        client: &Arc<dyn ClusterClient>,
        namespace: &str,
        occasion: Occasion,
    ) -> Result<bool, ApiError> {
        if self.namespace_scope == NamespaceScope::EveryNamespace && !is_active(client, namespace) {
            return Ok(true);
        }
        let place = self.place(namespace);
        let found = find(client, &place);
        let verdict = found.as_ref().map(|found| match (occasion, self.when) {
            (Occasion::Before, _) | (Occasion::Change, When::AtStart) => Diff::Right,
            (Occasion::Start, _) | (Occasion::Change, When::Always) => (self.judge)(found, &self.object),
        });
        if verdict == Some(Diff::Right) {
            return Ok(true);
        }
        if self.gives_way && others::are_there(client) {
            return Ok(false);
        }
        let client = client.clone();
        match (verdict, found) {
            (Some(Diff::Replace), Some(found)) => {
                let revision = found.resource_version().parse().unwrap_or_default();
                let deletion =
                    DeleteRequest { uid: found.uid().into(), revision, propagation: DeletionPropagation::Background };
                client.delete(place, deletion).await?;
            }
            (Some(_), _) => {
                let (judge, wanted) = (self.judge, self.object.clone());
                let compute = move |found: &Value| match judge(found, &wanted) {
                    Diff::Update(mended) => mended,
                    Diff::Right | Diff::Replace => found.clone(),
                };
                client.change(place, "", Arc::new(compute)).await?;
            }
            (None, _) => {
                let mut object = self.object.clone();
                if !namespace.is_empty() {
                    object.set_at(&["metadata", "namespace"], namespace);
                }
                client.create(place.resource, object).await?;
            }
        }
        Ok(true)
    }
}

/// True if there is such a namespace, and it does not go.
fn is_active(client: &Arc<dyn ClusterClient>, name: &str) -> bool {
    let resource = GroupResource::new("", "namespaces");
    let place = ObjectRef { resource, namespace: String::new(), name: name.to_owned() };
    find(client, &place).is_some_and(|namespace| namespace.str_at(&["status", "phase"]) == "Active")
}

/// What is to be looked at: which of the objects, in which namespace, and when.
type Item = (usize, Str, Occasion);

/// Keeps objects there.
#[derive(Clone, Debug)]
pub struct ObjectReconciler {
    desired: Arc<[DesiredObject]>,
}

impl ObjectReconciler {
    /// Of these objects.
    #[must_use]
    pub fn new(desired: Vec<DesiredObject>) -> Self {
        Self { desired: desired.into() }
    }

    /// Makes what is missing when the server is to be ready: objects of the cluster, and those of these namespaces.
    pub async fn settle(&self, client: &Arc<dyn ClusterClient>, namespaces: &[&str]) {
        let places = [""].iter().chain(namespaces);
        let items = places.flat_map(|namespace| self.desired.iter().map(move |desired| (desired, *namespace)));
        let items = items.filter(|(desired, namespace)| desired.namespace_scope.includes(namespace));
        join_all(items.map(|(desired, namespace)| desired.see_to_it(client, namespace, Occasion::Before))).await;
    }

    /// Keeps the objects there, until the world ends or `leaving` turns true. What is under way then is done when this
    /// returns.
    pub async fn run(self, client: Weak<dyn ClusterClient>, mut leaving: watch::Receiver<bool>) {
        let mut queue = WorkQueue::<Item>::default();
        let Some(mut following) = client.upgrade().and_then(|client| self.follow(&client, &mut queue)) else { return };
        loop {
            let desired = self.desired.clone();
            queue.begin(|(index, namespace, occasion)| {
                let (desired, client) = (desired.clone(), client.clone());
                let (index, namespace, occasion) = (*index, namespace.clone(), *occasion);
                Some(async move {
                    let Some(client) = client.upgrade() else { return true };
                    desired[index].see_to_it(&client, &namespace, occasion).await
                })
            });
            tokio::select! {
                events = following.next() => match events {
                    Some((resource, events)) => self.hear(&resource, &events, &mut queue),
                    // History is lost: whatever is there is looked at again.
                    None => match client.upgrade().and_then(|client| self.follow(&client, &mut queue)) {
                        Some(anew) => following = anew,
                        None => return,
                    },
                },
                _ = queue.ready() => {}
                () = left(&mut leaving) => return queue.finish().await,
            }
            if client.strong_count() == 0 {
                return;
            }
        }
    }

    /// Follows the logs of everything that is kept, and has all of it looked at.
    fn follow(&self, client: &Arc<dyn ClusterClient>, queue: &mut WorkQueue<Item>) -> Option<Following> {
        let namespaces = GroupResource::new("", "namespaces");
        let mut following = Following::default();
        let all = watch_cache_of(client, &namespaces)?;
        following.add(namespaces, WatchScope::All, &all);
        for desired in &*self.desired {
            following.add(desired.resource.clone(), desired.scope(), &watch_cache_of(client, &desired.resource)?);
        }
        self.look_at("", Occasion::Start, queue);
        all.objects(KeyRange::All).for_each(|namespace| self.look_at(namespace.name(), Occasion::Start, queue));
        Some(following)
    }

    /// Has everything looked at that is to be in a namespace.
    fn look_at(&self, namespace: &str, occasion: Occasion, queue: &mut WorkQueue<Item>) {
        let of = self.desired.iter().enumerate().filter(|(_, desired)| desired.namespace_scope.includes(namespace));
        of.for_each(|(index, _)| queue.push((index, namespace.into(), occasion)));
    }

    fn hear(&self, resource: &GroupResource, events: &[Arc<Event>], queue: &mut WorkQueue<Item>) {
        for event in events {
            let (namespace, name) = event.key.rsplit_once('/').unwrap_or(("", &event.key));
            let is_it = |desired: &DesiredObject| desired.object.name() == name && desired.resource == *resource;
            let of = self
                .desired
                .iter()
                .enumerate()
                .filter(|(_, desired)| is_it(desired) && desired.namespace_scope.includes(namespace));
            of.for_each(|(index, _)| queue.push((index, namespace.into(), Occasion::Change)));
            if event.object.is_some() && resource.group.is_empty() && resource.resource == "namespaces" {
                self.look_at(name, Occasion::Change, queue);
            }
        }
    }
}

/// Waits until the server is to go.
async fn left(leaving: &mut watch::Receiver<bool>) {
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// The logs that are followed, and what of them.
#[derive(Default)]
struct Following {
    watchers: HashMap<(GroupResource, WatchScope), Watcher>,
}

impl Following {
    fn add(&mut self, resource: GroupResource, scope: WatchScope, watch_cache: &Arc<WatchCache>) {
        let watch = || watch_cache.watch(scope.clone(), watch_cache.newest_revision());
        self.watchers.entry((resource, scope.clone())).or_insert_with(watch);
    }

    /// The next events of one of the logs; `None` if they are lost.
    async fn next(&mut self) -> Option<(GroupResource, Vec<Arc<Event>>)> {
        let next = self.watchers.iter_mut().map(|((resource, _), watcher)| {
            Box::pin(async move { Some((resource.clone(), watcher.next().await.ok()?)) })
        });
        select_all(next).await.0
    }
}
