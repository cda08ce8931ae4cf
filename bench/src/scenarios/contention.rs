//! Contention: servers with two, four and eight worker threads, and clients that write one key, one collection or many
//! collections. If the server was built with the feature `lock-hold-times`, the report has a table of all locks and
//! their hold times.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::access::{bind, credentials};
use super::conversion::wait_until_served;
use super::crds::create_crd;
use super::create::create_workload;
use crate::Result;
use crate::client::{HttpRequest, Protocol, get, patch, plain, with_body};
use crate::load::{Load, Workload, median_round};
use crate::objects::crd::{custom_object, custom_objects_path};
use crate::objects::{config_map, config_maps_path, create, fill, pod, pods_path};
use crate::report::LockHolds;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess};
use crate::watchers::WatchOptions;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "contention",
    description: "writers of one key, one collection and many, with 2, 4 and 8 worker threads; locks, if they are recorded",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The numbers of worker threads.
const THREADS: [usize; 3] = [2, 4, 8];
/// The number of clients, and of collections.
const CLIENTS: usize = 32;
const COLLECTIONS: u64 = 16;
/// The number of watches of each written collection, and the number of objects in the listed collection.
const WATCHERS: usize = 20;
const LISTED: u64 = 1_000;
const NAMESPACE: &str = "default";

/// The numbers of a collection and of an object in it, by the number of the client that writes the object.
type WrittenBy = fn(u64) -> (u64, u64);

/// The keys that the clients write.
const WRITERS: [(&str, WrittenBy); 3] = [
    ("one key", |_| (0, 0)),
    ("keys of one collection", |client| (0, client)),
    ("keys of many collections", |client| (client % COLLECTIONS, client)),
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let binary = bench.binary()?;
    let mut servers = Vec::new();
    for threads in THREADS {
        let folder = bench.scratch().join(format!("contention-{threads}"));
        let process = ServerProcess::pintle_with_threads(&binary, &folder, threads).await?;
        prepare(&process.server).await?;
        let user = credentials(&binary, &folder, &process.server, "user", &["kubeconfig", "--user", "bench"])?;
        let before = lock_holds(&process.server).await?;
        servers.push((threads, process, user, before));
    }
    bench.report.section(format!("contention: merge patches of custom objects, {CLIENTS} clients"));
    for (name, target) in WRITERS {
        let patches: Workload = Arc::new(move |client, sent| {
            let (collection, object) = target(client as u64);
            Some(patch_request(collection, object, client, sent))
        });
        let mut found = THREADS.map(|_| Vec::new());
        for _ in 0..bench.plan.rounds {
            for ((_, process, ..), rounds) in servers.iter().zip(&mut found) {
                rounds.push(Load::closed(CLIENTS, bench.plan.duration).run(&process.server, &patches).await?);
            }
        }
        for (threads, rounds) in THREADS.iter().zip(found) {
            let round = median_round(rounds);
            bench.report.row(format!("{name}, {threads} worker threads"), round.rate(), "/s").round(&round);
        }
    }
    let mut holds = LockHolds::default();
    for (_, process, user, before) in servers {
        if !before.is_empty() {
            send_everything(bench, &process.server, &user).await?;
            holds.add(&lock_holds(&process.server).await?, &before);
        }
        process.stop().await?;
    }
    bench.report.lock_holds = holds;
    for threads in THREADS {
        std::fs::remove_dir_all(bench.scratch().join(format!("contention-{threads}")))?;
    }
    Ok(())
}

fn patch_request(collection: u64, object: u64, client: usize, sent: u64) -> HttpRequest {
    let body = format!(r#"{{"spec":{{"count1":{}}}}}"#, (sent * CLIENTS as u64 + client as u64) % 1_000_000);
    let path = format!("{}/object-{object}", custom_objects_path(collection, NAMESPACE));
    patch(path, "application/merge-patch+json", body)
}

/// Creates the objects that the clients write.
async fn prepare(server: &Server) -> Result<()> {
    let mut connection = server.connect().await?;
    bind(&mut connection).await?;
    for collection in 0..COLLECTIONS {
        create_crd(&mut connection, collection, 0).await?;
        let path = custom_objects_path(collection, NAMESPACE);
        wait_until_served(&mut connection, &path).await?;
        for object in 0..CLIENTS as u64 {
            let object = custom_object(collection, &format!("object-{object}"), object);
            connection.execute(create(path.as_str(), object), StatusCode::CREATED).await?;
        }
    }
    Ok(())
}

/// Sends requests of all kinds, so that the server takes its locks.
async fn send_everything(bench: &ScenarioContext, server: &Server, user: &Server) -> Result<()> {
    let maps = config_maps_path(NAMESPACE);
    fill(server, &maps, LISTED, |number| config_map(&format!("listed-{number}"), number)).await?;
    let quota = r#"{"metadata":{"name":"quota"},"spec":{"hard":{"pods":"1000000","count/configmaps":"1000000"}}}"#;
    let quotas = format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas");
    server.connect().await?.execute(with_body(Method::POST, quotas, quota), StatusCode::CREATED).await?;
    let watch = format!("{maps}?watch=true");
    let watches = (0..WATCHERS).map(|_| get(watch.as_str()));
    let watchers = WatchOptions::new(Protocol::Http2).open(user, watches).await?;
    let load = Load::closed(CLIENTS, bench.plan.duration);
    let creates = load.clone().expect_status(StatusCode::CREATED);
    let read = format!("{maps}/listed-0");
    let gets: Workload = Arc::new(move |_, _| Some(get(read.as_str())));
    load.run(user, &gets).await?;
    load.clone().protocol(Protocol::Http2).run(user, &gets).await?;
    let list = format!("{maps}?labelSelector=app%3Dother");
    let lists: Workload = Arc::new(move |_, sent| {
        Some(get(if sent % 2 == 0 { format!("{list}&limit=500") } else { format!("{list}&resourceVersion=0") }))
    });
    load.run(user, &lists).await?;
    creates.run(user, &create_workload(NAMESPACE, "made".to_owned())).await?;
    let pods = pods_path(NAMESPACE);
    let pods: Workload =
        Arc::new(move |client, sent| Some(create(pods.as_str(), pod(&format!("pod-{client}-{sent}"), "", sent))));
    creates.run(server, &pods).await?;
    let deletes: Workload = Arc::new(move |client, sent| {
        let number = sent * CLIENTS as u64 + client as u64;
        (number < LISTED).then(|| plain(Method::DELETE, format!("{maps}/listed-{number}")))
    });
    load.run(server, &deletes).await?;
    watchers.close().await;
    Ok(())
}

async fn lock_holds(server: &Server) -> Result<LockHolds> {
    let text = server.connect().await?.fetch(get("/metrics"), StatusCode::OK).await?;
    Ok(LockHolds::read(&String::from_utf8_lossy(&text)))
}
