//! Programs that are clients as real as can be: `cargo xtask prepare` builds them from `tools`.

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle::Options;

use crate::{Cluster, run};

/// The program that is built from `tools/NAME`.
///
/// # Panics
/// It is not built.
#[must_use]
pub fn tool_path(name: &str) -> PathBuf {
    let built = format!("../../target/tools/{name}{}", std::env::consts::EXE_SUFFIX);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(built);
    assert!(program.exists(), "{} is missing: cargo xtask prepare builds it", program.display());
    program
}

/// Runs a program through a cluster, with variables in its environment.
///
/// # Panics
/// It does not say `OK` at its end.
pub fn run_client_program(name: &'static str, options: Options, variables: &'static [(&str, &str)]) {
    let output = run(async move {
        let mut cluster = Cluster::with_options(options).await;
        let kubeconfig = cluster.kubeconfig_file();
        let walk = move || Command::new(tool_path(name)).arg(kubeconfig).envs(variables.iter().copied()).output();
        let output = tokio::task::spawn_blocking(walk).await.expect("a result").expect("the program runs");
        cluster.stop().await;
        output
    });
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("OK\n"), "{out}{errors}");
}
