//! `cargo xtask soak`: one long run of the consistency test (`crates/testkit/tests/consistency`) in release mode.

use std::process::Command;

use crate::{print_status, root};

/// The default number of writes. More than half of them succeed and change an object.
const WRITES: u64 = 1_900_000;

/// Runs the test. Arguments: `[WRITES] [--seed N]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
    let (mut writes, mut seed) = (WRITES, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seed" => seed = Some(number(rest.next().ok_or("--seed needs a number")?)?),
            _ => writes = number(argument)?,
        }
    }
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--release", "--package", "pintle-testkit", "--test", "consistency", "--", "--exact", "soak"])
        .arg("--nocapture")
        .env("PINTLE_SOAK", writes.to_string())
        .current_dir(root());
    if let Some(seed) = seed {
        command.env("PINTLE_SEED", seed.to_string());
    }
    print_status(&format!("{writes} writes; a failure prints its seed\n"));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo test: {status}")),
        Err(error) => Err(format!("cargo test: {error}")),
    }
}
