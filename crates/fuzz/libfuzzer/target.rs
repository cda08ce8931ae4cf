//! Runs the target that the environment names: `TARGET=yaml cargo +nightly fuzz run --fuzz-dir crates/fuzz/libfuzzer target`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pintle_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        panic!("TARGET must be one of {:?}", TARGETS.iter().map(|target| target.name).collect::<Vec<_>>())
    });
    // Seeds go where libFuzzer looks for inputs.
    if let Ok(folder) = std::env::var("SEEDS") {
        for (i, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(format!("{folder}/seed-{i}"), seed).expect("the folder of seeds");
        }
    }
    target
});

fuzz_target!(init: { LazyLock::force(&TARGET); }, |input: &[u8]| (TARGET.run)(input));
