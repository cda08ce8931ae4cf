//! Measures updates of existing objects. The scenarios of updates and of server-side apply pass their cases.

use std::sync::Arc;

use http::StatusCode;

use crate::Result;
use crate::client::HttpRequest;
use crate::load::{Load, Workload, median_round};
use crate::scenario::ScenarioContext;
use crate::target::Server;

/// The number of clients that write.
pub(crate) const CLIENTS: usize = 16;
/// The number of objects that each client updates in turn.
pub(crate) const OBJECTS_PER_CLIENT: u64 = 16;

/// One kind of update.
pub(crate) struct UpdateCase {
    pub(crate) name: &'static str,
    /// Creates the request for a collection, an object's name and a unique number.
    pub(crate) request: fn(&str, &str, u64) -> HttpRequest,
    /// The minimum ratio of the Go API server's CPU time to this server's.
    pub(crate) cheaper_than_go: Option<f64>,
}

/// The name of an object of a client.
pub(crate) fn name(client: u64, number: u64) -> String {
    format!("own-{client}-{number}")
}

/// The name of the n-th object of all clients.
pub(crate) fn nth_name(number: u64) -> String {
    name(number / OBJECTS_PER_CLIENT, number % OBJECTS_PER_CLIENT)
}

/// Measures each kind of update on the objects of a collection.
pub(crate) async fn measure(
    bench: &mut ScenarioContext,
    server: &Server,
    collection: &str,
    update_cases: &[UpdateCase],
) -> Result<()> {
    for UpdateCase { name: change, request, cheaper_than_go } in update_cases {
        let (change, request) = (*change, *request);
        let first = request(collection, &nth_name(0), u64::MAX);
        let code = server.connect().await?.send(first).await?.status();
        if code == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            bench.report.remark(format!("{change}: skipped, the server does not support it"));
            continue;
        }
        let mut rounds = Vec::new();
        for round in 0..bench.plan.rounds as u64 {
            let collection = collection.to_owned();
            let workload: Workload = Arc::new(move |client, sent| {
                Some(request(&collection, &name(client as u64, sent % OBJECTS_PER_CLIENT), (round << 32) + sent + 1))
            });
            rounds.push(Load::closed(CLIENTS, bench.plan.duration).run(server, &workload).await?);
        }
        let round = median_round(rounds);
        let row = bench.report.row(change, round.rate(), "/s").round(&round);
        if let Some(times) = cheaper_than_go {
            row.cheaper_than_go(*times);
        }
    }
    Ok(())
}
