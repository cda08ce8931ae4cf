//! `cargo xtask bench`: builds the benchmark (`bench/`) in release mode and runs it. Also builds the server unless
//! another server is measured. If Go is installed, it also builds the Go programs to compare with.

use std::path::PathBuf;
use std::process::Command;

use crate::commands::{cargo, run_command, target_folder};
use crate::{go_tools, print_status};

/// Builds both programs and runs the benchmark with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let contains = |option: &str| arguments.iter().any(|argument| argument == option);
    let is_external = contains("--kubeconfig") || contains("--binary");
    // The packages are built separately. So the features that the benchmark enables in shared dependencies do not
    // change the server.
    for package in if is_external { &["pintle-bench"][..] } else { &["pintle", "pintle-bench"] } {
        run_command(&mut cargo(&["build", "--release", "--package", package]))?;
    }
    let release = target_folder().join("release");
    let mut bench = Command::new(release.join("pintle-bench"));
    if !is_external {
        bench.arg("--binary").arg(release.join("pintle"));
    }
    let mut compare_with = |option: &str, built: Result<PathBuf, String>| match built {
        Ok(program) => {
            bench.arg(option).arg(program);
        }
        Err(error) => print_status(&format!("measuring without {option}: {error}\n")),
    };
    compare_with("--go-codecs", go_tools::codec_timings());
    // The server of a kubeconfig may be on another machine, so the Go API server is measured only on request.
    if !contains("--kubeconfig") && !contains("--go-apiserver") {
        // The benchmark finds the plugin beside the Go API server.
        compare_with("--go-apiserver", go_tools::kms_plugin().and_then(|()| go_tools::api_server()));
    }
    run_command(bench.args(arguments))
}
