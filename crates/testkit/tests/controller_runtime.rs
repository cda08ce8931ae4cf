//! An operator on controller-runtime as a client: `tools/controller-runtime` takes sites through their lives, with a
//! finalizer of its own, what they own, and every way to delete them. `cargo xtask prepare` builds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle_testkit::Cluster;

fn binary() -> PathBuf {
    let name = format!("../../target/tools/controller-runtime{}", std::env::consts::EXE_SUFFIX);
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    assert!(binary.exists(), "{} is missing: cargo xtask prepare builds it", binary.display());
    binary
}

#[test]
fn an_operator_keeps_its_sites() {
    let output = pintle_testkit::run(async {
        let mut cluster = Cluster::start().await;
        let kubeconfig = cluster.kubeconfig_file();
        let program = move || Command::new(binary()).arg(kubeconfig).output();
        let output = tokio::task::spawn_blocking(program).await.expect("a result").expect("the program runs");
        cluster.stop().await;
        output
    });
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.ends_with("OK\n"), "{stdout}{stderr}");
}
