//! Deletions that go on after their answer: a namespace with objects of many kinds, and the dependents of an owner, while
//! others go on asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::megabytes;
use crate::Result;
use crate::client::{Connection, get, plain, with_body};
use crate::load::{Load, Round, Script};
use crate::objects::{config_map, config_maps, fill};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "deletion",
    does: "a namespace with 10,000 objects of 20 kinds, and an owner with 100,000 dependents, until all is gone",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// The kinds that fill a namespace: the path before it, the plural, and what an object needs beside its metadata.
const KINDS: [(&str, &str, &str); 20] = [
    ("api/v1", "configmaps", ""),
    ("api/v1", "secrets", ""),
    ("api/v1", "serviceaccounts", ""),
    ("api/v1", "endpoints", ""),
    ("api/v1", "limitranges", r#""spec":{"limits":[]}"#),
    ("api/v1", "podtemplates", r#""template":POD"#),
    ("api/v1", "replicationcontrollers", r#""spec":{"selector":{"app":"a"},"template":POD}"#),
    ("apis/apps/v1", "deployments", WORKLOAD),
    ("apis/apps/v1", "replicasets", WORKLOAD),
    ("apis/apps/v1", "daemonsets", WORKLOAD),
    ("apis/apps/v1", "statefulsets", WORKLOAD),
    ("apis/apps/v1", "controllerrevisions", r#""revision":1,"data":{"a":"b"}"#),
    (
        "apis/batch/v1",
        "jobs",
        r#""spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}"#,
    ),
    ("apis/rbac.authorization.k8s.io/v1", "roles", r#""rules":[]"#),
    ("apis/coordination.k8s.io/v1", "leases", ""),
    ("apis/discovery.k8s.io/v1", "endpointslices", r#""addressType":"IPv4","endpoints":[]"#),
    ("apis/networking.k8s.io/v1", "networkpolicies", r#""spec":{"podSelector":{}}"#),
    (
        "apis/networking.k8s.io/v1",
        "ingresses",
        r#""spec":{"defaultBackend":{"service":{"name":"a","port":{"number":1}}}}"#,
    ),
    ("apis/policy/v1", "poddisruptionbudgets", r#""spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}}"#),
    ("apis/storage.k8s.io/v1", "csistoragecapacities", r#""storageClassName":"a""#),
];
const WORKLOAD: &str = r#""spec":{"selector":{"matchLabels":{"app":"a"}},"template":POD}"#;
/// What stands for `POD`.
const POD: &str = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"b"}]}}"#;

/// How long a namespace may take until it is gone, in seconds.
const NAMESPACE: f64 = 5.0;
/// The p99 of gets that is allowed meanwhile, in milliseconds.
const LIMIT: f64 = 50.0;
/// Connections of those who get, and how many objects they get a second.
const CLIENTS: usize = 8;
const RATE: f64 = 500.0;
/// Objects that they get.
const OBJECTS: u64 = 256;
/// How long is waited before asking again whether something is gone. Whoever asks for one of many objects is told how many
/// more there are, which takes the server some work.
const PAUSE: Duration = Duration::from_millis(50);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);

async fn run(bench: &mut Bench) -> Result<()> {
    let (count, each) = (bench.plan.pods, bench.plan.listed / KINDS.len() as u64);
    let mut target = bench.target().await?;
    let (server, read) = (target.server.clone(), target.namespace("read").await?);
    fill(&server, &config_maps(&read), OBJECTS, |number| config_map(&format!("o-{number}"), number)).await?;

    let namespace = target.namespace("full").await?;
    for (root, plural, rest) in KINDS {
        let collection = format!("/{root}/namespaces/{namespace}/{plural}");
        fill(&server, &collection, each, move |number| object(number, rest)).await?;
    }
    let took = meanwhile(&server, &read, async |connection: &mut Connection| {
        let path = format!("/api/v1/namespaces/{namespace}");
        connection.exchange(plain(Method::DELETE, path.as_str()), StatusCode::OK).await?;
        gone(connection, &path).await
    })
    .await?;
    bench.report.section(format!("deletions of many, while {RATE:.0} objects a second are got"));
    let objects = thousands((each * KINDS.len() as u64) as f64);
    took.report(bench, &format!("namespace with {objects} objects of {} kinds", KINDS.len()), Some(NAMESPACE));

    for policy in ["Background", "Foreground"] {
        let namespace = target.namespace(&policy.to_lowercase()).await?;
        let before = server.settled(&bench.plan).await?;
        let mut connection = server.connect().await?;
        let made = connection
            .fetch(with_body(Method::POST, config_maps(&namespace), config_map("owner", 0)), StatusCode::CREATED);
        let owner: Value = serde_json::from_slice(&made.await?)?;
        let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
        let reference = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        }]);
        let metadata = format!(r#","ownerReferences":{reference}"#);
        fill(&server, &secrets, count, move |number| named(number, &metadata, "")).await?;
        let took = meanwhile(&server, &read, async |connection: &mut Connection| {
            let path = format!("{}/owner", config_maps(&namespace));
            let delete = plain(Method::DELETE, format!("{path}?propagationPolicy={policy}"));
            connection.exchange(delete, StatusCode::OK).await?;
            gone(connection, &path).await?;
            empty(connection, &secrets).await
        })
        .await?;
        let name = format!("owner with {} dependents, {}", thousands(count as f64), policy.to_lowercase());
        took.report(bench, &name, None);
        let after = server.settled(&bench.plan).await?;
        bench.report.row_if(format!("{name}: memory before it was filled"), before.map(megabytes), "MB", |row| row);
        bench.report.row_if(format!("{name}: memory when all is gone"), after.map(megabytes), "MB", |row| {
            row.note("with the history of the last minutes")
        });
    }
    target.finish().await
}

/// The n-th object of a kind.
fn object(number: u64, rest: &str) -> Bytes {
    named(number, "", &rest.replace("POD", POD))
}

/// An object with more in its metadata and beside them.
fn named(number: u64, metadata: &str, rest: &str) -> Bytes {
    let comma = if rest.is_empty() { "" } else { "," };
    format!(r#"{{"metadata":{{"name":"n-{number:06}"{metadata}}}{comma}{rest}}}"#).into()
}

/// How long something took, and what others met meanwhile.
struct Took {
    seconds: f64,
    cpu: Option<Duration>,
    gets: Round,
}

impl Took {
    fn report(&self, bench: &mut Bench, name: &str, limit: Option<f64>) {
        let row = bench.report.row(format!("{name}: until gone"), self.seconds, "s");
        let row = match limit {
            Some(limit) => row.at_most(limit),
            None => row,
        };
        if let Some(cpu) = self.cpu {
            row.note(format!("{:.1} s of CPU, with what is got", cpu.as_secs_f64()));
        }
        let latencies = self.gets.percentiles();
        bench.report.row(format!("{name}: p99 of gets"), latencies.p99, "ms").since_due(latencies).at_most(LIMIT);
    }
}

/// Does something on a connection of its own while others get objects.
async fn meanwhile(server: &Server, read: &str, work: impl AsyncFnOnce(&mut Connection) -> Result<()>) -> Result<Took> {
    let (over, collection) = (Arc::new(AtomicBool::new(false)), config_maps(read));
    let ends = over.clone();
    let script: Script = Arc::new(move |_, sent| {
        (!ends.load(Ordering::Relaxed)).then(|| get(format!("{collection}/o-{}", sent % OBJECTS)))
    });
    let gets = tokio::spawn({
        let server = server.clone();
        async move { Load::open(CLIENTS, RATE, PATIENCE).run(&server, &script).await }
    });
    let mut connection = server.connect().await?;
    let (cpu, started) = (server.meter.cpu()?, Instant::now());
    let worked = work(&mut connection).await;
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), server.meter.cpu_since(cpu)?);
    over.store(true, Ordering::Relaxed);
    let gets = gets.await??;
    worked.map(|()| Took { seconds, cpu, gets })
}

/// Waits until there is no such object.
async fn gone(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let answer = connection.send(get(path)).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(());
        }
        answer.into_body().collect().await?;
        waited(started, path).await?;
    }
}

/// Waits until a collection is empty.
async fn empty(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let list = connection.fetch(get(format!("{path}?limit=1")), StatusCode::OK).await?;
        let list: Value = serde_json::from_slice(&list)?;
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        waited(started, path).await?;
    }
}

async fn waited(since: Instant, path: &str) -> Result<()> {
    if since.elapsed() > PATIENCE {
        return Err(format!("{path} is still there").into());
    }
    tokio::time::sleep(PAUSE).await;
    Ok(())
}
