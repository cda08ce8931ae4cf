//! `pintle serve` with files that lack acknowledged changes, and `--accept-data-loss-after`.

use std::fs;
use std::path::Path;

use super::server::{Server, printed, serve};

/// The output of a server that does not start.
fn refused(data_dir: &Path, arguments: &[&str]) -> String {
    let output = serve(data_dir, arguments).output().expect("the program runs");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn resource_version(data_dir: &Path, name: &str) -> u64 {
    let version = printed(data_dir, &["get", "configmap", name, "-o", "jsonpath={.metadata.resourceVersion}"]);
    version.parse().expect("a number")
}

#[test]
fn a_server_does_not_start_without_acknowledged_changes_unless_that_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = Server::start(data_dir, &[]);
    printed(data_dir, &["create", "configmap", "kept"]);
    server.stop();
    // The drop kills the server.
    let server = Server::start(data_dir, &[]);
    printed(data_dir, &["create", "configmap", "lost"]);
    let lost = resource_version(data_dir, "lost");
    drop(server);
    fs::remove_file(data_dir.join("pintle.db-wal")).expect("a log");

    let text = refused(data_dir, &[]);
    assert!(text.contains("pintle.db-wal is missing or empty"), "{text}");
    let (_, rest) = text.split_once("--accept-data-loss-after ").expect("the flag");
    let after = rest.split(' ').next().expect("a revision");
    let other = (after.parse::<u64>().expect("a number") + 1).to_string();
    assert!(refused(data_dir, &["--accept-data-loss-after", &other]).contains("are lost"));
    let memory = refused(data_dir, &["--storage-backend", "memory", "--accept-data-loss-after", after]);
    assert!(memory.contains("needs --storage-backend embedded"), "{memory}");

    for arguments in [&["--accept-data-loss-after", after][..], &["--accept-data-loss-after", after], &[]] {
        let server = Server::start(data_dir, arguments);
        assert_eq!(printed(data_dir, &["get", "configmap", "lost", "--ignore-not-found"]), "");
        resource_version(data_dir, "kept");
        printed(data_dir, &["create", "configmap", "next"]);
        assert!(resource_version(data_dir, "next") > lost);
        printed(data_dir, &["delete", "configmap", "next"]);
        server.stop();
    }
}
