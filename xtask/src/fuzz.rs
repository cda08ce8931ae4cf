//! `cargo xtask fuzz`: runs the fuzz targets of `crates/fuzz` with many inputs.

use crate::commands::{cargo, run_command};

/// Runs the targets. Arguments: `[--executions N] [--only TARGET,TARGET] [--seed N]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let known = |name: &String| matches!(name.as_str(), "--executions" | "--only" | "--seed");
    if !arguments.len().is_multiple_of(2) || !arguments.iter().step_by(2).all(known) {
        return Err("expected [--executions N] [--only TARGET,TARGET] [--seed N]".to_owned());
    }
    let run = ["run", "--profile", "fuzz", "--package", "pintle-fuzz", "--example", "run", "--"];
    run_command(cargo(&run).args(arguments))
}
