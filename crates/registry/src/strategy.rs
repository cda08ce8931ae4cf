//! What a kind has of its own beyond data: defaults that are rules, validation, what an update may change,
//! conversion between versions, and hooks around a commit. One trait with a do-nothing default for each, so that a kind
//! says only what is special about it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pintle_gates::Gates;
use pintle_value::time::Time;
use pintle_value::{Errors, Str, Value};

use crate::{ApiError, GroupResource, ResetFields};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What rules may know of the request under way.
#[derive(Clone, Debug)]
pub struct StrategyContext {
    /// The time of the request.
    pub now: Time,
    /// The name of the user who asks.
    pub user: Str,
    /// The user's uid; mostly empty.
    pub uid: Str,
    /// The user's groups.
    pub groups: Vec<Str>,
    /// Further facts of the user, each with its values.
    pub extra: Vec<(Str, Vec<Str>)>,
    /// True if nothing will be stored.
    pub dry_run: bool,
    /// Which features are on.
    pub gates: Arc<Gates>,
}

impl StrategyContext {
    /// What is known of the request of someone of whom nothing but the name is known.
    #[must_use]
    pub fn of(user: impl Into<Str>, now: Time) -> Self {
        let (uid, groups, extra, gates) = Default::default();
        Self { now, user: user.into(), uid, groups, extra, dry_run: false, gates }
    }
}

/// How much work a check may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostBudget {
    /// Some milliseconds at most, for which others can wait.
    Limited,
    /// Whatever it takes.
    Unlimited,
}

/// The rules of a kind. All methods work on the tree at the hub version (the version that objects are stored at or, for
/// kinds whose versions are equals, that of the record that holds the behaviour),
/// normalised (see `schema::normalise`) and defaulted; `defaults`, `convert_to_hub` and `convert_from_hub` at the version of the record
/// that holds the behaviour.
///
/// Rules never panic on any tree whatever: a missing or mistyped field reads as absent.
pub trait Strategy: Send + Sync {
    /// Sets the defaults that are rules rather than data (upstream: `SetDefaults_*`). Runs after the `+default` values
    /// of the schema are set, on create, update, patch and (harmlessly) on objects that have them.
    fn defaults(&self, _object: &mut Value) {}

    /// Makes a tree an object of the kind, for kinds that are no Go structs: metadata as it is written, without what is
    /// not declared. Returns the paths of what that was (`spec.ports[0].nope`).
    ///
    /// # Errors
    /// It cannot be one, in upstream's words.
    fn prune_unknown_fields(&self, _object: &mut Value) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// Turns an object of this version into one of the hub version. Kind and apiVersion are set by the caller.
    fn convert_to_hub(&self, _object: &mut Value) {}

    /// Turns an object of the hub version into one of this version. Kind and apiVersion are set by the caller.
    fn convert_from_hub(&self, _object: &mut Value) {}

    /// Clears what a client may not set and sets what the server sets (upstream: `PrepareForCreate`); `generation`
    /// included, for the kinds that have one.
    fn prepare_for_create(&self, _context: &StrategyContext, _object: &mut Value) {}

    /// The same for an update of the object itself (upstream: `PrepareForUpdate`).
    fn prepare_for_update(&self, _context: &StrategyContext, _object: &mut Value, _old: &Value) {}

    /// Checks a new object; metadata is checked by the caller, its name with [`Strategy::validate_name`].
    fn validate(&self, _context: &StrategyContext, _object: &Value) -> Errors {
        Errors::new()
    }

    /// Checks a change (upstream: `ValidateUpdate`, which mostly validates the new object too). Metadata is checked by
    /// the caller.
    fn validate_update(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Changes the object into its canonical form after validation (upstream: `Canonicalize`).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Checks what is worth a look only once all else has been checked. `found` is what is wrong so far, for a new object
    /// with its metadata. Adds to it what is wrong, and returns what the client is told although it may stay. `None` if
    /// that takes more effort; then nothing has been added.
    fn validate_expensive(
        &self,
        _: &Value,
        _old: Option<&Value>,
        _found: &mut Errors,
        _: CostBudget,
    ) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    /// Warnings for the client (upstream: `WarningsOnCreate`, `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong with a name; with `prefix` it is a `generateName` that something will be added to.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_value::names::dns1123_subdomain_name(name, prefix)
    }

    /// True if PUT creates an object that is not there.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// True if an update without a resourceVersion overwrites whatever is there.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The rules of a subresource that writes the object (`status`, `ephemeralcontainers`, `approval`, …).
    fn subresource(&self, _name: &str) -> Option<&dyn SubresourceStrategy> {
        None
    }

    /// The fields that a write through the object itself (with an empty name) or through a subresource does not set.
    /// Asked of kinds with a status only: most keep it from the one, and their spec from the other.
    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => ResetFields::These(&["spec"]),
            _ => ResetFields::These(&["status"]),
        }
    }

    /// Selectable fields with the object's values, beside `metadata.name` and `metadata.namespace`; for kinds that name
    /// them with [`Strategy::selectable_field_names`].
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, Str)> {
        Vec::new()
    }

    /// The names of the selectable fields of a kind that is written in Rust, beside `metadata.name` and
    /// `metadata.namespace`. Its record has them too, as that of any kind.
    fn selectable_field_names(&self) -> &[&'static str] {
        &[]
    }

    /// What a stored object has in its selectable fields, in the order of their places
    /// ([`crate::SelectableField::place`]).
    fn selected_values(&self, object: &Value) -> Vec<Str> {
        let mut values = self.selectable_fields(object);
        let value = |name: &&str| {
            let found = values.iter_mut().find(|(of, _)| of == name);
            found.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
        };
        self.selectable_field_names().iter().map(value).collect()
    }

    /// True if objects can also be selected by `metadata.namespace`; every kind's can by `metadata.name`.
    fn is_selected_by_namespace(&self) -> bool {
        true
    }

    /// What is said to who selects by a field that there is not.
    fn field_not_supported(&self, field: &str) -> String {
        if self.selectable_field_names().is_empty() {
            let field = pintle_value::field::quote(field);
            return format!("{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
        }
        format!("field label not supported: {field}")
    }

    /// The paths of what [`Strategy::selected_values`] looks at, which need not be given more of an object than that.
    fn selectable_field_sources(&self) -> Vec<&str> {
        self.selectable_field_names().to_vec()
    }

    /// The path of a field that names an object's shard for cheap watches (`spec.nodeName`), if there is one.
    fn indexed_field(&self) -> Option<&'static str> {
        None
    }

    /// How a delete is carried out in two steps, for the kinds that are deleted gracefully.
    fn graceful_deletion(&self) -> Option<&dyn GracefulDeletion> {
        None
    }

    /// What happens around a commit, for the kinds that allocate.
    fn allocation(&self) -> Option<&dyn AllocationHooks> {
        None
    }

    /// True if objects written at this version are validated by this record's rules instead of the hub's.
    fn validates_own_version(&self) -> bool {
        false
    }

    /// True for kinds whose objects expire a while after their last write (upstream: `TTLFunc`).
    fn expires(&self) -> bool {
        false
    }

    /// True if nothing but its metadata's finalizers keeps a terminating object alive (a namespace has finalizers of
    /// its own).
    fn is_finalized(&self, _object: &Value) -> bool {
        true
    }

    /// How deletion begins, for the kinds whose objects are marked first in a way of their own.
    fn two_phase_deletion(&self) -> Option<&dyn TwoPhaseDeletion> {
        None
    }

    /// What happens to dependents when a delete does not say.
    fn dependents(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::Deleted
    }

    /// What someone is told who deletes and does not say what is to happen to dependents.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Why nobody may delete the object of this name, if so. Asked of deletes of that one object only.
    fn delete_forbidden(&self, _name: &str) -> Option<&'static str> {
        None
    }
}

/// The behaviour of a kind without rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultStrategy;

impl Strategy for DefaultStrategy {}

/// The rules of a subresource whose PUT and PATCH write the object that it belongs to.
pub trait SubresourceStrategy: Send + Sync {
    /// Takes over from the old object what this subresource may not change.
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value);

    /// Checks the change.
    fn validate_update(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Checks what is worth a look only once all else has been checked, as [`Strategy::validate_expensive`] does.
    fn validate_expensive(&self, _: &Value, _old: &Value, _found: &mut Errors, _: CostBudget) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    /// Warnings for the client (upstream: `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }
}

/// What happens to the dependents of an object that goes (upstream: `GarbageCollectionDeleteStrategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollectionPolicy {
    /// They go too.
    Deleted,
    /// They stay: so it is for the few kinds that are older than garbage collection.
    Orphaned,
    /// There are none, whatever a delete says.
    None,
}

/// Deletion that begins with a mark (upstream: the kinds whose storage has a `Delete` of its own). The first delete marks
/// the object, which then has no grace period and keeps its generation; only the second one goes the usual way.
pub trait TwoPhaseDeletion: Send + Sync {
    /// Marks an object beyond its `deletionTimestamp`, which it has by then.
    fn mark(&self, object: &mut Value);

    /// True if the first delete settles what happens to dependents, too.
    fn decides_propagation(&self) -> bool {
        false
    }

    /// True while a marked object is left as it is, whoever deletes it again.
    fn is_deletion_pending(&self, _object: &Value) -> bool {
        false
    }
}

/// Deletion in two steps: first a grace period, then removal (upstream: `RESTGracefulDeleteStrategy`).
pub trait GracefulDeletion: Send + Sync {
    /// Settles the grace period; 0 means at once. `None`: the kind is not deleted gracefully in this case.
    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64>;
}

/// One write as a hook around its commit sees it.
#[derive(Debug)]
pub enum WriteOperation<'a> {
    /// A new object.
    Create(&'a mut Value),
    /// A change.
    Update {
        /// The new object.
        object: &'a mut Value,
        /// The one before.
        old: &'a Value,
    },
    /// A removal.
    Delete(&'a Value),
}

/// Hooks of kinds that allocate (Service: IP addresses and node ports). `begin` runs when the object is otherwise ready
/// to be stored, before validation, and may change it; then exactly one of `commit` or `revert` runs, with the ticket
/// that `begin` returned. A dry run always ends with `revert`.
pub trait AllocationHooks: Send + Sync {
    /// Takes what the object needs.
    fn begin<'a>(
        &'a self,
        context: &'a StrategyContext,
        objects: &'a dyn ObjectClient,
        write: WriteOperation<'a>,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// The write was stored.
    fn commit<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()>;

    /// The write was not stored.
    fn revert<'a>(&'a self, objects: &'a dyn ObjectClient, ticket: Value) -> BoxFuture<'a, ()>;
}

/// Access to other objects of the cluster, at the version that they are stored at, for hooks, admission and controllers.
pub trait ObjectClient: Send + Sync {
    /// The object of this name, or `None`. `namespace` is empty for cluster-scoped resources.
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Result<Option<Value>, ApiError>;

    /// All objects, of one namespace or (with an empty one) of all.
    fn list(&self, resource: &GroupResource, namespace: &str) -> Result<Vec<Value>, ApiError>;

    /// Stores a new object as the server itself: defaults, validation, no admission.
    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Replaces an object as the server itself; its resourceVersion, where set, must match.
    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Deletes an object as anyone would who says nothing more than that.
    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}
