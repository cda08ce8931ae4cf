//! Consistency of lists and watches under concurrent writes and restarts. Writers generate a workload, and a history
//! checker compares everything that other clients observe with the recorded history. The invariants:
//!
//! - A watch applied to the list that it started from yields every later list.
//! - Revisions only increase. No event is missing or duplicated.
//! - A list or watch with selectors shows the same as a filter of all objects.
//!
//! - Faults lose nothing: the disk fails, the server's process is killed, or members of an etcd and the connections to
//!   them fail. A client still gets every acknowledged write, and never sees a write that was refused.
//!
//! `PINTLE_SEED` sets the seed that determines the clients' requests. Three variables replace the short runs with a
//! long run (`cargo xtask soak`). `PINTLE_SOAK` is its number of writes, `PINTLE_KILLS` its number of kills, and
//! `PINTLE_ETCD` its number of rounds.

mod checker;
mod crds;
mod faults;
mod format;
mod history;
mod kind;
mod lister;
mod object;
mod query;
mod random;
mod reflector;
mod replicas;
mod run;
mod shared;
mod slow_watchers;
mod writer;

use run::{Disturbance, RunSummary, Scenario, run};

/// The number of writes in each round of a soak.
const SOAK_ROUND: usize = 20_000;

fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// The seed from the environment, or a new one.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    env_number("PINTLE_SEED").unwrap_or(now.as_micros() as u64)
}

/// Runs a short scenario, unless a soak is requested.
fn run_short(scenario: Scenario) -> Option<RunSummary> {
    if ["PINTLE_SOAK", "PINTLE_KILLS", "PINTLE_ETCD"].into_iter().any(|variable| env_number(variable).is_some()) {
        return None;
    }
    let writes = scenario.rounds * scenario.writes;
    let summary = run(scenario, seed());
    // Some random writes fail, for example updates of missing objects. Most succeed.
    assert!(summary.changes > writes / 3 && summary.events > summary.changes as u64, "{summary:?}");
    Some(summary)
}

#[test]
fn all_clients_observe_the_same_history() {
    let scenario = Scenario {
        name: "all_clients_observe_the_same_history",
        history_bytes: 0,
        disturbance: Disturbance::None,
        rounds: 4,
        writes: 3000,
        lists: 300,
        reflectors: 80,
        padding: 0,
    };
    let Some(summary) = run_short(scenario) else { return };
    assert_eq!((summary.relists, summary.expired_lists), (0, 0));
    assert!(summary.bookmarks > 0, "{summary:?}");
}

#[test]
fn watches_resume_after_restarts() {
    let scenario = Scenario {
        name: "watches_resume_after_restarts",
        history_bytes: 0,
        disturbance: Disturbance::Restarts,
        rounds: 6,
        writes: 2000,
        lists: 200,
        reflectors: 80,
        padding: 0,
    };
    let Some(summary) = run_short(scenario) else { return };
    assert_eq!((summary.relists, summary.expired_lists), (0, 0));
}

#[test]
fn expired_watches_list_again() {
    let scenario = Scenario {
        name: "expired_watches_list_again",
        history_bytes: 2 << 20,
        disturbance: Disturbance::Restarts,
        rounds: 6,
        writes: 3000,
        lists: 200,
        reflectors: 60,
        padding: 1500,
    };
    let Some(summary) = run_short(scenario) else { return };
    assert!(summary.relists > 0, "{summary:?}");
}

#[test]
fn acknowledged_writes_survive_disk_faults() {
    let scenario = Scenario {
        name: "acknowledged_writes_survive_disk_faults",
        history_bytes: 2 << 20,
        disturbance: Disturbance::DiskFaults,
        rounds: 3,
        writes: 1500,
        lists: 90,
        reflectors: 24,
        padding: 800,
    };
    run_short(scenario);
}

#[test]
fn soak() {
    let Some(writes) = env_number("PINTLE_SOAK") else { return };
    let scenario = Scenario {
        name: "soak",
        history_bytes: 16 << 20,
        disturbance: Disturbance::Restarts,
        rounds: (writes as usize).div_ceil(SOAK_ROUND),
        writes: SOAK_ROUND,
        lists: 600,
        reflectors: 200,
        padding: 300,
    };
    run(scenario, seed()).print();
}

/// A run in which the process of the server is killed in every round.
fn kills(rounds: usize) -> Scenario {
    Scenario {
        name: "acknowledged_writes_survive_kills_of_the_process",
        history_bytes: 8 << 20,
        disturbance: Disturbance::Kills,
        rounds,
        writes: 150,
        lists: 24,
        reflectors: 24,
        padding: 300,
    }
}

#[test]
fn acknowledged_writes_survive_kills_of_the_process() {
    let Some(summary) = run_short(kills(20)) else { return };
    summary.print();
}

#[test]
fn soak_kills() {
    let Some(rounds) = env_number("PINTLE_KILLS") else { return };
    run(kills(rounds as usize), seed()).print();
}

/// A run with several servers over an etcd of several members. Members, servers and the connections between them fail.
fn etcd_faults(rounds: usize) -> Scenario {
    Scenario {
        name: "servers_agree_while_etcd_fails",
        history_bytes: 0,
        disturbance: Disturbance::EtcdFaults { compactions: false },
        rounds,
        writes: 180,
        lists: 60,
        reflectors: 40,
        padding: 300,
    }
}

#[test]
fn servers_agree_while_etcd_fails() {
    let Some(summary) = run_short(etcd_faults(30)) else { return };
    assert_eq!((summary.relists, summary.expired_lists), (0, 0));
    summary.print();
}

#[test]
fn servers_that_etcd_compacts_away_list_again() {
    let scenario = Scenario {
        name: "servers_that_etcd_compacts_away_list_again",
        disturbance: Disturbance::EtcdFaults { compactions: true },
        ..etcd_faults(6)
    };
    let Some(summary) = run_short(scenario) else { return };
    assert!(summary.relists > 0, "{summary:?}");
}

#[test]
fn soak_etcd() {
    let Some(rounds) = env_number("PINTLE_ETCD") else { return };
    run(etcd_faults(rounds as usize), seed()).print();
}
