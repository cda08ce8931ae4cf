//! What CI checks, and anyone can: tools prepared, code formatted, lints clean, tests passing. Every step is a command
//! that can be run alone; a step that fails does not keep the others from saying what they found.

use std::process::Command;
use std::time::Instant;

use crate::{kubectl, root, say};

/// The steps after `prepare`, as arguments of cargo.
const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    &["test", "--workspace", "--no-fail-fast"],
];

/// Runs every step and says which failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(surplus) = arguments.first() {
        return Err(format!("{surplus:?} is not understood; for a part of the tests use cargo test"));
    }
    kubectl::prepare(&[])?;
    let mut failed = Vec::new();
    for step in STEPS {
        let command = format!("cargo {}", step.join(" "));
        say(&format!("\n==> {command}\n"));
        let start = Instant::now();
        let verdict = match cargo(step) {
            Ok(true) => "passed",
            Ok(false) => {
                failed.push(command.clone());
                "FAILED"
            }
            Err(error) => return Err(format!("{command}: {error}")),
        };
        say(&format!("==> {verdict} after {} s: {command}\n", start.elapsed().as_secs()));
    }
    if failed.is_empty() {
        say("\nall checks passed\n");
        return Ok(());
    }
    Err(format!("{} of {} steps failed:\n  {}", failed.len(), STEPS.len(), failed.join("\n  ")))
}

/// Runs cargo, the one that started this program if it is known, and says whether it succeeded.
fn cargo(arguments: &[&str]) -> std::io::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Ok(Command::new(cargo).args(arguments).current_dir(root()).status()?.success())
}
