//! Shortens a sequence while it still shows a difference.

use crate::run::{Difference, run};
use crate::sequence::Sequence;
use crate::server::Servers;

/// The maximum number of runs of a shrink.
const RUNS: usize = 150;

/// Returns the shortest sequence found, and its difference.
pub(crate) async fn shrink(servers: &Servers, sequence: &Sequence, difference: Difference) -> (Sequence, Difference) {
    let mut best = sequence.clone();
    let mut shown = difference;
    // The steps after the difference do not matter, except to a watch.
    if !shown.step.request.is_watch() {
        let shown = best.steps.iter().position(|step| step.name == shown.step.name);
        best.steps.truncate(shown.map_or(best.steps.len(), |at| at + 1));
    }
    let mut size = best.steps.len().div_ceil(2);
    let mut runs = 0;
    while size > 0 && runs < RUNS {
        let mut start = 0;
        while start < best.steps.len() && runs < RUNS {
            let mut shorter = best.clone();
            shorter.steps.drain(start..(start + size).min(best.steps.len()));
            runs += 1;
            match run(servers, &shorter).await {
                Some(found) => (best, shown) = (shorter, found),
                None => start += size,
            }
        }
        size /= 2;
    }
    (best, shown)
}
