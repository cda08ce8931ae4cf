//! Server-side apply of Deployments and Pods, with one changed field and without a change.

use crate::Result;
use crate::client::{HttpRequest, patch};
use crate::objects::{create_all, deployment, deployments_path, pod, pods_path};
use crate::scenario::{Scenario, ScenarioContext};
use crate::scenarios::update_cases::{CLIENTS, OBJECTS_PER_CLIENT, UpdateCase, measure, nth_name};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "apply",
    description: "server-side apply of Deployments and Pods, 16 clients",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The seed of all objects. It is constant, so that an apply changes nothing but the intended field.
const SEED: u64 = 7;

const DEPLOYMENTS: [UpdateCase; 2] = [
    UpdateCase {
        name: "apply of a Deployment, one field changed",
        request: |collection, name, number| apply_deployment(collection, name, number % 1_000),
        cheaper_than_go: Some(10.0),
    },
    UpdateCase {
        name: "apply of a Deployment, no change",
        request: |collection, name, _| apply_deployment(collection, name, 0),
        cheaper_than_go: Some(10.0),
    },
];

const PODS: [UpdateCase; 2] = [
    UpdateCase { name: "apply of a Pod, one field changed", request: apply_pod, cheaper_than_go: Some(5.0) },
    UpdateCase {
        name: "apply of a Pod, no change",
        request: |collection, name, _| apply_pod(collection, name, 0),
        cheaper_than_go: Some(5.0),
    },
];

fn apply(collection: &str, name: &str, body: impl Into<bytes::Bytes>) -> HttpRequest {
    let path = format!("{collection}/{name}?fieldManager=bench&force=true");
    patch(path, "application/apply-patch+yaml", body)
}

fn apply_deployment(collection: &str, name: &str, replicas: u64) -> HttpRequest {
    apply(collection, name, deployment(name, replicas, SEED))
}

/// Changes a label, because most fields of a pod's spec are immutable.
pub(super) fn apply_pod(collection: &str, name: &str, number: u64) -> HttpRequest {
    let pod = String::from_utf8_lossy(&pod(name, "", SEED)).into_owned();
    apply(collection, name, pod.replacen(r#""tier":"front""#, &format!(r#""tier":"front-{number}""#), 1))
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("apply").await?;
    bench.report.section(format!("server-side apply of objects of 2 KiB, {CLIENTS} clients"));
    let count = CLIENTS as u64 * OBJECTS_PER_CLIENT;
    let collection = deployments_path(&namespace);
    let make = collection.clone();
    create_all(&target.server, count, move |number| apply_deployment(&make, &nth_name(number), 0)).await?;
    measure(bench, &target.server, &collection, &DEPLOYMENTS).await?;
    let collection = pods_path(&namespace);
    let make = collection.clone();
    create_all(&target.server, count, move |number| apply_pod(&make, &nth_name(number), 0)).await?;
    measure(bench, &target.server, &collection, &PODS).await?;
    target.tear_down().await
}
