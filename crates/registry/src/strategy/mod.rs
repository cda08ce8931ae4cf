//! Strategies: the rules of a kind that are code (upstream: `registry/rest`). Examples are computed defaults,
//! validation, conversion between versions and hooks around a commit. Every method has a default, so a kind implements
//! only its special rules. The parts that few kinds have are traits of their own, which [`Strategy`] returns.

mod allocation;
mod cluster_validation;
mod declarative;
mod deletion;
mod objects;
mod subresource;
mod unserved_version;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pintle_gates::{Change, Gates};
use pintle_value::metadata::MissingFields;
use pintle_value::time::Time;
use pintle_value::{Errors, Str, Value};
use pintle_versions::Minor;

pub use allocation::{AllocationHooks, AllocationProblem, AllocationRepair, WriteOperation};
pub use cluster_validation::{
    ClusterValidation, EscalationCheck, RequiredAccess, ValidatedWrite, VirtualAccess, WriteAccess,
};
pub use declarative::{DeclarativeValidation, DeclarativeWrite};
pub use deletion::{GarbageCollectionPolicy, GracefulDeletion, TwoPhaseDeletion};
pub use objects::{ObjectClient, StoredObject, StoredObjects};
pub use subresource::SubresourceStrategy;
pub use unserved_version::UnservedVersion;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The facts about a request that strategies may use.
#[derive(Clone, Debug)]
pub struct StrategyContext {
    /// The time of the request.
    pub now: Time,
    /// The name of the user.
    pub user: Str,
    /// The uid of the user; often empty.
    pub uid: Str,
    /// The groups of the user.
    pub groups: Vec<Str>,
    /// The extra fields of the user info, each with its values.
    pub extra: Vec<(Str, Vec<Str>)>,
    /// True if nothing is stored.
    pub dry_run: bool,
    /// The feature gates.
    pub gates: Arc<Gates>,
    /// Whether pods may have privileged containers (`--allow-privileged`).
    pub allow_privileged: bool,
}

impl StrategyContext {
    /// The version of Kubernetes that the server is.
    #[must_use]
    pub fn minor(&self) -> Minor {
        self.gates.version().binary()
    }

    /// The form of errors about missing fields of metadata and conditions.
    #[must_use]
    pub fn missing_fields(&self) -> MissingFields {
        missing_fields(&self.gates)
    }

    /// The context of a request by a user with this name and without groups.
    #[must_use]
    pub fn for_user(user: impl Into<Str>, now: Time) -> Self {
        let (uid, groups, extra, gates) = Default::default();
        Self { now, user: user.into(), uid, groups, extra, dry_run: false, gates, allow_privileged: true }
    }
}

/// The form of errors about missing fields of metadata and conditions, in the version of these gates.
#[must_use]
pub fn missing_fields(gates: &Gates) -> MissingFields {
    if gates.has(Change::PRECISE_METADATA_ERRORS) { MissingFields::Required } else { MissingFields::Invalid }
}

/// The maximum cost of a validation with CEL rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostBudget {
    /// At most several milliseconds, so that the validation can run without a thread of its own.
    Limited,
    /// No limit.
    Unlimited,
}

/// The rules of a kind. `defaults`, `convert_to_hub` and `convert_from_hub` work on objects at the version of the
/// strategy's [`crate::Resource`]. All other methods work on objects at the hub version. This is the storage version
/// or, for custom resources, the version of that resource. These objects are normalised (see `schema::normalise`) and
/// defaulted.
///
/// **Invariant:** a strategy never panics, whatever the object. It treats a missing or mistyped field as absent.
pub trait Strategy: Send + Sync {
    // Decoding, defaults and versions.

    /// Sets the defaults that need code (upstream: `SetDefaults_*`). Runs after the `+default` values of the schema are
    /// set, on create, update and patch. Must be idempotent.
    fn defaults(&self, _object: &mut Value) {}

    /// Sets the defaults of an object that was made by changing `live`. The caller guarantees that `live` has its own
    /// defaults. So parts that both share in memory ([`Value::shares_members`]) need no defaults.
    fn defaults_of_changed(&self, object: &mut Value, _live: &Value) {
        self.defaults(object);
    }

    /// Prunes the fields of a custom resource that its schema does not declare, and coerces its metadata. Returns the
    /// paths of the pruned fields (`spec.ports[0].nope`).
    ///
    /// # Errors
    /// Returns upstream's error message if the object cannot be decoded as its kind.
    fn prune_unknown_fields(&self, _object: &mut Value) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// Brings a custom resource that an apply has merged into the form of a decoded object, except that nulls stay for
    /// validation. Malformed metadata fields are dropped.
    ///
    /// # Errors
    /// Returns upstream's error message if the object cannot be decoded as its kind.
    fn decode_merged(&self, _object: &mut Value) -> Result<(), String> {
        Ok(())
    }

    /// Converts an object from this version to the hub version. The caller sets kind and apiVersion. When the object is
    /// stored, the caller also sets the defaults of the hub version. A conversion sets no defaults, because a field
    /// that an apply has pruned would come back.
    fn convert_to_hub(&self, _object: &mut Value) {}

    /// Converts an object from the hub version to this version. The caller sets kind and apiVersion.
    fn convert_from_hub(&self, _object: &mut Value) {}

    /// The versions in which objects may be stored although they are not served. Only versions whose defaults or fields
    /// differ from this version's are listed. Upstream's kube-apiserver stores objects in the first version that can be
    /// written, and otherwise in a served version.
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[]
    }

    /// True if the strategy of this version, instead of the hub version's strategy, validates objects written at this
    /// version.
    fn validates_own_version(&self) -> bool {
        false
    }

    // Preparation and validation.

    /// Clears the fields that clients may not set, and sets the fields that the server sets (upstream:
    /// `PrepareForCreate` and `PrepareForUpdate`). The latter include `generation` for kinds that have it. An update of
    /// the object itself has an old object.
    fn prepare_write(&self, _context: &StrategyContext, _object: &mut Value, _old: Option<&Value>) {}

    /// [`Strategy::prepare_write`] of a new object.
    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        self.prepare_write(context, object, None);
    }

    /// [`Strategy::prepare_write`] of an update.
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        self.prepare_write(context, object, Some(old));
    }

    /// True if the type of a new object is valid. If not, its metadata is not validated, because upstream reports only
    /// the errors of its type.
    fn has_valid_type(&self, _object: &Value) -> bool {
        true
    }

    /// Returns the errors of a name. With `prefix`, the name is a `generateName`, to which a suffix will be added.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_value::names::dns1123_subdomain_name(name, prefix)
    }

    /// Returns the errors of the name or the `generateName` of a new object, if they depend on the object or on feature
    /// gates.
    fn validate_object_name(&self, _gates: &Gates, _object: &Value, name: &str, prefix: bool) -> Vec<String> {
        self.validate_name(name, prefix)
    }

    /// Validates a new object, or an update of an old one (upstream: `Validate` and `ValidateUpdate`). The caller
    /// validates the metadata, and the name of a new object with [`Strategy::validate_name`].
    fn validate_write(&self, _context: &StrategyContext, _object: &Value, _old: Option<&Value>) -> Errors {
        Errors::new()
    }

    /// [`Strategy::validate_write`] of a new object.
    fn validate(&self, context: &StrategyContext, object: &Value) -> Errors {
        self.validate_write(context, object, None)
    }

    /// [`Strategy::validate_write`] of an update.
    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        self.validate_write(context, object, Some(old))
    }

    /// Whether an option that the kind's declarative rules name is enabled for a write: a feature gate, or a field of
    /// the old object that depends on it.
    fn has_option(&self, gates: &Gates, option: &str, _old: Option<&Value>) -> bool {
        gates.is_enabled_by_name(option)
    }

    /// The fields of objects at the hub version whose members belong to the owner of the field at other versions, such
    /// as `exactly` in `requests[0].exactly.count`. Paths of errors differ by them.
    fn inlined_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Runs the expensive validations (CEL rules), after all other validations. `errors` contains all earlier errors,
    /// for a new object including the errors of its metadata. New errors are added to it. Returns warnings. Returns
    /// `None` and adds nothing if the budget does not suffice.
    fn validate_expensive(
        &self,
        _: &Value,
        _old: Option<&Value>,
        _errors: &mut Errors,
        _: CostBudget,
    ) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    /// The validation of creates and updates of the object itself that depends on the cluster, for kinds that have such
    /// a validation.
    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        None
    }

    /// The check that a write grants no permissions that its user does not hold, for kinds that grant permissions.
    fn escalation_check(&self) -> Option<EscalationCheck> {
        None
    }

    /// Brings the object into its canonical form after validation (upstream: `Canonicalize`).
    fn canonicalize(&self, _object: &mut Value) {}

    /// Warnings for the client (upstream: `WarningsOnCreate`, `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    // Policies of writes, and subresources.

    /// True for kinds whose objects expire a certain time after their last write (upstream: `TTLFunc`).
    fn has_ttl(&self) -> bool {
        false
    }

    /// The hooks around a commit, for kinds that allocate.
    fn allocation(&self) -> Option<&dyn AllocationHooks> {
        None
    }

    /// The strategy of a subresource that writes the object (`status`, `ephemeralcontainers`, `approval`, …).
    fn subresource(&self, _name: &str) -> Option<&dyn SubresourceStrategy> {
        None
    }

    // Field selectors.

    /// The selectable fields with the values of an object, without `metadata.name` and `metadata.namespace`. By
    /// default, the names are the paths of strings.
    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, Str)> {
        let text = |name: &str| Str::from(object.str_at(&name.split('.').collect::<Vec<_>>()));
        self.selectable_field_names().iter().map(|name| (*name, text(name))).collect()
    }

    /// The names of the selectable fields of a built-in kind, without `metadata.name` and `metadata.namespace`.
    /// [`crate::Resource::selectable`] contains the names for all kinds.
    fn selectable_field_names(&self) -> &[&'static str] {
        &[]
    }

    /// The values of the selectable fields of a stored object, in the order of [`crate::SelectableField::index`].
    fn selectable_field_values(&self, object: &Value) -> Vec<Str> {
        let mut values = self.selectable_fields(object);
        let value = |name: &&str| {
            let field = values.iter_mut().find(|(field, _)| field == name);
            field.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
        };
        self.selectable_field_names().iter().map(value).collect()
    }

    /// The paths of the fields that [`Strategy::selectable_field_values`] reads. It needs only these fields of an
    /// object.
    fn selectable_field_sources(&self) -> Vec<&str> {
        self.selectable_field_names().to_vec()
    }

    /// True if objects can be selected by `metadata.namespace`. All kinds can be selected by `metadata.name`.
    fn is_selectable_by_namespace(&self) -> bool {
        true
    }

    /// The error message for an unsupported field selector.
    fn unsupported_field_message(&self, field: &str) -> String {
        if self.selectable_field_names().is_empty() {
            let field = pintle_value::field::quote(field);
            return format!("{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
        }
        format!("field label not supported: {field}")
    }

    /// The path of the selectable field that indexes watches (`spec.nodeName`), if there is one.
    fn indexed_field(&self) -> Option<&'static str> {
        None
    }

    // Deletion.

    /// The strategy of graceful deletion, for kinds that have a grace period.
    fn graceful_deletion(&self) -> Option<&dyn GracefulDeletion> {
        None
    }

    /// The strategy of two-phase deletion, for kinds that have one.
    fn two_phase_deletion(&self) -> Option<&dyn TwoPhaseDeletion> {
        None
    }

    /// True if only the finalizers of an object's metadata can keep the terminating object. A namespace also has
    /// `spec.finalizers`.
    fn is_finalized(&self, _object: &Value) -> bool {
        true
    }

    /// The treatment of dependents if a delete has no propagation policy (upstream: `DefaultGarbageCollectionPolicy`).
    fn default_garbage_collection_policy(&self) -> GarbageCollectionPolicy {
        GarbageCollectionPolicy::DeleteDependents
    }

    /// The warning for a delete without a propagation policy.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// The reason why the object with this name must not be deleted, if so. Not called for deletecollection.
    fn delete_forbidden(&self, _name: &str) -> Option<&'static str> {
        None
    }
}

/// The strategy of a kind without rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultStrategy;

impl Strategy for DefaultStrategy {}
