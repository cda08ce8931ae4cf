//! GETs of one object, alternating with the baseline server that sends the same bytes. The variants are one connection
//! per client, many streams on one connection as in client-go, JSON and Protobuf.

use bytes::Bytes;
use http::StatusCode;

use super::PROTOBUF;
use crate::Result;
use crate::baseline;
use crate::client::{Protocol, get, get_as};
use crate::comparison::{Concurrency, compare_with_baseline, measure_rounds, start_baseline};
use crate::objects::{config_map, config_maps_path, create};
use crate::scenario::{Scenario, ScenarioContext};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "get",
    description: "GETs of one object of 1 KiB, HTTP/1.1 and HTTP/2, JSON and Protobuf",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The number of clients.
const CLIENTS: usize = 16;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let mut target = bench.target().await?;
    let collection = config_maps_path(&target.namespace("get").await?);
    let mut connection = target.server.connect().await?;
    connection.execute(create(collection.as_str(), config_map("object", 1)), StatusCode::CREATED).await?;
    let path = format!("{collection}/object");
    let object = connection.fetch(get(path.as_str()), StatusCode::OK).await?;
    let baseline = start_baseline(bench.scratch(), &object, &Bytes::new()).await?;

    bench.report.section(format!("GET of one object of {} bytes, {CLIENTS} clients", object.len()));
    let http = [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2, one connection")];
    for (protocol, name) in http {
        let (concurrency, path) = (Concurrency { clients: CLIENTS, protocol }, path.clone());
        let comparison = compare_with_baseline(
            (&baseline, baseline::OBJECT),
            &target.server,
            move || get(path.as_str()),
            concurrency,
            &bench.plan,
        )
        .await?;
        let baseline_cpu = comparison.baseline.cpu_micros().unwrap_or_default();
        let note = format!("baseline {:.0}/s, {baseline_cpu:.1} µs", comparison.baseline.rate());
        bench.report.row(name, comparison.server.rate(), "/s").round(&comparison.server).note(note);
        let row = bench.report.row(format!("{name}: ratio to baseline"), comparison.ratio, "");
        if protocol == Protocol::Http1 {
            row.at_least(0.6);
        }
    }
    for (protocol, name) in http {
        let (concurrency, path) = (Concurrency { clients: CLIENTS, protocol }, path.clone());
        let request = move || get_as(path.as_str(), PROTOBUF);
        let round = measure_rounds(&target.server, request, concurrency, &bench.plan).await?;
        bench.report.row(format!("{name}, Protobuf"), round.rate(), "/s").round(&round);
    }
    baseline.stop().await?;
    target.tear_down().await
}
