//! GETs beside hostile clients (`pintle_integration::ATTACKS`) and costly requests. It measures the latency of the
//! GETs, and the server's memory for each connection of an attack. The attackers have their own thread, so that they do
//! not delay the client of the GETs. But they share the machine's processors with the client and with the server.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{ATTACKS, Attack, AttackTarget};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use super::{costly_requests, megabytes};
use crate::Result;
use crate::client::get;
use crate::load::{Load, Workload};
use crate::objects::{config_map, config_maps_path, fill};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hostile",
    description: "GETs beside slow clients, floods, clients that do not read, and costly requests",
    requires_binary: false,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients that send GETs, and the number of GETs per second.
const CLIENTS: usize = 4;
const RATE: f64 = 100.0;
/// The budget for the p99 of the GETs, in milliseconds.
const MAX_P99_MS: f64 = 50.0;
/// The budget for the memory of a connection, in MB. The connection has 100 streams, each with a full send buffer of
/// 512 KiB and the next chunk of its response. Such a connection answers no pings, so it is closed after a minute.
const MAX_CONNECTION_MB: f64 = 80.0;
/// The size of the object that attacks get. A connection keeps each response in memory, so 100 streams with this object
/// are within the budget.
const LARGE_OBJECT_BYTES: usize = 512 << 10;
/// The pause of an attacker before it opens a connection again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The number of connections that are opened in each pause.
const OPENED_AT_ONCE: usize = 20;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps_path(&target.namespace("hostile").await?);
    let make = |number| config_map(&format!("o-{number}"), number);
    fill(&target.server, &collection, bench.plan.listed_objects, make).await?;
    let large = |_| {
        let text = "x".repeat(LARGE_OBJECT_BYTES);
        format!(r#"{{"metadata":{{"name":"z-large"}},"data":{{"text":"{text}"}}}}"#).into()
    };
    fill(&target.server, &collection, 1, large).await?;
    let path = format!("{collection}/o-1");
    let workload: Workload = Arc::new(move |_, _| Some(get(path.as_str())));
    let attacked = target.server.endpoint.attack_target(&collection, &format!("{collection}/z-large"));
    let attack_runtime = AttackRuntime::start()?;
    bench.report.section(format!("GETs beside hostile clients, {RATE}/s"));
    for attack in ATTACKS {
        let before = target.server.settled_memory(&bench.plan).await?;
        let connections = (attack.connections / bench.plan.attack_divisor).max(1);
        let attackers = attack_runtime.start_attack(attack, connections, &attacked, bench.plan.settle).await;
        let load = Load::open(CLIENTS, RATE, bench.plan.open_loop_duration);
        let latencies = load.run(&target.server, &workload).await?.percentiles();
        let during = target.server.meter.resident_bytes()?;
        drop(attackers);
        let grown = during.zip(before).map(|(during, before)| megabytes(during.saturating_sub(before)));
        let note = match grown {
            Some(grown) => {
                let each = grown * 1000.0 / connections as f64;
                format!("{connections} connections, {grown:.1} MB more resident memory, {each:.0} kB for each")
            }
            None => format!("{connections} connections"),
        };
        let row = bench.report.row(format!("{}: p99", attack.name), latencies.p99, "ms");
        row.scheduled_latencies(latencies).at_most(MAX_P99_MS).note(note);
        if let Some(grown) = grown {
            let row = bench.report.row(format!("{}: memory", attack.name), grown, "MB");
            row.at_most(MAX_CONNECTION_MB * connections as f64);
        }
    }
    if let Some(runtime) = attack_runtime.handle() {
        let load = Load::open(CLIENTS, RATE, bench.plan.open_loop_duration);
        costly_requests::run(bench, &target.server, &runtime, &load, &workload, MAX_P99_MS).await?;
    }
    target.tear_down().await
}

/// The thread of the attackers.
struct AttackRuntime(Option<Runtime>);

impl AttackRuntime {
    fn start() -> Result<Self> {
        Ok(Self(Some(Builder::new_multi_thread().worker_threads(1).thread_name("attack").enable_all().build()?)))
    }

    fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }

    /// Starts an attack. When the server closes a connection, its attacker opens another connection.
    async fn start_attack(
        &self,
        attack: &'static Attack,
        connections: usize,
        target: &AttackTarget,
        settle: Duration,
    ) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        let Some(runtime) = &self.0 else { return attackers };
        for number in 0..connections {
            let target = target.clone();
            let attacker = async move {
                loop {
                    attack.run(&target).await;
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                }
            };
            attackers.spawn_on(attacker, runtime.handle());
            if number % OPENED_AT_ONCE == 0 {
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
        }
        tokio::time::sleep(settle).await;
        attackers
    }
}

impl Drop for AttackRuntime {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, and a task must not wait for threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
