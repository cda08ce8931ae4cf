//! The field manager: computes the managed fields after an update or an apply (upstream: apimachinery's
//! `util/managedfields/internal`).

use std::sync::LazyLock;

use pintle_value::Value;
use pintle_value::time::Time;

use super::cap_managers::cap_update_managers;
use super::entries::entry;
use super::last_applied::fields_unchanged_since;
use super::{Managed, Manager, Operation};
use crate::merge::{Conflict, ManagedFields, UpdateError, Updater};
use crate::typed::{AddedFields, Without};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Filter};

/// Fields that are never owned: they identify the object, or the server sets them.
static STRIPPED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata_fields = [
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
    for name in metadata_fields {
        set.insert(&[PathElement::field("metadata"), PathElement::field(name)]);
    }
    set
});

/// The manager, version, subresource and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct FieldManagerRequest<'r> {
    /// The name of the field manager. An empty name becomes `unknown`, as in upstream.
    pub manager: &'r str,
    /// The version of the request (`apps/v1`).
    pub version: &'r str,
    /// The subresource, or empty.
    pub subresource: &'r str,
    /// The time of the request.
    pub now: Time,
}

impl FieldManagerRequest<'_> {
    fn manager(&self, operation: Operation) -> Manager {
        Manager::new(self.manager_name(), operation, self.version, self.subresource)
    }

    fn manager_name(&self) -> &str {
        if self.manager.is_empty() { "unknown" } else { self.manager }
    }
}

/// Computes the managed fields of objects of one kind. The objects must be at the version of the request; the entries
/// that they contain themselves do not count. Ownership is tracked from the creation on. A caller may start to track an
/// object at its first apply. Then it must first call `update` as `before-first-apply`, from nothing to the live
/// object.
#[derive(Clone, Copy)]
pub struct FieldManager<'v> {
    /// The updater for the kind.
    pub updater: Updater<'v>,
}

impl FieldManager<'_> {
    /// Returns `metadata.managedFields` for the create of an object that was sent without them. `empty` is the empty
    /// object as its type encodes it. The result equals the result of [`Self::update`], but no field set is made.
    /// `None` if the caller has to call [`Self::update`].
    #[must_use]
    pub fn create(&self, empty: &Value, new: &Value, request: &FieldManagerRequest<'_>) -> Option<Vec<Value>> {
        let converter = self.updater.converter;
        let excluded = match converter.ignore_filter(request.version) {
            None => None,
            Some(Filter::Exclude(fields)) => Some(fields),
            Some(Filter::Include(_)) => return None,
        };
        let without = Without { unowned: Some(&STRIPPED_FIELDS), excluded };
        match converter.type_ref(request.version)?.added_fields(empty, new, without) {
            AddedFields::None => Some(Vec::new()),
            AddedFields::Text(fields) => {
                let (name, fields) = (request.manager_name(), Value::Object(fields.into()));
                let (version, subresource) = (request.version, request.subresource);
                Some(vec![entry(name, Operation::Update, version, subresource, fields, Some(request.now))])
            }
            AddedFields::Unknown => None,
        }
    }

    /// Returns the managers after an update. For a creation, `live` is the empty object as its type encodes it.
    pub fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        request: &FieldManagerRequest<'_>,
    ) -> Result<Managed, UpdateError<Manager>> {
        let Managed { managers, times } = managed;
        let this = Manager::current_operation();
        let managers = self.updater.update(live, new, request.version, managers, &this)?;
        let mut managed = Managed { managers, times };
        strip_fields(&mut managed.managers, &this);
        // Only a manager that changes something gets a new time.
        if let Some(mut owned) = managed.managers.remove(&this) {
            let manager = request.manager(Operation::Update);
            if let Some(before) = managed.managers.get(&manager) {
                owned.set = before.set.union(&owned.set);
            }
            managed.times.insert(manager.clone(), request.now);
            managed.managers.insert(manager, owned);
        }
        cap_update_managers(&mut managed);
        retain_times(&mut managed);
        Ok(managed)
    }

    /// Applies a configuration. Returns the managers and the new object, or `None` if the object did not change.
    /// `last_applied` is the configuration of the user's last client-side apply: fields that still have its values do
    /// not conflict.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        request: &FieldManagerRequest<'_>,
        force: bool,
        last_applied: Option<&Value>,
    ) -> Result<(Option<Value>, Managed), UpdateError<Manager>> {
        let Managed { managers, mut times } = managed;
        let manager = request.manager(Operation::Apply);
        let apply = |managers, force| self.updater.apply(live, config, request.version, managers, &manager, force);
        let before = last_applied.map(|last| (last, managers.clone()));
        let (object, mut managers) = match (apply(managers, force), before) {
            (Err(UpdateError::Conflicts(conflicts)), Some((last, managers))) => {
                let left = self.conflicts_not_from_last_applied(conflicts, live, last, request.version);
                if !left.is_empty() {
                    return Err(UpdateError::Conflicts(left));
                }
                apply(managers, true)?
            }
            (applied, _) => applied?,
        };
        strip_fields(&mut managers, &manager);
        if object.is_some() {
            times.insert(manager, request.now);
        }
        let mut managed = Managed { managers, times };
        retain_times(&mut managed);
        Ok((object, managed))
    }
}

impl FieldManager<'_> {
    /// Returns the conflicts about fields that differ from the last applied configuration.
    fn conflicts_not_from_last_applied(
        &self,
        mut conflicts: Vec<Conflict<Manager>>,
        live: &Value,
        last: &Value,
        version: &str,
    ) -> Vec<Conflict<Manager>> {
        let type_ref = self.updater.converter.type_ref(version);
        if let Some(unchanged) = type_ref.and_then(|type_ref| fields_unchanged_since(type_ref, last, live, version)) {
            conflicts.retain(|conflict| !unchanged.has(&conflict.path.0));
        }
        conflicts
    }
}

/// Drops the times of managers that own nothing.
fn retain_times(managed: &mut Managed) {
    managed.times.retain(|manager, _| managed.managers.contains_key(manager));
}

/// Removes from a manager's set the fields that are never owned.
fn strip_fields(managers: &mut ManagedFields<Manager>, manager: &Manager) {
    let Some(owned) = managers.get_mut(manager) else { return };
    owned.set.subtract(&STRIPPED_FIELDS);
    if owned.set.is_empty() {
        managers.remove(manager);
    }
}
