//! The write of an object as admission plugins see it, for the targets that run plugins.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pintle_admission::matching::MatchingCache;
use pintle_admission::objects::{Decoding, ObjectInterfaces};
use pintle_admission::webhook::WebhookCaller;
use pintle_admission::{
    AdmissionAttributes, AdmissionOperation, AdmissionPlugin, AdmissionRecorder, NoReservations, ReinvocationContext,
    RequestOptions,
};
use pintle_auth::{AlwaysAllow, UserInfo};
use pintle_codec::json::{self, DecodeOptions};
use pintle_extensions::build_resources;
use pintle_registry::{
    ApiError, BoxFuture, CostBudget, EquivalentResource, GroupResource, GroupVersionKind, ObjectClient, Registry,
    Resource, StoredObject, StoredObjects, StrategyContext,
};
use pintle_server::fuzzing::RegistryObjects;
use pintle_value::time::Time;
use pintle_value::{Value, object};

use super::schema::crd_source;

/// A future that is polled more often than this counts as endless.
const MAX_POLLS: usize = 1_000;

/// Parses JSON that is part of this program.
pub(super) fn parse(text: &str) -> Value {
    json::decode(text.as_bytes(), DecodeOptions::default()).expect("JSON").value
}

/// The kinds whose objects are written, each with a small object.
pub(super) struct Fixture {
    pub(super) objects: RegistryObjects,
    pub(super) kinds: Vec<(Arc<Resource>, Value)>,
}

const CRD: &str = r#"{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","singular":"widget","listKind":"WidgetList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"integer","default":3},"b":{"type":"string","maxLength":9},"c":{"x-kubernetes-int-or-string":true},"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"number","default":0.5}}}},"m":{"type":"object","additionalProperties":{"type":"string"}},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"t":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"x":{"type":"boolean"}}},"e":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}}}}}}}]},"status":{"acceptedNames":{"plural":"widgets","kind":"Widget","singular":"widget","listKind":"WidgetList"},"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}"#;

/// The resources by group and name, with an object of each.
const OBJECTS: [(&str, &str, &str); 5] = [
    (
        "",
        "pods",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"o","namespace":"ns","labels":{"app":"x"}},"spec":{"containers":[{"name":"a","image":"i","ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"100m"}}}],"volumes":[{"name":"v","emptyDir":{}}]}}"#,
    ),
    (
        "",
        "configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"o","namespace":"ns","finalizers":["a.b/c"]},"data":{"k":"v"},"binaryData":{"b":"AQI="}}"#,
    ),
    (
        "apps",
        "deployments",
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"o","namespace":"ns"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"1"}]}]}}}}"#,
    ),
    (
        "autoscaling",
        "horizontalpodautoscalers",
        r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"o","namespace":"ns"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}"#,
    ),
    (
        "example.com",
        "widgets",
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"o","namespace":"ns","labels":{"a":"b"}},"spec":{"a":1,"b":"x","c":"5","l":[{"k":"p"}],"m":{"k":"v"},"s":["a"],"t":{"x":true}}}"#,
    ),
];

/// The kinds and their objects.
pub(super) static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let mut resources = pintle_kinds::resources(pintle_catalog::shared());
    let crd = parse(CRD);
    resources.extend(build_resources(&crd, &crd_source(&crd)));
    let find = |(group, plural, text): &(&str, &str, &str)| {
        let object = parse(text);
        let is_wanted = |resource: &&Arc<Resource>| {
            resource.is(group, plural) && resource.group_version().to_string() == object.api_version()
        };
        let resource = resources.iter().find(is_wanted).expect("a resource").clone();
        (resource, object)
    };
    let kinds: Vec<_> = OBJECTS.iter().map(find).collect();
    let objects = RegistryObjects(Registry::new(resources));
    let complete = |(resource, object): (Arc<Resource>, Value)| {
        let kind = resource.gvk();
        let mut object = objects.decode(&resource, object, &kind, Decoding::Strict).expect("an object");
        objects.set_defaults(&mut object, &kind);
        (resource, object)
    };
    let kinds = kinds.into_iter().map(complete).collect();
    Fixture { objects, kinds }
});

/// A write, and the stored objects that plugins find.
pub(super) struct PluginWrite<'a> {
    pub(super) resource: &'a Arc<Resource>,
    pub(super) operation: AdmissionOperation,
    pub(super) object: Value,
    /// The admission configurations, by the name of their resource.
    pub(super) stored: &'a [(&'static str, Value)],
    pub(super) webhooks: &'a dyn WebhookCaller,
}

/// The result of a write after the plugins.
pub(super) struct Admitted {
    pub(super) result: Result<(), ApiError>,
    pub(super) object: Value,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: Vec<String>,
}

impl PluginWrite<'_> {
    /// Runs both phases of a plugin.
    pub(super) fn run(self, plugin: &dyn AdmissionPlugin) -> Admitted {
        let Self { resource, operation, mut object, stored, webhooks } = self;
        let old = (operation == AdmissionOperation::Update).then(|| object.clone());
        let (client, recorder, user) = (Stored(stored), Recorder::default(), UserInfo::default());
        let name = object.name().to_owned();
        let namespace = object.namespace().to_owned();
        let attributes = AdmissionAttributes {
            operation,
            resource,
            subresource: "",
            namespace: &namespace,
            name: &name,
            user: &user,
            options: &NoOptions,
            dry_run: false,
            deadline: None,
            old: old.as_ref(),
            authorizer: &AlwaysAllow,
            client: &client,
            recorder: &recorder,
            objects: &FIXTURE.objects,
            webhooks,
            matching: MatchingCache::default(),
            reinvocation: ReinvocationContext::default(),
            reservations: &NoReservations,
        };
        let result = match plugin.handles(&attributes) {
            true => {
                let mutated = complete(plugin.mutate(&attributes, &mut object));
                mutated.and_then(|()| complete(plugin.validate(&attributes, &object)))
            }
            false => Ok(()),
        };
        let Recorded { warnings, annotations } = recorder.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Admitted { result, object, warnings, annotations }
    }
}

/// Checks that an object is an object of its kind as the server makes it. It must equal its decoded JSON, and have its
/// defaults.
///
/// # Panics
/// Panics if the object fails a check, or if the strategy of the kind panics.
pub(super) fn check_object(resource: &Arc<Resource>, object: Value) {
    let (objects, kind) = (&FIXTURE.objects, resource.gvk());
    let mut text = Vec::new();
    objects.encode(resource, &object, &kind, &mut text);
    let tree = json::decode(&text, DecodeOptions::default()).expect("encoded JSON decodes").value;
    let decoded = objects.decode(resource, tree, &kind, Decoding::Strict);
    assert_eq!(decoded.as_ref(), Ok(&object), "decoded from {}", text.escape_ascii());
    let mut complete = object.clone();
    objects.set_defaults(&mut complete, &kind);
    assert_eq!(complete, object, "with the defaults of {}", text.escape_ascii());
    let context = StrategyContext::for_user("fuzz", Time::from_seconds(1_700_000_000));
    resource.strategy.prepare_for_create(&context, &mut complete);
    let mut errors = resource.strategy.validate(&context, &complete);
    let _ = resource.strategy.validate_expensive(&complete, None, &mut errors, CostBudget::Limited);
    let _ = resource.strategy.warnings(&context, &complete, None);
}

/// The result of a future that waits for nothing external.
fn complete<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..MAX_POLLS {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("a plugin does not end");
}

struct NoOptions;

impl RequestOptions for NoOptions {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        object! {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    }
}

#[derive(Default)]
struct Recorded {
    warnings: Vec<String>,
    annotations: Vec<String>,
}

#[derive(Default)]
struct Recorder(Mutex<Recorded>);

impl AdmissionRecorder for Recorder {
    fn warn(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).warnings.push(text);
    }

    fn annotate(&self, key: &str, _: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).annotations.push(key.to_owned());
    }
}

/// The stored objects: admission configurations, and every namespace.
struct Stored<'a>(&'a [(&'static str, Value)]);

fn read_only<'a, T>() -> BoxFuture<'a, Result<T, ApiError>> {
    Box::pin(async { Err(ApiError::Internal("read-only".to_owned())) })
}

impl ObjectClient for Stored<'_> {
    fn read(&self, resource: &GroupResource, _: &str, name: &str) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        let namespace = object! {"apiVersion": "v1", "kind": "Namespace", "metadata": object! {"name": name}};
        Ok((resource.resource == "namespaces").then(|| Box::new(namespace) as _))
    }

    fn read_all(&self, resource: &GroupResource, _: &str) -> Result<StoredObjects, ApiError> {
        let found = self.0.iter().filter(|(plural, _)| resource.resource == *plural);
        let found: Vec<Value> = found.map(|(_, object)| object.clone()).collect();
        Ok(Box::new(found.into_iter().map(|object| Box::new(object) as _)))
    }

    fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
        Ok(1)
    }

    fn is_crd_terminating(&self, _: &Resource) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        FIXTURE.objects.0.kind(kind).cloned()
    }

    fn serves(&self, _: &str, _: &str) -> bool {
        true
    }

    fn equivalent_resources(&self, resource: &Resource, subresource: &str) -> Vec<EquivalentResource> {
        FIXTURE.objects.0.equivalent_resources(resource, subresource)
    }

    fn create<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        read_only()
    }

    fn update<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        read_only()
    }

    fn update_status<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        read_only()
    }

    fn delete<'a>(&'a self, _: &'a GroupResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        read_only()
    }
}
