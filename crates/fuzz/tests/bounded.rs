//! Every target, for a bounded number of inputs that are the same at every run. A failure prints the input.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pintle_fuzz::{Random, TARGETS, Target, mutate};

/// As deep as texts may nest, trees and the recursion over them need more than a test's stack.
const STACK: usize = 256 << 20;

/// How many inputs there are for each target, by their total length: long ones take longer.
const BYTES: usize = 3 << 20;

fn run(target: &Target) {
    let seeds = (target.seeds)();
    let check = |input: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
            panic!("{}: b\"{}\"", target.name, input.escape_ascii());
        }
    };
    let mut random = Random::new(7);
    let mut inputs = seeds.clone();
    seeds.iter().for_each(|seed| check(seed));
    let mut left = BYTES;
    while left > 0 {
        let (seed, other) = (random.below(inputs.len()), random.below(seeds.len()));
        let input = mutate(&mut random, &inputs[seed], &seeds[other]);
        check(&input);
        left = left.saturating_sub(input.len().max(64));
        // Now and then go on from there, but from a seed most of the time.
        if random.once_in(8) && input.len() < 4096 {
            let place = seeds.len() + random.below(64);
            if place < inputs.len() { inputs[place] = input } else { inputs.push(input) }
        }
    }
}

#[track_caller]
fn holds(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| run(target)).expect("a thread");
    thread.join().unwrap_or_else(|_| panic!("{name} does not hold"));
}

macro_rules! targets {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_target_is_run() {
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
    protobuf,
    object,
    envelope,
    cbor,
    cbor_typed,
    selector,
    json_patch,
    merge_patch,
    strategic,
    fields
);
