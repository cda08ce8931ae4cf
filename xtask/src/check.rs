//! `cargo xtask test`: the checks of CI. It prepares the tools and then checks format, language, dependencies, lints,
//! documentation and tests. Last it runs the tests of controller-runtime, of a scaffolded project and of the example in
//! Go. Each step is a command that can be run alone. After a failed step the other steps still run.

use std::process::Command;
use std::time::Instant;

use crate::test_programs::{self, Selection};
use crate::{go_tools, print_status, root};

/// The steps after `prepare`, as arguments for cargo.
const STEPS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["xtask", "language"],
    &["xtask", "dependencies"],
    &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    &["doc", "--workspace", "--no-deps", "--document-private-items"],
    &["xtask", "test", "--programs"],
    &["xtask", "envtest", "--built"],
];

/// Runs every step and reports the failed steps.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [] => {}
        [only] if only == "--fast" => return test_programs::run(Selection::Fast),
        [only] if only == "--programs" => return test_programs::run(Selection::All),
        _ => return Err(format!("unexpected arguments {arguments:?}; use cargo test to run single tests")),
    }
    go_tools::prepare(&[])?;
    let mut failed = Vec::new();
    for step in STEPS {
        let command = format!("cargo {}", step.join(" "));
        print_status(&format!("\n==> {command}\n"));
        let start = Instant::now();
        let outcome = match cargo(step) {
            Ok(true) => "passed",
            Ok(false) => {
                failed.push(command.clone());
                "FAILED"
            }
            Err(error) => return Err(format!("{command}: {error}")),
        };
        print_status(&format!("==> {outcome} after {} s: {command}\n", start.elapsed().as_secs()));
    }
    if failed.is_empty() {
        print_status("\nall checks passed\n");
        return Ok(());
    }
    Err(format!("{} of {} steps failed:\n  {}", failed.len(), STEPS.len(), failed.join("\n  ")))
}

/// Runs the cargo that started this program, or else cargo from the path. Returns true if it succeeded. A warning of rustdoc,
/// such as a link that leads nowhere, is an error.
fn cargo(arguments: &[&str]) -> std::io::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(arguments).env("RUSTDOCFLAGS", "-Dwarnings").current_dir(root()).status()?;
    Ok(status.success())
}
