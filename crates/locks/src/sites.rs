//! The places that take locks, and the records of each place.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::LazyLock;
use std::time::Instant;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::HoldCount;
use crate::histogram::Histogram;

/// A place that takes a lock, and the mode of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    guarded: &'static str,
    mode: &'static str,
    file: &'static str,
    line: u32,
}

#[derive(Debug, Default)]
struct Site {
    cpu: Histogram,
    wall: Histogram,
}

static SITES: LazyLock<parking_lot::Mutex<HashMap<Place, &'static Site>>> = LazyLock::new(Default::default);

thread_local! {
    /// The sites that this thread has used.
    static KNOWN: RefCell<HashMap<Place, &'static Site>> = RefCell::default();
}

fn site(place: Place) -> &'static Site {
    let find = || -> &'static Site { SITES.lock().entry(place).or_insert_with(|| Box::leak(Box::default())) };
    let known = KNOWN.try_with(|known| *known.borrow_mut().entry(place).or_insert_with(find));
    // An ending thread may have dropped its thread-local variables.
    known.unwrap_or_else(|_| find())
}

fn cpu_time() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    (tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(tv_nsec as u64)
}

/// A held lock. Its drop records how long the lock was held.
#[derive(Debug)]
pub(crate) struct Hold {
    site: &'static Site,
    cpu: u64,
    wall: Instant,
}

impl Hold {
    /// Starts the measurement when the lock has been taken.
    pub(crate) fn begin(guarded: &'static str, mode: &'static str, caller: &'static Location<'static>) -> Self {
        let site = site(Place { guarded, mode, file: caller.file(), line: caller.line() });
        Self { site, wall: Instant::now(), cpu: cpu_time() }
    }

    /// Starts again after the holder has released the lock and taken it again.
    pub(crate) fn restart(&mut self) {
        (self.wall, self.cpu) = (Instant::now(), cpu_time());
    }

    /// Records the time until now.
    pub(crate) fn record(&self) {
        let cpu = cpu_time().saturating_sub(self.cpu);
        let wall = u64::try_from(self.wall.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.site.cpu.record(cpu);
        self.site.wall.record(wall);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.record();
    }
}

/// The records so far.
pub(crate) fn hold_counts() -> Vec<HoldCount> {
    let sites: Vec<(Place, &'static Site)> = SITES.lock().iter().map(|(place, site)| (*place, *site)).collect();
    let counts = sites.into_iter().flat_map(|(Place { guarded, mode, file, line }, site)| {
        let of = move |clock, histogram: &'static Histogram| {
            histogram.counts().map(move |(nanoseconds, count)| {
                let place = format!("{file}:{line}");
                HoldCount { guarded, mode, place, clock, nanoseconds, count }
            })
        };
        of("cpu", &site.cpu).chain(of("wall", &site.wall))
    });
    counts.collect()
}
