//! Custom objects: creates, patches and lists of a kind without rules in CEL, and of one with twenty.

use std::sync::Arc;

use http::StatusCode;

use super::definitions::make;
use crate::Result;
use crate::client::{Outgoing, get, patch};
use crate::load::{Load, Script, median};
use crate::objects::create;
use crate::objects::definition::{thing, things};
use crate::scenario::{Bench, Scenario};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "custom",
    does: "creates, patches and lists of custom objects with and without rules in CEL, 16 clients",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

const CLIENTS: usize = 16;
/// How many objects are listed.
const LISTED: u64 = 1_000;
/// The kinds: what they are called in the report, and how many rules they have.
const KINDS: [(&str, usize); 2] = [("without rules", 0), ("with 20 rules", 20)];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("custom").await?;
    bench.report.section(format!("custom objects of 1 KiB, {CLIENTS} clients"));
    for (number, (name, rules)) in KINDS.into_iter().enumerate() {
        let number = number as u64;
        let collection = things(number, &namespace);
        make(&mut target.server.connect().await?, number, rules).await?;
        fill(&target.server, number, &collection, bench.plan.listed.min(LISTED)).await?;
        let made = collection.clone();
        let creates: Script = Arc::new(move |client, sent| {
            let name = format!("made-{client}-{sent}");
            Some(create(made.as_str(), thing(number, &name, sent)))
        });
        // Names come twice in a second round.
        measure(bench, &target.server, &format!("creates {name}"), StatusCode::CREATED, 1, &creates).await?;
        let rounds = bench.plan.rounds;
        let changed = collection.clone();
        let patches: Script = Arc::new(move |client, sent| Some(change(&changed, client, sent)));
        measure(bench, &target.server, &format!("patches {name}"), StatusCode::OK, rounds, &patches).await?;
        let listed = format!("{collection}?limit={LISTED}");
        let lists: Script = Arc::new(move |_, _| Some(get(listed.as_str())));
        measure(bench, &target.server, &format!("lists of {LISTED} {name}"), StatusCode::OK, rounds, &lists).await?;
    }
    target.finish().await
}

fn change(collection: &str, client: usize, sent: u64) -> Outgoing {
    let body = format!(r#"{{"spec":{{"count1":{}}}}}"#, sent % 1_000);
    patch(format!("{collection}/listed-{client}"), "application/merge-patch+json", body)
}

/// Makes what is listed and patched.
async fn fill(server: &Server, number: u64, collection: &str, count: u64) -> Result<()> {
    let mut connection = server.connect().await?;
    for at in 0..count.max(CLIENTS as u64) {
        let object = create(collection, thing(number, &format!("listed-{at}"), at));
        connection.exchange(object, StatusCode::CREATED).await?;
    }
    Ok(())
}

async fn measure(
    bench: &mut Bench,
    server: &Server,
    name: &str,
    expect: StatusCode,
    rounds: usize,
    script: &Script,
) -> Result<()> {
    let mut found = Vec::new();
    for _ in 0..rounds {
        found.push(Load::closed(CLIENTS, bench.plan.time).expecting(expect).run(server, script).await?);
    }
    let round = median(found);
    bench.report.row(name, round.rate(), "/s").round(&round);
    Ok(())
}
