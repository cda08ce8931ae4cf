//! Lists of many small objects: whole in each form, compressed, and in chunks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, StatusCode};

use super::{PROTOBUF, TABLE};
use crate::Result;
use crate::bare;
use crate::client::{Protocol, accepting, get};
use crate::load::{Round, median, micros};
use crate::objects::{config_map, config_maps, fill};
use crate::peer;
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use crate::target::Server;
use crate::turns::{Asking, bare_server, in_turns, rounds};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "list",
    does: "lists of 10,000 objects: JSON, Protobuf, tables, gzip, chunks of 500",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// One client, which takes all that the server and the machine give.
const ALONE: Asking = Asking { clients: 1, protocol: Protocol::Http1 };
/// Objects in a chunk: as many as kubectl asks for.
const CHUNK: usize = 500;

async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.plan.listed;
    let mut target = bench.target().await?;
    let collection = config_maps(&target.namespace("list").await?);
    fill(&target.server, &collection, count, |number| config_map(&format!("listed-{number:06}"), number)).await?;
    let list = target.server.connect().await?.fetch(get(collection.as_str()), StatusCode::OK).await?;
    let bare = bare_server(bench.scratch(), &Bytes::new(), &list).await?;
    let megabytes = list.len() as f64 / 1e6;
    bench.report.section(format!("list of {} objects ({megabytes:.1} MB of JSON), 1 client", thousands(count as f64)));

    let path = collection.clone();
    let whole = move || get(path.as_str());
    let listed = in_turns((&bare, bare::LIST), &target.server, whole, ALONE, &bench.plan).await?;
    let report = &mut bench.report;
    let note = format!("{:.0} MB/s; bare server {:.0} MB/s", listed.server.megabytes(), listed.bare.megabytes());
    report.row("JSON", listed.server.rate(), "/s").round(&listed.server).cheaper_than(peer::LIST, 10.0).note(note);
    report.row("JSON: ratio to the bare server", listed.ratio, "").at_least(0.5);

    for (name, form, peer) in [("Protobuf", PROTOBUF, Some(peer::LIST_PROTOBUF)), ("table", TABLE, None)] {
        let path = collection.clone();
        let round = rounds(&target.server, move || accepting(path.as_str(), form), ALONE, &bench.plan).await?;
        let note = format!("{:.1} MB each", round.bytes as f64 / round.done.max(1) as f64 / 1e6);
        let row = bench.report.row(name, round.rate(), "/s").round(&round).note(note);
        if let Some(peer) = peer {
            row.cheaper_than(peer, 10.0);
        }
    }

    let path = collection.clone();
    let zipped = move || {
        let mut request = get(path.as_str());
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        request
    };
    let zipped = rounds(&target.server, zipped, ALONE, &bench.plan).await?;
    let original = megabytes * zipped.done as f64;
    let share = zipped.bytes as f64 / original / 1e4;
    bench.report.row("gzip", zipped.rate(), "/s").round(&zipped).note(format!("to {share:.0} % of the size"));
    let per_second = zipped.cpu.map(|cpu| original / cpu.as_secs_f64());
    bench.report.row_if("gzip, per second of CPU", per_second, "MB/s", |row| row.at_least(150.0));

    let mut walks = Vec::new();
    for _ in 0..bench.plan.rounds {
        walks.push(walk(&target.server, &collection, bench.plan.time).await?);
    }
    let name = format!("walk in chunks of {CHUNK}");
    let round = median(walks);
    bench.report.row(name, round.rate(), "/s").round(&round).cheaper_than(peer::LIST_CHUNKED, 10.0);
    bare.stop().await?;
    target.finish().await
}

/// Lists in chunks, again and again for `time`; a whole walk counts as one request.
async fn walk(server: &Server, collection: &str, time: Duration) -> Result<Round> {
    let mut connection = server.connect().await?;
    let mut round = Round::default();
    let (cpu, started) = (server.meter.cpu()?, Instant::now());
    while started.elapsed() < time {
        let began = Instant::now();
        let mut token = String::new();
        loop {
            let path = format!("{collection}?limit={CHUNK}&continue={token}");
            let chunk = connection.fetch(get(path), StatusCode::OK).await?;
            round.bytes += chunk.len() as u64;
            match continuation(&chunk) {
                Some(next) => token = next,
                None => break,
            }
        }
        round.done += 1;
        round.latencies.push(micros(began.elapsed()));
    }
    round.elapsed = started.elapsed();
    round.cpu = server.meter.cpu_since(cpu)?;
    round.latencies.sort_unstable();
    Ok(round)
}

/// The continue token of a list; it stands in the metadata, before the items.
fn continuation(list: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""continue":""#;
    let at = list.windows(KEY.len()).take(1 << 10).position(|window| window == KEY)? + KEY.len();
    let token = list[at..].split(|byte| *byte == b'"').next()?;
    // What base64 for URLs has needs no escaping, except the `=` at the end, which servers take as it is.
    (!token.is_empty()).then(|| String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens() {
        for (list, expect) in [
            (
                r#"{"kind":"L","metadata":{"resourceVersion":"1","continue":"abc_-","remainingItemCount":3},"items":[]}"#,
                Some("abc_-"),
            ),
            (r#"{"kind":"L","metadata":{"resourceVersion":"1"},"items":[]}"#, None),
            (r#"{"metadata":{"continue":""}}"#, None),
        ] {
            assert_eq!(continuation(list.as_bytes()).as_deref(), expect, "{list}");
        }
    }
}
