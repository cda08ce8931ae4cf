//! The messages that the program logs at the default level.

use std::fs;
use std::process::Command;

use pintle_integration::tool_path;

use super::server::Server;

#[test]
fn rejected_credentials_and_the_end_are_logged_by_default() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &[]);
    let kubeconfig = fs::read_to_string(folder.path().join("admin.kubeconfig")).expect("a kubeconfig");
    let url = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: ")).expect("a URL").to_owned();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new(tool_path("kubectl"));
        command.args(["--kubeconfig", "/dev/null", "--server", url.trim_matches('"'), "--insecure-skip-tls-verify"]);
        command.args(arguments).output().expect("kubectl runs")
    };
    // A request without credentials does not count as a request with wrong credentials.
    assert!(!kubectl(&["get", "--raw", "/api/v1/nodes"]).status.success());
    assert!(!kubectl(&["get", "--raw", "/api/v1/namespaces", "--token", "s3cret"]).status.success());
    let log = server.stop();
    let rejected: Vec<&str> = log.lines().filter(|line| line.contains("Unable to authenticate the request")).collect();
    let [line] = &rejected[..] else { panic!("{log}") };
    for part in ["ERROR", "error=\"invalid bearer token\"", "srcIP=127.0.0.1:", "path=\"/api/v1/namespaces\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log.contains("s3cret"), "{log}");
    let ending: Vec<&str> = log.lines().filter(|line| line.contains("pintle::stop")).collect();
    assert!(
        matches!(&ending[..], [received, stopped]
        if received.contains("Received a signal, stopping signal=\"SIGTERM\"") && stopped.contains("Stopped took=")),
        "{log}"
    );
}
