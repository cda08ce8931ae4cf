//! Kinds that users define: a task follows the definitions (CustomResourceDefinitions), accepts their names, serves their
//! objects, says so in their status, and cleans up after those that go (upstream: the controllers of
//! apiextensions-apiserver).

mod source;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use pintle_cache::{Event, KeyRange, LoadedCache, Object, WatchScope};
use pintle_extensions::{
    CLEANUP_FINALIZER, Condition, accept_names, build_resources, discovery_order, establish, is_condition_true,
    set_condition,
};
use pintle_registry::{ApiError, DefinitionSource, GroupResource, ObjectClient, Resource};
use pintle_value::{Str, Value, object};

use self::source::Source;
use crate::cluster::{Cluster, tree};
use crate::write::{InternalClient, delete_kind};

/// How long a clean-up that met someone else's write waits before it goes on.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Where definitions are stored.
const PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions";

fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The definitions that there are.
#[derive(Default)]
pub(crate) struct Definitions {
    kinds: BTreeMap<Str, Kind>,
}

impl Definitions {
    /// Reads all stored definitions, before the cache takes in the history of their objects.
    pub(crate) fn stored(filled: &LoadedCache) -> Self {
        let Some(watch_cache) = filled.watch_cache(PREFIX) else { return Self::default() };
        let objects: Vec<Arc<Object>> = watch_cache.objects(KeyRange::All).collect();
        let read = |object: &Arc<Object>| {
            let mut definition = source::without_schemas(&object.json)?;
            definition.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
            let source = Arc::new(Source::new(&definition, object.json.clone()));
            Some((Str::from(object.name()), Kind::new(&definition, source, object.revision)))
        };
        // There may be many megabytes of them, and nothing else is done meanwhile.
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = objects.chunks(objects.len().div_ceil(workers).max(1));
        let kinds = std::thread::scope(|scope| {
            let parts: Vec<_> =
                parts.map(|part| scope.spawn(|| part.iter().filter_map(read).collect::<Vec<_>>())).collect();
            parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
        });
        Self { kinds }
    }

    /// The prefixes of the objects of all definitions, with a record of each that is served.
    pub(crate) fn served(&self) -> impl Iterator<Item = (&Str, Option<&Arc<Resource>>)> {
        self.kinds.values().map(|kind| (&kind.prefix, kind.records.first()))
    }

    /// Serves what is defined, and follows the definitions from now on.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) async fn follow(mut self, cluster: &Arc<Cluster>) -> Result<(), ApiError> {
        let hub = cluster.hub_of(&definitions())?;
        let watch_cache = cluster.watch_cache(&hub)?;
        let from = cluster.catch_up().await?;
        let mut watcher = watch_cache.watch(WatchScope::All, from);
        let mut there = HashSet::new();
        for object in watch_cache.objects(KeyRange::All) {
            self.read(&object);
            there.insert(Str::from(object.name()));
        }
        self.kinds.retain(|name, _| there.contains(name));
        let groups: BTreeSet<Str> = self.kinds.values().map(|kind| kind.group().into()).collect();
        let groups = groups.into_iter().filter(|group| !cluster.is_built_in_group(group));
        cluster.publish(groups.map(|group| (group.clone(), self.records(&group))));
        let unsettled = self.kinds.iter().filter(|(_, kind)| !kind.settled);
        let names: Vec<Str> = unsettled.map(|(name, _)| name.clone()).collect();
        let (weak, mut closing) = (Arc::downgrade(cluster), cluster.shutting_down.subscribe());
        tokio::spawn(async move {
            for name in names {
                let Some(cluster) = weak.upgrade() else { return };
                self.settle(&cluster, &name).await;
            }
            loop {
                let events = tokio::select! {
                    events = watcher.next() => events,
                    _ = closing.wait_for(|closing| *closing) => return,
                };
                let Some(cluster) = weak.upgrade() else { return };
                let Ok(events) = events else {
                    tracing::error!("definitions are no longer followed: their history is gone");
                    return;
                };
                for event in events {
                    self.hear(&cluster, &event).await;
                }
            }
        });
        Ok(())
    }
}

/// What is known of one definition.
struct Kind {
    /// Its group and the names that it has, as [`accept_names`] looks at them.
    names: Arc<Value>,
    /// What its records are made of.
    made_of: Value,
    source: Arc<Source>,
    /// The revision of the definition that was read last.
    revision: u64,
    /// The first part of the keys of its objects.
    prefix: Str,
    records: Vec<Arc<Resource>>,
    /// True if its status says all that there is to say.
    settled: bool,
    /// True while its objects are being deleted.
    cleaning: bool,
}

impl Kind {
    fn new(definition: &Value, source: Arc<Source>, revision: u64) -> Self {
        let names = object! {
            "spec": object! { "group": definition.str_at(&["spec", "group"]) },
            "status": object! { "acceptedNames": definition["status"]["acceptedNames"].clone() },
        };
        let (accepted, established) =
            (is_condition_true(definition, "NamesAccepted"), is_condition_true(definition, "Established"));
        let made_of = object! {
            "mark": source.fingerprint(),
            "names": names["status"].clone(),
            "terminating": is_condition_true(definition, "Terminating"),
            "accepted": accepted || established,
        };
        let asked = definition.at(&["spec", "names"]);
        let has_all = pintle_value::same(asked, definition.at(&["status", "acceptedNames"]));
        Self {
            made_of,
            names: Arc::new(names),
            revision,
            prefix: pintle_extensions::key_prefix(definition),
            records: build_resources(definition, &(source.clone() as Arc<dyn DefinitionSource>)),
            settled: has_all && accepted && established && !definition.is_terminating(),
            source,
            cleaning: false,
        }
    }

    fn group(&self) -> &str {
        self.names.str_at(&["spec", "group"])
    }
}

impl Definitions {
    /// The records of a group, in discovery's order.
    fn records(&self, group: &str) -> Vec<Arc<Resource>> {
        let of_group = self.kinds.values().filter(|kind| kind.group() == group);
        let mut records: Vec<_> = of_group.flat_map(|kind| kind.records.iter().cloned()).collect();
        records.sort_by(|a, b| discovery_order(a, b));
        records
    }

    /// Serves the records of a group. Upstream routes whatever is of a built-in group to those who know no others.
    fn publish(&self, cluster: &Cluster, group: &str) {
        if !cluster.is_built_in_group(group) {
            cluster.publish([(group.into(), self.records(group))]);
        }
    }

    /// Remembers a stored definition. Returns true if its records have changed.
    fn read(&mut self, object: &Object) -> bool {
        let known = self.kinds.get(object.name());
        if let Some(known) = known.filter(|known| known.revision == object.revision) {
            known.source.set(object.json.clone());
            return false;
        }
        let definition = match tree(object) {
            Ok(definition) => definition,
            Err(error) => {
                tracing::error!(%error, name = object.name(), "a definition cannot be read");
                return false;
            }
        };
        let known = self.kinds.get(object.name()).map(|kind| kind.source.clone());
        let source = match known.filter(|source| source.is_of(&definition)) {
            Some(source) => {
                source.set(object.json.clone());
                source
            }
            None => Arc::new(Source::new(&definition, object.json.clone())),
        };
        self.take(&definition, source, object.revision)
    }

    /// Remembers a definition. Returns true if its records have changed.
    fn take(&mut self, definition: &Value, source: Arc<Source>, revision: u64) -> bool {
        let name: Str = definition.name().into();
        let mut kind = Kind::new(definition, source, revision);
        let Some(before) = self.kinds.remove(&name) else {
            self.kinds.insert(name, kind);
            return true;
        };
        let changed = kind.made_of != before.made_of;
        if !changed {
            kind.records = before.records;
        }
        kind.cleaning = before.cleaning;
        self.kinds.insert(name, kind);
        changed
    }

    /// Hears of a definition that was written.
    async fn hear(&mut self, cluster: &Arc<Cluster>, event: &Event) {
        let name = Str::from(&*event.key);
        let Some(object) = &event.object else {
            let Some(gone) = self.kinds.remove(&name) else { return };
            self.publish(cluster, gone.group());
            if !cluster.is_built_in(&gone.prefix) {
                cluster.cache.close(&gone.prefix);
                cluster.indexers.remove(&gone.prefix);
            }
            return self.settle_others(cluster, &gone.names).await;
        };
        if self.read(object) {
            self.serve(cluster, &name).await;
        }
        if self.kinds.get(&name).is_some_and(|kind| !kind.settled) {
            self.settle(cluster, &name).await;
        }
    }

    /// Serves the objects of a definition.
    async fn serve(&self, cluster: &Arc<Cluster>, name: &str) {
        let Some(kind) = self.kinds.get(name) else { return };
        if kind.made_of.bool_at(&["accepted"]) && !cluster.is_built_in(&kind.prefix) {
            // Objects are there even if no version shows them.
            let fields = kind.records.first().is_some_and(|record| cluster.indexers.set(record));
            let opened = match cluster.cache.watch_cache(&kind.prefix).is_some() && fields {
                true => cluster.cache.reindex(&kind.prefix).await,
                false => cluster.cache.open(&kind.prefix).await,
            };
            if let Err(error) = opened {
                tracing::error!(%error, %name, "the objects of a definition cannot be read");
                return;
            }
        }
        self.publish(cluster, kind.group());
    }

    /// Brings what a definition's status says up to date, or cleans up after it.
    async fn settle(&mut self, cluster: &Arc<Cluster>, name: &str) {
        let access = InternalClient(cluster.clone());
        let Ok(Some(definition)) = access.get(&definitions(), "", name) else { return };
        if definition.is_terminating() {
            return self.clean(cluster, &definition);
        }
        let now = cluster.now();
        let group = definition.str_at(&["spec", "group"]);
        let others = self.kinds.iter().filter(|(other, kind)| *other != name && kind.group() == group);
        let others: Vec<Arc<Value>> = others.map(|(_, kind)| kind.names.clone()).collect();
        let accepted =
            move |definition: &Value| accept_names(definition, &others, now).unwrap_or_else(|| definition.clone());
        let with_names = accepted(&definition);
        if establish(&with_names, now).is_none() && with_names == definition {
            return;
        }
        // Objects are served before anybody hears that they are.
        let Some(kind) = self.kinds.get(name) else { return };
        let (names_before, source, revision) = (kind.names.clone(), kind.source.clone(), kind.revision);
        if self.take(&with_names, source, revision) {
            self.serve(cluster, name).await;
        }
        let settled = move |definition: &Value| {
            let definition = accepted(definition);
            establish(&definition, now).unwrap_or(definition)
        };
        // The names are taken from now on. Others need not wait until it is stored that they are.
        let of = Str::from(name);
        tokio::spawn(async move {
            if let Err(error) = access.update_subresource(&definitions(), "status", ("", &of), settled).await {
                tracing::info!(%error, name = %of, "a definition went while its names were accepted");
            }
        });
        // It may have given up a name that others wait for.
        if self.kinds.get(name).is_some_and(|kind| kind.names != names_before) {
            Box::pin(self.settle_others(cluster, &names_before)).await;
        }
    }

    /// Looks again at the definitions of a group that want names which may be free now.
    async fn settle_others(&mut self, cluster: &Arc<Cluster>, of: &Value) {
        let group = of.str_at(&["spec", "group"]);
        let waiting = |kind: &Kind| kind.group() == group && !kind.settled;
        let names: Vec<Str> =
            self.kinds.iter().filter(|(_, kind)| waiting(kind)).map(|(name, _)| name.clone()).collect();
        for name in names {
            Box::pin(self.settle(cluster, &name)).await;
        }
    }

    /// Deletes the objects of a definition that goes, and then lets it go.
    fn clean(&mut self, cluster: &Arc<Cluster>, definition: &Value) {
        let waits =
            definition.items_at(&["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(CLEANUP_FINALIZER));
        let Some(kind) = self.kinds.get_mut(definition.name()).filter(|kind| waits && !kind.cleaning) else { return };
        kind.cleaning = true;
        let established = is_condition_true(definition, "Established");
        let source: Arc<dyn DefinitionSource> = kind.source.clone();
        let resource = pintle_extensions::build_storage_resource(definition, &source).filter(|_| established);
        let (weak, name) = (Arc::downgrade(cluster), Str::from(definition.name()));
        tokio::spawn(async move {
            // Others may write to the definition and to its objects at the same time.
            while let Err(error) = clean_up(&weak, &name, resource.as_ref()).await {
                let gone = matches!(error, ApiError::NotFound { .. } | ApiError::NoSuchPath);
                let Some(cluster) = weak.upgrade().filter(|cluster| !gone && !cluster.is_shutting_down()) else {
                    return;
                };
                tracing::info!(%error, %name, "the objects of a definition are not all gone yet");
                drop(cluster);
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

/// Deletes all objects of a kind, waits until the last one is gone, and takes the finalizer off its definition.
async fn clean_up(cluster: &Weak<Cluster>, name: &str, resource: Option<&Arc<Resource>>) -> Result<(), ApiError> {
    let terminating = |status, reason, message: &str| Condition::new("Terminating", status, reason, message);
    let done = match resource {
        None => terminating(false, "NeverEstablished", "resource was never established"),
        Some(resource) if is_built_in(cluster, resource)? => {
            terminating(false, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
        }
        Some(resource) => {
            let begun = terminating(true, "InstanceDeletionInProgress", "CustomResource deletion is in progress");
            say(cluster, name, &begun).await?;
            empty(cluster, resource).await?;
            terminating(false, "InstanceDeletionCompleted", "removed all instances")
        }
    };
    say(cluster, name, &done).await?;
    let Some(cluster) = cluster.upgrade() else { return Err(ApiError::NoSuchPath) };
    InternalClient(cluster).remove_finalizer(&definitions(), ("", name), CLEANUP_FINALIZER).await
}

fn is_built_in(cluster: &Weak<Cluster>, resource: &Resource) -> Result<bool, ApiError> {
    let Some(cluster) = cluster.upgrade() else { return Err(ApiError::NoSuchPath) };
    Ok(resource.collection().is_some_and(|collection| cluster.is_built_in(&collection.prefix)))
}

async fn say(cluster: &Weak<Cluster>, name: &str, condition: &Condition) -> Result<(), ApiError> {
    let Some(cluster) = cluster.upgrade() else { return Err(ApiError::NoSuchPath) };
    let now = cluster.now();
    let said = |definition: &Value| {
        let mut definition = definition.clone();
        set_condition(&mut definition, condition, now);
        definition
    };
    InternalClient(cluster).update_subresource(&definitions(), "status", ("", name), said).await.map(drop)
}

/// Deletes the objects of a kind until there are none.
async fn empty(cluster: &Weak<Cluster>, resource: &Arc<Resource>) -> Result<(), ApiError> {
    let (watch_cache, mut watcher) = {
        let Some(cluster) = cluster.upgrade() else { return Err(ApiError::NoSuchPath) };
        if cluster.is_built_in_group(&resource.group) {
            // They were never served.
            return Ok(());
        }
        let watch_cache = cluster.watch_cache(resource)?;
        let watcher = watch_cache.watch(WatchScope::All, cluster.catch_up().await?);
        (watch_cache, watcher)
    };
    loop {
        let Some(strong) = cluster.upgrade() else { return Err(ApiError::NoSuchPath) };
        delete_kind(&strong, resource).await?;
        drop(strong);
        if watch_cache.objects(KeyRange::All).next().is_none() {
            return Ok(());
        }
        // Something holds the last ones: a finalizer goes with the next change.
        if watcher.next().await.is_err() {
            return Err(ApiError::Internal("changes to them were missed".to_owned()));
        }
    }
}
