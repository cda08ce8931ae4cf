//! Durable changes of objects that are there: updates, patches of each kind, server-side apply.

use http::Method;

use crate::Result;
use crate::client::{patch, with_body};
use crate::objects::{config_map, config_maps, fill};
use crate::peer;
use crate::scenario::{Bench, Scenario};
use crate::scenarios::changes::{CLIENTS, Change, OWN, measure, nth};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "update",
    does: "updates, the three patches and server-side apply, 16 clients",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

const CHANGES: [Change; 5] = [
    Change {
        name: "updates (PUT)",
        request: |collection, name, number| {
            with_body(Method::PUT, format!("{collection}/{name}"), config_map(name, number))
        },
        peer: Some((peer::UPDATE, 10.0)),
    },
    Change {
        name: "JSON patches",
        request: |collection, name, number| {
            let body = format!(r#"[{{"op":"add","path":"/data/changed","value":"j{number}"}}]"#);
            patch(format!("{collection}/{name}"), "application/json-patch+json", body)
        },
        peer: Some((peer::JSON_PATCH, 10.0)),
    },
    Change {
        name: "merge patches",
        request: |collection, name, number| {
            let body = format!(r#"{{"data":{{"changed":"m{number}"}}}}"#);
            patch(format!("{collection}/{name}"), "application/merge-patch+json", body)
        },
        peer: Some((peer::MERGE_PATCH, 10.0)),
    },
    Change {
        name: "strategic merge patches",
        request: |collection, name, number| {
            let body = format!(r#"{{"data":{{"changed":"s{number}"}}}}"#);
            patch(format!("{collection}/{name}"), "application/strategic-merge-patch+json", body)
        },
        peer: None,
    },
    Change {
        name: "server-side apply",
        request: |collection, name, number| {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"applied":"{number}"}}}}"#
            );
            let path = format!("{collection}/{name}?fieldManager=bench&force=true");
            patch(path, "application/apply-patch+yaml", body)
        },
        peer: Some((peer::APPLY, 10.0)),
    },
];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps(&target.namespace("update").await?);
    fill(&target.server, &collection, CLIENTS as u64 * OWN, |number| config_map(&nth(number), number)).await?;
    bench.report.section(format!("other durable writes, {CLIENTS} clients"));
    measure(bench, &target.server, &collection, &CHANGES).await?;
    target.finish().await
}
