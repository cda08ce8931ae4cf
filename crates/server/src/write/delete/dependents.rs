//! What is to happen to dependents, as finalizers say it to the garbage collector (upstream:
//! `deletionFinalizersForGarbageCollection`).

use pintle_registry::{DeletionPropagation, GarbageCollectionPolicy, Resource};
use pintle_value::Value;
use pintle_value::metadata::{FOREGROUND, ORPHAN};

use crate::request::query::DeleteOptions;

/// Adds or removes the finalizers that make the garbage collector look after an object's dependents.
pub(super) fn settle(hub: &Resource, object: &mut Value, options: &DeleteOptions) {
    let old = Wanted::of(object);
    let wanted = match (hub.strategy.dependents(), options.propagation, options.orphan_dependents) {
        (GarbageCollectionPolicy::None, ..) => Wanted::default(),
        (_, Some(policy), _) => Wanted::by(policy),
        (_, None, Some(orphan)) => Wanted { orphan, foreground: false },
        // Without a word from the client, a finalizer that is there already decides.
        (by_default, None, None) => {
            Wanted { orphan: old.orphan || (by_default == GarbageCollectionPolicy::Orphaned && !old.foreground), ..old }
        }
    };
    replace(object, old, wanted);
}

/// The same for an object that is marked first. Upstream takes the old way to say that dependents go for a wish to wait
/// for them here.
pub(super) fn set_finalizers_at_mark(object: &mut Value, options: &DeleteOptions) {
    let old = Wanted::of(object);
    let wanted = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => Wanted { orphan, foreground: !orphan },
        (None, Some(policy)) => Wanted::by(policy),
        (None, None) => old,
    };
    replace(object, old, wanted);
}

/// Which of the finalizers there are to be.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Wanted {
    orphan: bool,
    foreground: bool,
}

impl Wanted {
    fn of(object: &Value) -> Self {
        let finalizers = object.items_at(&["metadata", "finalizers"]);
        let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
        Self { orphan: has(ORPHAN), foreground: has(FOREGROUND) }
    }

    fn by(policy: DeletionPropagation) -> Self {
        Self { orphan: policy == DeletionPropagation::Orphan, foreground: policy == DeletionPropagation::Foreground }
    }
}

fn replace(object: &mut Value, old: Wanted, wanted: Wanted) {
    if old == wanted {
        return;
    }
    let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
    finalizers.retain(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND)));
    let added = [(wanted.orphan, ORPHAN), (wanted.foreground, FOREGROUND)];
    finalizers.extend(added.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| Value::from(name)));
    if finalizers.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set_at(&["metadata", "finalizers"], finalizers);
    }
}
