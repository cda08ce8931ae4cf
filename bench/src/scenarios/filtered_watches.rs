//! Very many watches with narrow selectors: the pods of a namespace, of a name or of a node. It measures their cost
//! while they are idle, and the cost of an event that one of them selects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;

use crate::Result;
use crate::client::{HttpRequest, Protocol, get, patch};
use crate::load::{Load, RoundResult, Workload};
use crate::objects::{create, pod, pods_path, resource_version};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, Target};
use crate::watchers::{WatchOptions, Watchers};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "filtered-watches",
    description: "10,000 open watches with narrow selectors: memory, CPU per event, CPU while idle",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of watches that receive events. All other watches receive none.
const ACTIVE_WATCHES: usize = 10;

/// The selector of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchSelector {
    Namespace(String),
    Name { namespace: String, name: String },
    Node(String),
}

impl WatchSelector {
    /// The watch request from a resourceVersion.
    fn watch(&self, revision: u64) -> HttpRequest {
        let from = format!("watch=true&resourceVersion={revision}");
        get(match self {
            WatchSelector::Namespace(namespace) => format!("{}?{from}", pods_path(namespace)),
            WatchSelector::Name { namespace, name } => {
                format!("{}?{from}&fieldSelector=metadata.name%3D{name}", pods_path(namespace))
            }
            WatchSelector::Node(node) => format!("/api/v1/pods?{from}&fieldSelector=spec.nodeName%3D{node}"),
        })
    }
}

/// A pod whose events exactly one watch selects, and the selector of that watch.
struct WatchedPod {
    path: String,
    selector: WatchSelector,
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let count = bench.plan.watches;
    bench.report.section(format!(
        "{} watches of Pods by namespace, name and node, {ACTIVE_WATCHES} of which receive events, {ACTIVE_WATCHES} writers",
        thousands(count as f64)
    ));
    for (protocol, name, limit) in [(Protocol::Http1, "HTTP/1.1", 48.0), (Protocol::Http2, "HTTP/2 streams", 8.0)] {
        let mut target = bench.target().await?;
        let watched_pods = watched_pods(&mut target).await?;
        let server = target.server.clone();
        let list = server.connect().await?.fetch(get("/api/v1/pods?limit=1"), StatusCode::OK).await?;
        let from = resource_version(&list).ok_or("the list has no resourceVersion")?;
        let watch_options = WatchOptions::new(protocol);
        let active = watch_options
            .open(&server, watched_pods.iter().map(|watched_pods| watched_pods.selector.watch(from)))
            .await?;
        let mut baseline_rounds = Vec::new();
        for _ in 0..bench.plan.rounds {
            baseline_rounds.push(events(&server, &watched_pods, &active, bench.plan.duration).await?);
        }
        let before = server.settled_memory(&bench.plan).await?;
        let shared = format!("{}-shared", target.namespace_prefix());
        let idle = (ACTIVE_WATCHES..count).map(|number| idle_selector(number, &shared).watch(from));
        let (opening, opening_cpu) = (Instant::now(), server.meter.cpu_time()?);
        let inactive = watch_options.open(&server, idle).await?;
        let opened = (count - ACTIVE_WATCHES) as f64 / opening.elapsed().as_secs_f64();
        let after = server.settled_memory(&bench.plan).await?;
        let (cpu, rest) = (server.meter.cpu_time()?, Instant::now());
        tokio::time::sleep(bench.plan.idle).await;
        let share =
            server.meter.cpu_time_since(cpu)?.map(|cpu| cpu.as_secs_f64() / rest.elapsed().as_secs_f64() * 100.0);
        let opening_cpu = server.meter.cpu_time_since(opening_cpu)?;
        let mut all_rounds = Vec::new();
        for _ in 0..bench.plan.rounds {
            all_rounds.push(events(&server, &watched_pods, &active, bench.plan.duration).await?);
        }

        let report = &mut bench.report;
        let each = after
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before) as f64 / 1e3 / (count - ACTIVE_WATCHES) as f64);
        let note = format!("opened at {opened:.0}/s");
        report.row_if_known(format!("{name}: memory per idle watch"), each, "KB", |row| row.at_most(limit).note(note));
        let events: u64 = baseline_rounds.iter().map(|round| round.completed).sum();
        let opening_micros = opening_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / (count - ACTIVE_WATCHES) as f64);
        report.row_if_known(format!("{name}: CPU to open a watch"), opening_micros, "µs", |row| {
            row.cpu(opening_micros).note(format!("with its connection, {} events back", thousands(events as f64)))
        });
        report.row_if_known(format!("{name}: CPU while idle"), share, "% of a core", |row| row);
        let (baseline_rounds, all_rounds) = (cheapest(baseline_rounds), cheapest(all_rounds));
        if let (Some(baseline_rounds), Some(much)) = (baseline_rounds.cpu_micros(), all_rounds.cpu_micros()) {
            let note = format!("{baseline_rounds:.1} µs with {ACTIVE_WATCHES} watches, including the write");
            let name = format!("{name}: CPU per event, ratio to {ACTIVE_WATCHES} watches");
            report.row(name, much / baseline_rounds, "").cpu(Some(much)).at_most(2.0).note(note);
        }
        if inactive.events() > 0 {
            return Err(
                format!("{} events were delivered to watches that do not select them", inactive.events()).into()
            );
        }
        inactive.close().await;
        active.close().await;
        target.tear_down().await?;
    }
    Ok(())
}

/// Creates the pods that the active watches select.
async fn watched_pods(target: &mut Target) -> Result<Vec<WatchedPod>> {
    let shared = target.namespace("shared").await?;
    let mut watched_pods = Vec::new();
    for number in 0..ACTIVE_WATCHES {
        let name = format!("wanted-{number}");
        let (namespace, node, selector) = match number % 3 {
            0 => {
                let own = target.namespace(&format!("own-{number}")).await?;
                (own.clone(), "elsewhere".to_owned(), WatchSelector::Namespace(own))
            }
            1 => {
                let selector = WatchSelector::Name { namespace: shared.clone(), name: name.clone() };
                (shared.clone(), "elsewhere".to_owned(), selector)
            }
            _ => {
                let node = format!("{}-node-{number}", target.namespace_prefix());
                (shared.clone(), node.clone(), WatchSelector::Node(node))
            }
        };
        let request = create(pods_path(&namespace), pod(&name, &node, number as u64));
        target.server.connect().await?.execute(request, StatusCode::CREATED).await?;
        watched_pods.push(WatchedPod { path: format!("{}/{name}", pods_path(&namespace)), selector });
    }
    Ok(watched_pods)
}

/// A selector that matches no event.
fn idle_selector(number: usize, shared: &str) -> WatchSelector {
    match number % 3 {
        0 => WatchSelector::Namespace(format!("idle-{number}")),
        1 => WatchSelector::Name { namespace: shared.to_owned(), name: format!("idle-{number}") },
        _ => WatchSelector::Node(format!("idle-{number}")),
    }
}

/// Patches the watched pods and waits until the watchers have received all events. Each pod has its own client in a
/// closed loop.
async fn events(
    server: &Server,
    watched_pods: &[WatchedPod],
    watchers: &Watchers,
    time: Duration,
) -> Result<RoundResult> {
    let paths: Arc<[String]> = watched_pods.iter().map(|watched_pods| watched_pods.path.clone()).collect();
    let before = watchers.events();
    let workload: Workload = Arc::new(move |client, sent| {
        // Each value is new, because a write without a change sends no event.
        let body = format!(r#"{{"metadata":{{"annotations":{{"example.com/changed":"{before}-{sent}"}}}}}}"#);
        Some(patch(paths[client].as_str(), "application/merge-patch+json", body))
    });
    let round = Load::closed(ACTIVE_WATCHES, time).run(server, &workload).await?;
    watchers.wait_for(before + round.completed).await?;
    Ok(round)
}

/// The round with the least CPU time. Disturbances only ever add CPU time.
fn cheapest(rounds: Vec<RoundResult>) -> RoundResult {
    rounds.into_iter().min_by_key(|round| round.cpu).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: WatchSelector, path: &str) {
        assert_eq!(selector.watch(7).uri().to_string(), path);
    }

    #[test]
    fn selectors_are_encoded_in_the_watch_path() {
        check(idle_selector(3, "s"), "/api/v1/namespaces/idle-3/pods?watch=true&resourceVersion=7");
        check(
            idle_selector(4, "s"),
            "/api/v1/namespaces/s/pods?watch=true&resourceVersion=7&fieldSelector=metadata.name%3Didle-4",
        );
        check(idle_selector(5, "s"), "/api/v1/pods?watch=true&resourceVersion=7&fieldSelector=spec.nodeName%3Didle-5");
    }
}
