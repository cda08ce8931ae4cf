//! kubectl presents client certificates with all types of keys.

use std::fs;
use std::path::Path;
use std::process::Command;

use pintle_integration::tool_path;

use super::server::Server;

#[test]
fn clients_have_keys_of_every_sort_that_go_has() {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x509/tests/clients");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--client-ca-file", clients.join("ca.crt").to_str().expect("UTF-8")]);
    let kubeconfig = fs::read_to_string(folder.path().join("admin.kubeconfig")).expect("a kubeconfig");
    let url = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: ")).expect("a URL");
    for key in ["p256", "p384", "p521", "ed25519", "rsa1024", "rsa2048"] {
        let mut command = Command::new(tool_path("kubectl"));
        command.args(["--kubeconfig", "/dev/null", "--insecure-skip-tls-verify", "--server", url.trim_matches('"')]);
        command.arg("--client-certificate").arg(clients.join(format!("{key}.crt")));
        command.arg("--client-key").arg(clients.join(format!("{key}.key")));
        let found = command.args(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).output();
        let found = found.expect("kubectl runs");
        let error = String::from_utf8_lossy(&found.stderr);
        assert_eq!(String::from_utf8_lossy(&found.stdout), key, "{error}");
    }
    let log = server.stop();
    assert!(!log.contains("Unable to authenticate"), "{log}");
}
