//! The Go client library as a client: `tools/client-go` walks typed clients over Protobuf, informers, leader election, event
//! recorders, scale and dynamic clients through a cluster. `cargo xtask prepare` builds it.

use std::path::Path;
use std::process::Command;

use pintle_testkit::Cluster;

#[test]
fn client_go_finds_what_it_expects() {
    let name = format!("../../target/tools/client-go{}", std::env::consts::EXE_SUFFIX);
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    assert!(binary.exists(), "{} is missing: cargo xtask prepare builds it", binary.display());
    let output = pintle_testkit::run(async move {
        let mut cluster = Cluster::start().await;
        let kubeconfig = cluster.kubeconfig_file();
        let run = tokio::task::spawn_blocking(move || Command::new(binary).arg(kubeconfig).output());
        let output = run.await.expect("a result").expect("the program runs");
        cluster.stop().await;
        output
    });
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.ends_with("OK\n"), "{stdout}{stderr}");
}
