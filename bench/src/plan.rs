//! Durations and sizes of a run. Without the Go API server the full plan takes less than an hour, and the quick plan
//! about ten minutes. The growth scenario takes half of both. Counting its instructions takes a quarter of an hour
//! more.

use std::time::Duration;

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The name of the plan in the report.
    pub(crate) name: &'static str,
    /// The duration of a closed loop.
    pub(crate) duration: Duration,
    /// The duration of an open loop.
    pub(crate) open_loop_duration: Duration,
    /// How often each loop is repeated. The median is reported.
    pub(crate) rounds: usize,
    /// The number of timed server starts.
    pub(crate) starts: usize,
    /// The number of clusters that one process starts one after the other, and the number that it starts at once.
    pub(crate) test_clusters: (usize, usize),
    /// The number of stored objects when a start on a filled store is timed.
    pub(crate) stored_objects: usize,
    /// The number of objects that are created in a row before a start is timed. `None` skips this, because it takes too
    /// long.
    pub(crate) many_objects: Option<u64>,
    /// The number of CRDs.
    pub(crate) crds: u64,
    /// The number of objects in an ordinary list.
    pub(crate) listed_objects: u64,
    /// The number of pods in the large list.
    pub(crate) pods: u64,
    /// The number of objects that each client deletes in a loop.
    pub(crate) deletes_per_client: u64,
    /// The number of open watches in the scenario of filtered watches.
    pub(crate) watches: usize,
    /// The divisor of the number of attack connections.
    pub(crate) attack_divisor: usize,
    /// The number of nodes in the mixed workload.
    pub(crate) nodes: u64,
    /// The divisor of the initial counts in the growth scenario, and the factors by which the counts are then
    /// multiplied.
    pub(crate) growth: (u64, &'static [u64]),
    /// The pause before memory is measured, so that the allocator can return freed memory.
    pub(crate) settle: Duration,
    /// The pause during which an idle server is measured.
    pub(crate) idle: Duration,
    /// The pause after many objects were created. In it the server packs their history, which begins ten seconds later.
    pub(crate) packing: Duration,
}

impl Plan {
    /// The full measurement.
    pub(crate) const FULL: Plan = Plan {
        name: "full",
        duration: Duration::from_secs(2),
        open_loop_duration: Duration::from_secs(10),
        rounds: 3,
        starts: 5,
        test_clusters: (20, 100),
        stored_objects: 300_000,
        many_objects: Some(1_000_000),
        crds: 800,
        listed_objects: 10_000,
        pods: 100_000,
        deletes_per_client: 500,
        watches: 10_000,
        attack_divisor: 1,
        nodes: 5_000,
        growth: (1, &[1, 10, 100]),
        settle: Duration::from_secs(1),
        idle: Duration::from_secs(3),
        packing: Duration::from_secs(13),
    };
    /// A smoke run that prints every row. Its numbers are not meant to be quoted.
    pub(crate) const QUICK: Plan = Plan {
        name: "quick",
        duration: Duration::from_millis(500),
        open_loop_duration: Duration::from_secs(2),
        rounds: 1,
        starts: 2,
        test_clusters: (5, 20),
        stored_objects: 20_000,
        many_objects: None,
        crds: 400,
        listed_objects: 10_000,
        pods: 10_000,
        deletes_per_client: 50,
        watches: 1_000,
        attack_divisor: 10,
        nodes: 500,
        growth: (5, &[1, 10]),
        settle: Duration::from_millis(500),
        idle: Duration::from_secs(1),
        packing: Duration::from_secs(12),
    };
    /// The smallest run, for tests of the scenarios themselves.
    #[cfg(test)]
    pub(crate) const TINY: Plan = Plan {
        name: "tiny",
        duration: Duration::from_millis(50),
        open_loop_duration: Duration::from_millis(100),
        rounds: 1,
        starts: 1,
        test_clusters: (1, 2),
        stored_objects: 10,
        many_objects: Some(10),
        crds: 4,
        listed_objects: 100,
        pods: 100,
        deletes_per_client: 2,
        watches: 30,
        attack_divisor: 1000,
        nodes: 20,
        growth: (100, &[1, 2]),
        settle: Duration::ZERO,
        idle: Duration::from_millis(10),
        packing: Duration::from_millis(10),
    };
}
