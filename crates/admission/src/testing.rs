//! Scenarios for the tests of plugins: a write, the stored objects, and the plugin's result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use pintle_auth::{AlwaysAllow, Authorizer, UserInfo};
use pintle_gates::Gates;
use pintle_locks::Mutex;
use pintle_registry::{
    ApiError, BoxFuture, EquivalentResource, GroupResource, GroupVersionKind, ObjectClient, Registry, Resource,
    StoredObject, StoredObjects,
};
use pintle_value::{Value, object};
use pintle_versions::{EffectiveVersion, Minor};

use crate::matching::MatchingCache;
use crate::objects::NoObjects;
use crate::webhook::NoWebhooks;
use crate::{
    AdmissionAttributes, AdmissionOperation, AdmissionPlugin, AdmissionRecorder, NoReservations, ReinvocationContext,
    RequestOptions,
};

static RESOURCES: LazyLock<Vec<Arc<Resource>>> =
    LazyLock::new(|| pintle_kinds::all_resources(pintle_catalog::complete()));

/// The resources of the newest version, for kinds that the default version does not have.
static NEWEST_RESOURCES: LazyLock<Vec<Arc<Resource>>> =
    LazyLock::new(|| pintle_kinds::all_resources(pintle_catalog::complete_of(Minor::NEWEST)));

/// Parses JSON.
pub(crate) fn json(text: &str) -> Value {
    pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default()).expect("JSON").value
}

/// The default gates with some alpha or beta gates on.
pub(crate) fn gates(enabled: &[&str]) -> Gates {
    let overrides = enabled.iter().map(|name| ((*name).to_owned(), true)).collect();
    Gates::with_overrides(&overrides).expect("known features").0
}

/// The gates of another version with these features.
pub(crate) fn gates_of(minor: u8, enabled: &[&str]) -> Gates {
    let overrides = enabled.iter().map(|name| ((*name).to_owned(), true)).collect();
    let defaults = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    defaults.overridden(&overrides).expect("known features").0
}

/// A write of an object. Less important fields have defaults.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) operation: AdmissionOperation,
    pub(crate) resource: Arc<Resource>,
    pub(crate) subresource: &'static str,
    pub(crate) old: Option<Value>,
    /// The namespace of the request, if it is not the namespace of the object.
    pub(crate) namespace: Option<&'static str>,
    /// The object that a delete names, if it is not `old`.
    pub(crate) target: Option<Value>,
    pub(crate) user: UserInfo,
    pub(crate) dry_run: bool,
    /// Decides what plugins ask for; allows everything by default.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// The stored objects, of all kinds.
    pub(crate) stored: Vec<Value>,
    /// The stored objects that are not in the cache before a refresh.
    pub(crate) late: Vec<Value>,
    /// The objects that plugins have created.
    pub(crate) created: Arc<Mutex<Vec<Value>>>,
    /// The audit annotations that plugins have added. The first value of a key stays.
    pub(crate) annotations: Arc<Mutex<BTreeMap<String, String>>>,
    /// The resource whose objects cannot be read, or empty.
    pub(crate) unreadable: &'static str,
}

impl Scenario {
    fn of(operation: AdmissionOperation, group: &str, plural: &str) -> Self {
        let mut known = RESOURCES.iter().chain(NEWEST_RESOURCES.iter());
        let resource = known.find(|resource| resource.is(group, plural)).expect("a resource").clone();
        let (user, stored, created, annotations) = Default::default();
        Self {
            operation,
            resource,
            subresource: "",
            old: None,
            namespace: None,
            target: None,
            user,
            dry_run: false,
            authorizer: Arc::new(AlwaysAllow),
            stored,
            late: Vec::new(),
            created,
            annotations,
            unreadable: "",
        }
    }

    /// The create of an object.
    pub(crate) fn create(group: &str, plural: &str) -> Self {
        Self::of(AdmissionOperation::Create, group, plural)
    }

    /// The update of an object; `old` has to be set.
    pub(crate) fn update(group: &str, plural: &str) -> Self {
        Self::of(AdmissionOperation::Update, group, plural)
    }

    /// The delete of an object; `old` or `target` has to be set.
    pub(crate) fn delete(group: &str, plural: &str) -> Self {
        Self::of(AdmissionOperation::Delete, group, plural)
    }

    /// Runs a plugin's phase. Plugins wait for time only, and the time is simulated.
    fn run(&self, object: &Value, phase: impl AsyncFnOnce(&AdmissionAttributes<'_>) -> Outcome) -> Outcome {
        self.inspect(object, |attributes| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(phase(attributes))
        })
    }

    /// Shows the attributes of the write of an object.
    pub(crate) fn inspect<T>(&self, object: &Value, look: impl FnOnce(&AdmissionAttributes<'_>) -> T) -> T {
        let named = match object {
            Value::Null => self.target.as_ref().or(self.old.as_ref()).unwrap_or(object),
            object => object,
        };
        let client = Client {
            change: CHANGES.fetch_add(1 << 20, Ordering::Relaxed),
            stored: self.stored.clone(),
            late: self.late.clone(),
            is_refreshed: AtomicBool::new(false),
            created: self.created.clone(),
            unreadable: self.unreadable,
        };
        let recorder = Recorder(self.annotations.clone());
        let attributes = AdmissionAttributes {
            operation: self.operation,
            resource: &self.resource,
            subresource: self.subresource,
            namespace: self.namespace.unwrap_or_else(|| named.namespace()),
            name: named.name(),
            user: &self.user,
            options: &NoOptions,
            dry_run: self.dry_run,
            deadline: None,
            old: self.old.as_ref(),
            authorizer: &*self.authorizer,
            client: &client,
            recorder: &recorder,
            objects: &NoObjects,
            webhooks: &NoWebhooks,
            matching: MatchingCache::default(),
            reservations: &NoReservations,
            reinvocation: ReinvocationContext::default(),
        };
        look(&attributes)
    }

    /// Runs the mutating phase.
    pub(crate) fn mutate(&self, plugin: &dyn AdmissionPlugin, object: &mut Value) -> Outcome {
        let given = object.clone();
        self.run(&given, async |attributes| match plugin.handles(attributes) {
            true => plugin.mutate(attributes, object).await,
            false => Ok(()),
        })
    }

    /// Runs the validating phase.
    pub(crate) fn validate(&self, plugin: &dyn AdmissionPlugin, object: &Value) -> Outcome {
        self.run(object, async |attributes| match plugin.handles(attributes) {
            true => plugin.validate(attributes, object).await,
            false => Ok(()),
        })
    }

    /// Checks the result of the mutating phase: the object, or the text of the refusal.
    pub(crate) fn check_mutate(&self, plugin: &dyn AdmissionPlugin, mut object: Value, expect: Result<&Value, &str>) {
        let found = self.mutate(plugin, &mut object).map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map(|()| &object), expect.map_err(str::to_owned).as_ref().map(|object| *object));
    }

    /// Checks the result of the validating phase: success, or the text of the refusal.
    pub(crate) fn check_validate(&self, plugin: &dyn AdmissionPlugin, object: &Value, expect: Result<(), &str>) {
        let found = self.validate(plugin, object).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{object:?}");
    }
}

type Outcome = Result<(), ApiError>;

struct NoOptions;

impl RequestOptions for NoOptions {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        object! {"kind": "CreateOptions"}
    }
}

/// Keeps annotations.
struct Recorder(Arc<Mutex<BTreeMap<String, String>>>);

impl AdmissionRecorder for Recorder {
    fn warn(&self, _: String) {}

    fn annotate(&self, key: &str, value: String) {
        self.0.lock().entry(key.to_owned()).or_insert(value);
    }
}

/// Numbers the clients, so that each has other objects than all clients before it.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// The stored objects. Objects of a group and resource are told apart by their kind.
struct Client {
    /// The revision of the last change before the plugin runs.
    change: u64,
    stored: Vec<Value>,
    late: Vec<Value>,
    is_refreshed: AtomicBool,
    created: Arc<Mutex<Vec<Value>>>,
    unreadable: &'static str,
}

fn is_of(resource: &GroupResource, object: &Value) -> bool {
    RESOURCES.iter().any(|known| known.group_resource() == *resource && known.kind == object.kind())
}

impl ObjectClient for Client {
    fn read(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        if resource.resource == self.unreadable {
            return Err(ApiError::Internal("unreadable".to_owned()));
        }
        let is_wanted =
            |object: &&Value| is_of(resource, object) && object.namespace() == namespace && object.name() == name;
        let late = self.late.iter().filter(|_| self.is_refreshed.load(Ordering::Relaxed));
        Ok(self.stored.iter().chain(late).find(is_wanted).map(|object| Box::new(object.clone()) as _))
    }

    fn read_all(&self, resource: &GroupResource, namespace: &str) -> Result<StoredObjects, ApiError> {
        let is_wanted =
            |object: &&Value| is_of(resource, object) && (namespace.is_empty() || object.namespace() == namespace);
        let found: Vec<Value> = self.stored.iter().filter(is_wanted).cloned().collect();
        Ok(Box::new(found.into_iter().map(|object| Box::new(object) as _)))
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        self.is_refreshed.store(true, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }

    /// Every scenario has other objects.
    fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
        Ok(self.change + self.created.lock().len() as u64)
    }

    fn is_crd_terminating(&self, _: &Resource) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        RESOURCES.iter().find(|resource| resource.gvk() == *kind).cloned()
    }

    fn serves(&self, group: &str, version: &str) -> bool {
        RESOURCES.iter().any(|resource| resource.group == group && resource.version == version)
    }

    fn equivalent_resources(&self, resource: &Resource, subresource: &str) -> Vec<EquivalentResource> {
        Registry::new(RESOURCES.clone()).equivalent_resources(resource, subresource)
    }

    fn create<'a>(&'a self, _: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        self.created.lock().push(object.clone());
        Box::pin(async { Ok(object) })
    }

    fn update<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("no plugin updates an object");
    }

    fn update_status<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("no plugin updates a status");
    }

    fn delete<'a>(&'a self, _: &'a GroupResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        panic!("no plugin deletes an object");
    }
}
