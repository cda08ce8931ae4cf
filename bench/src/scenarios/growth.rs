//! How cost grows with what a cluster contains: one kind of thing at a time is multiplied by ten and by a hundred, and a GET, a
//! create and an event of a namespace that has nothing to do with it are measured each time, by a user with RBAC; besides the
//! memory that each thing takes, and the start with all of them.

use std::path::PathBuf;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::access::{bind, credentials};
use super::admission::{binding, policy, rule};
use super::create::create_workload;
use super::definitions::create_definition;
use crate::Result;
use crate::client::{HttpRequest, Protocol, get, with_body};
use crate::load::{Load, Workload, median};
use crate::objects::{config_map, config_maps_path, create, create_all, resource_version};
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

/// The number of clients.
const CLIENTS: usize = 16;
/// The watchers of the events that are measured.
const WATCHERS: usize = 20;
/// How much more anything may cost beside more things.
const MAX_RATIO: f64 = 1.1;
const NAMESPACE: &str = "default";
/// The namespace of objects that have nothing to do with the measured ones.
const OTHER: &str = "other";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// What is multiplied.
struct Dimension {
    name: &'static str,
    /// The number at first.
    count: u64,
    things: Things,
}

/// How the n-th thing is made.
enum Things {
    /// By requests that create objects; all first ones come before the second ones.
    Objects(&'static [fn(u64) -> HttpRequest]),
    /// Dependents of one object.
    Dependents,
    /// A definition, until it is established.
    Definitions,
    /// A watch of other things.
    Watches,
}

const DIMENSIONS: [Dimension; 9] = [
    Dimension { name: "objects", count: 1000, things: Things::Objects(&[other_object]) },
    Dimension { name: "namespaces", count: 20, things: Things::Objects(&[namespace]) },
    Dimension { name: "definitions", count: 8, things: Things::Definitions },
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

/// What was measured beside a number of things.
struct Measured {
    get: f64,
    create: f64,
    event: f64,
}

async fn grow(bench: &mut ScenarioContext, dimension: &Dimension, binary: PathBuf, folder: PathBuf) -> Result<()> {
    let process = ServerProcess::pintle(&binary, &folder).await?;
    let server = process.server.clone();
    let mut connection = server.connect().await?;
    connection.execute(other_namespace(), StatusCode::CREATED).await?;
    connection.execute(create(config_maps_path(NAMESPACE), config_map("object", 1)), StatusCode::CREATED).await?;
    bind(&mut connection).await?;
    let user = credentials(&binary, &folder, &server, "user", &["kubeconfig", "--user", "bench"])?;
    // A server that has just started is slower.
    measure(bench, &user, 0).await?;
    let (mut first, mut existing, mut memory, mut open_watches) = (None, 0, 0.0, Vec::new());
    let (divisor, steps) = bench.plan.growth;
    for factor in steps {
        let count = (dimension.count / divisor).max(1) * factor;
        let before = resident(bench, &server).await?;
        open_watches.extend(dimension.add(&server, existing, count).await?);
        memory += resident(bench, &server).await? - before;
        existing = count;
        let measured = measure(bench, &user, *factor).await?;
        let name = dimension.name;
        let report = &mut bench.report;
        let Some(first) = &first else {
            for (what, cost) in [("GET", measured.get), ("create", measured.create), ("event", measured.event)] {
                report.row(format!("{count} {name}: {what}"), cost, "µs");
            }
            first = Some(measured);
            continue;
        };
        let costs = [
            ("GET", measured.get, first.get),
            ("create", measured.create, first.create),
            ("event", measured.event, first.event),
        ];
        for (what, cost, at_first) in costs {
            let row = report.row(format!("{count} {name}: {what}, ratio to the fewest"), cost / at_first, "");
            row.cpu(Some(cost)).at_most(MAX_RATIO);
        }
        report.row(format!("{count} {name}: memory of each"), memory / count as f64 / 1e3, "KB");
    }
    drop(open_watches);
    process.stop().await?;
    let again = ServerProcess::pintle(&binary, &folder).await?;
    let ready = again.time_to_address.as_secs_f64() * 1e3;
    bench.report.row(format!("{existing} {}: start", dimension.name), ready, "ms");
    again.stop().await?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

impl Dimension {
    /// Adds things until there are `to`. Returns watches that have to stay open.
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
            Things::Definitions => {
                let mut connection = server.connect().await?;
                for number in from..to {
                    create_definition(&mut connection, number, 0).await?;
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

/// The resident memory when the allocator has given back what it can.
async fn resident(bench: &ScenarioContext, server: &Server) -> Result<f64> {
    // Until the controllers have seen the new objects.
    tokio::time::sleep(bench.plan.idle).await;
    Ok(server.settled_memory(&bench.plan).await?.unwrap_or_default() as f64)
}

async fn measure(bench: &ScenarioContext, user: &Server, factor: u64) -> Result<Measured> {
    let object = format!("{}/object", config_maps_path(NAMESPACE));
    let mut connection = user.connect().await?;
    let gets: Workload = Arc::new(move |_, _| Some(get(object.as_str())));
    let (mut get_costs, mut create_costs, mut event_costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.plan.rounds {
        let load = Load::closed(CLIENTS, bench.plan.duration);
        get_costs.push(load.run(user, &gets).await?.cpu_micros().unwrap_or_default());
        let load = load.expect_status(StatusCode::CREATED);
        let creates = |name: &str| create_workload(NAMESPACE, format!("{name}-{factor}-{round}"));
        let plain = load.run(user, &creates("c")).await?.cpu_micros().unwrap_or_default();
        create_costs.push(plain);
        let list = connection.fetch(get(format!("{}?limit=1", config_maps_path(NAMESPACE))), StatusCode::OK).await?;
        let from = resource_version(&list).ok_or("the list has no resourceVersion")?;
        let path = format!("{}?watch=true&resourceVersion={from}", config_maps_path(NAMESPACE));
        let watchers = WatchOptions::new(Protocol::Http1).open(user, (0..WATCHERS).map(|_| get(path.as_str()))).await?;
        let cpu = user.meter.cpu_time()?;
        let created = load.run(user, &creates("w")).await?.completed;
        watchers.wait_for(created * WATCHERS as u64).await?;
        let cpu = user.meter.cpu_time_since(cpu)?.unwrap_or_default();
        watchers.close().await;
        event_costs.push((cpu.as_secs_f64() * 1e6 / created.max(1) as f64 - plain) / WATCHERS as f64);
    }
    Ok(Measured { get: median(get_costs), create: median(create_costs), event: median(event_costs) })
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
    // Nobody is there, but it is not called.
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
