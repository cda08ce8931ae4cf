//! Lists of custom objects at versions other than the storage version: conversion without a schema change, with
//! another schema, and by webhook.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::Result;
use crate::client::{Connection, get, patch, plain, with_body};
use crate::load::median;
use crate::objects::{config_map, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;
use crate::webhook::Webhook;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "conversion",
    description: "lists of 10,000 custom objects at versions other than the storage version",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/conversions.bench.example.com";
/// The timeout until the version of a CRD is served.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A CRD with the storage version v1. The version v1beta1 has the same schema, and v2 has an additional field.
pub(super) fn crd() -> Value {
    let version = |name: &str, more: Option<&str>| {
        let mut properties = json!({ "settings": { "type": "string" } });
        if let Some(name) = more {
            properties[name] = json!({ "type": "string" });
        }
        let data = json!({ "type": "object", "properties": properties });
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "data": data } } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "conversions.bench.example.com" },
        "spec": {
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": { "plural": "conversions", "kind": "Conversion" },
            "versions": [version("v1", None), version("v1beta1", None), version("v2", Some("more"))],
        },
    })
}

/// A custom object with the content of a ConfigMap.
pub(super) fn object(number: u64) -> Bytes {
    let text = String::from_utf8_lossy(&config_map(&format!("listed-{number:06}"), number)).into_owned();
    let kind = r#""apiVersion":"bench.example.com/v1","kind":"Conversion""#;
    text.replacen(r#""apiVersion":"v1","kind":"ConfigMap""#, kind, 1).into()
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let count = bench.plan.listed_objects;
    let mut target = bench.target().await?;
    let namespace = target.namespace("conversion").await?;
    let path = |version: &str| format!("/apis/bench.example.com/{version}/namespaces/{namespace}/conversions");
    let mut connection = target.server.connect().await?;
    let body = crd().to_string();
    connection.execute(with_body(Method::POST, CRDS, body), StatusCode::CREATED).await?;
    wait_until_served(&mut connection, &path("v1")).await?;
    fill(&target.server, &path("v1"), count, object).await?;
    let size = connection.execute(get(path("v1")), StatusCode::OK).await? as f64;
    let section =
        format!("LIST of {} custom objects ({:.1} MB of JSON), 1 client", thousands(count as f64), size / 1e6);
    bench.report.section(section);
    let rows = [
        ("storage version, no conversion", "v1"),
        ("another version, same schema", "v1beta1"),
        ("another version, different schema", "v2"),
    ];
    for (name, version) in rows {
        let path = path(version);
        let mut lists = ListTimings::default();
        for _ in 0..bench.plan.rounds.max(3) {
            lists.list(&target.server, &mut connection, &path).await?;
        }
        lists.report(name, bench);
    }

    // The Go API server converts when it fills the watch cache of a version, and refuses requests meanwhile.
    if !bench.is_on_go_api_server() {
        convert_by_webhook(bench, &target.server, &mut connection, &path("v2")).await?;
    }
    connection.execute(plain(Method::DELETE, CRD), StatusCode::OK).await?;
    target.tear_down().await
}

/// Measures lists at a version to which a webhook converts.
async fn convert_by_webhook(
    bench: &mut ScenarioContext,
    server: &Server,
    connection: &mut Connection,
    path: &str,
) -> Result<()> {
    let webhook = Webhook::start_conversion().await?;
    let (mut uncached, mut cached) = (ListTimings::default(), ListTimings::default());
    for round in 0..bench.plan.rounds.max(3) {
        // Changing the CRD invalidates the cache of converted objects.
        let reviews = if round % 2 == 0 { json!(["v1"]) } else { json!(["v1", "v1beta1"]) };
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": webhook.client_config, "conversionReviewVersions": reviews },
        });
        let change = json!({ "spec": { "conversion": conversion } }).to_string();
        connection.execute(patch(CRD, "application/merge-patch+json", change), StatusCode::OK).await?;
        let before = webhook.converted();
        while webhook.converted() == before {
            uncached.discard_last();
            uncached.list(server, connection, path).await?;
        }
        uncached.record_last();
        cached.list(server, connection, path).await?;
        cached.record_last();
    }
    uncached.report("conversion webhook, nothing cached", bench);
    cached.report("conversion webhook, cached", bench);
    Ok(())
}

/// Waits until a collection is served.
pub(super) async fn wait_until_served(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    while connection.execute(get(path), StatusCode::OK).await.is_err() {
        if started.elapsed() > TIMEOUT {
            return Err(format!("{path} is not served in time").into());
        }
    }
    Ok(())
}

/// The timings of repeated lists.
#[derive(Default)]
struct ListTimings {
    milliseconds: Vec<f64>,
    cpu: Vec<f64>,
    last: Option<(f64, Option<f64>)>,
}

impl ListTimings {
    async fn list(&mut self, server: &Server, connection: &mut Connection, path: &str) -> Result<()> {
        self.record_last();
        let (started, cpu) = (Instant::now(), server.meter.cpu_time()?);
        connection.execute(get(path), StatusCode::OK).await?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let cpu = server.meter.cpu_time_since(cpu)?.map(|cpu| cpu.as_secs_f64() * 1e6);
        self.last = Some((took, cpu));
        Ok(())
    }

    fn discard_last(&mut self) {
        self.last = None;
    }

    fn record_last(&mut self) {
        if let Some((took, cpu)) = self.last.take() {
            self.milliseconds.push(took);
            self.cpu.extend(cpu);
        }
    }

    fn report(mut self, name: &str, bench: &mut ScenarioContext) {
        self.record_last();
        let cpu = (!self.cpu.is_empty()).then(|| median(self.cpu));
        bench.report.row(name, median(self.milliseconds), "ms").cpu(cpu);
    }
}
