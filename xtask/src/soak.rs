//! `cargo xtask soak`: long runs in release mode of three tests. The consistency test (`crates/pintle/tests/consistency`)
//! has a run with many changes, and a run in which the server's process is killed again and again. It also has a run
//! with several servers over an etcd that fails. Another test sends hostile inputs
//! (`crates/pintle/tests/hostile_inputs`). The last one kills a process that replaces the data key of an encrypted store
//! all the time (`crates/store/tests/suite/process_kill.rs`).

use crate::commands::{cargo, run_command};
use crate::print_status;

/// The default number of writes. More than half of them succeed and change an object.
const WRITES: u64 = 1_900_000;
/// The default number of kills.
const KILLS: u64 = 1000;
/// The default number of rounds in which etcd fails.
const ETCD_ROUNDS: u64 = 1000;
/// The default number of seconds of hostile inputs.
const HOSTILE_SECONDS: u64 = 3600;

/// The default number of kills while data keys are replaced. Each kill comes after one to ten new data keys.
const ROTATION_KILLS: u64 = 200;

/// The test that kills a process with an encrypted store.
const ROTATION_TEST: &str = "encrypted::process_kill::acknowledged_changes_survive_a_kill";

/// Runs the tests. Arguments: `[[--writes] N] [--kills [N]] [--etcd [N]] [--rotations [N]] [--hostile [SECONDS]]
/// [--seed N]`. Without any of the first five, all tests run.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
    let (mut writes, mut kills, mut rounds, mut rotations, mut hostile, mut seed) =
        (None, None, None, None, None, None);
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let value = rest.next_if(|value| !value.starts_with("--")).map(number).transpose()?;
        match argument.as_str() {
            "--writes" => writes = Some(value.unwrap_or(WRITES)),
            "--kills" => kills = Some(value.unwrap_or(KILLS)),
            "--etcd" => rounds = Some(value.unwrap_or(ETCD_ROUNDS)),
            "--rotations" => rotations = Some(value.unwrap_or(ROTATION_KILLS)),
            "--hostile" => hostile = Some(value.unwrap_or(HOSTILE_SECONDS)),
            "--seed" => seed = Some(value.ok_or("--seed needs a number")?),
            _ if value.is_none() => writes = Some(number(argument)?),
            _ => return Err(format!("unknown argument {argument:?}")),
        }
    }
    if [writes, kills, rounds, rotations, hostile].iter().all(Option::is_none) {
        (writes, kills, rounds) = (Some(WRITES), Some(KILLS), Some(ETCD_ROUNDS));
        (rotations, hostile) = (Some(ROTATION_KILLS), Some(HOSTILE_SECONDS));
    }
    if let Some(writes) = writes {
        print_status(&format!("{writes} writes; a failure prints its seed\n"));
        run_test(("pintle", "consistency"), "soak", ("PINTLE_SOAK", writes), seed)?;
    }
    if let Some(kills) = kills {
        print_status(&format!("{kills} kills; a failure prints its seed\n"));
        run_test(("pintle", "consistency"), "soak_kills", ("PINTLE_KILLS", kills), seed)?;
    }
    if let Some(rounds) = rounds {
        print_status(&format!("{rounds} rounds in which etcd fails; a failure prints its seed\n"));
        run_test(("pintle", "consistency"), "soak_etcd", ("PINTLE_ETCD", rounds), seed)?;
    }
    if let Some(kills) = rotations {
        print_status(&format!("{kills} kills while data keys are replaced\n"));
        run_test(("pintle-store", "suite"), ROTATION_TEST, ("PINTLE_KILLS", kills), None)?;
    }
    if let Some(seconds) = hostile {
        print_status(&format!("{seconds} seconds of hostile inputs; a failure prints its seed\n"));
        run_test(
            ("pintle", "hostile_inputs"),
            "hostile_inputs_harm_only_their_senders",
            ("PINTLE_HOSTILE", seconds),
            seed,
        )?;
    }
    Ok(())
}

/// Runs one test of a package's test program.
fn run_test(
    (package, program): (&str, &str),
    name: &str,
    (variable, value): (&str, u64),
    seed: Option<u64>,
) -> Result<(), String> {
    let test = ["test", "--release", "--package", package, "--test", program, "--", "--exact", name];
    let mut command = cargo(&test);
    command.arg("--nocapture").env(variable, value.to_string());
    if let Some(seed) = seed {
        command.env("PINTLE_SEED", seed.to_string());
    }
    run_command(&mut command)
}
