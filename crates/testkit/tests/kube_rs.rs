//! The `kube` crate as a client: typed objects, watches kept as a reflector, and a controller that cleans up after its
//! objects, as operators written in Rust have them.

mod in_step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, Discovery, ResourceExt as _};
use pintle_testkit::{Cluster, Protocol};
use serde_json::json;

/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that is configured as a person's would be: from the kubeconfig.
async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
    Client::try_from(config).expect("a client")
}

/// A typed object from what a person would write.
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

/// The `Status` that a request came to.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn objects_are_made_read_changed_and_deleted() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let api: Api<Deployment> = Api::default_namespaced(client(&cluster).await);
        let made = api.create(&PostParams::default(), &deployment("web")).await.expect("it is created");
        assert_eq!(made.spec.as_ref().and_then(|s| s.replicas), Some(1), "defaults come back");

        let merge = Patch::Merge(json!({"metadata": {"labels": {"tier": "front"}}}));
        let patched = api.patch("web", &PatchParams::default(), &merge).await.expect("a merge patch");
        assert_eq!(patched.metadata.generation, Some(1), "labels are no change of the spec");
        let strategic =
            Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "c"}]}}}}));
        let patched = api.patch("web", &PatchParams::default(), &strategic).await.expect("a strategic merge patch");
        let template = patched.spec.clone().and_then(|s| s.template.spec).expect("a template");
        assert_eq!(template.containers.len(), 2);

        // The object that was made first is stale by now.
        assert!(refusal(api.replace("web", &PostParams::default(), &made).await).is_conflict());
        let mut newest = api.get("web").await.expect("it is there");
        newest.spec.as_mut().expect("a spec").replicas = Some(3);
        api.replace("web", &PostParams::default(), &newest).await.expect("it is replaced");

        let scale = api.get_scale("web").await.expect("its scale");
        assert_eq!(scale.spec.and_then(|s| s.replicas), Some(3));
        let scaled = Patch::Merge(json!({"spec": {"replicas": 5}}));
        api.patch_scale("web", &PatchParams::default(), &scaled).await.expect("it is scaled");
        let status = Patch::Merge(json!({"status": {"observedGeneration": 3, "replicas": 5}, "spec": {"replicas": 9}}));
        let reported = api.patch_status("web", &PatchParams::default(), &status).await.expect("its status is set");
        assert_eq!(reported.spec.and_then(|s| s.replicas), Some(5), "the status' path leaves the spec alone");
        assert_eq!(reported.status.and_then(|s| s.replicas), Some(5));

        let list =
            api.list(&ListParams::default().labels("tier=front").fields("metadata.name=web")).await.expect("a list");
        assert_eq!(list.items.iter().map(|d| d.name_any()).collect::<Vec<_>>(), ["web"]);
        let partial = api.list_metadata(&ListParams::default()).await.expect("metadata alone");
        assert_eq!(partial.items[0].labels().get("tier").map(String::as_str), Some("front"));

        let deleted = api.delete("web", &DeleteParams::default()).await.expect("it is deleted");
        assert!(deleted.right().is_some_and(|status| status.is_success()), "nothing holds it back");
        assert_eq!(api.get_opt("web").await.expect("an answer"), None);
    });
}

#[test]
fn managers_apply_to_one_object() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let api: Api<Deployment> = Api::default_namespaced(client(&cluster).await);
        let (first, second) = (PatchParams::apply("first"), PatchParams::apply("second"));
        let mut wanted = serde_json::to_value(deployment("web")).expect("JSON");
        wanted["spec"]["replicas"] = json!(3);
        let created = api.patch("web", &first, &Patch::Apply(&wanted)).await.expect("it is created");
        assert_eq!(created.spec.and_then(|spec| spec.replicas), Some(3));
        let again = api.patch("web", &first, &Patch::Apply(&wanted)).await.expect("it is applied again");
        assert_eq!(again.metadata.resource_version, created.metadata.resource_version);

        let more = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5}});
        let refused = refusal(api.patch("web", &second, &Patch::Apply(&more)).await);
        assert!(refused.is_conflict(), "{refused:?}");
        let causes = refused.details.map(|details| details.causes).unwrap_or_default();
        let causes: Vec<_> = causes.iter().map(|c| (c.reason.as_str(), c.message.as_str(), c.field.as_str())).collect();
        assert_eq!(causes, [("FieldManagerConflict", "conflict with \"first\"", ".spec.replicas")]);
        let forced = api.patch("web", &second.clone().force(), &Patch::Apply(&more)).await.expect("by force");
        let owners = |object: &Deployment| {
            let entries = object.metadata.managed_fields.iter().flatten();
            let replicas = |entry: &&ManagedFieldsEntry| {
                let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
                fields.is_some_and(|fields| fields["f:spec"].get("f:replicas").is_some())
            };
            entries.filter(replicas).filter_map(|entry| entry.manager.clone()).collect::<Vec<_>>()
        };
        assert_eq!(owners(&forced), ["second"]);

        // Who gives a field up leaves it to those who want it too, or else to its default.
        let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        let left = api.patch("web", &second, &Patch::Apply(&nothing)).await.expect("it is given up");
        assert_eq!((owners(&left), left.spec.and_then(|spec| spec.replicas)), (Vec::new(), Some(1)));
        let status =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1}, "spec": {"replicas": 9}});
        let reported = api.patch_status("web", &first, &Patch::Apply(&status)).await.expect("a status");
        assert_eq!(reported.spec.and_then(|spec| spec.replicas), Some(1));
        assert_eq!(reported.status.and_then(|status| status.replicas), Some(1));
        cluster.stop().await;
    });
}

#[test]
fn refusals_say_why() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let client = client(&cluster).await;
        let api: Api<Pod> = Api::default_namespaced(client.clone());
        let missing = refusal(api.get("nosuch").await);
        assert!(missing.is_not_found());
        assert_eq!(missing.message, "pods \"nosuch\" not found");
        api.create(&PostParams::default(), &pod("a", "x")).await.expect("it is created");
        assert!(refusal(api.create(&PostParams::default(), &pod("a", "x")).await).is_already_exists());

        let empty: Pod = object(json!({"metadata": {"name": "b"}, "spec": {"containers": []}}));
        let invalid = refusal(api.create(&PostParams::default(), &empty).await);
        assert!(invalid.is_invalid());
        let cause = invalid.details.as_ref().and_then(|d| d.causes.first()).expect("a cause");
        assert_eq!((cause.field.as_str(), cause.reason.as_str()), ("spec.containers", "FieldValueRequired"));

        let elsewhere: Api<Pod> = Api::namespaced(client, "nosuch");
        let homeless = refusal(elsewhere.create(&PostParams::default(), &pod("a", "x")).await);
        assert_eq!((homeless.code, homeless.message.as_str()), (404, "namespaces \"nosuch\" not found"));

        // What is bound to a uid does not hit another object of the same name.
        let other = DeleteParams {
            preconditions: Some(kube::api::Preconditions { uid: Some("other".into()), resource_version: None }),
            ..DeleteParams::default()
        };
        assert!(refusal(api.delete("a", &other).await).is_conflict());
    });
}

/// Follows pods of one app into a store, by either way of getting the first list.
async fn reflect(config: watcher::Config) {
    let cluster = Cluster::start().await;
    let api: Api<Pod> = Api::default_namespaced(client(&cluster).await);
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &pod(name, "x")).await.expect("it is created");
    }
    api.create(&PostParams::default(), &pod("d", "y")).await.expect("it is created");
    let (reader, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api.clone(), config.labels("app=x")));
    let mut changes = Box::pin(stream.applied_objects());
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(next(&mut changes).await.name_any());
    }
    first.sort();
    assert_eq!(first, ["a", "b", "c"]);

    let label = |app: &str| Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
    api.patch("d", &PatchParams::default(), &label("x")).await.expect("it is labelled");
    assert_eq!(next(&mut changes).await.name_any(), "d", "it begins to match");
    api.patch("a", &PatchParams::default(), &label("z")).await.expect("it is labelled");
    api.delete("b", &DeleteParams::default()).await.expect("it is deleted");
    let annotate = Patch::Merge(json!({"metadata": {"annotations": {"last": "yes"}}}));
    api.patch("c", &PatchParams::default(), &annotate).await.expect("it is annotated");
    // Pods are said to go before they go, so other changes may come first.
    while next(&mut changes).await.annotations().is_empty() {}
    let mut names: Vec<String> = reader.state().iter().map(|pod| pod.name_any()).collect();
    names.sort();
    assert_eq!(names, ["c", "d"], "one has ceased to match, one is gone");
    assert!(reader.get(&ObjectRef::new("c").within("default")).is_some());
}

/// The next object of a stream.
async fn next<K>(stream: &mut (impl futures_util::Stream<Item = Result<K, watcher::Error>> + Unpin)) -> K {
    let event = tokio::time::timeout(PATIENCE, stream.next()).await.expect("an event in time");
    event.expect("a stream that goes on").expect("no error")
}

#[test]
fn a_reflector_follows_list_and_watch() {
    pintle_testkit::run(reflect(watcher::Config::default()));
}

#[test]
fn a_reflector_follows_a_list_in_pages() {
    pintle_testkit::run(reflect(watcher::Config::default().page_size(1)));
}

#[test]
fn a_reflector_follows_a_streamed_list() {
    pintle_testkit::run(reflect(watcher::Config::default().streaming_lists()));
}

/// A reflector of all that changes, and how often it began.
struct Mirror {
    reader: reflector::Store<ConfigMap>,
    begun: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Mirror {
    fn start(api: Api<ConfigMap>, config: watcher::Config) -> Self {
        let (reader, writer) = reflector::store();
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let events = watcher(api, config).default_backoff().inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let task = tokio::spawn(reflector::reflector(writer, events).for_each(async |_| ()));
        Self { reader, begun, task }
    }

    /// Waits until the reflector has what a list has.
    async fn agrees(&self, want: &BTreeMap<String, String>) {
        let shown = || -> BTreeMap<String, String> {
            let state = self.reader.state();
            state.iter().map(|map| (map.name_any(), map.resource_version().unwrap_or_default())).collect()
        };
        let agreed = async {
            while shown() != *want {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let came = tokio::time::timeout(PATIENCE, agreed).await;
        assert!(came.is_ok(), "the reflector has {:?}, the list {want:?}", shown());
    }
}

#[test]
fn reflectors_keep_in_step() {
    pintle_testkit::run(async {
        let cluster = in_step::cluster().await;
        let api: Api<ConfigMap> = Api::default_namespaced(client(&cluster).await);
        let configs = [
            watcher::Config::default(),
            watcher::Config::default().page_size(7),
            watcher::Config::default().streaming_lists(),
        ];
        let mirrors = configs.map(|config| Mirror::start(api.clone(), config));
        let mut asked = [0; 3];
        let mut number = 0;
        while let Some(asks) = in_step::step(&cluster, number).await {
            let list = cluster.client(Protocol::Any).request("GET", in_step::MAPS).send().await.expect(200).json();
            let text =
                |item: &serde_json::Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
            let items = list["items"].as_array().into_iter().flatten();
            let want = items.map(|item| (text(item, "name"), text(item, "resourceVersion"))).collect();
            for (mirror, asked) in mirrors.iter().zip(&mut asked) {
                mirror.agrees(&want).await;
                *asked = asks.check(&format!("step {number}"), *asked, mirror.begun.load(Ordering::Relaxed));
            }
            number += 1;
        }
        mirrors.iter().for_each(|mirror| mirror.task.abort());
        cluster.stop().await;
    });
}

#[test]
fn discovery_finds_every_kind() {
    pintle_testkit::run(async {
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

/// What the controller below fails with.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Request(#[from] kube::Error),
}

/// Keeps a copy of each labelled ConfigMap, and takes it away when the original goes.
async fn reconcile(original: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, finalizer::Error<Failed>> {
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

/// Waits until a condition of an object has come true.
async fn until(api: &Api<ConfigMap>, name: &str, condition: impl Condition<ConfigMap>) -> Option<ConfigMap> {
    let met = tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await;
    met.expect("in time").expect("a watch")
}

#[test]
fn a_controller_reconciles_and_cleans_up() {
    pintle_testkit::run(async {
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
        api.create(&PostParams::default(), &object(original)).await.expect("it is created");
        let value = |expect: &'static str| {
            move |map: Option<&ConfigMap>| {
                let data: Option<&BTreeMap<String, String>> = map.and_then(|map| map.data.as_ref());
                data.and_then(|data| data.get("k")).is_some_and(|found| found == expect)
            }
        };
        until(&api, "a-copy", value("v")).await;
        let change = Patch::Merge(json!({"data": {"k": "w"}}));
        api.patch("a", &PatchParams::default(), &change).await.expect("it is changed");
        let copy = until(&api, "a-copy", value("w")).await.expect("a copy");

        let deletion =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        let deleted = api.delete("a", &deletion).await.expect("it is deleted");
        assert!(deleted.left().is_some_and(|map| map.metadata.deletion_timestamp.is_some()), "the finalizer holds it");
        let uid = copy.uid().expect("a uid");
        until(&api, "a-copy", conditions::is_deleted(&uid)).await;
        running.abort();
    });
}
