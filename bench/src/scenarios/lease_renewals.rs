//! Renewals of node leases at full speed, by a user with 50 role bindings. Each renewal is acknowledged after its sync.
//! A cluster of two hundred thousand nodes sends as many renewals.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::Method;

use super::access::{bind, credentials};
use crate::Result;
use crate::client::{Protocol, with_body};
use crate::load::{Load, ResponseObserver, Workload, median_round};
use crate::objects::{fill, lease, lease_revisions, leases_path, resource_version};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "lease-renewals",
    description: "durable renewals of node leases by a user with 50 bindings, 64 clients",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

const CLIENTS: usize = 64;
/// The number of leases that each client renews in turn.
const LEASES_PER_CLIENT: u64 = 64;
const NAMESPACE: &str = "default";
/// The minimum number of renewals per second.
const RATE_BUDGET: f64 = 20_000.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (binary, folder) = (bench.binary()?, bench.scratch().join("data-leases"));
    let process = bench.start_server(&folder).await?;
    let server = process.server.clone();
    bind(&mut server.connect().await?).await?;
    let user = credentials(&binary, &folder, &server, "user", &["kubeconfig", "--user", "bench"])?;
    let collection = leases_path(NAMESPACE);
    fill(&user, &collection, CLIENTS as u64 * LEASES_PER_CLIENT, |number| lease(&node(number), 0, None)).await?;
    bench.report.section(format!("durable renewals of leases by a user with 50 bindings, {CLIENTS} clients"));
    let revisions = lease_revisions(&user, NAMESPACE, CLIENTS as u64 * LEASES_PER_CLIENT).await?;
    for (name, protocol) in [("HTTP/1.1", Protocol::Http1), ("HTTP/2, one connection", Protocol::Http2)] {
        let mut rounds = Vec::new();
        for _ in 0..bench.plan.rounds {
            let (collection, known) = (collection.clone(), revisions.clone());
            let workload: Workload = Arc::new(move |client, sent| {
                let number = client as u64 * LEASES_PER_CLIENT + sent % LEASES_PER_CLIENT;
                let (name, replaces) = (node(number), known[number as usize].load(Ordering::Relaxed));
                Some(with_body(Method::PUT, format!("{collection}/{name}"), lease(&name, sent + 1, Some(replaces))))
            });
            let known = revisions.clone();
            let renewed: ResponseObserver = Arc::new(move |answer| {
                if let Some(stored) = node_number(answer.body).and_then(|number| known.get(number)) {
                    stored.store(resource_version(answer.body).unwrap_or_default(), Ordering::Relaxed);
                }
            });
            let load = Load::closed(CLIENTS, bench.plan.duration).protocol(protocol).observed_by(renewed);
            rounds.push(load.run(&user, &workload).await?);
        }
        let round = median_round(rounds);
        bench.report.row(name, round.rate(), "/s").round(&round).at_least(RATE_BUDGET);
    }
    process.stop().await
}

fn node(number: u64) -> String {
    format!("node-{number}")
}

/// The number of the node in a lease's JSON.
fn node_number(json: &[u8]) -> Option<usize> {
    const KEY: &[u8] = br#""name":"node-"#;
    let from = json.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let digits = json[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}
