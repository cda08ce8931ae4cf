//! Calibrates CPU costs to this machine. The Go API server's costs were measured once on another machine, and
//! machines differ by more than most changes of the server do. The calibration workload is the same everywhere: the
//! baseline server answers with 1 KiB over plain HTTP.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::Result;
use crate::baseline;
use crate::client::{Protocol, get};
use crate::comparison::write_baseline_files;
use crate::load::{Load, Workload};

/// Microseconds of CPU per response on the machine where the Go API server was measured.
pub(crate) const REFERENCE_CPU_MICROS: f64 = 9.0;
/// The number of connections, on both machines.
const CLIENTS: usize = 16;
/// The size of the response in bytes.
const SIZE: usize = 1024;
/// The duration of the warm-up, which is not counted.
const WARM_UP: Duration = Duration::from_millis(200);

/// Measures how many times as much CPU this machine takes for the calibration workload as the reference machine did.
/// Returns `None` if the CPU time is not known.
pub(crate) async fn measure_cpu_scale(scratch: &Path, time: Duration) -> Result<Option<f64>> {
    let (object, list) = write_baseline_files(scratch, &Bytes::from(vec![b'x'; SIZE]), &Bytes::new())?;
    let baseline = baseline::start_plain(scratch, &object, &list).await?;
    let workload: Workload = std::sync::Arc::new(|_, _| Some(get(baseline::OBJECT)));
    let load = |time| Load::closed(CLIENTS, time).protocol(Protocol::Http1);
    load(WARM_UP).run(&baseline.server, &workload).await?;
    let round = load(time).run(&baseline.server, &workload).await?;
    baseline.stop().await?;
    Ok(round.cpu_micros().map(|micros| micros / REFERENCE_CPU_MICROS))
}
