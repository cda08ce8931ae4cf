//! Custom objects: creates, patches and lists of a kind without CEL validation rules, and of a kind with twenty rules.

use std::sync::Arc;

use http::StatusCode;

use super::conversion::wait_until_served;
use super::crds::create_crd;
use crate::Result;
use crate::client::{HttpRequest, get, patch};
use crate::load::{Load, Workload, median_round};
use crate::objects::crd::{custom_object, custom_objects_path};
use crate::objects::create;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "custom-objects",
    description: "creates, patches and lists of custom objects with and without CEL rules, 16 clients",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

const CLIENTS: usize = 16;
/// The number of objects in a list.
const LISTED: u64 = 1_000;
/// The kinds: their name in the report, and their number of CEL rules.
const KINDS: [(&str, usize); 2] = [("without rules", 0), ("with 20 rules", 20)];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("custom").await?;
    bench.report.section(format!("custom objects of 1 KiB, {CLIENTS} clients"));
    for (number, (name, rules)) in KINDS.into_iter().enumerate() {
        let number = number as u64;
        let collection = custom_objects_path(number, &namespace);
        let mut connection = target.server.connect().await?;
        create_crd(&mut connection, number, rules).await?;
        wait_until_served(&mut connection, &collection).await?;
        fill(&target.server, number, &collection, bench.plan.listed_objects.min(LISTED)).await?;
        let made = collection.clone();
        let creates: Workload = Arc::new(move |client, sent| {
            let name = format!("made-{client}-{sent}");
            Some(create(made.as_str(), custom_object(number, &name, sent)))
        });
        // There is only one round, because a second round would repeat names.
        measure(bench, &target.server, &format!("creates {name}"), StatusCode::CREATED, 1, &creates).await?;
        let rounds = bench.plan.rounds;
        let changed = collection.clone();
        let patches: Workload = Arc::new(move |client, sent| Some(patch_request(&changed, client, sent)));
        measure(bench, &target.server, &format!("patches {name}"), StatusCode::OK, rounds, &patches).await?;
        let listed = format!("{collection}?limit={LISTED}");
        let lists: Workload = Arc::new(move |_, _| Some(get(listed.as_str())));
        measure(bench, &target.server, &format!("lists of {LISTED} {name}"), StatusCode::OK, rounds, &lists).await?;
    }
    target.tear_down().await
}

fn patch_request(collection: &str, client: usize, sent: u64) -> HttpRequest {
    let body = format!(r#"{{"spec":{{"count1":{}}}}}"#, sent % 1_000);
    patch(format!("{collection}/listed-{client}"), "application/merge-patch+json", body)
}

/// Creates the objects that are listed and patched.
async fn fill(server: &Server, number: u64, collection: &str, count: u64) -> Result<()> {
    let mut connection = server.connect().await?;
    for at in 0..count.max(CLIENTS as u64) {
        let object = create(collection, custom_object(number, &format!("listed-{at}"), at));
        connection.execute(object, StatusCode::CREATED).await?;
    }
    Ok(())
}

async fn measure(
    bench: &mut ScenarioContext,
    server: &Server,
    name: &str,
    expect: StatusCode,
    rounds: usize,
    workload: &Workload,
) -> Result<()> {
    let mut found = Vec::new();
    for _ in 0..rounds {
        found.push(Load::closed(CLIENTS, bench.plan.duration).expect_status(expect).run(server, workload).await?);
    }
    let round = median_round(found);
    bench.report.row(name, round.rate(), "/s").round(&round);
    Ok(())
}
