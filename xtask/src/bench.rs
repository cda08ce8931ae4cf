//! `cargo xtask bench`: builds the benchmark (`bench/`) as it is released, and the server too unless another one is to be
//! measured, then lets the benchmark do its work.

use std::path::PathBuf;
use std::process::Command;

use crate::{kubectl, root};

/// Builds both programs and runs the benchmark; the arguments are the benchmark's own.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let other = arguments.iter().any(|argument| matches!(argument.as_str(), "--kubeconfig" | "--binary"));
    // Built one by one: what the benchmark asks of shared dependencies shall not change the server.
    for package in if other { &["pintle-bench"][..] } else { &["pintle", "pintle-bench"] } {
        finish(Command::new(env!("CARGO")).args(["build", "--release", "--package", package]).current_dir(root()))?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let release = target.join("release");
    let mut bench = Command::new(release.join("pintle-bench"));
    if !other {
        bench.arg("--binary").arg(release.join("pintle"));
    }
    if let Some(codecs) = kubectl::codecs() {
        bench.arg("--go-codecs").arg(codecs);
    }
    finish(bench.args(arguments))
}

fn finish(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
