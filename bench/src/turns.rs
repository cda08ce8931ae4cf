//! Measuring a server and the bare server in turns: what the machine does meanwhile hits both alike, and the ratio of
//! each turn is worth more than the numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Result;
use crate::bare;
use crate::client::{Outgoing, Protocol, get};
use crate::load::{Load, Round, Script, median, middle};
use crate::plan::Plan;
use crate::target::{Process, Server};

/// What a round begins with that does not count.
const WARM_UP: Duration = Duration::from_millis(200);

/// The two servers, measured in turns.
pub(crate) struct Turns {
    /// The bare server's median round.
    pub(crate) bare: Round,
    /// The measured server's.
    pub(crate) server: Round,
    /// The median of the turns' ratios of rates.
    pub(crate) ratio: f64,
}

/// How both are asked.
#[derive(Clone, Copy)]
pub(crate) struct Asking {
    /// At a time.
    pub(crate) clients: usize,
    /// By what.
    pub(crate) protocol: Protocol,
}

/// Starts the bare server with an object and a list to send.
pub(crate) async fn bare_server(scratch: &Path, object: &Bytes, list: &Bytes) -> Result<Process> {
    let (object, list) = bare_files(scratch, object, list)?;
    bare::start(scratch, &object, &list).await
}

/// Writes what the bare server sends into files.
pub(crate) fn bare_files(scratch: &Path, object: &Bytes, list: &Bytes) -> Result<(PathBuf, PathBuf)> {
    let (object_file, list_file) = (scratch.join("object.json"), scratch.join("list.json"));
    std::fs::write(&object_file, object)?;
    std::fs::write(&list_file, list)?;
    Ok((object_file, list_file))
}

/// Asks the bare server for what is at `bare_path`, and the other for what `request` says, in turns.
pub(crate) async fn in_turns(
    (bare, bare_path): (&Process, &'static str),
    server: &Server,
    request: impl Fn() -> Outgoing + Send + Sync + 'static,
    asking: Asking,
    plan: &Plan,
) -> Result<Turns> {
    let ceiling: Script = Arc::new(move |_, _| Some(get(bare_path)));
    let script: Script = Arc::new(move |_, _| Some(request()));
    let (mut bares, mut servers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let one = warm(&bare.server, asking, plan, &ceiling).await?;
        let other = warm(server, asking, plan, &script).await?;
        ratios.push(other.rate() / one.rate());
        bares.push(one);
        servers.push(other);
    }
    Ok(Turns { bare: median(bares), server: median(servers), ratio: middle(ratios) })
}

/// The median of rounds of the same request.
pub(crate) async fn rounds(
    server: &Server,
    request: impl Fn() -> Outgoing + Send + Sync + 'static,
    asking: Asking,
    plan: &Plan,
) -> Result<Round> {
    let script: Script = Arc::new(move |_, _| Some(request()));
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(warm(server, asking, plan, &script).await?);
    }
    Ok(median(rounds))
}

async fn warm(server: &Server, Asking { clients, protocol }: Asking, plan: &Plan, script: &Script) -> Result<Round> {
    Load::closed(clients, WARM_UP).over(protocol).run(server, script).await?;
    Load::closed(clients, plan.time).over(protocol).run(server, script).await
}
