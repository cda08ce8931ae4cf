//! Requests for the version of another API server, alternating with a bare reverse proxy. Both are before the baseline
//! server, whose responses are precomputed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::json;

use crate::Result;
use crate::baseline;
use crate::certificates::{CLIENT_CERTIFICATE, CLIENT_KEY};
use crate::client::{Protocol, get, with_body};
use crate::comparison::{Concurrency, compare_with_baseline, start_baseline};
use crate::report::thousands;
use crate::reverse_proxy;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess, Target};
use crate::watchers::WatchOptions;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "aggregation",
    description: "GETs and watches of the objects of another API server, beside a bare reverse proxy",
    requires_binary: true,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;
/// The size of the object, in bytes.
const OBJECT_SIZE: usize = 1024;
/// How long the API server may stay unavailable.
const TIMEOUT: Duration = Duration::from_secs(60);
const OBJECT: &str = "/apis/bench.example.com/v1/namespaces/default/things/object";
const WATCH: &str = "/apis/bench.example.com/v1/namespaces/default/watch?watch=true";

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let object = Bytes::from(json!({ "data": "x".repeat(OBJECT_SIZE) }).to_string());
    let backend = start_baseline(bench.scratch(), &object, &Bytes::new()).await?;
    let proxy = reverse_proxy::start(bench.scratch(), &backend.server.endpoint.url()).await?;

    bench
        .report
        .section(format!("GET of an object of {} bytes of another API server, {CLIENTS} clients", object.len()));
    let target = start_target(bench, &backend).await?;
    for (protocol, name) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2, one connection")] {
        let concurrency = Concurrency { clients: CLIENTS, protocol };
        let reference = (&proxy, baseline::OBJECT);
        let comparison =
            compare_with_baseline(reference, &target.server, || get(OBJECT), concurrency, &bench.plan).await?;
        let proxy_cpu = comparison.baseline.cpu_micros().unwrap_or_default();
        let note = format!("bare proxy {:.0}/s, {proxy_cpu:.1} µs", comparison.baseline.rate());
        bench.report.row(name, comparison.server.rate(), "/s").round(&comparison.server).note(note);
        bench.report.row(format!("{name}: ratio to a bare proxy"), comparison.ratio, "").at_least(0.7);
    }
    target.tear_down().await?;

    let count = bench.plan.watches;
    bench.report.section(format!("{} watches of the objects of another API server", thousands(count as f64)));
    for (protocol, name, limit) in
        [(Protocol::Http1, "HTTP/1.1", None), (Protocol::Http2, "HTTP/2 streams", Some(24.0))]
    {
        let target = start_target(bench, &backend).await?;
        let server = &target.server;
        let before = server.settled_memory(&bench.plan).await?;
        let watchers = WatchOptions::new(protocol).open(server, (0..count).map(|_| get(WATCH))).await?;
        let after = server.settled_memory(&bench.plan).await?;
        let each = after.zip(before).map(|(after, before)| after.saturating_sub(before) as f64 / 1e3 / count as f64);
        bench.report.row_if_known(format!("{name}: memory per watch"), each, "KB", |row| match limit {
            Some(limit) => row.at_most(limit),
            None => row,
        });
        watchers.close().await;
        target.tear_down().await?;
    }
    proxy.stop().await?;
    backend.stop().await
}

/// Starts a server that passes requests on to the baseline server.
async fn start_target(bench: &mut ScenarioContext, backend: &ServerProcess) -> Result<Target> {
    let file = |name: &str| bench.scratch().join(name).to_string_lossy().into_owned();
    let (certificate, key) = (file(CLIENT_CERTIFICATE), file(CLIENT_KEY));
    let options = ["--proxy-client-cert-file", &certificate, "--proxy-client-key-file", &key];
    let target = bench.target_with(&options).await?;
    register(&target.server, backend.server.endpoint.port()).await?;
    Ok(target)
}

/// Creates an APIService whose API server listens on a local port, and waits until it is available.
async fn register(server: &Server, port: u16) -> Result<()> {
    let mut connection = server.connect().await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "api"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.bench.example.com"},
        "spec": {
            "group": "bench.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "api", "port": port},
        },
    });
    for (path, object) in
        [("/api/v1/namespaces/default/services", service), ("/apis/apiregistration.k8s.io/v1/apiservices", api_service)]
    {
        connection.execute(with_body(Method::POST, path, object.to_string()), StatusCode::CREATED).await?;
    }
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut answer = server.connect().await?;
        match answer.execute(get(OBJECT), StatusCode::OK).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
