//! What an update or an apply makes of the managers.

use std::sync::LazyLock;

use pintle_value::Value;
use pintle_value::time::Time;

use super::cap::cap_updaters;
use super::last_applied::unchanged_since;
use super::{Managed, Manager, Operation};
use crate::managers::{Conflict, Managers, UpdateError, Updater};
use crate::path::PathElement;
use crate::set::FieldSet;

/// The fields that nobody owns: what names an object, and what the server says of it.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let of_metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut set: FieldSet =
        ["apiVersion", "kind", "metadata"].into_iter().map(|name| [PathElement::field(name)]).collect();
    for name in of_metadata {
        set.insert(&[PathElement::field("metadata"), PathElement::field(name)]);
    }
    set
});

/// Who asks, through what, and when.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The field manager; upstream calls one without a name `unknown`.
    pub manager: &'r str,
    /// The version that the request is at (`apps/v1`).
    pub version: &'r str,
    /// The subresource, or empty.
    pub subresource: &'r str,
    /// The time of the request.
    pub now: Time,
}

impl Request<'_> {
    fn manager(&self, operation: Operation) -> Manager {
        let name = if self.manager.is_empty() { "unknown" } else { self.manager };
        Manager::new(name, operation, self.version, self.subresource)
    }
}

/// Keeps the managers of a kind of objects. The objects that it is given are at the version of the request and without
/// `managedFields`. It follows everyone from the creation on; who follows objects only from the first apply on would
/// take an update by `before-first-apply` from nothing to the live object first.
#[derive(Clone, Copy)]
pub struct Keeper<'v> {
    /// What to know of the kind.
    pub updater: Updater<'v>,
}

impl Keeper<'_> {
    /// The managers after an update made one object of another. The live object of a creation is the empty
    /// object as its type writes it.
    pub fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        request: &Request<'_>,
    ) -> Result<Managed, UpdateError<Manager>> {
        let Managed { managers, times } = managed;
        let this = Manager::current_operation();
        let managers = self.updater.update(live, new, request.version, managers, &this)?;
        let mut managed = Managed { managers, times };
        strip(&mut managed.managers, &this);
        // Only who changes something gets a new time.
        if let Some(mut owned) = managed.managers.remove(&this) {
            let manager = request.manager(Operation::Update);
            if let Some(before) = managed.managers.get(&manager) {
                owned.set = owned.set.union(&before.set);
            }
            managed.times.insert(manager.clone(), request.now);
            managed.managers.insert(manager, owned);
        }
        cap_updaters(&mut managed);
        forget_times(&mut managed);
        Ok(managed)
    }

    /// Applies a configuration. Returns the object, or `None` if it did not change, and the managers. `last_applied` is
    /// what the same user applied in the client before: what is still as it was then is no conflict.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        request: &Request<'_>,
        force: bool,
        last_applied: Option<&Value>,
    ) -> Result<(Option<Value>, Managed), UpdateError<Manager>> {
        let Managed { managers, mut times } = managed;
        let manager = request.manager(Operation::Apply);
        let apply = |managers, force| self.updater.apply(live, config, request.version, managers, &manager, force);
        let before = last_applied.map(|last| (last, managers.clone()));
        let (object, mut managers) = match (apply(managers, force), before) {
            (Err(UpdateError::Conflicts(conflicts)), Some((last, managers))) => {
                let left = self.unless_unchanged(conflicts, live, last, request.version);
                if !left.is_empty() {
                    return Err(UpdateError::Conflicts(left));
                }
                apply(managers, true)?
            }
            (applied, _) => applied?,
        };
        strip(&mut managers, &manager);
        if object.is_some() {
            times.insert(manager, request.now);
        }
        let mut managed = Managed { managers, times };
        forget_times(&mut managed);
        Ok((object, managed))
    }
}

impl Keeper<'_> {
    /// The conflicts about fields that are no longer as they were applied last.
    fn unless_unchanged(
        &self,
        mut conflicts: Vec<Conflict<Manager>>,
        live: &Value,
        last: &Value,
        version: &str,
    ) -> Vec<Conflict<Manager>> {
        let place = self.updater.versions.place(version);
        if let Some(unchanged) = place.and_then(|place| unchanged_since(place, last, live, version)) {
            conflicts.retain(|conflict| !unchanged.has(&conflict.path.0));
        }
        conflicts
    }
}

/// Forgets when those did something who own nothing any more.
fn forget_times(managed: &mut Managed) {
    managed.times.retain(|manager, _| managed.managers.contains_key(manager));
}

/// Takes from a manager what nobody owns.
fn strip(managers: &mut Managers<Manager>, manager: &Manager) {
    let Some(owned) = managers.get_mut(manager) else { return };
    owned.set.subtract(&NEVER_OWNED);
    if owned.set.is_empty() {
        managers.remove(manager);
    }
}
