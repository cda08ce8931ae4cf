//! The CRD controller's knowledge of the stored CRDs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use pintle_cache::{KeyRange, LoadedCache, Object};
use pintle_extensions::{build_resources, discovery_order, is_approval_current, is_condition_true};
use pintle_registry::{CrdSource, Resource};
use pintle_value::threads::map_parallel;
use pintle_value::{Str, Value, object};
use pintle_versions::EffectiveVersion;

use super::source::{StoredCrd, without_schemas};
use crate::objects::versioned_tree;

/// The prefix of stored CRDs.
pub const CRDS_PREFIX: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// A CRD at one revision.
pub(super) struct Crd {
    /// Its group and its accepted names, in the form that `next_status` reads.
    pub(super) names: Arc<Value>,
    pub(super) uid: Str,
    pub(super) source: Arc<StoredCrd>,
    pub(super) revision: u64,
    /// The prefix of its objects.
    pub(super) prefix: Str,
    pub(super) records: Vec<Arc<Resource>>,
    /// The inputs from which the records are made.
    record_inputs: Value,
    /// True if its names are accepted, or were accepted once.
    pub(super) is_accepted: bool,
    /// True if its status is up to date.
    pub(super) is_settled: bool,
    /// True while its objects are being deleted.
    pub(super) is_cleaning_up: bool,
}

impl Crd {
    fn new(crd: &Value, source: Arc<StoredCrd>, revision: u64) -> Self {
        let names = object! {
            "spec": object! { "group": crd.str_at(&["spec", "group"]) },
            "status": object! { "acceptedNames": crd["status"]["acceptedNames"].clone() },
        };
        let names_accepted = is_condition_true(crd, "NamesAccepted");
        let established = is_condition_true(crd, "Established");
        let is_accepted = names_accepted || established;
        let record_inputs = object! {
            "fingerprint": source.fingerprint(),
            "names": names["status"].clone(),
            "terminating": is_condition_true(crd, "Terminating"),
            "accepted": is_accepted,
            "established": established,
        };
        let wanted = crd.at(&["spec", "names"]);
        let has_all_names = pintle_value::same(wanted, crd.at(&["status", "acceptedNames"]));
        Self {
            record_inputs,
            names: Arc::new(names),
            uid: crd.uid().into(),
            revision,
            prefix: pintle_extensions::key_prefix(crd),
            records: build_resources(crd, &(source.clone() as Arc<dyn CrdSource>)),
            is_accepted,
            is_settled: has_all_names
                && names_accepted
                && established
                && is_approval_current(crd)
                && !crd.is_terminating(),
            source,
            is_cleaning_up: false,
        }
    }

    pub(super) fn group(&self) -> &str {
        self.names.str_at(&["spec", "group"])
    }
}

/// All CRDs by name.
pub(super) struct Crds {
    /// The version of the server.
    served_by: EffectiveVersion,
    by_name: BTreeMap<Str, Crd>,
    /// The names of each group's CRDs. The name of a CRD contains its group, so a CRD never changes its group.
    groups: BTreeMap<Str, BTreeSet<Str>>,
}

impl Crds {
    /// No CRDs.
    pub(super) fn new(served_by: EffectiveVersion) -> Self {
        Self { served_by, by_name: BTreeMap::new(), groups: BTreeMap::new() }
    }

    /// Reads all stored CRDs. There may be many megabytes of them and the start of the server waits, so all processors
    /// share the work.
    pub(super) fn load(loaded: &LoadedCache, served_by: EffectiveVersion) -> Self {
        let Some(watch_cache) = loaded.watch_cache(CRDS_PREFIX) else { return Self::new(served_by) };
        let objects: Vec<Arc<Object>> = watch_cache.objects(KeyRange::All).collect();
        let read = |object: &Arc<Object>| {
            let mut crd = without_schemas(&object.json)?;
            crd.set_at(&["metadata", "resourceVersion"], object.revision.to_string());
            let source = Arc::new(StoredCrd::new(&crd, Bytes::copy_from_slice(&object.json), served_by));
            Some((Str::from(object.name()), Crd::new(&crd, source, object.revision)))
        };
        let read = |object: &Arc<Object>| {
            // One CRD must not keep the others from being served.
            let read = catch_unwind(AssertUnwindSafe(|| read(object))).unwrap_or_default();
            if read.is_none() {
                let key = format!("{CRDS_PREFIX}/{}", object.name());
                tracing::error!(key, "Failed to read a stored CustomResourceDefinition");
            }
            read
        };
        let mut crds = Self::new(served_by);
        for (name, crd) in map_parallel(&objects, &read).into_iter().flatten() {
            crds.insert(name, crd);
        }
        crds
    }

    fn insert(&mut self, name: Str, crd: Crd) {
        self.groups.entry(crd.group().into()).or_default().insert(name.clone());
        self.by_name.insert(name, crd);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Str, &Crd)> {
        self.by_name.iter()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Crd> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Crd> {
        self.by_name.get_mut(name)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Crd> {
        let removed = self.by_name.remove(name)?;
        if let Some(names) = self.groups.get_mut(removed.group()) {
            names.remove(name);
            if names.is_empty() {
                self.groups.remove(removed.group());
            }
        }
        Some(removed)
    }

    /// The names of the CRDs that are not among the stored ones.
    pub(super) fn missing(&self, stored: &[Arc<Object>]) -> Vec<Str> {
        let stored: HashSet<&str> = stored.iter().map(|object| object.name()).collect();
        self.by_name.keys().filter(|name| !stored.contains(name.as_str())).cloned().collect()
    }

    /// Records a stored CRD, unless a newer revision of it is known. Returns true if its records have changed.
    pub(super) fn record(&mut self, object: &Object) -> bool {
        let known = self.by_name.get(object.name());
        if let Some(known) = known.filter(|known| known.revision >= object.revision) {
            if known.revision == object.revision {
                known.source.set_json(Bytes::copy_from_slice(&object.json));
            }
            return false;
        }
        let Some(crd) = versioned_tree(object) else {
            tracing::error!(name = object.name(), "Failed to decode a CustomResourceDefinition");
            return false;
        };
        let source = match known.filter(|known| known.source.has_generation_of(&crd)) {
            Some(known) => {
                known.source.set_json(Bytes::copy_from_slice(&object.json));
                known.source.clone()
            }
            None => Arc::new(StoredCrd::new(&crd, Bytes::copy_from_slice(&object.json), self.served_by)),
        };
        self.replace(&crd, source, object.revision)
    }

    /// Replaces a CRD. Returns true if its records have changed.
    pub(super) fn replace(&mut self, crd: &Value, source: Arc<StoredCrd>, revision: u64) -> bool {
        let name: Str = crd.name().into();
        let mut new = Crd::new(crd, source, revision);
        let Some(old) = self.remove(&name) else {
            self.insert(name, new);
            return true;
        };
        let changed = new.record_inputs != old.record_inputs;
        if !changed {
            new.records = old.records;
        }
        // By now another CRD may have the name, if the deletion of the first CRD was missed.
        new.is_cleaning_up = old.is_cleaning_up && new.uid == old.uid;
        self.insert(name, new);
        changed
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Str> {
        self.groups.keys()
    }

    /// The CRDs of a group, by name.
    fn of_group(&self, group: &str) -> impl Iterator<Item = (&Str, &Crd)> {
        let names = self.groups.get(group).into_iter().flatten();
        names.filter_map(|name| self.by_name.get_key_value(name))
    }

    /// The records of a group, in the order of discovery.
    pub(super) fn records(&self, group: &str) -> Vec<Arc<Resource>> {
        let mut records: Vec<_> = self.of_group(group).flat_map(|(_, crd)| crd.records.iter().cloned()).collect();
        records.sort_by(|a, b| discovery_order(a, b));
        records
    }

    /// The group and the accepted names of every other CRD of a group.
    pub(super) fn names_of_others(&self, group: &str, name: &str) -> Vec<Arc<Value>> {
        let others = self.of_group(group).filter(|(other, _)| *other != name);
        others.map(|(_, crd)| crd.names.clone()).collect()
    }

    /// The CRDs of a group whose status is not up to date. They may wait for names.
    pub(super) fn unsettled(&self, group: &str) -> Vec<Str> {
        let unsettled = self.of_group(group).filter(|(_, crd)| !crd.is_settled);
        unsettled.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use pintle_versions::Minor;

    use super::*;

    fn crd(uid: &str) -> Value {
        object! {
            "metadata": object! { "name": "things.example.com", "uid": uid },
            "spec": object! { "group": "example.com", "names": object! { "plural": "things" } },
        }
    }

    #[test]
    fn a_clean_up_belongs_to_one_crd() {
        let version = EffectiveVersion::of(Minor::DEFAULT);
        let mut crds = Crds::new(version);
        let mut replace = |uid: &str, revision: u64| {
            let crd = crd(uid);
            let source = Arc::new(StoredCrd::new(&crd, "{}".into(), version));
            crds.replace(&crd, source, revision);
            let known = crds.get_mut("things.example.com").expect("a CRD");
            std::mem::replace(&mut known.is_cleaning_up, true)
        };
        assert!(!replace("a", 1));
        assert!(replace("a", 2), "the clean-up goes on");
        assert!(!replace("b", 3), "its predecessor was cleaned up");
    }
}
