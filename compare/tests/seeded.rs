//! The part of the differential test that runs in the suite: all tables, and random sequences for about a minute. The
//! number of sequences is fixed, so that every machine sends the same requests. The tables of CRDs are compared by
//! hand: upstream writes the conditions of CRDs in a race, and a loaded machine shows it.

use std::time::Duration;

use pintle_compare::{Options, RANDOM, RANDOM_AGGREGATION, compare};

#[test]
fn the_go_api_server_answers_the_same() {
    let options = Options {
        seed: 1,
        duration: Duration::from_secs(600),
        limit: 120,
        only: ["recorded", "custom", "patches", "malformed", "audit", "aggregation", RANDOM, RANDOM_AGGREGATION]
            .map(str::to_owned)
            .to_vec(),
        keep_going: false,
        cbor: false,
        report: |_| {},
    };
    let outcome = pintle_integration::run(compare(options));
    assert!(outcome.requests > 1_000, "{outcome:?}");
    assert!(outcome.differences.is_empty(), "{}", outcome.differences.join("\n"));
}
