//! Many write while many watch and list, and the server goes and comes back. Whatever the order, what a client is shown
//! is what happened: a watch replayed onto the list that it started from gives every later list, revisions only grow,
//! nothing is missed or told twice, and who selects sees what a filter over everything would leave.
//!
//! Everything that differs between clients is chosen by a seed: `PINTLE_SEED` sets it. `PINTLE_SOAK` is a number of
//! writes for one long run (`cargo xtask soak`) instead of the short ones.

mod dice;
mod follower;
mod form;
mod journal;
mod judge;
mod kind;
mod object;
mod reader;
mod run;
mod slow;
mod view;
mod world;
mod writer;

use run::{Scenario, Tally, run};

/// How many writes a soak has in each round.
const SOAK_ROUND: usize = 20_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// A seed from outside, or one that is new each time.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    number("PINTLE_SEED").unwrap_or(now.as_micros() as u64)
}

/// Runs a scenario; nothing of the short ones if there is a soak to do.
fn play(scenario: Scenario) -> Option<Tally> {
    if number("PINTLE_SOAK").is_some() {
        return None;
    }
    let writes = scenario.rounds * scenario.writes;
    let tally = run(scenario, seed());
    // Some writes are refused; most are not.
    assert!(tally.changes > writes / 3 && tally.events > tally.changes as u64, "{tally:?}");
    Some(tally)
}

#[test]
fn all_are_shown_what_happens() {
    let scenario = Scenario {
        name: "all_are_shown_what_happens",
        window: 0,
        restarts: false,
        rounds: 4,
        writes: 3000,
        reads: 300,
        followers: 80,
        filler: 0,
    };
    let Some(tally) = play(scenario) else { return };
    assert_eq!((tally.relists, tally.gone), (0, 0));
    assert!(tally.bookmarks > 0, "{tally:?}");
}

#[test]
fn restarts_are_not_noticed() {
    let scenario = Scenario {
        name: "restarts_are_not_noticed",
        window: 0,
        restarts: true,
        rounds: 6,
        writes: 2000,
        reads: 200,
        followers: 80,
        filler: 0,
    };
    let Some(tally) = play(scenario) else { return };
    assert_eq!((tally.relists, tally.gone), (0, 0));
}

#[test]
fn who_misses_more_than_is_kept_begins_anew() {
    let scenario = Scenario {
        name: "who_misses_more_than_is_kept_begins_anew",
        window: 2 << 20,
        restarts: true,
        rounds: 6,
        writes: 3000,
        reads: 200,
        followers: 60,
        filler: 1500,
    };
    let Some(tally) = play(scenario) else { return };
    assert!(tally.relists > 0, "{tally:?}");
}

#[test]
fn soak() {
    let Some(writes) = number("PINTLE_SOAK") else { return };
    let scenario = Scenario {
        name: "soak",
        window: 16 << 20,
        restarts: true,
        rounds: (writes as usize).div_ceil(SOAK_ROUND),
        writes: SOAK_ROUND,
        reads: 600,
        followers: 200,
        filler: 300,
    };
    run(scenario, seed()).report();
}
