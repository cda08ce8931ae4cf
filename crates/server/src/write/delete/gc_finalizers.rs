//! The finalizers that tell the garbage collector what to do with dependents (upstream:
//! `deletionFinalizersForGarbageCollection`).

use pintle_registry::{DeletionPropagation, GarbageCollectionPolicy, Resource};
use pintle_value::Value;
use pintle_value::metadata::{FOREGROUND, ORPHAN};

use crate::request::query::DeleteOptions;

/// Adds or removes the garbage collector's finalizers of an object that is being deleted.
pub(super) fn set_gc_finalizers(hub: &Resource, object: &mut Value, options: &DeleteOptions) {
    let old = GcFinalizers::from_object(object);
    let wanted =
        match (hub.strategy.default_garbage_collection_policy(), options.propagation, options.orphan_dependents) {
            (GarbageCollectionPolicy::Unsupported, ..) => GcFinalizers::default(),
            (_, Some(policy), _) => GcFinalizers::for_policy(policy),
            (_, None, Some(orphan)) => GcFinalizers { orphan, foreground: false },
            // Without a policy from the client, existing finalizers take precedence over the kind's default.
            (default_policy, None, None) => GcFinalizers {
                orphan: old.orphan || (default_policy == GarbageCollectionPolicy::OrphanDependents && !old.foreground),
                ..old
            },
        };
    replace(object, old, wanted);
}

/// Adds or removes the garbage collector's finalizers in the first phase of a two-phase deletion. As in upstream, the
/// deprecated `orphanDependents: false` means foreground propagation here.
pub(super) fn set_gc_finalizers_two_phase(object: &mut Value, options: &DeleteOptions) {
    let old = GcFinalizers::from_object(object);
    let wanted = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => GcFinalizers { orphan, foreground: !orphan },
        (None, Some(policy)) => GcFinalizers::for_policy(policy),
        (None, None) => old,
    };
    replace(object, old, wanted);
}

/// The garbage collector's finalizers that an object has.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct GcFinalizers {
    orphan: bool,
    foreground: bool,
}

impl GcFinalizers {
    fn from_object(object: &Value) -> Self {
        let finalizers = object.items_at(&["metadata", "finalizers"]);
        let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
        Self { orphan: has(ORPHAN), foreground: has(FOREGROUND) }
    }

    fn for_policy(policy: DeletionPropagation) -> Self {
        Self { orphan: policy == DeletionPropagation::Orphan, foreground: policy == DeletionPropagation::Foreground }
    }
}

/// Replaces the garbage collector's finalizers of an object.
fn replace(object: &mut Value, old: GcFinalizers, wanted: GcFinalizers) {
    if old == wanted {
        return;
    }
    let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
    finalizers.retain(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND)));
    let added = [(wanted.orphan, ORPHAN), (wanted.foreground, FOREGROUND)];
    finalizers.extend(added.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, name)| Value::from(name)));
    if finalizers.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set_at(&["metadata", "finalizers"], finalizers);
    }
}
