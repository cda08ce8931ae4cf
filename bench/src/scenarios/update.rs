//! Durable updates of existing objects: PUT, each kind of patch, and server-side apply.

use http::Method;

use crate::Result;
use crate::client::{patch, with_body};
use crate::objects::{config_map, config_maps_path, fill};
use crate::scenario::{Scenario, ScenarioContext};
use crate::scenarios::update_cases::{CLIENTS, OBJECTS_PER_CLIENT, UpdateCase, measure, nth_name};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "update",
    description: "PUT, the three patch types and server-side apply, 16 clients",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

pub(super) const UPDATES: [UpdateCase; 5] = [
    UpdateCase {
        name: "updates (PUT)",
        request: |collection, name, number| {
            with_body(Method::PUT, format!("{collection}/{name}"), config_map(name, number))
        },
        cheaper_than_go: Some(10.0),
    },
    UpdateCase {
        name: "JSON patches",
        request: |collection, name, number| {
            let body = format!(r#"[{{"op":"add","path":"/data/changed","value":"j{number}"}}]"#);
            patch(format!("{collection}/{name}"), "application/json-patch+json", body)
        },
        cheaper_than_go: Some(10.0),
    },
    UpdateCase {
        name: "merge patches",
        request: |collection, name, number| {
            let body = format!(r#"{{"data":{{"changed":"m{number}"}}}}"#);
            patch(format!("{collection}/{name}"), "application/merge-patch+json", body)
        },
        cheaper_than_go: Some(10.0),
    },
    UpdateCase {
        name: "strategic merge patches",
        request: |collection, name, number| {
            let body = format!(r#"{{"data":{{"changed":"s{number}"}}}}"#);
            patch(format!("{collection}/{name}"), "application/strategic-merge-patch+json", body)
        },
        cheaper_than_go: None,
    },
    UpdateCase {
        name: "server-side apply",
        request: |collection, name, number| {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"applied":"{number}"}}}}"#
            );
            let path = format!("{collection}/{name}?fieldManager=bench&force=true");
            patch(path, "application/apply-patch+yaml", body)
        },
        cheaper_than_go: Some(10.0),
    },
];

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps_path(&target.namespace("update").await?);
    fill(&target.server, &collection, CLIENTS as u64 * OBJECTS_PER_CLIENT, |number| {
        config_map(&nth_name(number), number)
    })
    .await?;
    bench.report.section(format!("other durable writes, {CLIENTS} clients"));
    measure(bench, &target.server, &collection, &UPDATES).await?;
    target.tear_down().await
}
