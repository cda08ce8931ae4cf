//! Strategies: the rules of a kind that are code (upstream: `registry/rest`). Examples are computed defaults,
//! validation, conversion between versions and hooks around a commit. Every method has a default, so a kind implements
//! only its special rules.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use memchr::memmem::Finder;
use pintle_codec::json::Projection;
use pintle_gates::Gates;
use pintle_value::time::Time;
use pintle_value::{Errors, Str, Value};

use crate::{ApiError, EquivalentResource, GroupResource, GroupVersionKind, ResetFields, Resource};

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
    /// The context of a request by a user with this name and without groups.
    #[must_use]
    pub fn for_user(user: impl Into<Str>, now: Time) -> Self {
        let (uid, groups, extra, gates) = Default::default();
        Self { now, user: user.into(), uid, groups, extra, dry_run: false, gates, allow_privileged: true }
    }
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

    /// Clears the fields that clients may not set, and sets the fields that the server sets (upstream:
    /// `PrepareForCreate`). The latter include `generation` for kinds that have it.
    fn prepare_for_create(&self, _context: &StrategyContext, _object: &mut Value) {}

    /// Like [`Strategy::prepare_for_create`], for an update of the object itself (upstream: `PrepareForUpdate`).
    fn prepare_for_update(&self, _context: &StrategyContext, _object: &mut Value, _old: &Value) {}

    /// Validates a new object (upstream: `Validate`). The caller validates the metadata, and the name with
    /// [`Strategy::validate_name`].
    fn validate(&self, _context: &StrategyContext, _object: &Value) -> Errors {
        Errors::new()
    }

    /// Validates an update, usually including the new object (upstream: `ValidateUpdate`). The caller validates the
    /// metadata.
    fn validate_update(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Brings the object into its canonical form after validation (upstream: `Canonicalize`).
    fn canonicalize(&self, _object: &mut Value) {}

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

    /// Warnings for the client (upstream: `WarningsOnCreate`, `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
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

    /// True if PUT creates an object that does not exist (upstream: `AllowCreateOnUpdate`).
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// True if an update without a resourceVersion overwrites any revision (upstream: `AllowUnconditionalUpdate`).
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// The strategy of a subresource that writes the object (`status`, `ephemeralcontainers`, `approval`, …).
    fn subresource(&self, _name: &str) -> Option<&dyn SubresourceStrategy> {
        None
    }

    /// The fields that a write through a subresource resets (upstream: `GetResetFields`). An empty name is the object
    /// itself. Only called for kinds with a status subresource.
    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => ResetFields::Paths(&["spec"]),
            _ => ResetFields::Paths(&["status"]),
        }
    }

    /// The selectable fields with the values of an object, without `metadata.name` and `metadata.namespace`.
    /// Implemented together with [`Strategy::selectable_field_names`].
    fn selectable_fields(&self, _object: &Value) -> Vec<(&'static str, Str)> {
        Vec::new()
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

    /// The paths of the fields that [`Strategy::selectable_field_values`] reads. It needs only these fields of an
    /// object.
    fn selectable_field_sources(&self) -> Vec<&str> {
        self.selectable_field_names().to_vec()
    }

    /// The path of the selectable field that indexes watches (`spec.nodeName`), if there is one.
    fn indexed_field(&self) -> Option<&'static str> {
        None
    }

    /// The strategy of graceful deletion, for kinds that have a grace period.
    fn graceful_deletion(&self) -> Option<&dyn GracefulDeletion> {
        None
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

    /// The hooks around a commit, for kinds that allocate.
    fn allocation(&self) -> Option<&dyn AllocationHooks> {
        None
    }

    /// True if the type of a new object is valid. If not, its metadata is not validated, because upstream reports only
    /// the errors of its type.
    fn has_valid_type(&self, _object: &Value) -> bool {
        true
    }

    /// True if the strategy of this version, instead of the hub version's strategy, validates objects written at this
    /// version.
    fn validates_own_version(&self) -> bool {
        false
    }

    /// The versions in which objects may be stored although they are not served. Only versions whose defaults or fields
    /// differ from this version's are listed. Upstream's kube-apiserver stores objects in the first version that can be
    /// written, and otherwise in a served version.
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[]
    }

    /// True for kinds whose objects expire a certain time after their last write (upstream: `TTLFunc`).
    fn has_ttl(&self) -> bool {
        false
    }

    /// True if only the finalizers of an object's metadata can keep the terminating object. A namespace also has
    /// `spec.finalizers`.
    fn is_finalized(&self, _object: &Value) -> bool {
        true
    }

    /// The strategy of two-phase deletion, for kinds that have one.
    fn two_phase_deletion(&self) -> Option<&dyn TwoPhaseDeletion> {
        None
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

/// The check of a write of a kind that grants permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscalationCheck {
    /// A role: the user holds its rules, or may `escalate` the role.
    Role,
    /// A binding: the user holds the rules of its role, or may `bind` the role.
    Binding,
    /// An admission policy: the user can get all objects of its `paramKind`. Part of the validation.
    ParamKind,
    /// A binding of an admission policy: the user can read the objects of its `paramRef`. Part of the validation.
    ParamRef {
        /// The resource of the policy, in the group of the binding.
        policies: &'static str,
    },
}

/// The strategy of a kind without rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultStrategy;

impl Strategy for DefaultStrategy {}

/// The rules of a subresource whose PUT and PATCH write the parent object.
pub trait SubresourceStrategy: Send + Sync {
    /// Resets the fields that this subresource may not change to their values in the old object (upstream:
    /// `PrepareForUpdate`).
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value);

    /// Validates the update (upstream: `ValidateUpdate`).
    fn validate_update(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Errors {
        Errors::new()
    }

    /// Runs the expensive validations; see [`Strategy::validate_expensive`].
    fn validate_expensive(&self, _: &Value, _old: &Value, _errors: &mut Errors, _: CostBudget) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    /// The part of the validation that depends on the cluster; see [`Strategy::cluster_validation`].
    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        None
    }

    /// Warnings for the client (upstream: `WarningsOnUpdate`).
    fn warnings(&self, _context: &StrategyContext, _object: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The members of an object whose content most patches of this subresource neither change nor read. The objects in
    /// them are decoded on first use.
    fn seldom_used(&self) -> &'static [&'static str] {
        &[]
    }
}

/// The part of a validation that depends on the cluster (upstream: strategies that have a client or an authorizer). It
/// depends on other objects, or on other permissions of the user. Its errors come before the errors of the object.
pub trait ClusterValidation: Send + Sync {
    /// Validates a write after its preparation. This includes writes of the server itself.
    fn validate<'a>(&'a self, write: ValidatedWrite<'a>) -> BoxFuture<'a, Errors>;
}

/// A write for [`ClusterValidation`].
#[derive(Clone, Copy)]
pub struct ValidatedWrite<'a> {
    /// The facts about the request.
    pub context: &'a StrategyContext,
    /// The new object.
    pub object: &'a Value,
    /// The old object of an update.
    pub old: Option<&'a Value>,
    /// Access to the other objects.
    pub client: &'a dyn ObjectClient,
    /// The other permissions of the user.
    pub access: &'a dyn WriteAccess,
}

/// The permissions of a write's user in addition to the write. The server itself may do everything.
pub trait WriteAccess: Send + Sync {
    /// The verb of the request: `create`, `update` or `patch`.
    fn verb(&self) -> &str;

    /// Checks an access to the resource of the write. The error is upstream's message for a forbidden request.
    fn check<'a>(&'a self, access: RequiredAccess<'a>) -> BoxFuture<'a, Result<(), String>>;

    /// Checks an access to a virtual resource.
    fn allows_virtual<'a>(&'a self, access: VirtualAccess<'a>) -> BoxFuture<'a, bool>;
}

/// An access to a virtual resource, which exists only in permissions (`signers`). It is cluster-scoped, and in the
/// group of the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAccess<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The name.
    pub name: &'a str,
}

/// An access to the resource of a write. Verb and subresource need not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredAccess<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace; empty for all namespaces.
    pub namespace: &'a str,
    /// The name; empty for all names.
    pub name: &'a str,
}

/// The default treatment of the dependents of a deleted object (upstream: `GarbageCollectionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollectionPolicy {
    /// The garbage collector deletes the dependents.
    DeleteDependents,
    /// The garbage collector orphans the dependents. Only for kinds that are older than garbage collection.
    OrphanDependents,
    /// The kind has no dependents. The propagation policy of a delete is ignored.
    Unsupported,
}

/// Two-phase deletion (upstream: kinds whose storage implements `Delete` itself, such as Namespace and
/// CustomResourceDefinition). The first delete marks the object as terminating, without a grace period and without a
/// new generation. Later deletes are ordinary deletes.
pub trait TwoPhaseDeletion: Send + Sync {
    /// Sets the kind's own fields of a terminating object. The caller has set `deletionTimestamp`.
    fn mark_terminating(&self, object: &mut Value);

    /// True if the first delete sets the finalizers of the propagation policy.
    fn sets_propagation_finalizers(&self) -> bool {
        false
    }

    /// True while further deletes leave a terminating object unchanged.
    fn is_deletion_pending(&self, _object: &Value) -> bool {
        false
    }
}

/// Graceful deletion: first a grace period, then removal (upstream: `RESTGracefulDeleteStrategy`).
pub trait GracefulDeletion: Send + Sync {
    /// Determines the grace period in seconds; 0 means immediate removal. `requested` is the grace period of the delete
    /// options. Returns `None` if the object is not deleted gracefully.
    fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64>;
}

/// One write for the allocation hooks.
#[derive(Debug)]
pub enum WriteOperation<'a> {
    /// A create.
    Create(&'a mut Value),
    /// An update.
    Update {
        /// The new object.
        object: &'a mut Value,
        /// The old object.
        old: &'a Value,
    },
    /// A delete.
    Delete(&'a Value),
}

/// A version of a kind that is stored, but not served. The facts of the catalog name all such versions. This value
/// contains the version's own defaults and conversions. The caller sets kind and apiVersion.
#[derive(Clone, Copy, Debug)]
pub struct UnservedVersion {
    /// The group and version.
    pub api_version: &'static str,
    /// Sets the defaults that differ from the served version's defaults (upstream: `SetDefaults_*`) and converts the
    /// object to the served version.
    pub to_served: fn(&mut Value),
    /// Whether the defaults of the served version are set afterwards. True if this version has the same defaults, or
    /// has already set its own.
    pub has_served_defaults: bool,
    /// Converts an object of the served version. `None` for a version that is only read.
    pub from_served: Option<fn(&mut Value)>,
}

impl UnservedVersion {
    /// A version that is only read.
    #[must_use]
    pub const fn read(api_version: &'static str, to_served: fn(&mut Value)) -> Self {
        Self { api_version, to_served, has_served_defaults: true, from_served: None }
    }

    /// A version that is only read. Of the served version's defaults, it has only the defaults that `to_served` sets.
    #[must_use]
    pub const fn read_without_defaults(api_version: &'static str, to_served: fn(&mut Value)) -> Self {
        Self { has_served_defaults: false, ..Self::read(api_version, to_served) }
    }
}

/// Allocation hooks of a kind (Service: IP addresses and node ports; upstream: `BeginCreate`, `BeginUpdate`). `begin`
/// runs after admission and preparation, before validation, and may change the object. Then at most one of `commit` and
/// `revert` runs, with the allocation that `begin` returned. If it is unknown whether the write is stored, neither
/// runs, so that the repair decides. A dry run always ends with `revert`.
pub trait AllocationHooks: Send + Sync {
    /// Allocates the values for the write. Returns the allocation, in a form that only the hooks interpret.
    ///
    /// # Errors
    /// Returns an error if the allocation fails.
    fn begin<'a>(
        &'a self,
        context: &'a StrategyContext,
        client: &'a dyn ObjectClient,
        write: WriteOperation<'a>,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Commits the allocation, because the write was stored.
    fn commit<'a>(&'a self, client: &'a dyn ObjectClient, allocation: Value) -> BoxFuture<'a, ()>;

    /// Reverts the allocation, because the write was not stored.
    fn revert<'a>(&'a self, client: &'a dyn ObjectClient, allocation: Value) -> BoxFuture<'a, ()>;

    /// Reads the allocations of servers that share the store, and records this server's allocations and releases.
    fn sync<'a>(&'a self, client: &'a dyn ObjectClient) -> BoxFuture<'a, Result<(), ApiError>>;

    /// Repairs the allocations, given all objects of the kind, which are read while the repair runs. It allocates
    /// values that an object has without an allocation. It releases values that no object has had in several repairs in
    /// a row. [`sync`](Self::sync) runs before and after it.
    fn repair(&self, objects: &mut dyn Iterator<Item = Value>) -> AllocationRepair;
}

/// The outcome of a repair of allocations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationRepair {
    /// The problems of objects.
    pub problems: Vec<AllocationProblem>,
    /// The leaked values that are released.
    pub released: Vec<String>,
}

/// A problem that a repair of allocations found. An event about the object reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocationProblem {
    /// The object.
    pub object: Value,
    /// The reason of the event.
    pub reason: &'static str,
    /// The message of the event.
    pub message: String,
}

/// A stored object. It is decoded only on demand.
pub trait StoredObject: Send + Sync {
    /// The revision of the last write.
    fn revision(&self) -> u64;

    /// The labels.
    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;

    /// The object with its resourceVersion.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    fn decode(&self) -> Result<Value, ApiError>;

    /// The selected fields only. This costs less than decoding the whole object.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    fn decode_fields(&self, fields: &Projection) -> Result<Value, ApiError>;

    /// False if this text is nowhere in the object, neither in a name nor in a value.
    fn may_contain(&self, text: &Finder<'_>) -> bool;
}

/// An object that is already decoded.
impl StoredObject for Value {
    fn revision(&self) -> u64 {
        self.resource_version().parse().unwrap_or_default()
    }

    fn labels(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        let labels = self.entries_at(&["metadata", "labels"]);
        Box::new(labels.filter_map(|(key, value)| Some((key, value.as_str()?))))
    }

    fn decode(&self) -> Result<Value, ApiError> {
        Ok(self.clone())
    }

    fn decode_fields(&self, _: &Projection) -> Result<Value, ApiError> {
        Ok(self.clone())
    }

    fn may_contain(&self, _: &Finder<'_>) -> bool {
        true
    }
}

/// Stored objects, read while they are iterated over.
pub type StoredObjects = Box<dyn Iterator<Item = Box<dyn StoredObject>> + Send>;

/// Access to the objects of the cluster at their storage version, for allocation hooks, admission and controllers.
pub trait ObjectClient: Send + Sync {
    /// Reads an object without decoding it. Returns `None` if the object does not exist. `namespace` is empty for
    /// cluster-scoped resources.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read.
    fn read(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError>;

    /// Reads the objects of a namespace, or of all namespaces if `namespace` is empty, without decoding them.
    ///
    /// # Errors
    /// Returns an error if an object cannot be read.
    fn read_all(&self, resource: &GroupResource, namespace: &str) -> Result<StoredObjects, ApiError>;

    /// Gets an object. Returns `None` if the object does not exist. `namespace` is empty for cluster-scoped resources.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read.
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        self.read(resource, namespace, name)?.map(|object| object.decode()).transpose()
    }

    /// Lists the objects of a namespace, or of all namespaces if `namespace` is empty.
    ///
    /// # Errors
    /// Returns an error if an object cannot be read.
    fn list(&self, resource: &GroupResource, namespace: &str) -> Result<Vec<Value>, ApiError> {
        self.read_all(resource, namespace)?.map(|object| object.decode()).collect()
    }

    /// The revision of the last change of any object of a resource. Values derived from the objects are valid until
    /// this revision changes.
    ///
    /// # Errors
    /// Returns an error if the resource is not served.
    fn last_change(&self, resource: &GroupResource) -> Result<u64, ApiError>;

    /// Reads the record of allocated numbers with this name, and its revision; `None` if there is none (upstream:
    /// `RangeAllocation`).
    fn range_allocation<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<(Value, u64)>, ApiError>> {
        Box::pin(async { Ok(None) })
    }

    /// Writes the record with this name if it still has this revision, or if it still does not exist. Returns the new
    /// revision, or `None` if another server has written the record. A client without a store keeps no record.
    fn set_range_allocation<'a>(
        &'a self,
        _name: &'a str,
        _record: Value,
        _revision: Option<u64>,
    ) -> BoxFuture<'a, Result<Option<u64>, ApiError>> {
        Box::pin(async { Ok(Some(0)) })
    }

    /// Waits until reads see everything that was committed before the call, also by other servers that share the store.
    /// After this, callers look again for objects that they did not find.
    fn refresh(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    /// True if the stored CRD of a resource is terminating. [`Resource::terminating`] follows it a little later.
    ///
    /// # Errors
    /// The CRD does not exist any more.
    fn is_crd_terminating(&self, resource: &Resource) -> Result<bool, ApiError>;

    /// The served resource for a kind at a version, if there is one.
    fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>>;

    /// True if this group and version is served.
    fn serves(&self, group: &str, version: &str) -> bool;

    /// The other resources that serve the same objects ([`Registry::equivalent_resources`](crate::Registry)).
    fn equivalent_resources(&self, _resource: &Resource, _subresource: &str) -> Vec<EquivalentResource> {
        Vec::new()
    }

    /// Creates an object as the server itself. Defaults, admission and validation apply.
    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Updates an object as the server itself. Its resourceVersion must match if it is set.
    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Updates the status of an object as the server itself, through its subresource. Its resourceVersion must match if
    /// it is set.
    fn update_status<'a>(
        &'a self,
        resource: &'a GroupResource,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// Deletes an object as the server itself, with default options.
    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}
