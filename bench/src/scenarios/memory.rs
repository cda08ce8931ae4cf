//! What objects take in the memory of a server that runs.

use super::megabytes;
use crate::Result;
use crate::client::get;
use crate::objects::{config_map, config_maps, fill};
use crate::report::thousands;
use crate::scenario::{Bench, Scenario};
use http::StatusCode;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "memory",
    does: "memory that loaded objects take",
    starts_servers: false,
    run: |bench| Box::pin(run(bench)),
};

/// What an object may take beside one and a half times its JSON, in bytes.
const OVERHEAD: f64 = 400.0;
/// What an event of the window takes beside the objects that it shares (as the cache counts it).
const EVENT: f64 = 200.0;

async fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.plan.listed;
    let mut target = bench.target().await?;
    // What a server needs once, for connections and buffers, is no cost of the objects: it is there before they are.
    let warm = config_maps(&target.namespace("warm").await?);
    let collection = config_maps(&target.namespace("loaded").await?);
    fill(&target.server, &warm, count / 2, |number| config_map(&format!("warm-{number:06}"), number)).await?;
    let before = target.server.settled(&bench.plan).await?;
    fill(&target.server, &collection, count, |number| config_map(&format!("loaded-{number:06}"), number)).await?;
    let after = target.server.settled(&bench.plan).await?;
    let json = target.server.connect().await?.exchange(get(collection), StatusCode::OK).await? as f64;
    let added = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    bench.report.section("memory");
    bench.report.row_if(format!("added by {} objects", thousands(count as f64)), added.map(megabytes), "MB", |row| {
        let added = added.unwrap_or_default() as f64;
        let note =
            format!("{:.2}x their JSON; {:.0} bytes each beside it", added / json, (added - json) / count as f64);
        // The objects, and the events by which they came: those stay for as long as the window reaches back to them.
        row.at_most((json * 1.5 + count as f64 * (OVERHEAD + EVENT)) / 1e6).note(note)
    });
    target.finish().await
}
