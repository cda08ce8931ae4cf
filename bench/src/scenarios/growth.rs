//! The growth of cost with the content of a cluster. One kind of thing at a time is multiplied by ten and by a hundred.
//! Each time a GET, a create and an event in an unrelated namespace are measured for a user with RBAC. The memory of
//! each thing and the start with all things are measured too. A second server keeps the fewest things and is measured
//! in turn with the first server. So a machine that becomes slower or faster changes no ratio.
//!
//! Another scenario counts instructions. They show on any machine whether the server does more work beside more things.
//! Times also show whether an operation takes longer for other reasons, for example because memory is slower than
//! caches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::access::{bind, credentials};
use super::admission::{binding, policy, rule};
use super::crds::create_crd;
use super::create::create_workload;
use crate::Result;
use crate::callgrind::{Callgrind, PROFILE};
use crate::client::{HttpRequest, Protocol, get, with_body};
use crate::load::{Load, Workload, median};
use crate::objects::{config_map, config_maps_path, create, create_all, resource_version};
use crate::report::{CostKind, Growth, GrowthStep, MAX_RATIO, OPERATIONS, number};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess};
use crate::watchers::{WatchOptions, Watchers};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "growth",
    description: "GETs, creates and events beside ten and a hundred times as many other things",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

pub(crate) const INSTRUCTIONS: Scenario = Scenario {
    name: "growth-instructions",
    description: "instructions of GETs, creates and events, counted by valgrind, beside ten and a hundred times as many other things",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(count_instructions(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The number of watchers of the measured events.
const WATCHERS: usize = 20;
/// The maximum number of checks whether a server is idle.
const MAX_IDLE_WAITS: u32 = 100;
/// The number of requests before the count, the number of counted requests in a part, and the number of parts.
const WARM_UP: u32 = 40;
const COUNTED: u32 = 20;
const COUNTED_PARTS: u32 = 3;
const NAMESPACE: &str = "default";
/// The namespace of objects that are unrelated to the measured objects.
const OTHER: &str = "other";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A kind of thing whose number is multiplied.
struct Dimension {
    name: &'static str,
    /// The initial number of things.
    count: u64,
    things: Things,
}

/// The way to create the n-th thing.
enum Things {
    /// Requests that create objects. All first requests are sent before the second requests.
    Objects(&'static [fn(u64) -> HttpRequest]),
    /// Dependents of one object.
    Dependents,
    /// A CRD. The scenario waits until it is established.
    Crds,
    /// A watch of other objects.
    Watches,
}

const DIMENSIONS: [Dimension; 9] = [
    Dimension { name: "objects", count: 1000, things: Things::Objects(&[other_object]) },
    Dimension { name: "namespaces", count: 20, things: Things::Objects(&[namespace]) },
    Dimension { name: "CRDs", count: 8, things: Things::Crds },
    Dimension { name: "watches of other things", count: 20, things: Things::Watches },
    Dimension { name: "role bindings of others", count: 100, things: Things::Objects(&[role_binding]) },
    Dimension { name: "webhooks for other resources", count: 10, things: Things::Objects(&[webhook]) },
    Dimension {
        name: "policies for other resources",
        count: 10,
        things: Things::Objects(&[other_policy, other_policy_binding]),
    },
    Dimension { name: "quotas of other namespaces", count: 10, things: Things::Objects(&[namespace, quota]) },
    Dimension { name: "objects with one owner", count: 1000, things: Things::Dependents },
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let binary = bench.binary()?;
    bench
        .report
        .section("growth: CPU of a GET, a create, and an event for one of 20 watchers, by a user with 50 bindings");
    for (number, dimension) in DIMENSIONS.iter().enumerate() {
        let folder = bench.scratch().join(format!("growth-{number}"));
        grow(bench, dimension, binary.clone(), folder).await?;
    }
    Ok(())
}

/// A server with a number of things.
struct Cluster<'d> {
    dimension: &'d Dimension,
    binary: PathBuf,
    folder: PathBuf,
    process: ServerProcess,
    /// The server with the credentials of the user with RBAC.
    user: Server,
    /// The number of things.
    count: u64,
    /// The open watches, if the things are watches.
    open_watches: Vec<Watchers>,
    /// The number of measured rounds.
    rounds: usize,
}

/// The costs of each operation in the rounds so far.
type Costs = [Vec<f64>; 3];

async fn grow(bench: &mut ScenarioContext, dimension: &Dimension, binary: PathBuf, folder: PathBuf) -> Result<()> {
    let (divisor, factors) = bench.plan.growth;
    let smallest = (dimension.count / divisor).max(1);
    let mut few = Cluster::start(dimension, &binary, &folder.join("few")).await?;
    let mut many = Cluster::start(dimension, &binary, &folder.join("many")).await?;
    few.add_up_to(smallest).await?;
    // The first round is not counted, because a server that has just started is slower.
    few.measure(bench, &mut Costs::default()).await?;
    let (mut all_beside_fewest, mut steps) = (Costs::default(), Vec::new());
    for factor in factors.iter().filter(|factor| **factor > 1) {
        let (memory, count) = (many.resident(bench).await?, many.count);
        many.add_up_to(smallest * factor).await?;
        let memory = (many.resident(bench).await? - memory) / (many.count - count) as f64;
        many.measure(bench, &mut Costs::default()).await?;
        let (mut costs, mut costs_beside_fewest) = (Costs::default(), Costs::default());
        for _ in 0..bench.plan.rounds {
            few.measure(bench, &mut costs_beside_fewest).await?;
            many.measure(bench, &mut costs).await?;
        }
        let ratios = std::array::from_fn(|operation| {
            let rounds = costs[operation].iter().zip(&costs_beside_fewest[operation]);
            median(rounds.map(|(cost, beside_fewest)| cost / beside_fewest))
        });
        for (all, costs) in all_beside_fewest.iter_mut().zip(costs_beside_fewest) {
            all.extend(costs);
        }
        steps.push(GrowthStep {
            count: many.count,
            costs: costs.map(median),
            ratios,
            memory: Some(memory / 1e3),
            start: Some(many.restart().await?),
        });
    }
    let costs = all_beside_fewest.map(median);
    let start = Some(few.restart().await?);
    steps.insert(0, GrowthStep { count: smallest, costs, ratios: [1.0; 3], memory: None, start });
    few.process.stop().await?;
    many.process.stop().await?;
    std::fs::remove_dir_all(folder)?;
    report(bench, Growth { name: dimension.name, cost: CostKind::CpuTime, steps });
    Ok(())
}

async fn count_instructions(bench: &mut ScenarioContext) -> Result<()> {
    if !Callgrind::is_installed() {
        bench.report.remark("growth-instructions: skipped, requires valgrind");
        return Ok(());
    }
    let binary = bench.binary()?;
    bench.report.section(
        "growth: instructions of a GET, a create, and an event for one of 20 watchers, by a user with 50 bindings",
    );
    let (divisor, factors) = bench.plan.growth;
    for (number, dimension) in DIMENSIONS.iter().enumerate() {
        let folder = bench.scratch().join(format!("growth-instructions-{number}"));
        let mut cluster = Cluster::start(dimension, &binary, &folder).await?;
        let (smallest, mut steps) = ((dimension.count / divisor).max(1), Vec::<GrowthStep>::new());
        for factor in factors {
            cluster.add_up_to(smallest * factor).await?;
            let costs = cluster.instructions(bench).await?;
            let fewest = steps.first().map_or(costs, |step| step.costs);
            let ratios = std::array::from_fn(|operation| costs[operation] / fewest[operation]);
            steps.push(GrowthStep { count: smallest * factor, costs, ratios, memory: None, start: None });
            if steps.len() < factors.len() {
                cluster.restart().await?;
            }
        }
        cluster.process.stop().await?;
        std::fs::remove_dir_all(folder.with_extension("profiles"))?;
        std::fs::remove_dir_all(folder)?;
        report(bench, Growth { name: dimension.name, cost: CostKind::Instructions, steps });
    }
    Ok(())
}

fn report(bench: &mut ScenarioContext, growth: Growth) {
    let Growth { name, cost: kind, steps } = &growth;
    let unit = kind.unit();
    for (index, step) in steps.iter().enumerate() {
        let (count, report) = (step.count, &mut bench.report);
        for ((operation, cost), ratio) in OPERATIONS.iter().zip(step.costs).zip(step.ratios) {
            if index == 0 {
                report.row(format!("{count} {name}: {operation}"), cost, unit).growth();
                continue;
            }
            let row = report.row(format!("{count} {name}: {operation}, ratio to the fewest"), ratio, "");
            let row = row.at_most(MAX_RATIO).growth();
            match kind {
                CostKind::CpuTime => drop(row.cpu(Some(cost))),
                CostKind::Instructions => drop(row.note(format!("{} thousand", number(cost)))),
            }
        }
        if let Some(memory) = step.memory {
            report.row(format!("{count} {name}: memory of each"), memory, "KB").growth();
        }
        if let Some(start) = step.start {
            report.row(format!("{count} {name}: start"), start, "ms").growth();
        }
    }
    bench.report.growth.push(growth);
}

impl<'d> Cluster<'d> {
    /// Starts a server without things.
    async fn start(dimension: &'d Dimension, binary: &Path, folder: &Path) -> Result<Self> {
        let process = ServerProcess::pintle(binary, folder).await?;
        let mut connection = process.server.connect().await?;
        connection.execute(other_namespace(), StatusCode::CREATED).await?;
        connection.execute(create(config_maps_path(NAMESPACE), config_map("object", 1)), StatusCode::CREATED).await?;
        bind(&mut connection).await?;
        let user = user(binary, folder, &process.server)?;
        let (binary, folder) = (binary.to_owned(), folder.to_owned());
        Ok(Self { dimension, binary, folder, process, user, count: 0, open_watches: Vec::new(), rounds: 0 })
    }

    /// Starts the server again. Returns the milliseconds until it is ready.
    async fn restart(&mut self) -> Result<f64> {
        // Watches end with the server. The old server is stopped first, because two servers cannot have the same data.
        if !std::mem::take(&mut self.open_watches).is_empty() {
            self.count = 0;
        }
        self.process.terminate().await?;
        self.process = ServerProcess::pintle(&self.binary, &self.folder).await?;
        self.user = user(&self.binary, &self.folder, &self.process.server)?;
        Ok(self.process.time_to_address.as_secs_f64() * 1e3)
    }

    async fn add_up_to(&mut self, count: u64) -> Result<()> {
        self.open_watches.extend(self.dimension.add(&self.process.server, self.count, count).await?);
        self.count = count;
        Ok(())
    }

    /// The resident memory after the allocator has given back free memory.
    async fn resident(&self, bench: &ScenarioContext) -> Result<f64> {
        // The pause lets the controllers see the new objects, and lets the server pack their history.
        tokio::time::sleep(bench.plan.packing).await;
        Ok(self.process.server.settled_memory(&bench.plan).await?.unwrap_or_default() as f64)
    }

    /// The thousands of instructions that each operation takes on a server that was started with the present things.
    /// The server keeps running.
    async fn instructions(&mut self, bench: &ScenarioContext) -> Result<[f64; 3]> {
        self.process.terminate().await?;
        let profiles = self.folder.with_extension("profiles");
        if profiles.exists() {
            std::fs::remove_dir_all(&profiles)?;
        }
        std::fs::create_dir_all(&profiles)?;
        self.process =
            ServerProcess::pintle_under_callgrind(&self.binary, &self.folder, &profiles.join(PROFILE), None).await?;
        self.user = user(&self.binary, &self.folder, &self.process.server)?;
        if !std::mem::take(&mut self.open_watches).is_empty() {
            self.open_watches.extend(self.dimension.add(&self.process.server, 0, self.count).await?);
        }
        tokio::time::sleep(bench.plan.packing).await;
        self.wait_until_idle(bench).await?;
        let mut callgrind = Callgrind { process: self.process.id(), profiles, dumps: 0 };
        let (maps, round) = (config_maps_path(NAMESPACE), self.rounds);
        let object = format!("{maps}/object");
        let gets = count(&mut callgrind, &self.user, StatusCode::OK, |_| get(object.as_str())).await?;
        let creates = |name: &'static str| {
            let maps = maps.as_str();
            move |number| create(maps, config_map(&format!("i-{name}-{round}-{number}"), number))
        };
        let plain = count(&mut callgrind, &self.user, StatusCode::CREATED, creates("c")).await?;
        let watchers = self.watch().await?;
        let watched = count(&mut callgrind, &self.user, StatusCode::CREATED, creates("w")).await?;
        watchers.close().await;
        self.rounds += 1;
        Ok([gets, plain, (watched - plain) / WATCHERS as f64].map(|instructions| instructions / 1e3))
    }

    /// Waits until the server is nearly idle. Under valgrind, reading and packing the history of many objects takes
    /// long.
    async fn wait_until_idle(&self, bench: &ScenarioContext) -> Result<()> {
        let meter = &self.process.server.meter;
        for _ in 0..MAX_IDLE_WAITS {
            let before = meter.cpu_time()?;
            tokio::time::sleep(bench.plan.idle).await;
            if meter.cpu_time_since(before)?.unwrap_or_default() < bench.plan.idle / 10 {
                return Ok(());
            }
        }
        Err("the server does not become idle".into())
    }

    /// Opens the watches for the measured events.
    async fn watch(&self) -> Result<Watchers> {
        let maps = config_maps_path(NAMESPACE);
        let list = self.user.connect().await?.fetch(get(format!("{maps}?limit=1")), StatusCode::OK).await?;
        let from = resource_version(&list).ok_or("the list has no resourceVersion")?;
        let path = format!("{maps}?watch=true&resourceVersion={from}");
        WatchOptions::new(Protocol::Http1).open(&self.user, (0..WATCHERS).map(|_| get(path.as_str()))).await
    }

    /// Adds the costs of one round.
    async fn measure(&mut self, bench: &ScenarioContext, costs: &mut Costs) -> Result<()> {
        let (user, round) = (&self.user, self.rounds);
        self.rounds += 1;
        let object = format!("{}/object", config_maps_path(NAMESPACE));
        let gets: Workload = Arc::new(move |_, _| Some(get(object.as_str())));
        let load = Load::closed(CLIENTS, bench.plan.duration);
        costs[0].push(load.run(user, &gets).await?.cpu_micros().unwrap_or_default());
        let load = load.expect_status(StatusCode::CREATED);
        let creates = |name: &str| create_workload(NAMESPACE, format!("{name}-{round}"));
        let plain = load.run(user, &creates("c")).await?.cpu_micros().unwrap_or_default();
        costs[1].push(plain);
        let watchers = self.watch().await?;
        let cpu = user.meter.cpu_time()?;
        let created = load.run(user, &creates("w")).await?.completed;
        watchers.wait_for(created * WATCHERS as u64).await?;
        let cpu = user.meter.cpu_time_since(cpu)?.unwrap_or_default();
        watchers.close().await;
        costs[2].push((cpu.as_secs_f64() * 1e6 / created.max(1) as f64 - plain) / WATCHERS as f64);
        Ok(())
    }
}

/// The instructions of a request. It is the median of several parts, because the server sometimes does other work. The
/// first requests fill caches and grow buffers.
async fn count(
    callgrind: &mut Callgrind,
    user: &Server,
    expect: StatusCode,
    request: impl Fn(u64) -> HttpRequest,
) -> Result<f64> {
    let mut connection = user.connect().await?;
    for number in 0..WARM_UP {
        connection.execute(request(number.into()), expect).await?;
    }
    let mut counts = Vec::new();
    for part in 0..COUNTED_PARTS {
        let first = WARM_UP + part * COUNTED;
        let requests = (0..COUNTED).map(|number| request((first + number).into()));
        counts.push(callgrind.count(&mut connection, expect, requests).await?.each);
    }
    Ok(median(counts))
}

/// The server for a user with RBAC.
fn user(binary: &Path, folder: &Path, server: &Server) -> Result<Server> {
    credentials(binary, folder, server, "user", &["kubeconfig", "--user", "bench"])
}

impl Dimension {
    /// Adds things until there are `to`. Returns the watches that must stay open.
    async fn add(&self, server: &Server, from: u64, to: u64) -> Result<Option<Watchers>> {
        match self.things {
            Things::Objects(requests) => {
                for request in requests {
                    create_all(server, to - from, move |number| request(from + number)).await?;
                }
                Ok(None)
            }
            Things::Dependents => {
                let mut connection = server.connect().await?;
                let owner = format!("{}/owner", config_maps_path(OTHER));
                if from == 0 {
                    let created = create(config_maps_path(OTHER), config_map("owner", 0));
                    connection.execute(created, StatusCode::CREATED).await?;
                }
                let owner: Value = serde_json::from_slice(&connection.fetch(get(owner), StatusCode::OK).await?)?;
                let uid = owner["metadata"]["uid"].clone();
                create_all(server, to - from, move |number| dependent(from + number, &uid)).await?;
                Ok(None)
            }
            Things::Crds => {
                let mut connection = server.connect().await?;
                for number in from..to {
                    create_crd(&mut connection, number, 0).await?;
                }
                Ok(None)
            }
            Things::Watches => {
                let secrets = format!("/api/v1/namespaces/{OTHER}/secrets?watch=true");
                let count = usize::try_from(to - from)?;
                let requests = (0..count).map(|_| get(secrets.as_str()));
                Ok(Some(WatchOptions::new(Protocol::Http2).open(server, requests).await?))
            }
        }
    }
}

fn post(path: impl Into<String>, object: &Value) -> HttpRequest {
    with_body(Method::POST, path.into(), object.to_string())
}

fn other_namespace() -> HttpRequest {
    post("/api/v1/namespaces", &json!({"metadata": {"name": OTHER}}))
}

fn other_object(number: u64) -> HttpRequest {
    with_body(Method::POST, config_maps_path(OTHER), config_map(&format!("other-{number}"), number))
}

fn namespace(number: u64) -> HttpRequest {
    post("/api/v1/namespaces", &json!({"metadata": {"name": format!("other-{number}")}}))
}

fn quota(number: u64) -> HttpRequest {
    let path = format!("/api/v1/namespaces/other-{number}/resourcequotas");
    post(path, &json!({"metadata": {"name": "quota"}, "spec": {"hard": {"count/configmaps": "100", "pods": "100"}}}))
}

fn role_binding(number: u64) -> HttpRequest {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": format!("other-{number}")},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": format!("user-{number}")}],
    });
    post(format!("/apis/{group}/v1/namespaces/{OTHER}/rolebindings"), &binding)
}

fn webhook(number: u64) -> HttpRequest {
    // No server listens at this address, but the webhook is not called.
    let webhook = json!({
        "name": "other.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule("secrets")],
    });
    let object = json!({"metadata": {"name": format!("other-{number}")}, "webhooks": [webhook]});
    post(format!("{ADMISSION}/validatingwebhookconfigurations"), &object)
}

fn other_policy(number: u64) -> HttpRequest {
    post(format!("{ADMISSION}/validatingadmissionpolicies"), &policy(&format!("other-{number}"), "secrets"))
}

fn other_policy_binding(number: u64) -> HttpRequest {
    let name = format!("other-{number}");
    post(format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding(&name, &name, OTHER))
}

fn dependent(number: u64, owner: &Value) -> HttpRequest {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner});
    let metadata = json!({"name": format!("other-{number}"), "ownerReferences": [owner]});
    post(config_maps_path(OTHER), &json!({"metadata": metadata}))
}
