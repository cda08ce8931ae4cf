//! Deletions that continue after the response: a namespace with objects of many kinds, and the dependents of an
//! owner. Meanwhile other clients send GETs, whose latency is measured.

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
use crate::load::{Load, RoundResult, Workload};
use crate::objects::{config_map, config_maps_path, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "cascading-delete",
    description: "deletion of a namespace with 10,000 objects, and of an owner with 100,000 dependents",
    requires_binary: false,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The kinds in the namespace: the API path, the plural, and the fields of an object besides its metadata.
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
/// The pod that replaces `POD` in [`KINDS`].
const POD: &str = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"a","image":"b"}]}}"#;

/// The budget for the deletion of the namespace, in seconds.
const MAX_NAMESPACE_SECONDS: f64 = 5.0;
/// The budget for the p99 of GETs during the deletion, in milliseconds.
const MAX_GET_P99_MS: f64 = 50.0;
/// The number of clients that send GETs, and their rate per second.
const CLIENTS: usize = 8;
const RATE: f64 = 500.0;
/// The number of objects that these clients get.
const OBJECTS: u64 = 256;
/// The pause between two checks whether a deletion is complete. A list with a limit also counts the remaining objects,
/// which costs the server some work.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The timeout of a deletion.
const TIMEOUT: Duration = Duration::from_secs(600);

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let (count, each) = (bench.plan.pods, bench.plan.listed_objects / KINDS.len() as u64);
    let mut target = bench.target().await?;
    let (server, read) = (target.server.clone(), target.namespace("read").await?);
    fill(&server, &config_maps_path(&read), OBJECTS, |number| config_map(&format!("o-{number}"), number)).await?;

    let namespace = target.namespace("full").await?;
    for (root, plural, rest) in KINDS {
        let collection = format!("/{root}/namespaces/{namespace}/{plural}");
        fill(&server, &collection, each, move |number| object(number, rest)).await?;
    }
    let result = measure_during_gets(&server, &read, async |connection: &mut Connection| {
        let path = format!("/api/v1/namespaces/{namespace}");
        connection.execute(plain(Method::DELETE, path.as_str()), StatusCode::OK).await?;
        wait_until_deleted(connection, &path).await
    })
    .await?;
    bench.report.section(format!("cascading deletes, with {RATE:.0} GETs/s meanwhile"));
    let objects = thousands((each * KINDS.len() as u64) as f64);
    result.report(
        bench,
        &format!("namespace with {objects} objects of {} kinds", KINDS.len()),
        Some(MAX_NAMESPACE_SECONDS),
    );

    for policy in ["Background", "Foreground"] {
        let namespace = target.namespace(&policy.to_lowercase()).await?;
        let before = server.settled_memory(&bench.plan).await?;
        let mut connection = server.connect().await?;
        let made = connection
            .fetch(with_body(Method::POST, config_maps_path(&namespace), config_map("owner", 0)), StatusCode::CREATED);
        let owner: Value = serde_json::from_slice(&made.await?)?;
        let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
        let reference = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
        }]);
        let metadata = format!(r#","ownerReferences":{reference}"#);
        fill(&server, &secrets, count, move |number| named(number, &metadata, "")).await?;
        let result = measure_during_gets(&server, &read, async |connection: &mut Connection| {
            let path = format!("{}/owner", config_maps_path(&namespace));
            let delete = plain(Method::DELETE, format!("{path}?propagationPolicy={policy}"));
            connection.execute(delete, StatusCode::OK).await?;
            wait_until_deleted(connection, &path).await?;
            wait_until_empty(connection, &secrets).await
        })
        .await?;
        let name = format!("owner with {} dependents, {}", thousands(count as f64), policy.to_lowercase());
        result.report(bench, &name, None);
        let after = server.settled_memory(&bench.plan).await?;
        bench
            .report
            .row_if_known(format!("{name}: memory before its creation"), before.map(megabytes), "MB", |row| row);
        bench.report.row_if_known(format!("{name}: memory after the deletion"), after.map(megabytes), "MB", |row| {
            row.note("includes the history of the last minutes")
        });
    }
    target.tear_down().await
}

/// The n-th object of a kind.
fn object(number: u64, rest: &str) -> Bytes {
    named(number, "", &rest.replace("POD", POD))
}

/// An object with additional metadata and additional fields.
fn named(number: u64, metadata: &str, rest: &str) -> Bytes {
    let comma = if rest.is_empty() { "" } else { "," };
    format!(r#"{{"metadata":{{"name":"n-{number:06}"{metadata}}}{comma}{rest}}}"#).into()
}

/// The duration and CPU time of a deletion, and the latencies of concurrent GETs.
struct DeletionResult {
    seconds: f64,
    cpu: Option<Duration>,
    gets: RoundResult,
}

impl DeletionResult {
    fn report(&self, bench: &mut ScenarioContext, name: &str, limit: Option<f64>) {
        let row = bench.report.row(format!("{name}: time until deleted"), self.seconds, "s");
        let row = match limit {
            Some(limit) => row.at_most(limit),
            None => row,
        };
        if let Some(cpu) = self.cpu {
            row.note(format!("{:.1} s of CPU, including the GETs", cpu.as_secs_f64()));
        }
        let latencies = self.gets.percentiles();
        bench
            .report
            .row(format!("{name}: p99 of GETs"), latencies.p99, "ms")
            .scheduled_latencies(latencies)
            .at_most(MAX_GET_P99_MS);
    }
}

/// Runs `work` on its own connection while other clients send GETs.
async fn measure_during_gets(
    server: &Server,
    read: &str,
    work: impl AsyncFnOnce(&mut Connection) -> Result<()>,
) -> Result<DeletionResult> {
    let (is_finished, collection) = (Arc::new(AtomicBool::new(false)), config_maps_path(read));
    let stop = is_finished.clone();
    let workload: Workload = Arc::new(move |_, sent| {
        (!stop.load(Ordering::Relaxed)).then(|| get(format!("{collection}/o-{}", sent % OBJECTS)))
    });
    let gets = tokio::spawn({
        let server = server.clone();
        async move { Load::open(CLIENTS, RATE, TIMEOUT).run(&server, &workload).await }
    });
    let mut connection = server.connect().await?;
    let (cpu, started) = (server.meter.cpu_time()?, Instant::now());
    let outcome = work(&mut connection).await;
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), server.meter.cpu_time_since(cpu)?);
    is_finished.store(true, Ordering::Relaxed);
    let gets = gets.await??;
    outcome.map(|()| DeletionResult { seconds, cpu, gets })
}

/// Waits until an object is deleted.
async fn wait_until_deleted(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let answer = connection.send(get(path)).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(());
        }
        answer.into_body().collect().await?;
        pause_before_retry(started, path).await?;
    }
}

/// Waits until a collection is empty.
async fn wait_until_empty(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    loop {
        let list = connection.fetch(get(format!("{path}?limit=1")), StatusCode::OK).await?;
        let list: Value = serde_json::from_slice(&list)?;
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        pause_before_retry(started, path).await?;
    }
}

async fn pause_before_retry(since: Instant, path: &str) -> Result<()> {
    if since.elapsed() > TIMEOUT {
        return Err(format!("{path} was not deleted in time").into());
    }
    tokio::time::sleep(POLL_INTERVAL).await;
    Ok(())
}
