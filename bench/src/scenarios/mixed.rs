//! A control plane's day: nodes renew their leases and watch their pods, pods come, are bound, run and go, controllers
//! watch everything and list now and then. All of it at once, each at its own pace, in open loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};

use super::megabytes;
use crate::Result;
use crate::client::{Protocol, get, patch, plain, with_body};
use crate::load::{Load, Round, Script, Witness};
use crate::objects::{bind, create, fill, lease, leases, pod, pods, revision, running};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Server;
use crate::watchers::Watching;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "mixed",
    does: "a control plane's day: leases of 5,000 nodes, pods that come and go, controllers' lists and watches",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// How often a node renews its lease, in seconds.
const RENEWAL: f64 = 10.0;
/// Pods that come (and go) per second for each thousand nodes.
const CHURN: f64 = 20.0;
/// Pods that are there all the time, for each node.
const STANDING: u64 = 4;
/// Lists of 500 pods per second.
const LISTS: f64 = 5.0;
/// Controllers that watch all pods, and all leases.
const CONTROLLERS: usize = 10;
/// How long after the one stage of a pod's life the next begins.
const STAGE: Duration = Duration::from_secs(1);
/// Clients of each loop.
const CLIENTS: usize = 32;

/// A loop that runs beside the others.
struct Part {
    name: &'static str,
    rate: f64,
    /// How long after the first it begins.
    delay: Duration,
    expect: StatusCode,
    script: Script,
    witness: Option<Witness>,
}

async fn run(bench: &mut Bench) -> Result<()> {
    let (nodes, time) = (bench.plan.nodes, bench.plan.open);
    let mut target = bench.target().await?;
    let namespace = target.namespace("mixed").await?;
    let server = target.server.clone();
    let node = |number: u64| format!("node-{number}");
    fill(&server, &leases(&namespace), nodes, move |number| lease(&node(number), 0, None)).await?;
    let standing = move |number| pod(&format!("standing-{number}"), &node(number % nodes), number);
    fill(&server, &pods(&namespace), nodes * STANDING, standing).await?;

    let collection = pods(&namespace);
    let list = server.connect().await?.fetch(get(format!("{collection}?limit=1")), StatusCode::OK).await?;
    let from = revision(&list).ok_or("the list has no resourceVersion")?;
    let from = format!("watch=true&resourceVersion={from}");
    // A node has a connection of its own.
    let kubelets = (0..nodes as usize)
        .map(|number| get(format!("/api/v1/pods?{from}&fieldSelector=spec.nodeName%3D{}", node(number as u64))));
    let watching = Watching::over(Protocol::Http1);
    let kubelets = watching.open(&server, kubelets).await?;
    let broad = [format!("{collection}?{from}"), format!("{}?{from}", leases(&namespace))];
    let broad = (0..2 * CONTROLLERS).map(|number| get(broad[number % 2].as_str()));
    let controllers = watching.open(&server, broad).await?;

    let parts = parts(&namespace, nodes, revisions(&server, &namespace, nodes).await?);
    server.meter.forget_peak()?;
    let cpu = server.meter.cpu()?;
    let running: Vec<_> = parts.into_iter().map(|part| tokio::spawn(part.run(server.clone(), time))).collect();
    let began = Instant::now();
    bench.report.section(format!(
        "a control plane with {} nodes and {} pods, open loop",
        thousands(nodes as f64),
        thousands((nodes * STANDING) as f64)
    ));
    for part in running {
        let (name, round) = part.await??;
        let latencies = round.percentiles();
        let note = format!("{:.0}/s", round.rate());
        bench.report.row(format!("{name}: p99"), latencies.p99, "ms").since_due(latencies).note(note);
    }
    let spent = server.meter.cpu_since(cpu)?.map(|cpu| cpu.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0);
    let events = (kubelets.events() + controllers.events()) as f64 / began.elapsed().as_secs_f64();
    bench.report.row("events delivered", events, "/s").note(format!("to {} watches", nodes as usize + 2 * CONTROLLERS));
    bench.report.row_if("CPU of the server", spent, "% of a core", |row| row);
    let peak = server.meter.peak()?.map(megabytes);
    bench.report.row_if("most memory", peak, "MB", |row| row.note("resident"));
    kubelets.close().await;
    controllers.close().await;
    target.finish().await
}

impl Part {
    async fn run(self, server: Server, time: Duration) -> Result<(&'static str, Round)> {
        tokio::time::sleep(self.delay).await;
        let load = Load::open(CLIENTS, self.rate, time).expecting(self.expect);
        let load = match self.witness {
            Some(witness) => load.witnessed(witness),
            None => load,
        };
        Ok((self.name, load.run(&server, &self.script).await?))
    }
}

/// The revision of each node's lease, which a renewal has to name.
async fn revisions(server: &Server, namespace: &str, nodes: u64) -> Result<Arc<[AtomicU64]>> {
    let list = server.connect().await?.fetch(get(leases(namespace)), StatusCode::OK).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revisions: Arc<[AtomicU64]> = (0..nodes).map(|_| AtomicU64::new(0)).collect();
    for lease in list["items"].as_array().into_iter().flatten() {
        let metadata = &lease["metadata"];
        let number = metadata["name"].as_str().and_then(|name| name.rsplit('-').next()?.parse::<usize>().ok());
        let revision = metadata["resourceVersion"].as_str().and_then(|revision| revision.parse().ok());
        if let (Some(held), Some(revision)) = (number.and_then(|number| revisions.get(number)), revision) {
            held.store(revision, Ordering::Relaxed);
        }
    }
    Ok(revisions)
}

/// All that goes on at once.
fn parts(namespace: &str, nodes: u64, revisions: Arc<[AtomicU64]>) -> Vec<Part> {
    let part = |name, rate, script: Script| Part {
        name,
        rate,
        delay: Duration::ZERO,
        expect: StatusCode::OK,
        script,
        witness: None,
    };
    let (leases, pods) = (leases(namespace), pods(namespace));
    let held = revisions.clone();
    let renew: Script = Arc::new(move |_, number| {
        let node = number % nodes;
        let (name, replaces) = (format!("node-{node}"), held[node as usize].load(Ordering::Relaxed));
        Some(with_body(Method::PUT, format!("{leases}/{name}"), lease(&name, number + 1, Some(replaces))))
    });
    let renewed: Witness = Arc::new(move |answer| {
        let held = &revisions[(answer.number % nodes) as usize];
        held.store(revision(answer.body).unwrap_or_default(), Ordering::Relaxed);
    });
    let churn = CHURN * nodes as f64 / 1e3;
    // The stages of a pod's life: the n-th request of each is about the n-th pod.
    let stage = |number: u32, name, expect, request: fn(&str, u64, u64) -> crate::client::Outgoing| {
        let pods = pods.clone();
        let script: Script = Arc::new(move |_, number| Some(request(&pods, number, nodes)));
        Part { delay: STAGE * number, expect, ..part(name, churn, script) }
    };
    let listing = |query: &str| -> Script {
        let path = format!("{pods}?{query}");
        Arc::new(move |_, _| Some(get(path.as_str())))
    };
    vec![
        Part { witness: Some(renewed), ..part("leases renewed", nodes as f64 / RENEWAL, renew) },
        stage(0, "pods created", StatusCode::CREATED, |pods, number, _| {
            create(pods, pod(&format!("churn-{number}"), "", number))
        }),
        stage(1, "pods bound", StatusCode::CREATED, |pods, number, nodes| {
            let name = format!("churn-{number}");
            create(format!("{pods}/{name}/binding"), bind(&name, &format!("node-{}", number % nodes)))
        }),
        stage(2, "pods' status patched", StatusCode::OK, |pods, number, _| {
            patch(format!("{pods}/churn-{number}/status"), "application/strategic-merge-patch+json", running(number))
        }),
        stage(3, "pods deleted", StatusCode::OK, |pods, number, _| {
            plain(Method::DELETE, format!("{pods}/churn-{number}?gracePeriodSeconds=0"))
        }),
        part("lists of 500 pods", LISTS, listing("limit=500")),
        part("lists by label, one pod of a hundred", LISTS, listing("labelSelector=app%3Dweb-7")),
    ]
}
