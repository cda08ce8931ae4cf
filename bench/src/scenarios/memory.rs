//! The memory that objects take in a running server.

use super::megabytes;
use crate::Result;
use crate::client::get;
use crate::objects::{config_map, config_maps_path, fill};
use crate::report::thousands;
use crate::scenario::{Scenario, ScenarioContext};
use http::StatusCode;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "memory",
    description: "memory that created objects take",
    requires_binary: false,
    on_go_api_server: true,
    run: |bench| Box::pin(run(bench)),
};

/// The budget per object in addition to one and a half times its JSON, in bytes.
const OVERHEAD_PER_OBJECT: f64 = 400.0;
/// The memory of an event in the history in addition to the objects that it shares, in bytes. The watch cache counts
/// with this number.
const OVERHEAD_PER_EVENT: f64 = 200.0;

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    let count = bench.plan.listed_objects;
    let mut target = bench.target().await?;
    // Connections and buffers that a server allocates once are no cost of the objects, so they are allocated first.
    let warm = config_maps_path(&target.namespace("warm").await?);
    let collection = config_maps_path(&target.namespace("loaded").await?);
    fill(&target.server, &warm, count / 2, |number| config_map(&format!("warm-{number:06}"), number)).await?;
    let before = target.server.settled_memory(&bench.plan).await?;
    fill(&target.server, &collection, count, |number| config_map(&format!("loaded-{number:06}"), number)).await?;
    let after = target.server.settled_memory(&bench.plan).await?;
    let json = target.server.connect().await?.execute(get(collection), StatusCode::OK).await? as f64;
    let added = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    bench.report.section("memory");
    bench.report.row_if_known(
        format!("growth by {} objects", thousands(count as f64)),
        added.map(megabytes),
        "MB",
        |row| {
            let added = added.unwrap_or_default() as f64;
            let note = format!(
                "{:.2}x the JSON bytes; {:.0} bytes of overhead per object",
                added / json,
                (added - json) / count as f64
            );
            // The budget covers the objects and their events, which stay in the history.
            row.at_most((json * 1.5 + count as f64 * (OVERHEAD_PER_OBJECT + OVERHEAD_PER_EVENT)) / 1e6).note(note)
        },
    );
    target.tear_down().await
}
