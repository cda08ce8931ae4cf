//! Runs the fuzz target that the environment variable `TARGET` names:
//! `TARGET=yaml cargo +nightly fuzz run --fuzz-dir crates/fuzz/libfuzzer target`. `SEEDS` names the corpus directory to
//! which the seed inputs are written.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pintle_fuzz::{TARGETS, FuzzTarget};

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        panic!("TARGET must be one of {:?}", TARGETS.iter().map(|target| target.name).collect::<Vec<_>>())
    });
    // Write the seed inputs to the corpus directory.
    if let Ok(folder) = std::env::var("SEEDS") {
        for (i, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(format!("{folder}/seed-{i}"), seed).expect("write a seed to the directory in SEEDS");
        }
    }
    target
});

fuzz_target!(init: { LazyLock::force(&TARGET); }, |input: &[u8]| TARGET.run(input));
