//! A controller: each `Website` gets a Deployment, and the status of the `Website` has the number of its ready pods.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The controller's field manager.
const MANAGER: &str = "website-controller";

/// A website that pods serve.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
pub struct WebsiteSpec {
    /// The image of the container.
    pub image: String,
    /// The number of pods.
    #[schemars(range(min = 1))]
    pub replicas: i32,
}

/// The state of a website.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The number of pods that are ready.
    pub ready_replicas: i32,
}

/// Runs the controller until the process ends.
pub async fn run(client: Client) {
    let (websites, deployments) = (Api::<Website>::all(client.clone()), Api::<Deployment>::all(client.clone()));
    let controller = Controller::new(websites, watcher::Config::default());
    let controller = controller.owns(deployments, watcher::Config::default());
    controller.run(reconcile, retry, Arc::new(client)).for_each(|_| async {}).await;
}

async fn reconcile(website: Arc<Website>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let (namespace, name) = (website.namespace().unwrap_or_default(), website.name_any());
    let deployments: Api<Deployment> = Api::namespaced(client.as_ref().clone(), &namespace);
    let apply = PatchParams::apply(MANAGER).force();
    let deployment = deployments.patch(&name, &apply, &Patch::Apply(desired_deployment(&website))).await?;

    let ready_replicas = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    let websites: Api<Website> = Api::namespaced(client.as_ref().clone(), &namespace);
    let status = json!({"status": WebsiteStatus { ready_replicas }});
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    websites.patch_status(&name, &parameters, &Patch::Merge(status)).await?;
    Ok(Action::await_change())
}

/// The deployment of a website. It is deleted with the website.
fn desired_deployment(website: &Website) -> Deployment {
    let name = website.name_any();
    let labels = Some([("website".to_owned(), name.clone())].into());
    let container =
        Container { name: "website".to_owned(), image: Some(website.spec.image.clone()), ..Container::default() };
    Deployment {
        metadata: ObjectMeta {
            name: Some(name),
            owner_references: website.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(website.spec.replicas),
            selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// A failed reconciliation is repeated. A controller for production would wait longer after each failure.
fn retry(_: Arc<Website>, _: &kube::Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(100))
}
