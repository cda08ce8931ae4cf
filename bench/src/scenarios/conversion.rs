//! Lists of custom objects at versions that they are not stored at: converted by name, by their schema, and by a webhook.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::Result;
use crate::client::{Connection, get, patch, plain, with_body};
use crate::load::middle;
use crate::objects::{config_map, fill};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Server;
use crate::webhook::Webhook;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "conversion",
    does: "lists of 10,000 custom objects at other versions than the stored one",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/conversions.bench.example.com";
/// How long is waited for a definition to be served.
const PATIENCE: Duration = Duration::from_secs(30);

/// Objects are stored at v1; v1beta1 is the same, v2 has a field more.
fn definition() -> Value {
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

/// An object like a ConfigMap.
fn object(number: u64) -> Bytes {
    let text = String::from_utf8_lossy(&config_map(&format!("listed-{number:06}"), number)).into_owned();
    let kind = r#""apiVersion":"bench.example.com/v1","kind":"Conversion""#;
    text.replacen(r#""apiVersion":"v1","kind":"ConfigMap""#, kind, 1).into()
}

async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.plan.listed;
    let mut target = bench.target().await?;
    let namespace = target.namespace("conversion").await?;
    let path = |version: &str| format!("/apis/bench.example.com/{version}/namespaces/{namespace}/conversions");
    let mut connection = target.server.connect().await?;
    let body = definition().to_string();
    connection.exchange(with_body(Method::POST, DEFINITIONS, body), StatusCode::CREATED).await?;
    served(&mut connection, &path("v1")).await?;
    fill(&target.server, &path("v1"), count, object).await?;
    let size = connection.exchange(get(path("v1")), StatusCode::OK).await? as f64;
    let section =
        format!("list of {} custom objects ({:.1} MB of JSON), 1 client", thousands(count as f64), size / 1e6);
    bench.report.section(section);
    let rows = [
        ("as they are stored", "v1"),
        ("at a version of the same schema", "v1beta1"),
        ("at a version of another schema", "v2"),
    ];
    for (name, version) in rows {
        let path = path(version);
        let mut lists = Lists::default();
        for _ in 0..bench.plan.rounds.max(3) {
            lists.list(&target.server, &mut connection, &path).await?;
        }
        lists.report(name, bench);
    }

    let webhook = Webhook::start().await?;
    let (mut anew, mut again) = (Lists::default(), Lists::default());
    for round in 0..bench.plan.rounds.max(3) {
        // Whatever was converted under another definition is forgotten.
        let reviews = if round % 2 == 0 { json!(["v1"]) } else { json!(["v1", "v1beta1"]) };
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": webhook.client, "conversionReviewVersions": reviews },
        });
        let change = json!({ "spec": { "conversion": conversion } }).to_string();
        connection.exchange(patch(DEFINITION, "application/merge-patch+json", change), StatusCode::OK).await?;
        let before = webhook.asked();
        while webhook.asked() == before {
            anew.forget();
            anew.list(&target.server, &mut connection, &path("v2")).await?;
        }
        anew.keep();
        again.list(&target.server, &mut connection, &path("v2")).await?;
        again.keep();
    }
    anew.report("by a webhook that is asked about all of them", bench);
    again.report("by a webhook that was asked before", bench);
    connection.exchange(plain(Method::DELETE, DEFINITION), StatusCode::OK).await?;
    target.finish().await
}

/// Waits until a collection is there.
async fn served(connection: &mut Connection, path: &str) -> Result<()> {
    let started = Instant::now();
    while connection.exchange(get(path), StatusCode::OK).await.is_err() {
        if started.elapsed() > PATIENCE {
            return Err(format!("{path} is not served").into());
        }
    }
    Ok(())
}

/// Lists that were timed.
#[derive(Default)]
struct Lists {
    milliseconds: Vec<f64>,
    cpu: Vec<f64>,
    last: Option<(f64, Option<f64>)>,
}

impl Lists {
    async fn list(&mut self, server: &Server, connection: &mut Connection, path: &str) -> Result<()> {
        self.keep();
        let (started, cpu) = (Instant::now(), server.meter.cpu()?);
        connection.exchange(get(path), StatusCode::OK).await?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let cpu = server.meter.cpu_since(cpu)?.map(|cpu| cpu.as_secs_f64() * 1e6);
        self.last = Some((took, cpu));
        Ok(())
    }

    fn forget(&mut self) {
        self.last = None;
    }

    fn keep(&mut self) {
        if let Some((took, cpu)) = self.last.take() {
            self.milliseconds.push(took);
            self.cpu.extend(cpu);
        }
    }

    fn report(mut self, name: &str, bench: &mut Bench) {
        self.keep();
        let cpu = (!self.cpu.is_empty()).then(|| middle(self.cpu));
        bench.report.row(name, middle(self.milliseconds), "ms").cpu(cpu);
    }
}
