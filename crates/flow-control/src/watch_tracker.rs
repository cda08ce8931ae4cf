//! Counts the watches that may get the event of a write (upstream: `watch_tracker.go`).

use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use pintle_locks::Mutex;
use pintle_value::Str;

/// The objects of a watch or of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WatchTarget<'r> {
    /// The group of the resource.
    pub group: &'r str,
    /// The plural name of the resource.
    pub resource: &'r str,
    /// The namespace, or empty.
    pub namespace: &'r str,
    /// The object's name, or empty.
    pub name: &'r str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OwnedTarget {
    group: Str,
    resource: Str,
    namespace: Str,
    name: Str,
}

impl Equivalent<OwnedTarget> for WatchTarget<'_> {
    fn equivalent(&self, key: &OwnedTarget) -> bool {
        let OwnedTarget { group, resource, namespace, name } = key;
        self.name == name && self.namespace == namespace && self.resource == resource && self.group == group
    }
}

impl From<&WatchTarget<'_>> for OwnedTarget {
    fn from(target: &WatchTarget<'_>) -> Self {
        let WatchTarget { group, resource, namespace, name } = target;
        Self {
            group: (*group).into(),
            resource: (*resource).into(),
            namespace: (*namespace).into(),
            name: (*name).into(),
        }
    }
}

type Counts = Arc<Mutex<HashMap<OwnedTarget, u64>>>;

/// The number of watches by target.
#[derive(Debug, Default)]
pub struct WatchTracker {
    counts: Counts,
}

/// A counted watch. Dropping this forgets it.
#[derive(Debug)]
pub struct TrackedWatch {
    counts: Counts,
    target: OwnedTarget,
}

impl WatchTracker {
    /// Counts a watch. `node_name` is the value that its field selector requires of `spec.nodeName`. Watches of the pods
    /// of one node are not counted: a write wakes at most one of them.
    #[must_use]
    pub fn track(&self, target: &WatchTarget<'_>, node_name: Option<&str>) -> Option<TrackedWatch> {
        if target.resource == "pods" && node_name.is_some_and(|name| !name.is_empty()) {
            return None;
        }
        let target = OwnedTarget::from(target);
        *self.counts.lock().entry(target.clone()).or_default() += 1;
        Some(TrackedWatch { counts: self.counts.clone(), target })
    }

    /// The number of watches of a written object: of its resource, of its namespace, and of the object itself.
    #[must_use]
    pub fn interested(&self, target: &WatchTarget<'_>) -> u64 {
        let counts = self.counts.lock();
        let count = |target: &WatchTarget<'_>| counts.get(target).copied().unwrap_or_default();
        let of_resource = WatchTarget { namespace: "", name: "", ..*target };
        let of_namespace = WatchTarget { name: "", ..*target };
        let mut interested = count(&of_resource);
        if !target.namespace.is_empty() {
            interested += count(&of_namespace);
        }
        if !target.name.is_empty() {
            interested += count(target);
        }
        interested
    }
}

impl Drop for TrackedWatch {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.target) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_interest_the_watches_of_their_objects() {
        let tracker = WatchTracker::default();
        let target = |resource, namespace, name| WatchTarget { group: "", resource, namespace, name };
        let track = |resource, namespace, name, node| tracker.track(&target(resource, namespace, name), node);
        let watches = [
            track("pods", "", "", None),
            track("pods", "", "", Some("")),
            track("pods", "a", "", None),
            track("pods", "a", "p", None),
            track("pods", "b", "", None),
            track("pods", "", "", Some("node")),
            track("configmaps", "", "", Some("node")),
        ];
        let check = |resource, namespace, name, expect| {
            assert_eq!(tracker.interested(&target(resource, namespace, name)), expect, "{resource} {namespace} {name}");
        };
        check("pods", "a", "p", 4);
        check("pods", "a", "q", 3);
        check("pods", "a", "", 3);
        check("pods", "", "", 2);
        check("configmaps", "a", "c", 1);
        drop(watches);
        check("pods", "a", "p", 0);
        assert!(tracker.counts.lock().is_empty());
    }
}
