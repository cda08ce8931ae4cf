//! The times for which locks were held, if the server records them (feature `lock-hold-times`).

use pintle_locks::HoldCount;
use pintle_metrics::{Exposition, Kind, Stability};

pub(super) fn write(out: &mut Exposition) {
    for HoldCount { guarded, mode, place, clock, nanoseconds, count } in pintle_locks::hold_counts() {
        let nanoseconds = nanoseconds.to_string();
        let labels =
            [("guarded", guarded), ("mode", mode), ("place", &place), ("clock", clock), ("nanoseconds", &nanoseconds)];
        let help = "Locks that were held for a time, by what they guard, the place that took them, and the time.";
        out.family("pintle_lock_holds_total", Kind::Counter, Stability::None, help).value(&labels, count as f64);
    }
}
