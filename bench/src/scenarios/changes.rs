//! Changes of objects that are there: what the scenarios of updates and of applies do with each of theirs.

use std::sync::Arc;

use http::StatusCode;

use crate::Result;
use crate::client::Outgoing;
use crate::load::{Load, Script, median};
use crate::peer::Peer;
use crate::scenario::Bench;
use crate::target::Server;

/// Clients that change.
pub(crate) const CLIENTS: usize = 16;
/// Objects of each client that are changed in turn.
pub(crate) const OWN: u64 = 16;

/// One kind of change.
pub(crate) struct Change {
    pub(crate) name: &'static str,
    /// The request for a collection, an object's name and a number that never comes twice.
    pub(crate) request: fn(&str, &str, u64) -> Outgoing,
    /// What the peer takes, and how much less this should take.
    pub(crate) peer: Option<(Peer, f64)>,
}

/// The name of one of a client's objects.
pub(crate) fn name(client: u64, number: u64) -> String {
    format!("own-{client}-{number}")
}

/// The name of the n-th of all objects that are changed.
pub(crate) fn nth(number: u64) -> String {
    name(number / OWN, number % OWN)
}

/// Measures each kind of change on the objects of a collection.
pub(crate) async fn measure(bench: &mut Bench, server: &Server, collection: &str, changes: &[Change]) -> Result<()> {
    for Change { name: change, request, peer } in changes {
        let (change, request) = (*change, *request);
        let first = request(collection, &nth(0), u64::MAX);
        let code = server.connect().await?.send(first).await?.status();
        if code == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            bench.report.remark(format!("{change}: not measured, since the server does not know it"));
            continue;
        }
        let mut rounds = Vec::new();
        for round in 0..bench.plan.rounds as u64 {
            let collection = collection.to_owned();
            let script: Script = Arc::new(move |client, sent| {
                Some(request(&collection, &name(client as u64, sent % OWN), (round << 32) + sent + 1))
            });
            rounds.push(Load::closed(CLIENTS, bench.plan.time).run(server, &script).await?);
        }
        let round = median(rounds);
        let row = bench.report.row(change, round.rate(), "/s").round(&round);
        if let Some((peer, times)) = peer {
            row.cheaper_than(*peer, *times);
        }
    }
    Ok(())
}
