//! `cargo xtask bench`: builds the benchmark (`bench/`) in release mode, and the server unless another one is
//! measured, and runs the benchmark.

use std::path::PathBuf;
use std::process::Command;

use crate::{go_tools, root};

/// Builds both programs and runs the benchmark with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let is_external = arguments.iter().any(|argument| matches!(argument.as_str(), "--kubeconfig" | "--binary"));
    // Built separately, so that the features which the benchmark enables in shared dependencies do not change the
    // server.
    for package in if is_external { &["pintle-bench"][..] } else { &["pintle", "pintle-bench"] } {
        run_command(
            Command::new(env!("CARGO")).args(["build", "--release", "--package", package]).current_dir(root()),
        )?;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let release = target.join("release");
    let mut bench = Command::new(release.join("pintle-bench"));
    if !is_external {
        bench.arg("--binary").arg(release.join("pintle"));
    }
    if let Some(codecs) = go_tools::codec_timings() {
        bench.arg("--go-codecs").arg(codecs);
    }
    run_command(bench.args(arguments))
}

fn run_command(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
