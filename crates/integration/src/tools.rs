//! External client programs, which `cargo xtask prepare` builds from `tools`.

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle::Options;

use crate::{Cluster, run};

/// The path of the program that is built from `tools/NAME`.
///
/// # Panics
/// Panics if the program is not built.
#[must_use]
pub fn tool_path(name: &str) -> PathBuf {
    let relative = format!("../../target/tools/{name}{}", std::env::consts::EXE_SUFFIX);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    assert!(program.exists(), "{} is missing; run `cargo xtask prepare`", program.display());
    program
}

/// Starts a cluster and runs a client program against it. The program gets the path of the kubeconfig as its argument.
///
/// # Panics
/// Panics if the program fails or its output does not end with `OK`.
pub fn run_client_program(name: &'static str, options: Options, variables: &'static [(&str, &str)]) {
    let output = run(async move {
        let mut cluster = Cluster::with_options(options).await;
        let kubeconfig = cluster.kubeconfig_file();
        let run_program =
            move || Command::new(tool_path(name)).arg(kubeconfig).envs(variables.iter().copied()).output();
        let output = tokio::task::spawn_blocking(run_program).await.expect("no panic").expect("the program starts");
        cluster.stop().await;
        output
    });
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.ends_with("OK\n"), "{stdout}{stderr}");
}
