//! Measures the plugin `ValidatingAdmissionPolicy` with a policy of three rules, for a matching request and for a
//! request that does not match. The same is measured with a thousand policies for other resources, and with ten
//! thousand bindings of other namespaces or for other resources.
//!
//! `cargo run --release -p pintle-admission --example policies`

use std::hint::black_box;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use pintle_admission::matching::MatchingCache;
use pintle_admission::objects::NoObjects;
use pintle_admission::webhook::NoWebhooks;
use pintle_admission::{
    AdmissionAttributes, AdmissionOperation, AdmissionRecorder, NoReservations, ReinvocationContext, RequestOptions,
    built_in_plugin,
};
use pintle_auth::{AlwaysAllow, UserInfo};
use pintle_registry::{
    ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient, Resource, StoredObject, StoredObjects,
};
use pintle_value::{Value, object};

const BINDINGS: usize = 10_000;
const OTHER_POLICIES: usize = 1_000;
const RUNS: u32 = 20_000;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"n","labels":{"app":"web","team":"a"}},
    "spec":{"containers":[{"name":"a","image":"registry.example.com/a:1","resources":{"limits":{"cpu":"1","memory":"1Gi"}}},
        {"name":"b","image":"registry.example.com/b:1","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}"#;

const POLICY: &str = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p","resourceVersion":"1"},
    "spec":{"failurePolicy":"Fail","matchConstraints":{"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{},
        "resourceRules":[{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"scope":"*"}]},
      "validations":[
        {"expression":"object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))","message":"bad image"},
        {"expression":"object.spec.containers.all(c, has(c.resources.limits) && 'memory' in c.resources.limits)",
          "messageExpression":"'no limits in ' + string(object.metadata.name)"},
        {"expression":"'team' in object.metadata.labels && request.userInfo.username != ''","reason":"Forbidden"}]}}"#;

/// A cluster with one policy, its bindings and a namespace.
struct Client(Vec<Value>);

fn stored(object: Value) -> Box<dyn StoredObject> {
    Box::new(object)
}

impl ObjectClient for Client {
    fn read(&self, _: &GroupResource, _: &str, name: &str) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        let labels = object! {"kubernetes.io/metadata.name": name};
        Ok(Some(stored(object! {"metadata": object! {"name": name, "labels": labels}})))
    }

    fn read_all(&self, resource: &GroupResource, _: &str) -> Result<StoredObjects, ApiError> {
        let is_binding = resource.resource.ends_with("bindings");
        let wanted = |object: &&Value| object.kind().ends_with("Binding") == is_binding;
        let found: Vec<Value> = self.0.iter().filter(wanted).cloned().collect();
        Ok(Box::new(found.into_iter().map(stored)))
    }

    fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
        Ok(1)
    }

    fn is_crd_terminating(&self, _: &Resource) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn resource_of_kind(&self, _: &GroupVersionKind) -> Option<Arc<Resource>> {
        None
    }

    fn serves(&self, _: &str, _: &str) -> bool {
        true
    }

    fn create<'a>(&'a self, _: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async { Ok(object) })
    }

    fn update<'a>(&'a self, _: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async { Ok(object) })
    }

    fn update_status<'a>(&'a self, _: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async { Ok(object) })
    }

    fn delete<'a>(&'a self, _: &'a GroupResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }
}

struct Silent;

impl AdmissionRecorder for Silent {
    fn warn(&self, _: String) {}

    fn annotate(&self, _: &str, _: String) {}
}

impl RequestOptions for Silent {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        object! {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    }
}

fn decode(text: &str) -> Value {
    let options = pintle_codec::json::DecodeOptions::default();
    pintle_codec::json::decode(text.as_bytes(), options).map_or(Value::Null, |decoded| decoded.value)
}

/// A binding, of one namespace if the namespace is given.
fn binding(number: usize, namespace: Option<&str>) -> Value {
    let mut spec = object! {"policyName": "p", "validationActions": Value::Array(vec!["Deny".into()])};
    if let Some(namespace) = namespace {
        let labels = object! {"kubernetes.io/metadata.name": namespace};
        let selector = object! {"matchLabels": labels};
        spec.set("matchResources", object! {"namespaceSelector": selector, "objectSelector": Value::object()});
    }
    let metadata = object! {"name": format!("b{number:05}"), "resourceVersion": (number + 10).to_string()};
    object! {"kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": spec}
}

/// A binding whose rules name other resources than the rules of its policy.
fn binding_for_secrets(number: usize) -> Value {
    let mut binding = binding(number, None);
    let rule = decode(r#"{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["secrets"]}"#);
    let resources = object! {
        "matchPolicy": "Equivalent", "namespaceSelector": Value::object(), "objectSelector": Value::object(),
        "resourceRules": Value::Array(vec![rule]),
    };
    if let Some(spec) = binding.get_mut("spec") {
        spec.set("matchResources", resources);
    }
    binding
}

/// A policy for other resources, with a binding.
fn policy_for_secrets(number: usize) -> [Value; 2] {
    let name = format!("other-{number}");
    let mut policy = decode(&POLICY.replace("\"pods\"", "\"secrets\""));
    let revision = (number + 100_000).to_string();
    policy.set("metadata", object! {"name": name.as_str(), "resourceVersion": revision});
    let mut binding = binding(number + 200_000, None);
    if let Some(spec) = binding.get_mut("spec") {
        spec.set("policyName", name);
    }
    [policy, binding]
}

/// Runs the plugin for a create and prints the cost of one run.
fn measure(what: &str, others: Vec<Value>, resource: &Arc<Resource>, object: &Value) {
    let mut objects = others;
    objects.push(decode(POLICY));
    let client = Client(objects);
    let plugin = built_in_plugin("ValidatingAdmissionPolicy").expect("a built-in plugin");
    let user = UserInfo { name: "alice".into(), groups: vec!["system:authenticated".into()], ..UserInfo::default() };
    let run = || {
        let attributes = AdmissionAttributes {
            operation: AdmissionOperation::Create,
            resource,
            subresource: "",
            namespace: "n",
            name: object.name(),
            user: &user,
            options: &Silent,
            dry_run: false,
            deadline: None,
            old: None,
            authorizer: &AlwaysAllow,
            client: &client,
            recorder: &Silent,
            objects: &NoObjects,
            webhooks: &NoWebhooks,
            matching: MatchingCache::default(),
            reservations: &NoReservations,
            reinvocation: ReinvocationContext::default(),
        };
        if !plugin.handles(&attributes) {
            return true;
        }
        let mut future = pin!(plugin.validate(&attributes, object));
        matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())))
    };
    let admitted = run();
    let start = Instant::now();
    for _ in 0..RUNS {
        black_box(run());
    }
    let each = start.elapsed() / RUNS;
    let _ = writeln!(std::io::stdout(), "{what}: {each:?} (admitted: {admitted})");
}

fn main() {
    let resources = pintle_kinds::resources(pintle_catalog::shared());
    let resource = |plural: &str| resources.iter().find(|resource| resource.is("", plural));
    let (Some(pods), Some(configmaps)) = (resource("pods"), resource("configmaps")) else { return };
    let (pod, map) = (decode(POD), decode(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#));
    measure("three rules, matching", vec![binding(0, None)], pods, &pod);
    measure("three rules, not matching", vec![binding(0, None)], configmaps, &map);
    let others = (0..OTHER_POLICIES).flat_map(policy_for_secrets).chain([binding(0, None)]);
    measure("the same, beside a thousand policies for other resources", others.collect(), configmaps, &map);
    let others = (0..BINDINGS).map(|number| binding(number, Some(&format!("other-{number}"))));
    measure("ten thousand bindings of other namespaces", others.collect(), pods, &pod);
    let others = (0..BINDINGS).map(binding_for_secrets);
    measure("ten thousand bindings for other resources", others.collect(), pods, &pod);
}
