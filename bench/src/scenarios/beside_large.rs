//! Small requests beside requests that take much CPU time. Such requests are large lists, compressed or converted,
//! large and deep objects, and the most expensive CEL rules that are allowed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use super::big_list::get_one_object;
use super::conversion::{self, wait_until_served};
use crate::Result;
use crate::client::{get, with_body};
use crate::load::{Load, Workload};
use crate::objects::crd::{CRDS, group};
use crate::objects::{config_map, config_maps_path, create, fill};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "beside-large",
    description: "GETs beside large lists, gzip, conversions, large and deep objects, and expensive CEL rules",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients that send large requests.
const CLIENTS: usize = 4;
/// The time that the large requests run before small requests start.
const WARM_UP: Duration = Duration::from_millis(500);
/// The budget for the p99 of the small requests, in milliseconds.
const MAX_P99_MS: f64 = 10.0;
/// The size of a large object in bytes.
const LARGE_OBJECT_BYTES: usize = 1 << 20;
/// The number of levels of a deep object.
const LEVELS: usize = 5_000;
/// The number of items in the list whose items a rule compares with each other.
const COMPARED_ITEMS: usize = 300;

/// Large requests: their name, the status of their responses, and the requests.
type Large = (&'static str, StatusCode, Workload);

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let namespace = target.namespace("beside-large").await?;
    let maps = config_maps_path(&namespace);
    let make = |number| config_map(&format!("listed-{number}"), number);
    fill(&target.server, &maps, bench.plan.listed_objects, make).await?;
    let small = format!("{maps}/listed-0");
    let large = prepare(&target.server, &namespace, &maps, bench.plan.listed_objects).await?;
    bench.report.section(format!("GETs (200/s, open loop) beside {CLIENTS} clients with large requests"));
    let time = bench.plan.open_loop_duration;
    let alone = get_one_object(&target.server, &small, time).await?.percentiles();
    bench.report.row("nothing else: p99", alone.p99, "ms").scheduled_latencies(alone);
    for (name, expect, workload) in large {
        let server = target.server.clone();
        let load = Load::closed(CLIENTS, time + WARM_UP).expect_status(expect);
        let sending = tokio::spawn(async move { load.run(&server, &workload).await });
        tokio::time::sleep(WARM_UP).await;
        let latencies = get_one_object(&target.server, &small, time).await?.percentiles();
        let sent = sending.await??;
        let cpu = sent.cpu.map(|cpu| cpu.as_secs_f64() * 1e3 / sent.completed.max(1) as f64);
        let cpu = cpu.map(|cpu| format!(", {cpu:.1} ms of CPU for each, with the GETs"));
        let note = format!("{} large requests/s{}", sent.rate().round(), cpu.unwrap_or_default());
        let row = bench.report.row(format!("{name}: p99"), latencies.p99, "ms");
        row.scheduled_latencies(latencies).at_most(MAX_P99_MS).note(note);
    }
    target.tear_down().await
}

/// Creates the objects that large requests read, and returns the large requests.
async fn prepare(server: &Server, namespace: &str, maps: &str, listed: u64) -> Result<Vec<Large>> {
    let mut connection = server.connect().await?;
    let crds = [conversion::crd(), free_crd(), compared_crd()];
    for crd in crds {
        connection.execute(with_body(Method::POST, CRDS, crd.to_string()), StatusCode::CREATED).await?;
    }
    let converted = |version: &str| format!("/apis/bench.example.com/{version}/namespaces/{namespace}/conversions");
    let [free, compared] =
        ["frees", "compareds"].map(|plural| format!("/apis/{}/v1/namespaces/{namespace}/{plural}", group(0)));
    for path in [&converted("v1"), &free, &compared] {
        wait_until_served(&mut connection, path).await?;
    }
    fill(server, &converted("v1"), listed, conversion::object).await?;
    let list: Workload = {
        let path = maps.to_owned();
        Arc::new(move |_, _| Some(get(path.as_str())))
    };
    let compressed: Workload = {
        let path = maps.to_owned();
        Arc::new(move |_, _| {
            let mut request = get(path.as_str());
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            Some(request)
        })
    };
    let conversions: Workload = {
        let path = converted("v2");
        Arc::new(move |_, _| Some(get(path.as_str())))
    };
    let items = json!({"items": (0..COMPARED_ITEMS).map(|at| format!("item-{at}")).collect::<Vec<_>>()}).to_string();
    Ok(vec![
        ("lists", StatusCode::OK, list),
        ("lists with gzip", StatusCode::OK, compressed),
        ("lists that are converted", StatusCode::OK, conversions),
        ("creates of 1 MiB, many small members", StatusCode::CREATED, creates(free.clone(), "wide", &wide_spec())),
        ("creates of objects with 5,000 levels", StatusCode::CREATED, creates(free, "deep", &deep_spec())),
        ("creates with expensive CEL rules", StatusCode::CREATED, creates(compared, "compared", &items)),
    ])
}

/// Creates of objects with a spec in JSON. The collection determines the kind.
fn creates(collection: String, name: &'static str, spec: &str) -> Workload {
    let kind = if collection.ends_with("frees") { "Free" } else { "Compared" };
    let rest = format!(r#""}},"apiVersion":"{}/v1","kind":"{kind}","spec":{spec}}}"#, group(0));
    Arc::new(move |client, sent| {
        let object = format!(r#"{{"metadata":{{"name":"{name}-{client}-{sent}{rest}"#);
        Some(create(collection.as_str(), Bytes::from(object)))
    })
}

fn wide_spec() -> String {
    let mut spec = String::from("{");
    for number in 0.. {
        spec.push_str(&format!(r#""member-{number}":{{"name":"value-{number}","count":{number}}}"#));
        if spec.len() > LARGE_OBJECT_BYTES - 1_000 {
            break;
        }
        spec.push(',');
    }
    spec + "}"
}

fn deep_spec() -> String {
    [r#"{"level":"#.repeat(LEVELS), "{}".to_owned(), "}".repeat(LEVELS)].concat()
}

/// A CRD whose objects may have any spec.
fn free_crd() -> Value {
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    custom_crd("frees", "Free", spec)
}

/// A CRD with a rule that compares each item of a list with each other item.
fn compared_crd() -> Value {
    let items = json!({"type": "array", "maxItems": COMPARED_ITEMS, "items": {"type": "string", "maxLength": 20}});
    let rule = json!({"rule": "self.items.all(one, self.items.all(other, one == other || one != other))"});
    custom_crd(
        "compareds",
        "Compared",
        json!({"type": "object", "properties": {"items": items}, "x-kubernetes-validations": [rule]}),
    )
}

fn custom_crd(plural: &str, kind: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", group(0))},
        "spec": {
            "group": group(0),
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}
