//! Server-side apply of deployments and pods: with one field changed, and with none.

use crate::Result;
use crate::client::{Outgoing, patch};
use crate::objects::{deployment, deployments, fill_with, pod, pods};
use crate::peer;
use crate::scenario::{Bench, Scenario};
use crate::scenarios::changes::{CLIENTS, Change, OWN, measure, nth};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "apply",
    does: "server-side apply of deployments and pods, 16 clients",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// What all objects are made of: applies that change one field say nothing else anew.
const SEED: u64 = 7;

const DEPLOYMENTS: [Change; 2] = [
    Change {
        name: "applies of a deployment, one field changed",
        request: |collection, name, number| apply_deployment(collection, name, number % 1_000),
        peer: Some((peer::APPLY_DEPLOYMENT, 10.0)),
    },
    Change {
        name: "applies of a deployment, nothing changed",
        request: |collection, name, _| apply_deployment(collection, name, 0),
        peer: Some((peer::APPLY_DEPLOYMENT, 10.0)),
    },
];

const PODS: [Change; 2] = [
    Change { name: "applies of a pod, one field changed", request: apply_pod, peer: Some((peer::APPLY_POD, 5.0)) },
    Change {
        name: "applies of a pod, nothing changed",
        request: |collection, name, _| apply_pod(collection, name, 0),
        peer: Some((peer::APPLY_POD, 5.0)),
    },
];

fn apply(collection: &str, name: &str, body: impl Into<bytes::Bytes>) -> Outgoing {
    let path = format!("{collection}/{name}?fieldManager=bench&force=true");
    patch(path, "application/apply-patch+yaml", body)
}

fn apply_deployment(collection: &str, name: &str, replicas: u64) -> Outgoing {
    apply(collection, name, deployment(name, replicas, SEED))
}

/// Of a pod only what its metadata says can change.
fn apply_pod(collection: &str, name: &str, number: u64) -> Outgoing {
    let pod = String::from_utf8_lossy(&pod(name, "", SEED)).into_owned();
    apply(collection, name, pod.replacen(r#""tier":"front""#, &format!(r#""tier":"front-{number}""#), 1))
}

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("apply").await?;
    bench.report.section(format!("server-side apply of objects of 2 KiB, {CLIENTS} clients"));
    let count = CLIENTS as u64 * OWN;
    let collection = deployments(&namespace);
    let make = collection.clone();
    fill_with(&target.server, count, move |number| apply_deployment(&make, &nth(number), 0)).await?;
    measure(bench, &target.server, &collection, &DEPLOYMENTS).await?;
    let collection = pods(&namespace);
    let make = collection.clone();
    fill_with(&target.server, count, move |number| apply_pod(&make, &nth(number), 0)).await?;
    measure(bench, &target.server, &collection, &PODS).await?;
    target.finish().await
}
