//! The `kube` crate as a client: typed objects, reflectors, and a controller with a finalizer, as operators written in
//! Rust use them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, Discovery, ResourceExt as _};
use pintle_integration::{Cluster, Protocol, bootstrapped};
use serde_json::json;

use super::informer_workload;

/// The timeout for anything that has to happen eventually. After a downtime, a kube watcher waits up to a minute before
/// it connects. After a 410, it waits up to another minute before it lists.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The configuration of the cluster's kubeconfig.
async fn config(cluster: &Cluster) -> Config {
    let kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig()).expect("a kubeconfig");
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config")
}

/// Builds a client from the cluster's kubeconfig.
async fn client(cluster: &Cluster) -> Client {
    Client::try_from(config(cluster).await).expect("a client")
}

/// Deserializes a typed object.
fn object<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn pod(name: &str, app: &str) -> Pod {
    object(
        json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}),
    )
}

fn deployment(name: &str) -> Deployment {
    object(json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "image": "b"}]}},
    }}))
}

/// Returns the `Status` of a failed request.
#[track_caller]
fn api_error<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("not an API error: {other:?}"),
    }
}

#[test]
fn objects_can_be_created_read_updated_and_deleted() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let api: Api<Deployment> = Api::default_namespaced(client(&cluster).await);
        let created = api.create(&PostParams::default(), &deployment("web")).await.expect("the object is created");
        assert_eq!(created.spec.as_ref().and_then(|s| s.replicas), Some(1), "defaults come back");

        let merge = Patch::Merge(json!({"metadata": {"labels": {"tier": "front"}}}));
        let patched = api.patch("web", &PatchParams::default(), &merge).await.expect("a merge patch");
        assert_eq!(patched.metadata.generation, Some(1), "labels do not change the generation");
        let strategic =
            Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "c"}]}}}}));
        let patched = api.patch("web", &PatchParams::default(), &strategic).await.expect("a strategic merge patch");
        let template = patched.spec.clone().and_then(|s| s.template.spec).expect("a template");
        assert_eq!(template.containers.len(), 2);

        // The created version of the object is stale by now.
        assert!(api_error(api.replace("web", &PostParams::default(), &created).await).is_conflict());
        let mut newest = api.get("web").await.expect("the object exists");
        newest.spec.as_mut().expect("a spec").replicas = Some(3);
        api.replace("web", &PostParams::default(), &newest).await.expect("the deployment is updated");

        let scale = api.get_scale("web").await.expect("the scale");
        assert_eq!(scale.spec.and_then(|s| s.replicas), Some(3));
        let scaled = Patch::Merge(json!({"spec": {"replicas": 5}}));
        api.patch_scale("web", &PatchParams::default(), &scaled).await.expect("the deployment is scaled");
        let status = Patch::Merge(json!({"status": {"observedGeneration": 3, "replicas": 5}, "spec": {"replicas": 9}}));
        let reported = api.patch_status("web", &PatchParams::default(), &status).await.expect("the status is patched");
        assert_eq!(reported.spec.and_then(|s| s.replicas), Some(5), "an update of the status must not change the spec");
        assert_eq!(reported.status.and_then(|s| s.replicas), Some(5));

        let list =
            api.list(&ListParams::default().labels("tier=front").fields("metadata.name=web")).await.expect("a list");
        assert_eq!(list.items.iter().map(|d| d.name_any()).collect::<Vec<_>>(), ["web"]);
        let partial = api.list_metadata(&ListParams::default()).await.expect("a list of partial metadata");
        assert_eq!(partial.items[0].labels().get("tier").map(String::as_str), Some("front"));

        let deleted = api.delete("web", &DeleteParams::default()).await.expect("the object is deleted");
        assert!(
            deleted.right().is_some_and(|status| status.is_success()),
            "without finalizers, the object is deleted at once"
        );
        assert_eq!(api.get_opt("web").await.expect("a response"), None);
    });
}

#[test]
fn a_service_account_may_do_what_its_roles_allow() {
    pintle_integration::run(async {
        let cluster = Cluster::with_options(bootstrapped()).await;
        let admin = client(&cluster).await;
        let accounts: Api<ServiceAccount> = Api::default_namespaced(admin.clone());
        let bot = object(json!({"metadata": {"name": "bot"}}));
        accounts.create(&PostParams::default(), &bot).await.expect("an account");
        let request: TokenRequest = object(json!({"spec": {"audiences": []}}));
        let token: TokenRequest =
            accounts.create_subresource("token", "bot", &PostParams::default(), &request).await.expect("a token");
        let token = token.status.and_then(|status| status.token);
        let mut config = config(&cluster).await;
        config.auth_info = AuthInfo { token: token.map(Into::into), ..AuthInfo::default() };
        let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config).expect("a client"));
        let refused = api_error(pods.list(&ListParams::default()).await);
        let why = "pods is forbidden: User \"system:serviceaccount:default:bot\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
        assert_eq!((refused.code, &*refused.message), (403, why));

        let roles: Api<Role> = Api::default_namespaced(admin.clone());
        let role = object(json!({
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
        }));
        roles.create(&PostParams::default(), &role).await.expect("a role");
        let binding = object(json!({
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}],
        }));
        let bindings: Api<RoleBinding> = Api::default_namespaced(admin.clone());
        bindings.create(&PostParams::default(), &binding).await.expect("a binding");
        let mut events = pin!(watcher(pods.clone(), watcher::Config::default()).applied_objects());
        assert!(api_error(pods.create(&PostParams::default(), &pod("a", "x")).await).is_forbidden());
        Api::default_namespaced(admin).create(&PostParams::default(), &pod("a", "x")).await.expect("a pod");
        let seen = tokio::time::timeout(TIMEOUT, events.try_next()).await.expect("an event").expect("a pod");
        assert_eq!(seen.map(|pod| pod.name_any()).as_deref(), Some("a"));
    });
}

#[test]
fn several_managers_apply_to_one_object() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let api: Api<Deployment> = Api::default_namespaced(client(&cluster).await);
        let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
        let mut config = serde_json::to_value(deployment("web")).expect("JSON");
        config["spec"]["replicas"] = json!(3);
        let created = api.patch("web", &first, &Patch::Apply(&config)).await.expect("the object is created");
        assert_eq!(created.spec.and_then(|spec| spec.replicas), Some(3));
        let again = api.patch("web", &first, &Patch::Apply(&config)).await.expect("a second apply");
        assert_eq!(again.metadata.resource_version, created.metadata.resource_version);

        let more = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
        let conflict = api_error(api.patch("web", &second, &Patch::Apply(&more)).await);
        assert!(conflict.is_conflict(), "{conflict:?}");
        let causes = conflict.details.map(|details| details.causes).unwrap_or_default();
        let causes: Vec<_> = causes.iter().map(|c| (c.reason.as_str(), c.message.as_str(), c.field.as_str())).collect();
        assert_eq!(causes, [("FieldManagerConflict", "conflict with \"first\"", ".spec.replicas")]);
        let forced = api.patch("web", &second.clone().force(), &Patch::Apply(&more)).await.expect("a forced apply");
        let owners = |object: &Deployment| {
            let entries = object.metadata.managed_fields.iter().flatten();
            let replicas = |entry: &&ManagedFieldsEntry| {
                let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
                fields.is_some_and(|fields| fields["f:spec"].get("f:replicas").is_some())
            };
            entries.filter(replicas).filter_map(|entry| entry.manager.clone()).collect::<Vec<_>>()
        };
        assert_eq!(owners(&forced), ["second"]);

        // A field gets its default again when its last manager gives it up.
        let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let given_up = api.patch("web", &second, &Patch::Apply(&nothing)).await.expect("the field is given up");
        assert_eq!((owners(&given_up), given_up.spec.and_then(|spec| spec.replicas)), (Vec::new(), Some(1)));
        let status =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1}, "spec": {"replicas": 9}});
        let reported = api.patch_status("web", &first, &Patch::Apply(&status)).await.expect("a status");
        assert_eq!(reported.spec.and_then(|spec| spec.replicas), Some(1));
        assert_eq!(reported.status.and_then(|status| status.replicas), Some(1));
        cluster.stop().await;
    });
}

#[test]
fn errors_carry_reasons_and_causes() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let client = client(&cluster).await;
        let api: Api<Pod> = Api::default_namespaced(client.clone());
        let missing = api_error(api.get("nosuch").await);
        assert!(missing.is_not_found());
        assert_eq!(missing.message, "pods \"nosuch\" not found");
        api.create(&PostParams::default(), &pod("a", "x")).await.expect("the object is created");
        assert!(api_error(api.create(&PostParams::default(), &pod("a", "x")).await).is_already_exists());

        let empty: Pod = object(json!({"metadata": {"name": "b"}, "spec": {"containers": []}}));
        let invalid = api_error(api.create(&PostParams::default(), &empty).await);
        assert!(invalid.is_invalid());
        let cause = invalid.details.as_ref().and_then(|d| d.causes.first()).expect("a cause");
        assert_eq!((cause.field.as_str(), cause.reason.as_str()), ("spec.containers", "FieldValueRequired"));

        let elsewhere: Api<Pod> = Api::namespaced(client, "nosuch");
        let missing_namespace = api_error(elsewhere.create(&PostParams::default(), &pod("a", "x")).await);
        assert_eq!(
            (missing_namespace.code, missing_namespace.message.as_str()),
            (404, "namespaces \"nosuch\" not found")
        );

        // A delete with a uid precondition does not affect another object with the same name.
        let other = DeleteParams {
            preconditions: Some(kube::api::Preconditions { uid: Some("other".into()), resource_version: None }),
            ..DeleteParams::default()
        };
        assert!(api_error(api.delete("a", &other).await).is_conflict());
    });
}

/// Runs a reflector of the pods of one app with the given configuration and checks its store.
async fn check_reflector(config: watcher::Config) {
    let cluster = Cluster::start().await;
    let api: Api<Pod> = Api::default_namespaced(client(&cluster).await);
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &pod(name, "x")).await.expect("the object is created");
    }
    api.create(&PostParams::default(), &pod("d", "y")).await.expect("the object is created");
    let (reader, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api.clone(), config.labels("app=x")));
    let mut changes = Box::pin(stream.applied_objects());
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(next_object(&mut changes).await.name_any());
    }
    first.sort();
    assert_eq!(first, ["a", "b", "c"]);

    let label = |app: &str| Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
    api.patch("d", &PatchParams::default(), &label("x")).await.expect("the pod is labelled");
    assert_eq!(next_object(&mut changes).await.name_any(), "d", "the pod matches the selector now");
    api.patch("a", &PatchParams::default(), &label("z")).await.expect("the pod is labelled");
    api.delete("b", &DeleteParams::default()).await.expect("the object is deleted");
    let annotate = Patch::Merge(json!({"metadata": {"annotations": {"last": "yes"}}}));
    api.patch("c", &PatchParams::default(), &annotate).await.expect("the pod is annotated");
    // Pods are marked as terminating before they are deleted, so other events may come first.
    while next_object(&mut changes).await.annotations().is_empty() {}
    let mut names: Vec<String> = reader.state().iter().map(|pod| pod.name_any()).collect();
    names.sort();
    assert_eq!(names, ["c", "d"], "one pod no longer matches, one is deleted");
    assert!(reader.get(&ObjectRef::new("c").within("default")).is_some());
}

/// Returns the next object of a stream.
async fn next_object<K>(stream: &mut (impl futures_util::Stream<Item = Result<K, watcher::Error>> + Unpin)) -> K {
    let event = tokio::time::timeout(TIMEOUT, stream.next()).await.expect("an event in time");
    event.expect("the stream continues").expect("no error")
}

#[test]
fn a_reflector_follows_list_and_watch() {
    pintle_integration::run(check_reflector(watcher::Config::default()));
}

#[test]
fn a_reflector_follows_a_chunked_list() {
    pintle_integration::run(check_reflector(watcher::Config::default().page_size(1)));
}

#[test]
fn a_reflector_follows_a_streamed_list() {
    pintle_integration::run(check_reflector(watcher::Config::default().streaming_lists()));
}

/// A reflector of all ConfigMaps, and how often it relisted.
struct RunningReflector {
    reader: reflector::Store<ConfigMap>,
    relists: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl RunningReflector {
    fn start(api: Api<ConfigMap>, config: watcher::Config) -> Self {
        let (reader, writer) = reflector::store();
        let relists = Arc::new(AtomicUsize::new(0));
        let counter = relists.clone();
        let events = watcher(api, config).default_backoff().inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let task = tokio::spawn(reflector::reflector(writer, events).for_each(async |_| ()));
        Self { reader, relists, task }
    }

    /// Waits until the reflector's store equals a list.
    async fn wait_until_equal(&self, expected: &BTreeMap<String, String>) {
        let actual = || -> BTreeMap<String, String> {
            let state = self.reader.state();
            state.iter().map(|map| (map.name_any(), map.resource_version().unwrap_or_default())).collect()
        };
        let equal = async {
            while actual() != *expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let result = tokio::time::timeout(TIMEOUT, equal).await;
        assert!(result.is_ok(), "the reflector has {:?}, the list {expected:?}", actual());
    }
}

#[test]
fn reflectors_stay_consistent_with_lists() {
    pintle_integration::run(async {
        let cluster = informer_workload::start_cluster().await;
        let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster).await);
        let configs = [
            watcher::Config::default(),
            watcher::Config::default().page_size(7),
            watcher::Config::default().streaming_lists(),
        ];
        let reflectors = configs.map(|config| RunningReflector::start(api.clone(), config));
        let mut relists_before = [0; 3];
        let mut number = 0;
        while let Some(relist) = informer_workload::run_step(&cluster, number).await {
            let list = cluster
                .client(Protocol::Any)
                .request("GET", informer_workload::CONFIGMAPS)
                .send()
                .await
                .expect(200)
                .json();
            let text =
                |item: &serde_json::Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
            let items = list["items"].as_array().into_iter().flatten();
            let expected = items.map(|item| (text(item, "name"), text(item, "resourceVersion"))).collect();
            for (reflector, relists_before) in reflectors.iter().zip(&mut relists_before) {
                reflector.wait_until_equal(&expected).await;
                *relists_before =
                    relist.check(&format!("step {number}"), *relists_before, reflector.relists.load(Ordering::Relaxed));
            }
            number += 1;
        }
        reflectors.iter().for_each(|reflector| reflector.task.abort());
        cluster.stop().await;
    });
}

#[test]
fn discovery_returns_groups_kinds_and_capabilities() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let client = client(&cluster).await;
        for discovery in [
            Discovery::new(client.clone()).run().await.expect("discovery, group by group"),
            Discovery::new(client.clone()).run_aggregated().await.expect("discovery in one document"),
        ] {
            let group = discovery.get("apps").expect("the group");
            let (resource, capabilities) = group.recommended_kind("Deployment").expect("the kind");
            assert_eq!((resource.plural.as_str(), resource.version.as_str()), ("deployments", "v1"));
            assert!(capabilities.supports_operation("watch"));
            let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
            assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 0);
        }
    });
}

/// The error of the controller below.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error("{0}")]
    Request(#[from] kube::Error),
}

/// Maintains a copy of each labelled ConfigMap, and deletes it with the original.
async fn reconcile(original: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, finalizer::Error<ReconcileError>> {
    let api: Api<ConfigMap> = Api::default_namespaced(Client::clone(&client));
    finalizer(&api.clone(), "example.com/copy", original, async move |event| {
        match event {
            finalizer::Event::Apply(original) => {
                let name = format!("{}-copy", original.name_any());
                let copy = ConfigMap { data: original.data.clone(), ..object(json!({"metadata": {"name": name}})) };
                match api.create(&PostParams::default(), &copy).await {
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        let data = Patch::Merge(json!({"data": copy.data}));
                        api.patch(&name, &PatchParams::default(), &data).await?;
                    }
                    other => drop(other?),
                }
            }
            finalizer::Event::Cleanup(original) => {
                api.delete(&format!("{}-copy", original.name_any()), &DeleteParams::default()).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

/// Waits until an object meets a condition.
async fn wait_for(api: &Api<ConfigMap>, name: &str, condition: impl Condition<ConfigMap>) -> Option<ConfigMap> {
    let met = tokio::time::timeout(TIMEOUT, await_condition(api.clone(), name, condition)).await;
    met.expect("the condition is met before the timeout").expect("a watch")
}

#[test]
fn a_controller_reconciles_and_cleans_up() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let client = client(&cluster).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let controller = Controller::new(api.clone(), watcher::Config::default().labels("copy=yes")).run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(20)),
            Arc::new(client),
        );
        let running = tokio::spawn(controller.for_each(async |_| ()));

        let original = json!({"metadata": {"name": "a", "labels": {"copy": "yes"}}, "data": {"k": "v"}});
        api.create(&PostParams::default(), &object(original)).await.expect("the object is created");
        let value = |expect: &'static str| {
            move |map: Option<&ConfigMap>| {
                let data: Option<&BTreeMap<String, String>> = map.and_then(|map| map.data.as_ref());
                data.and_then(|data| data.get("k")).is_some_and(|found| found == expect)
            }
        };
        wait_for(&api, "a-copy", value("v")).await;
        let change = Patch::Merge(json!({"data": {"k": "w"}}));
        api.patch("a", &PatchParams::default(), &change).await.expect("the ConfigMap is patched");
        let copy = wait_for(&api, "a-copy", value("w")).await.expect("a copy");

        let deletion =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        let deleted = api.delete("a", &deletion).await.expect("the object is deleted");
        assert!(
            deleted.left().is_some_and(|map| map.metadata.deletion_timestamp.is_some()),
            "the finalizer blocks the deletion"
        );
        let uid = copy.uid().expect("a uid");
        wait_for(&api, "a-copy", conditions::is_deleted(&uid)).await;
        running.abort();
    });
}
