//! The mixed workload of a busy control plane. Nodes renew their leases and watch their pods. Pods are created, bound,
//! updated and deleted. Controllers watch all objects and sometimes list them. All of it runs concurrently in open
//! loops with separate rates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use super::megabytes;
use crate::Result;
use crate::client::{Protocol, get, patch, plain, with_body};
use crate::load::{Load, ResponseObserver, RoundResult, Workload};
use crate::objects::{
    binding, create, fill, lease, lease_revisions, leases_path, pod, pods_path, resource_version, running_status_patch,
};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;
use crate::watchers::WatchOptions;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "mixed",
    description: "mixed control plane workload: leases of 5,000 nodes, pod churn, controllers' lists and watches",
    requires_binary: false,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The interval of a node's lease renewals, in seconds.
const LEASE_RENEWAL_SECONDS: f64 = 10.0;
/// The number of pods created and deleted per second for each thousand nodes.
const POD_CHURN_PER_1000_NODES: f64 = 20.0;
/// The number of long-lived pods per node.
const PODS_PER_NODE: u64 = 4;
/// The number of lists of 500 pods per second.
const LISTS_PER_SECOND: f64 = 5.0;
/// The number of controllers. Each has a watch of all pods and a watch of all leases.
const CONTROLLERS: usize = 10;
/// The delay between two stages of a pod's lifecycle.
const STAGE_DELAY: Duration = Duration::from_secs(1);
/// The number of clients of each loop.
const CLIENTS: usize = 32;

/// One of the concurrent open loops.
struct ConcurrentLoop {
    name: &'static str,
    rate: f64,
    /// The delay of the loop's start.
    delay: Duration,
    expect: StatusCode,
    workload: Workload,
    observer: Option<ResponseObserver>,
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (nodes, time) = (bench.plan.nodes, bench.plan.open_loop_duration);
    let mut target = bench.target().await?;
    let namespace = target.namespace("mixed").await?;
    let server = target.server.clone();
    let node = |number: u64| format!("node-{number}");
    fill(&server, &leases_path(&namespace), nodes, move |number| lease(&node(number), 0, None)).await?;
    let standing = move |number| pod(&format!("standing-{number}"), &node(number % nodes), number);
    fill(&server, &pods_path(&namespace), nodes * PODS_PER_NODE, standing).await?;

    let collection = pods_path(&namespace);
    let list = server.connect().await?.fetch(get(format!("{collection}?limit=1")), StatusCode::OK).await?;
    let from = resource_version(&list).ok_or("the list has no resourceVersion")?;
    let from = format!("watch=true&resourceVersion={from}");
    // Each node has its own connection.
    let kubelets = (0..nodes as usize)
        .map(|number| get(format!("/api/v1/pods?{from}&fieldSelector=spec.nodeName%3D{}", node(number as u64))));
    let watch_options = WatchOptions::new(Protocol::Http1);
    let kubelets = watch_options.open(&server, kubelets).await?;
    let broad = [format!("{collection}?{from}"), format!("{}?{from}", leases_path(&namespace))];
    let broad = (0..2 * CONTROLLERS).map(|number| get(broad[number % 2].as_str()));
    let controllers = watch_options.open(&server, broad).await?;

    let loops = loops(&namespace, nodes, lease_revisions(&server, &namespace, nodes).await?);
    server.meter.reset_peak()?;
    let cpu = server.meter.cpu_time()?;
    let running: Vec<_> = loops.into_iter().map(|part| tokio::spawn(part.run(server.clone(), time))).collect();
    let began = Instant::now();
    bench.report.section(format!(
        "mixed workload: control plane with {} nodes and {} Pods, open loop",
        thousands(nodes as f64),
        thousands((nodes * PODS_PER_NODE) as f64)
    ));
    for part in running {
        let (name, round) = part.await??;
        let latencies = round.percentiles();
        let note = format!("{:.0}/s", round.rate());
        bench.report.row(format!("{name}: p99"), latencies.p99, "ms").scheduled_latencies(latencies).note(note);
    }
    let spent = server.meter.cpu_time_since(cpu)?.map(|cpu| cpu.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0);
    let events = (kubelets.events() + controllers.events()) as f64 / began.elapsed().as_secs_f64();
    bench
        .report
        .row("watch events delivered", events, "/s")
        .note(format!("to {} watches", nodes as usize + 2 * CONTROLLERS));
    bench.report.row_if_known("server CPU", spent, "% of a core", |row| row);
    let peak = server.meter.peak_resident_bytes()?.map(megabytes);
    bench.report.row_if_known("peak memory", peak, "MB", |row| row.note("resident"));
    kubelets.close().await;
    controllers.close().await;
    target.tear_down().await
}

impl ConcurrentLoop {
    async fn run(self, server: Server, time: Duration) -> Result<(&'static str, RoundResult)> {
        tokio::time::sleep(self.delay).await;
        let load = Load::open(CLIENTS, self.rate, time).expect_status(self.expect);
        let load = match self.observer {
            Some(observer) => load.observed_by(observer),
            None => load,
        };
        Ok((self.name, load.run(&server, &self.workload).await?))
    }
}

/// The concurrent loops of the workload.
fn loops(namespace: &str, nodes: u64, revisions: Arc<[AtomicU64]>) -> Vec<ConcurrentLoop> {
    let part = |name, rate, workload: Workload| ConcurrentLoop {
        name,
        rate,
        delay: Duration::ZERO,
        expect: StatusCode::OK,
        workload,
        observer: None,
    };
    let (leases, pods) = (leases_path(namespace), pods_path(namespace));
    let stored = revisions.clone();
    let renew: Workload = Arc::new(move |_, number| {
        let node = number % nodes;
        let (name, replaces) = (format!("node-{node}"), stored[node as usize].load(Ordering::Relaxed));
        Some(with_body(Method::PUT, format!("{leases}/{name}"), lease(&name, number + 1, Some(replaces))))
    });
    let renewed: ResponseObserver = Arc::new(move |answer| {
        let stored = &revisions[(answer.number % nodes) as usize];
        stored.store(resource_version(answer.body).unwrap_or_default(), Ordering::Relaxed);
    });
    let churn = POD_CHURN_PER_1000_NODES * nodes as f64 / 1e3;
    // The stages of a pod's lifecycle. The n-th request of each stage is for the n-th pod.
    let stage = |number: u32, name, expect, request: fn(&str, u64, u64) -> crate::client::HttpRequest| {
        let pods = pods.clone();
        let workload: Workload = Arc::new(move |_, number| Some(request(&pods, number, nodes)));
        ConcurrentLoop { delay: STAGE_DELAY * number, expect, ..part(name, churn, workload) }
    };
    let listing = |query: &str| -> Workload {
        let path = format!("{pods}?{query}");
        Arc::new(move |_, _| Some(get(path.as_str())))
    };
    vec![
        ConcurrentLoop {
            observer: Some(renewed),
            ..part("lease renewals", nodes as f64 / LEASE_RENEWAL_SECONDS, renew)
        },
        stage(0, "Pod creates", StatusCode::CREATED, |pods, number, _| {
            create(pods, pod(&format!("churn-{number}"), "", number))
        }),
        stage(1, "Pod bindings", StatusCode::CREATED, |pods, number, nodes| {
            let name = format!("churn-{number}");
            create(format!("{pods}/{name}/binding"), binding(&name, &format!("node-{}", number % nodes)))
        }),
        stage(2, "Pod status patches", StatusCode::OK, |pods, number, _| {
            patch(
                format!("{pods}/churn-{number}/status"),
                "application/strategic-merge-patch+json",
                running_status_patch(number),
            )
        }),
        stage(3, "Pod deletes", StatusCode::OK, |pods, number, _| {
            plain(Method::DELETE, format!("{pods}/churn-{number}?gracePeriodSeconds=0"))
        }),
        part("lists of 500 Pods", LISTS_PER_SECOND, listing("limit=500")),
        part("lists by label, 1 % of the Pods", LISTS_PER_SECOND, listing("labelSelector=app%3Dweb-7")),
    ]
}
