//! Durable changes of objects that are there: updates, patches of each kind, server-side apply.

use std::sync::Arc;

use http::{Method, StatusCode};

use crate::Result;
use crate::client::{Outgoing, patch, with_body};
use crate::load::{Load, Script, median};
use crate::objects::{config_map, config_maps, fill};
use crate::peer::{self, Peer};
use crate::scenario::{Bench, Scenario};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "update",
    does: "updates, the three patches and server-side apply, 16 clients",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients that change.
const CLIENTS: usize = 16;
/// Objects of each client that are changed in turn.
const OWN: u64 = 16;

/// One kind of change.
struct Change {
    name: &'static str,
    /// The request for a collection, an object's name and a number that never comes twice.
    request: fn(&str, &str, u64) -> Outgoing,
    peer: Option<Peer>,
}

const CHANGES: [Change; 5] = [
    Change {
        name: "updates (PUT)",
        request: |collection, name, number| {
            with_body(Method::PUT, format!("{collection}/{name}"), config_map(name, number))
        },
        peer: Some(peer::UPDATE),
    },
    Change {
        name: "JSON patches",
        request: |collection, name, number| {
            let body = format!(r#"[{{"op":"add","path":"/data/changed","value":"j{number}"}}]"#);
            patch(format!("{collection}/{name}"), "application/json-patch+json", body)
        },
        peer: Some(peer::JSON_PATCH),
    },
    Change {
        name: "merge patches",
        request: |collection, name, number| {
            let body = format!(r#"{{"data":{{"changed":"m{number}"}}}}"#);
            patch(format!("{collection}/{name}"), "application/merge-patch+json", body)
        },
        peer: Some(peer::MERGE_PATCH),
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
        peer: Some(peer::APPLY),
    },
];

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps(&target.namespace("update").await?);
    let name = |client: u64, number: u64| format!("own-{client}-{number}");
    let make = move |number| config_map(&name(number / OWN, number % OWN), number);
    fill(&target.server, &collection, CLIENTS as u64 * OWN, make).await?;
    bench.report.section(format!("other durable writes, {CLIENTS} clients"));
    for Change { name: change, request, peer } in CHANGES {
        let first = request(&collection, &name(0, 0), u64::MAX);
        let code = target.server.connect().await?.send(first).await?.status();
        if code == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            bench.report.remark(format!("{change}: not measured, since the server does not know it"));
            continue;
        }
        let mut rounds = Vec::new();
        for round in 0..bench.plan.rounds as u64 {
            let collection = collection.clone();
            let script: Script = Arc::new(move |client, sent| {
                Some(request(&collection, &name(client as u64, sent % OWN), (round << 32) + sent + 1))
            });
            rounds.push(Load::closed(CLIENTS, bench.plan.time).run(&target.server, &script).await?);
        }
        let round = median(rounds);
        let row = bench.report.row(change, round.rate(), "/s").round(&round);
        if let Some(peer) = peer {
            row.cheaper_than(peer, 10.0);
        }
    }
    target.finish().await
}
