//! Commands that this program runs.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::root;

/// A command of cargo in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(arguments).current_dir(root());
    cargo
}

/// The target directory of builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a command.
///
/// # Errors
/// The command cannot be run, or fails.
pub(crate) fn run_command(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

/// Runs a command and returns its output.
///
/// # Errors
/// The command cannot be run, or fails, or its output is not UTF-8.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let result = command.stderr(Stdio::inherit()).output();
    let result = result.map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    if !result.status.success() {
        return Err(format!("{}: {}", command.get_program().display(), result.status));
    }
    String::from_utf8(result.stdout).map_err(|error| error.to_string())
}
