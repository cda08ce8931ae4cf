//! Runs every fuzz target with a bounded number of deterministic inputs. A failure prints the input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pintle_fuzz::{FuzzTarget, Random, TARGETS, mutate};

/// Recursion over deeply nested inputs needs more than a test's default stack.
const STACK: usize = 256 << 20;

/// The total length of the inputs for each target. The length limits the time better than the number of inputs.
const TOTAL_INPUT_BYTES: usize = 3 << 20;

fn run(target: &FuzzTarget) {
    let seeds = (target.seeds)();
    let check = |input: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
            panic!("{}: b\"{}\"", target.name, input.escape_ascii());
        }
    };
    let mut random = Random::new(7);
    let mut inputs = seeds.clone();
    seeds.iter().for_each(|seed| check(seed));
    let mut remaining_bytes = TOTAL_INPUT_BYTES;
    while remaining_bytes > 0 {
        let (seed, other) = (random.below(inputs.len()), random.below(seeds.len()));
        let input = mutate(&mut random, &inputs[seed], &seeds[other]);
        check(&input);
        remaining_bytes = remaining_bytes.saturating_sub(input.len().max(64));
        // Sometimes add the input to the corpus. Most mutations start from a seed.
        if random.once_in(8) && input.len() < 4096 {
            let index = seeds.len() + random.below(64);
            if index < inputs.len() { inputs[index] = input } else { inputs.push(input) }
        }
    }
}

#[track_caller]
fn check_target(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a known target");
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| run(target)).expect("a thread");
    thread.join().unwrap_or_else(|_| panic!("fuzz target {name} failed"));
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            check_target(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test() {
            let run = [$(stringify!($name)),*];
            assert_eq!(run.to_vec(), TARGETS.iter().map(|target| target.name).collect::<Vec<_>>());
        }
    };
}

targets!(
    json,
    json_typed,
    json_object,
    yaml,
    protobuf_message,
    protobuf_object,
    protobuf_envelope,
    cbor,
    cbor_typed,
    selector,
    json_patch,
    merge_patch,
    strategic_merge_patch,
    fields_v1
);
