//! How fast the machine is, now: what the Go peer takes was measured elsewhere and once, and machines differ by more than
//! most changes of the server do. The yardstick is work that is the same everywhere: a bare server that answers with 1 KiB
//! over plain HTTP.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::Result;
use crate::bare;
use crate::client::{Protocol, get};
use crate::load::{Load, Script};
use crate::turns::bare_files;

/// Microseconds of CPU that an answer took where the peer was measured.
pub(crate) const REFERENCE: f64 = 9.0;
/// Connections, here and there.
const CLIENTS: usize = 16;
/// Bytes of an answer.
const SIZE: usize = 1024;
/// What does not count.
const WARM_UP: Duration = Duration::from_millis(200);

/// Measures for some time how many times as much CPU this machine takes for the same work, as far as that can be known.
pub(crate) async fn pace(scratch: &Path, time: Duration) -> Result<Option<f64>> {
    let (object, list) = bare_files(scratch, &Bytes::from(vec![b'x'; SIZE]), &Bytes::new())?;
    let bare = bare::start_plain(scratch, &object, &list).await?;
    let script: Script = std::sync::Arc::new(|_, _| Some(get(bare::OBJECT)));
    let load = |time| Load::closed(CLIENTS, time).over(Protocol::Http1);
    load(WARM_UP).run(&bare.server, &script).await?;
    let round = load(time).run(&bare.server, &script).await?;
    bare.stop().await?;
    Ok(round.micros().map(|micros| micros / REFERENCE))
}
