//! Writes of pods of 2 KiB by a user with 50 role bindings: creates, merge patches, server-side apply, and a kubelet's
//! status updates. Pods are the largest objects that are numerous.

use std::sync::Arc;

use http::StatusCode;

use super::access::{bind, credentials};
use super::apply::apply_pod;
use super::update_cases::{CLIENTS, OBJECTS_PER_CLIENT, name, nth_name};
use crate::Result;
use crate::client::{HttpRequest, patch};
use crate::load::{Load, Workload, median_round};
use crate::objects::{create, create_all, kubelet_status_patch, pod, pods_path};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pods",
    description: "pods, by a user with 50 bindings: creates, merge patches, server-side apply, status updates of a kubelet",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

const NAMESPACE: &str = "default";
/// The seed of all changed pods. It is constant, so that an apply changes nothing but the intended field.
const SEED: u64 = 7;

/// One kind of write.
pub(super) struct Write {
    pub(super) name: &'static str,
    /// Creates the request for the n-th write of an object. The arguments are the collection, the object's name and the
    /// number.
    pub(super) request: fn(&str, &str, u64) -> HttpRequest,
    pub(super) expect: StatusCode,
    /// The maximum CPU time, in microseconds.
    budget: f64,
}

pub(super) const WRITES: [Write; 4] = [
    Write {
        name: "create",
        request: |collection, name, number| create(collection, pod(&format!("new-{name}-{number}"), "", number)),
        expect: StatusCode::CREATED,
        budget: 110.0,
    },
    Write {
        name: "merge patch of a label",
        request: |collection, name, number| {
            let body = format!(r#"{{"metadata":{{"labels":{{"tier":"front-{number}"}}}}}}"#);
            patch(format!("{collection}/{name}"), "application/merge-patch+json", body)
        },
        expect: StatusCode::OK,
        budget: 140.0,
    },
    Write {
        name: "status update of a kubelet (strategic merge of conditions)",
        request: |collection, name, number| {
            let media_type = "application/strategic-merge-patch+json";
            patch(format!("{collection}/{name}/status"), media_type, kubelet_status_patch(number))
        },
        expect: StatusCode::OK,
        budget: 120.0,
    },
    Write {
        name: "apply of the whole pod, one label changed",
        request: apply_pod,
        expect: StatusCode::OK,
        budget: 190.0,
    },
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (binary, folder) = (bench.binary()?, bench.scratch().join("data-pods"));
    let process = bench.start_server(&folder).await?;
    let server = process.server.clone();
    bind(&mut server.connect().await?).await?;
    let user = credentials(&binary, &folder, &server, "user", &["kubeconfig", "--user", "bench"])?;
    let collection = pods_path(NAMESPACE);
    let make = collection.clone();
    let count = CLIENTS as u64 * OBJECTS_PER_CLIENT;
    create_all(&user, count, move |number| create(make.as_str(), pod(&nth_name(number), "node", SEED))).await?;
    bench.report.section(format!("writes of pods of 2 KiB by a user with 50 bindings, {CLIENTS} clients: CPU time"));
    for write in &WRITES {
        measure(bench, &user, &collection, write).await?;
    }
    process.stop().await
}

async fn measure(bench: &mut ScenarioContext, user: &Server, collection: &str, write: &Write) -> Result<()> {
    let mut rounds = Vec::new();
    for round in 0..bench.plan.rounds as u64 {
        let (collection, request) = (collection.to_owned(), write.request);
        let workload: Workload = Arc::new(move |client, sent| {
            // The number is unique, and alternates between even and odd for each object.
            let number = (round << 32) + sent + sent / OBJECTS_PER_CLIENT + 1;
            Some(request(&collection, &name(client as u64, sent % OBJECTS_PER_CLIENT), number))
        });
        let load = Load::closed(CLIENTS, bench.plan.duration).expect_status(write.expect);
        rounds.push(load.run(user, &workload).await?);
    }
    let round = median_round(rounds);
    let cost = round.cpu_micros();
    let note = format!("{:.0}/s", round.rate());
    bench.report.row_if_known(write.name, cost, "µs", |row| row.cpu(cost).note(note).at_most(write.budget));
    Ok(())
}
