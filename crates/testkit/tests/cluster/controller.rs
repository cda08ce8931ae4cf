//! A controller with kube, and its test: each `Greeting` gets a ConfigMap with its text.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource as _, ResourceExt as _};
use pintle_testkit::{Fault, RequestFilter, TestCluster};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
struct GreetingSpec {
    text: String,
}

async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &greeting.namespace().unwrap_or_default());
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(greeting.name_any()),
            owner_references: greeting.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), greeting.spec.text.clone())].into()),
        ..ConfigMap::default()
    };
    maps.patch(&greeting.name_any(), &PatchParams::apply("greeter"), &Patch::Apply(&map)).await?;
    Ok(Action::await_change())
}

async fn run_controller(client: Client) {
    let (greetings, maps) = (Api::<Greeting>::all(client.clone()), Api::<ConfigMap>::all(client.clone()));
    let retry = |_: Arc<Greeting>, _: &kube::Error, _: Arc<Client>| Action::requeue(Duration::from_millis(10));
    let controller = Controller::new(greetings, watcher::Config::default()).owns(maps, watcher::Config::default());
    controller.run(reconcile, retry, Arc::new(client)).for_each(|_| async {}).await;
}

#[tokio::test]
async fn a_greeting_gets_a_map_again_when_it_is_deleted_and_when_writes_fail() {
    let cluster = TestCluster::builder().crd::<Greeting>().start().await;
    tokio::spawn(run_controller(cluster.client()));
    let applies = RequestFilter::verb("patch").resource("configmaps");
    let fault = cluster.faults().inject(applies.clone(), Fault::conflict());

    let greeting = Greeting::new("hello", GreetingSpec { text: "Hello!".to_owned() });
    let greetings: Api<Greeting> = Api::default_namespaced(cluster.client());
    greetings.create(&PostParams::default(), &greeting).await.expect("the greeting is valid");

    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let has_text = |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.as_ref()).is_some_and(|data| data.get("text").is_some_and(|text| text == "Hello!"))
    };
    await_condition(maps.clone(), "hello", has_text).await.expect("the map is made");
    assert_eq!(fault.count(), 1);

    maps.delete("hello", &kube::api::DeleteParams::default()).await.expect("the map is deleted");
    await_condition(maps.clone(), "hello", has_text).await.expect("the map is made again");
    greetings.delete("hello", &kube::api::DeleteParams::default()).await.expect("the greeting is deleted");
    await_condition(maps, "hello", |map: Option<&ConfigMap>| map.is_none()).await.expect("the map is collected");
    cluster.requests().assert_count(&applies.code(409), 1);
}
