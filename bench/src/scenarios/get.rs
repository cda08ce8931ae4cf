//! Gets of one object, in turns with the bare server that sends the same bytes: a connection per client, and many
//! streams on one connection as client-go has them; in JSON and in Protobuf.

use bytes::Bytes;
use http::StatusCode;

use super::PROTOBUF;
use crate::Result;
use crate::bare;
use crate::client::{Protocol, accepting, get};
use crate::objects::{config_map, config_maps, create};
use crate::peer;
use crate::scenario::{Bench, Scenario};
use crate::turns::{Asking, bare_server, in_turns, rounds};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "get",
    does: "gets of one object of 1 KiB, HTTP/1.1 and HTTP/2, JSON and Protobuf",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// Clients that get.
const CLIENTS: usize = 16;

async fn run(bench: &mut Bench) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps(&target.namespace("get").await?);
    let mut connection = target.server.connect().await?;
    connection.exchange(create(collection.as_str(), config_map("object", 1)), StatusCode::CREATED).await?;
    let path = format!("{collection}/object");
    let object = connection.fetch(get(path.as_str()), StatusCode::OK).await?;
    let bare = bare_server(bench.scratch(), &object, &Bytes::new()).await?;

    bench.report.section(format!("get of one object of {} bytes, {CLIENTS} clients", object.len()));
    let http = [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2, one connection")];
    for (protocol, name) in http {
        let (asking, path) = (Asking { clients: CLIENTS, protocol }, path.clone());
        let got =
            in_turns((&bare, bare::OBJECT), &target.server, move || get(path.as_str()), asking, &bench.plan).await?;
        let bare_cpu = got.bare.micros().unwrap_or_default();
        let note = format!("bare server {:.0}/s, {bare_cpu:.1} µs", got.bare.rate());
        bench.report.row(name, got.server.rate(), "/s").round(&got.server).peer(peer::GET).note(note);
        let row = bench.report.row(format!("{name}: ratio to the bare server"), got.ratio, "");
        if protocol == Protocol::Http1 {
            row.at_least(0.6);
        }
    }
    for (protocol, name) in http {
        let (asking, path) = (Asking { clients: CLIENTS, protocol }, path.clone());
        let request = move || accepting(path.as_str(), PROTOBUF);
        let round = rounds(&target.server, request, asking, &bench.plan).await?;
        bench.report.row(format!("{name}, Protobuf"), round.rate(), "/s").round(&round);
    }
    bare.stop().await?;
    target.finish().await
}
