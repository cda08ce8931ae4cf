//! Lists of many small objects: whole lists in each format, compressed lists, and lists in chunks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, StatusCode};

use super::{PROTOBUF, TABLE};
use crate::Result;
use crate::baseline;
use crate::client::{Protocol, get, get_as};
use crate::comparison::{Concurrency, compare_with_baseline, measure_rounds, start_baseline};
use crate::load::{RoundResult, median_round, micros};
use crate::objects::{config_map, config_maps_path, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "list",
    description: "lists of 10,000 objects: JSON and Protobuf over HTTP/1.1 and HTTP/2, tables, gzip, chunks of 500",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// One client, which reads as fast as the server and the machine allow.
const ALONE: Concurrency = Concurrency { clients: 1, protocol: Protocol::Http1 };
const ALONE_HTTP2: Concurrency = Concurrency { protocol: Protocol::Http2, ..ALONE };
/// The number of objects in a chunk, kubectl's default.
const CHUNK: usize = 500;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let count = bench.plan.listed_objects;
    let mut target = bench.target().await?;
    let collection = config_maps_path(&target.namespace("list").await?);
    fill(&target.server, &collection, count, |number| config_map(&format!("listed-{number:06}"), number)).await?;
    let list = target.server.connect().await?.fetch(get(collection.as_str()), StatusCode::OK).await?;
    let baseline = start_baseline(bench.scratch(), &Bytes::new(), &list).await?;
    let megabytes = list.len() as f64 / 1e6;
    bench.report.section(format!("LIST of {} objects ({megabytes:.1} MB of JSON), 1 client", thousands(count as f64)));

    for (name, concurrency, min_times, max_millis) in
        [("JSON", ALONE, Some(10.0), 5.5), ("JSON, HTTP/2", ALONE_HTTP2, None, 8.0)]
    {
        let path = collection.clone();
        let whole = move || get(path.as_str());
        let comparison =
            compare_with_baseline((&baseline, baseline::LIST), &target.server, whole, concurrency, &bench.plan).await?;
        let note = format!(
            "{:.0} MB/s; baseline {:.0} MB/s",
            comparison.server.megabytes_per_second(),
            comparison.baseline.megabytes_per_second()
        );
        let row = bench.report.row(name, comparison.server.rate(), "/s").round(&comparison.server).note(note);
        if let Some(times) = min_times {
            row.cheaper_than_go(times);
        }
        let cpu = comparison.server.cpu_micros().map(|micros| micros / 1e3);
        let max_millis = max_millis * count as f64 / 10_000.0;
        bench.report.row_if_known(format!("{name}: CPU"), cpu, "ms", |row| row.at_most(max_millis));
        let row = bench.report.row(format!("{name}: ratio to baseline"), comparison.ratio, "");
        if concurrency.protocol == Protocol::Http1 {
            row.at_least(0.5);
        }
    }

    for (name, media_type, concurrency, min_times) in [
        ("Protobuf", PROTOBUF, ALONE, Some(10.0)),
        ("Protobuf, HTTP/2", PROTOBUF, ALONE_HTTP2, None),
        ("table", TABLE, ALONE, None),
    ] {
        let path = collection.clone();
        let request = move || get_as(path.as_str(), media_type);
        let round = measure_rounds(&target.server, request, concurrency, &bench.plan).await?;
        let note = format!("{:.1} MB each", round.bytes as f64 / round.completed.max(1) as f64 / 1e6);
        let row = bench.report.row(name, round.rate(), "/s").round(&round).note(note);
        if let Some(times) = min_times {
            row.cheaper_than_go(times);
        }
    }

    let path = collection.clone();
    let zipped = move || {
        let mut request = get(path.as_str());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        request
    };
    let zipped = measure_rounds(&target.server, zipped, ALONE, &bench.plan).await?;
    let original = megabytes * zipped.completed as f64;
    let share = zipped.bytes as f64 / original / 1e4;
    bench
        .report
        .row("gzip", zipped.rate(), "/s")
        .round(&zipped)
        .note(format!("compressed to {share:.0} % of the size"));
    let per_second = zipped.cpu.map(|cpu| original / cpu.as_secs_f64());
    bench.report.row_if_known("gzip, per second of CPU", per_second, "MB/s", |row| row.at_least(150.0));

    let mut rounds_in_chunks = Vec::new();
    for _ in 0..bench.plan.rounds {
        rounds_in_chunks.push(list_in_chunks(&target.server, &collection, bench.plan.duration).await?);
    }
    let name = format!("chunked list, {CHUNK} per chunk");
    let round = median_round(rounds_in_chunks);
    bench.report.row(name, round.rate(), "/s").round(&round).cheaper_than_go(10.0);
    baseline.stop().await?;
    target.tear_down().await
}

/// Lists in chunks repeatedly for `time`. All chunks of one list count as one request.
async fn list_in_chunks(server: &Server, collection: &str, time: Duration) -> Result<RoundResult> {
    let mut connection = server.connect().await?;
    let mut round = RoundResult::default();
    let (cpu, started) = (server.meter.cpu_time()?, Instant::now());
    while started.elapsed() < time {
        let began = Instant::now();
        let mut token = String::new();
        loop {
            let path = format!("{collection}?limit={CHUNK}&continue={token}");
            let chunk = connection.fetch(get(path), StatusCode::OK).await?;
            round.bytes += chunk.len() as u64;
            match continue_token(&chunk) {
                Some(next) => token = next,
                None => break,
            }
        }
        round.completed += 1;
        round.latencies.push(micros(began.elapsed()));
    }
    round.elapsed = started.elapsed();
    round.cpu = server.meter.cpu_time_since(cpu)?;
    round.latencies.sort_unstable();
    Ok(round)
}

/// Finds the continue token of a list without parsing the list. It is in the metadata, before the items.
fn continue_token(list: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""continue":""#;
    let at = list.windows(KEY.len()).take(1 << 10).position(|window| window == KEY)? + KEY.len();
    let token = list[at..].split(|byte| *byte == b'"').next()?;
    // URL-safe base64 needs no escaping, except a trailing `=`, which servers accept unescaped.
    (!token.is_empty()).then(|| String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_is_found_in_a_list() {
        for (list, expect) in [
            (
                r#"{"kind":"L","metadata":{"resourceVersion":"1","continue":"abc_-","remainingItemCount":3},"items":[]}"#,
                Some("abc_-"),
            ),
            (r#"{"kind":"L","metadata":{"resourceVersion":"1"},"items":[]}"#, None),
            (r#"{"metadata":{"continue":""}}"#, None),
        ] {
            assert_eq!(continue_token(list.as_bytes()).as_deref(), expect, "{list}");
        }
    }
}
