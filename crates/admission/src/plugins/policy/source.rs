//! The policies of one type with their bindings: first the policies of files, then the stored ones. The stored policies
//! follow the stored objects. Unchanged objects are neither decoded nor compiled again (upstream:
//! `policy/generic/policy_source.go`, `composite_policy_source.go`).

use std::collections::HashMap;
use std::sync::Arc;

use pintle_locks::RwLock;
use pintle_registry::{ApiError, GroupResource, StoredObjects};
use pintle_value::{Str, Value};

use super::GROUP;
use super::bindings::{Binding, PolicyBindings};
use super::definition::{StoredPolicy, is_policy};
use crate::AdmissionAttributes;
use crate::manifest::{ManifestTarget, StaticObjects};
use crate::matching::{Matching, MatchingList, RequestMatcher, is_review};

/// A policy that has bindings.
#[derive(Debug)]
pub(super) struct Hook<P> {
    pub(super) policy: Arc<P>,
    pub(super) bindings: PolicyBindings,
}

impl<P: StoredPolicy> Matching for Hook<P> {
    fn matcher(&self) -> Option<&RequestMatcher> {
        self.policy.definition().matcher.as_ref()
    }
}

/// Objects by the revision of their last write. A revision of several objects identifies none of them.
type ByRevision<T> = HashMap<u64, Option<Arc<T>>>;

/// The policies and bindings that were read last.
#[derive(Debug)]
struct Snapshot<P> {
    policy_revision: u64,
    binding_revision: u64,
    policies: ByRevision<P>,
    bindings: ByRevision<Binding>,
    hooks: Arc<MatchingList<Hook<P>>>,
}

/// The policies of one type.
#[derive(Debug)]
pub(super) struct PolicySource<P> {
    policies: GroupResource,
    bindings: GroupResource,
    snapshot: RwLock<Option<Arc<Snapshot<P>>>>,
    of_files: StaticObjects<MatchingList<Hook<P>>>,
}

/// The policies that may see requests of a kind, in the order in which they run. The policies of files come first.
#[derive(Debug)]
pub(super) struct Hooks<P> {
    of_files: Option<Arc<MatchingList<Hook<P>>>>,
    stored: Option<Arc<MatchingList<Hook<P>>>>,
}

impl<P> Hooks<P> {
    /// The policies that may be for a request, in order.
    pub(super) fn candidates(&self, attributes: &AdmissionAttributes<'_>) -> impl Iterator<Item = &Hook<P>> {
        let lists = self.of_files.iter().chain(&self.stored);
        lists.flat_map(|hooks| hooks.candidates(attributes)).map(|(_, hook)| hook)
    }
}

impl<P: StoredPolicy + Send + Sync> ManifestTarget for PolicySource<P> {
    fn set_of_files(&self, objects: &[Value]) {
        let is_binding = |object: &&Value| object.kind().ends_with("Binding");
        let bindings: Vec<Arc<Binding>> =
            objects.iter().filter(is_binding).map(|object| Arc::new(Binding::of(object))).collect();
        let policies = objects.iter().filter(|object| !is_binding(object)).map(|object| Arc::new(P::of(object)));
        let hooks = policies.map(|policy| {
            let own = bindings.iter().filter(|binding| binding.policy == policy.definition().name);
            let mut by_policy = PolicyBindings::default();
            own.for_each(|binding| by_policy.push(binding.clone()));
            Hook { policy, bindings: by_policy }
        });
        self.of_files.set(hooks.collect());
    }
}

impl<P: StoredPolicy> PolicySource<P> {
    pub(super) fn new(policies: &str, bindings: &str) -> Self {
        Self {
            policies: GroupResource::new(GROUP, policies),
            bindings: GroupResource::new(GROUP, bindings),
            snapshot: RwLock::new(None),
            of_files: StaticObjects::default(),
        }
    }

    /// True if a policy may be for a request, or if the policies cannot be read. A failed read is an error of every
    /// request.
    pub(super) fn concerns(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let concerns = |hook: &Hook<P>| hook.policy.definition().concerns(attributes);
        !is_review(&attributes.resource.group, &attributes.resource.plural)
            && self.hooks(attributes).map_or(true, |hooks| hooks.candidates(attributes).any(concerns))
    }

    /// The present policies that may see a request and have bindings.
    ///
    /// # Errors
    /// The policies cannot be read.
    pub(super) fn hooks(&self, attributes: &AdmissionAttributes<'_>) -> Result<Hooks<P>, ApiError> {
        let stored = (!is_policy(attributes)).then(|| self.stored(attributes)).transpose()?;
        Ok(Hooks { of_files: self.of_files.get(), stored })
    }

    /// The stored policies that have bindings, in the order of their names.
    fn stored(&self, attributes: &AdmissionAttributes<'_>) -> Result<Arc<MatchingList<Hook<P>>>, ApiError> {
        let client = attributes.client;
        // The revisions are read before the objects. So the objects may be newer than the revisions, but never older.
        let revisions = (client.last_change(&self.policies)?, client.last_change(&self.bindings)?);
        let known = self.snapshot.read().clone();
        if let Some(snapshot) = &known
            && snapshot.policy_revision >= revisions.0
            && snapshot.binding_revision >= revisions.1
        {
            return Ok(snapshot.hooks.clone());
        }
        // The lock is not held, because the read may have to compile. Concurrent requests do the same work.
        let known = known.as_deref();
        let (policies, by_revision) =
            read(client.read_all(&self.policies, "")?, known.map(|known| &known.policies), P::of)?;
        let (bindings, bindings_by_revision) =
            read(client.read_all(&self.bindings, "")?, known.map(|known| &known.bindings), Binding::of)?;
        let mut by_policy: HashMap<Str, PolicyBindings> = HashMap::new();
        for binding in bindings {
            by_policy.entry(binding.policy.clone()).or_default().push(binding);
        }
        let hooks = policies.into_iter().filter_map(|policy| {
            let bindings = by_policy.remove(&policy.definition().name)?;
            Some(Hook { policy, bindings })
        });
        let hooks = Arc::new(hooks.collect::<MatchingList<_>>());
        let (policy_revision, binding_revision) = revisions;
        let snapshot = Snapshot {
            policy_revision,
            binding_revision,
            policies: by_revision,
            bindings: bindings_by_revision,
            hooks: hooks.clone(),
        };
        let mut kept = self.snapshot.write();
        let is_as_new = |kept: &Arc<Snapshot<P>>| {
            kept.policy_revision >= policy_revision && kept.binding_revision >= binding_revision
        };
        if !kept.as_ref().is_some_and(is_as_new) {
            let replaced = kept.replace(Arc::new(snapshot));
            drop(kept);
            drop(replaced);
        }
        Ok(hooks)
    }
}

/// Reads objects in the order of their names. Objects of a known revision are not decoded again.
fn read<T>(
    stored: StoredObjects,
    known: Option<&ByRevision<T>>,
    read: impl Fn(&Value) -> T,
) -> Result<(Vec<Arc<T>>, ByRevision<T>), ApiError> {
    let mut all = Vec::new();
    let mut by_revision = ByRevision::new();
    for object in stored {
        let revision = object.revision();
        let known = known.and_then(|known| known.get(&revision)).and_then(Option::as_ref);
        let read = match known {
            Some(known) => known.clone(),
            None => Arc::new(read(&object.decode()?)),
        };
        by_revision.entry(revision).and_modify(|known| *known = None).or_insert_with(|| Some(read.clone()));
        all.push(read);
    }
    Ok((all, by_revision))
}
