//! How much is measured: all of it in less than a quarter of an hour, or a taste of everything in about two minutes.

use std::time::Duration;

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// What it is called in the report.
    pub(crate) name: &'static str,
    /// How long a loop runs.
    pub(crate) time: Duration,
    /// How long the yardstick is laid on before each scenario; zero for not at all.
    pub(crate) yardstick: Duration,
    /// How long an open loop runs.
    pub(crate) open: Duration,
    /// How many times each loop runs; the median counts.
    pub(crate) rounds: usize,
    /// How many starts are timed.
    pub(crate) starts: usize,
    /// How many objects a start finds stored.
    pub(crate) stored: usize,
    /// How many definitions of custom kinds there are.
    pub(crate) definitions: u64,
    /// How many objects are listed.
    pub(crate) listed: u64,
    /// How many pods are in the large list.
    pub(crate) pods: u64,
    /// How many objects a connection deletes in a loop.
    pub(crate) deletes: u64,
    /// How many watches are open at once where that is the point.
    pub(crate) watches: usize,
    /// How many nodes the mixed load has.
    pub(crate) nodes: u64,
    /// How long a server is left alone before its memory is weighed, to give back what was freed.
    pub(crate) settle: Duration,
    /// How long a server is left alone where its idleness is measured.
    pub(crate) idle: Duration,
}

impl Plan {
    /// The whole measurement.
    pub(crate) const FULL: Plan = Plan {
        name: "full",
        time: Duration::from_secs(2),
        yardstick: Duration::from_secs(2),
        open: Duration::from_secs(10),
        rounds: 3,
        starts: 5,
        stored: 300_000,
        definitions: 800,
        listed: 10_000,
        pods: 100_000,
        deletes: 500,
        watches: 10_000,
        nodes: 5_000,
        settle: Duration::from_secs(1),
        idle: Duration::from_secs(3),
    };
    /// A smoke run: every row, none of them to be quoted.
    pub(crate) const QUICK: Plan = Plan {
        name: "quick",
        time: Duration::from_millis(500),
        yardstick: Duration::from_millis(500),
        open: Duration::from_secs(2),
        rounds: 1,
        starts: 2,
        stored: 20_000,
        definitions: 400,
        listed: 10_000,
        pods: 10_000,
        deletes: 50,
        watches: 1_000,
        nodes: 500,
        settle: Duration::from_millis(500),
        idle: Duration::from_secs(1),
    };
    /// What shows that scenarios work, in a test.
    #[cfg(test)]
    pub(crate) const TINY: Plan = Plan {
        name: "tiny",
        time: Duration::from_millis(50),
        yardstick: Duration::ZERO,
        open: Duration::from_millis(100),
        rounds: 1,
        starts: 1,
        stored: 10,
        definitions: 4,
        listed: 100,
        pods: 100,
        deletes: 2,
        watches: 30,
        nodes: 20,
        settle: Duration::ZERO,
        idle: Duration::from_millis(10),
    };
}
