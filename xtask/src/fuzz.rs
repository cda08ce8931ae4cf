//! `cargo xtask fuzz`: runs the fuzz targets of `crates/fuzz` with many inputs.

use std::process::Command;

use crate::root;

/// Runs the targets. Arguments: `[--executions N] [--only TARGET,TARGET] [--seed N]`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let known = |name: &String| matches!(name.as_str(), "--executions" | "--only" | "--seed");
    if !arguments.len().is_multiple_of(2) || !arguments.iter().step_by(2).all(known) {
        return Err("expected [--executions N] [--only TARGET,TARGET] [--seed N]".to_owned());
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--profile", "fuzz", "--package", "pintle-fuzz", "--example", "run", "--"]);
    match command.args(arguments).current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo run: {status}")),
        Err(error) => Err(format!("cargo run: {error}")),
    }
}
