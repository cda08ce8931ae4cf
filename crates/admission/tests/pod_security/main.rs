//! The plugin `PodSecurity` compared with upstream's library, whose answers `tools/pod-security` has recorded.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_admission::matching::MatchingCache;
use pintle_admission::objects::NoObjects;
use pintle_admission::pod_security::{
    ExistingPodLimits, Level, LevelVersion, PodSecurity, PodSecurityConfiguration, PodTemplate, Version, Violation,
    Violations,
};
use pintle_admission::webhook::NoWebhooks;
use pintle_admission::{
    AdmissionAttributes, AdmissionOperation, AdmissionPlugin, AdmissionRecorder, NoReservations, PluginError,
    ReinvocationContext, RequestOptions,
};
use pintle_auth::{AlwaysAllow, UserInfo};
use pintle_metrics::Exposition;
use pintle_registry::{
    ApiError, BoxFuture, GroupResource, GroupVersionKind, ObjectClient, Resource, StoredObject, StoredObjects,
};
use pintle_value::{Value, object};

fn decode(text: &str) -> Value {
    pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default()).expect("JSON").value
}

/// Waits for a future that needs nothing but polls.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// A cluster with one namespace.
#[derive(Default)]
struct Client {
    labels: Value,
    pods: Vec<Value>,
}

fn stored(object: Value) -> Box<dyn StoredObject> {
    Box::new(object)
}

impl ObjectClient for Client {
    fn read(&self, _: &GroupResource, _: &str, name: &str) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        let namespace = object! {"metadata": object! {"name": "n", "labels": self.labels.clone()}};
        Ok((name == "n").then(|| stored(namespace)))
    }

    fn read_all(&self, _: &GroupResource, _: &str) -> Result<StoredObjects, ApiError> {
        Ok(Box::new(self.pods.clone().into_iter().map(stored)))
    }

    fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
        Ok(0)
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

    fn create<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("the plugin creates nothing");
    }

    fn update<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("the plugin updates nothing");
    }

    fn update_status<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        panic!("the plugin updates nothing");
    }

    fn delete<'a>(&'a self, _: &'a GroupResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        panic!("the plugin deletes nothing");
    }
}

#[derive(Default)]
struct Recorder {
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<BTreeMap<String, String>>,
}

impl AdmissionRecorder for Recorder {
    fn warn(&self, text: String) {
        self.warnings.lock().expect("no panic").push(text);
    }

    fn annotate(&self, key: &str, value: String) {
        self.annotations.lock().expect("no panic").insert(key.to_owned(), value);
    }
}

struct NoOptions;

impl RequestOptions for NoOptions {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        Value::object()
    }
}

/// Sends a request of the recorded form to the plugin. The answer has the recorded form too.
fn answer(plugin: &PodSecurity, client: &Client, request: &Value, resources: &[Arc<Resource>]) -> Value {
    let (group, plural) = request.str_at(&["resource"]).split_once('/').unwrap_or(("", request.str_at(&["resource"])));
    let resource = resources.iter().find(|resource| resource.group == group && resource.plural == plural);
    let user = UserInfo { name: request.str_at(&["user"]).into(), ..UserInfo::default() };
    let recorder = Recorder::default();
    let attributes = AdmissionAttributes {
        operation: match request.str_at(&["operation"]) {
            "CREATE" => AdmissionOperation::Create,
            _ => AdmissionOperation::Update,
        },
        resource: resource.expect("a built-in resource"),
        subresource: request.str_at(&["subresource"]),
        namespace: request.str_at(&["namespace"]),
        name: request.str_at(&["name"]),
        user: &user,
        options: &NoOptions,
        dry_run: false,
        deadline: request.bool_at(&["expired"]).then(Instant::now),
        old: request.get("old"),
        authorizer: &AlwaysAllow,
        client,
        recorder: &recorder,
        objects: &NoObjects,
        webhooks: &NoWebhooks,
        matching: MatchingCache::default(),
        reservations: &NoReservations,
        reinvocation: ReinvocationContext::default(),
    };
    let object = request.get("object").expect("an object");
    let mut found = Value::object();
    if plugin.handles(&attributes)
        && let Err(error) = block_on(plugin.validate(&attributes, object))
    {
        let code = match error {
            ApiError::Forbidden { .. } => 403,
            ApiError::Invalid { .. } => 422,
            ApiError::Internal(_) => 500,
            _ => 0,
        };
        found.set("code", Value::Int(code));
        found.set("message", error.to_string());
    }
    let warnings = recorder.warnings.into_inner().expect("no panic");
    if !warnings.is_empty() {
        found.set("warnings", Value::Array(warnings.into_iter().map(Value::from).collect()));
    }
    for (key, value) in recorder.annotations.into_inner().expect("no panic") {
        let key = key.strip_prefix("pod-security.kubernetes.io/").expect("upstream's prefix");
        found.set_at(&["annotations", key], value);
    }
    let counted = counted(plugin);
    if !counted.is_empty() {
        found.set("counted", Value::Array(counted.into_iter().map(Value::from).collect()));
    }
    found
}

/// The series that are not zero.
fn counted(plugin: &PodSecurity) -> Vec<String> {
    let mut out = Exposition::default();
    plugin.write_metrics(&mut out);
    let text = out.into_text();
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn violations_are_those_of_upstream_at_every_level_and_version() {
    let recorded = decode(include_str!("pods.json"));
    let texts = recorded.items_at(&["violations"]);
    let text = |number: &Value| match texts[usize::try_from(number.as_int().expect("a number")).expect("an index")]
        .as_array()
        .expect("a pair")
        .as_slice()
    {
        [reason, detail] => (reason.as_str().expect("a reason"), detail.as_str().expect("a detail")),
        other => panic!("{other:?}"),
    };
    let pods = recorded.items_at(&["pods"]);
    assert!(pods.len() > 500);
    for row in pods {
        let pod = row.get("pod").expect("a pod");
        for level in [Level::Baseline, Level::Restricted] {
            let changes = row.items_at(&[level.name()]);
            let mut versions: Vec<(Version, &[Value])> = Vec::new();
            for change in changes {
                let (version, violations) = change.as_array().and_then(|change| change.split_first()).expect("a row");
                let version = match version.as_int().expect("a version") {
                    -1 => Version::Latest,
                    minor => Version::Minor(minor),
                };
                versions.push((version, violations));
            }
            for version in (0..40).map(Version::Minor).chain([Version::Latest]) {
                let (_, expect) = versions.iter().rev().find(|(since, _)| *since <= version).expect("version 0");
                let expect: Vec<(&str, &str)> = expect.iter().map(text).collect();
                let found = Violations::find(LevelVersion { level, version }, PodTemplate::of(pod));
                let found_pairs: Vec<(&str, &str)> =
                    found.iter().map(|Violation { reason, detail }| (*reason, detail.as_str())).collect();
                assert_eq!(found_pairs, expect, "{}:{version} {pod:?}", level.name());
            }
        }
        let privileged = LevelVersion { level: Level::Privileged, version: Version::Latest };
        assert!(Violations::find(privileged, PodTemplate::of(pod)).is_empty());
    }
}

#[test]
fn requests_are_answered_as_by_upstream() {
    let resources = pintle_kinds::resources(pintle_catalog::shared());
    let recorded = decode(include_str!("requests.json"));
    let list = |name: &str| recorded.items_at(&[name]);
    let (configurations, labels, requests) = (list("configurations"), list("labels"), list("requests"));
    let index = |number: &Value| usize::try_from(number.as_int().expect("a number")).expect("an index");
    let mut count = 0;
    for row in list("rows") {
        let [configuration, request, answers] = row.as_array().expect("a row").as_slice() else { panic!("{row:?}") };
        let (configuration, request) = (&configurations[index(configuration)], &requests[index(request)]);
        let text = configuration.as_str().expect("a text").as_bytes();
        for (labels, expect) in labels.iter().zip(answers.as_array().expect("answers")) {
            let plugin = PodSecurity::from_text(Some(text)).expect("a valid configuration");
            let client = Client { labels: labels.clone(), pods: list("pods").to_vec() };
            let found = answer(&plugin, &client, request, &resources);
            let expect = &list("answers")[index(expect)];
            assert_eq!(found, *expect, "{configuration:?} {labels:?} {request:?}");
            count += 1;
        }
    }
    assert!(count > 2000);
}

#[test]
fn configurations_are_read_as_by_upstream() {
    let rows = decode(include_str!("configurations.json"));
    for row in rows.as_array().expect("rows") {
        let text = row.str_at(&["text"]);
        let found = PodSecurityConfiguration::load(text.as_bytes());
        let found = match found {
            Ok(PodSecurityConfiguration { defaults, exemptions }) => {
                let names =
                    |names: &[pintle_value::Str]| Value::Array(names.iter().cloned().map(Value::from).collect());
                object! {"text": text, "configuration": object! {
                    "enforce": defaults.enforce.to_string(),
                    "audit": defaults.audit.to_string(),
                    "warn": defaults.warn.to_string(),
                    "usernames": names(&exemptions.usernames),
                    "namespaces": names(&exemptions.namespaces),
                    "runtimeClasses": names(&exemptions.runtime_classes),
                }}
            }
            Err(PluginError::Unreadable(error)) => object! {"text": text, "unreadable": error},
            Err(PluginError::Invalid(error)) => object! {"text": text, "invalid": error},
        };
        assert_eq!(found, *row);
    }
}

/// The warnings of an update of a namespace that begins to enforce the level baseline.
fn warnings_of_update(pods: Vec<Value>) -> Vec<String> {
    let resources = pintle_kinds::resources(pintle_catalog::shared());
    let request = object! {
        "operation": "UPDATE",
        "resource": "namespaces",
        "namespace": "n",
        "name": "n",
        "object": object! {
            "metadata": object! {"name": "n", "labels": object! {"pod-security.kubernetes.io/enforce": "baseline"}},
        },
        "old": object! {"metadata": object! {"name": "n"}},
    };
    let limits = ExistingPodLimits { time: Duration::from_secs(3600), ..ExistingPodLimits::default() };
    let plugin = PodSecurity::default().with_existing_pod_limits(limits);
    let answer = answer(&plugin, &Client { pods, ..Client::default() }, &request, &resources);
    answer.items_at(&["warnings"]).iter().filter_map(|warning| warning.as_str().map(str::to_owned)).collect()
}

fn host_pod(name: String, controller: Option<&str>) -> Value {
    let owners = controller.map(|uid| Value::Array(vec![object! {"uid": uid, "controller": true}]));
    object! {
        "metadata": object! {"name": name, "ownerReferences": owners.unwrap_or_default()},
        "spec": object! {"hostNetwork": true, "containers": Value::Array(vec![object! {"name": "a"}])},
    }
}

#[test]
fn at_most_3000_existing_pods_are_checked_and_those_of_the_same_controller_last() {
    let violated = "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"";
    let limited = "new PodSecurity enforce level only checked against the first 3000 of 3500 existing pods";
    let pods = (0..3500).map(|i| host_pod(format!("p-{i:04}"), None)).collect();
    assert_eq!(
        warnings_of_update(pods),
        [limited, violated, "p-0000 (and 2999 other pods): host namespaces"].map(str::to_owned),
    );
    // The names of 3499 pods of one controller are before the name of the pod without a controller.
    let mut pods: Vec<_> = (0..3499).map(|i| host_pod(format!("p-{i:04}"), Some("c"))).collect();
    let mut alone = host_pod("q".to_owned(), None);
    alone.set_at(&["spec", "hostPID"], true);
    alone.set_at(&["spec", "volumes"], Value::Array(vec![object! {"name": "v", "hostPath": Value::object()}]));
    pods.push(alone);
    assert_eq!(
        warnings_of_update(pods),
        [limited, violated, "p-0000 (and 2998 other pods): host namespaces", "q: host namespaces, hostPath volumes",]
            .map(str::to_owned),
    );
}

#[test]
fn pods_of_namespaces_without_a_policy_are_not_copied() {
    let resources = pintle_kinds::resources(pintle_catalog::shared());
    let pods = resources.iter().find(|resource| resource.group.is_empty() && resource.plural == "pods").expect("pods");
    let (plugin, client) = (PodSecurity::default(), Client::default());
    let (user, recorder) = (UserInfo::default(), Recorder::default());
    let attributes = AdmissionAttributes {
        operation: AdmissionOperation::Create,
        resource: pods,
        subresource: "",
        namespace: "n",
        name: "p",
        user: &user,
        options: &NoOptions,
        dry_run: false,
        deadline: None,
        old: None,
        authorizer: &AlwaysAllow,
        client: &client,
        recorder: &recorder,
        objects: &NoObjects,
        webhooks: &NoWebhooks,
        matching: MatchingCache::default(),
        reservations: &NoReservations,
        reinvocation: ReinvocationContext::default(),
    };
    let allocated = |containers: usize| {
        let mut pod = host_pod("p".to_owned(), None);
        pod.set_at(&["spec", "containers"], Value::Array(vec![object! {"name": "a"}; containers]));
        let validate = || block_on(plugin.validate(&attributes, &pod)).expect("an admitted pod");
        allocation_counter::measure(validate).bytes_total
    };
    allocated(1);
    assert_eq!(allocated(1), allocated(1000));
}
