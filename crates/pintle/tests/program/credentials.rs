//! The commands that make credentials, against a process of the server.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_integration::{Cluster, Options, run};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::PROGRAM;
use super::server::{Server, kubectl, printed as kubectl_prints, serve};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn pintle(data_dir: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).arg("--data-dir").arg(data_dir).output().expect("the program runs")
}

/// The output of a successful command.
fn printed(data_dir: &Path, arguments: &[&str]) -> String {
    let output = pintle(data_dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The value of a field of a kubeconfig.
fn field<'k>(kubeconfig: &'k str, name: &str) -> &'k str {
    let line = kubeconfig.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {kubeconfig}"))
}

/// The user that the server authenticates for a kubeconfig with a client certificate.
async fn who_am_i(kubeconfig: &str) -> Value {
    let decoded = |name: &str| STANDARD.decode(field(kubeconfig, name)).expect("base64");
    let certificate = |pem: &[u8]| CertificateDer::from_pem_slice(pem).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(&decoded("certificate-authority-data"))).expect("an authority");
    let key = PrivateKeyDer::from_pem_slice(&decoded("client-key-data")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&decoded("client-certificate-data"))], key)
        .expect("a client certificate");
    let address = field(kubeconfig, "server").trim_start_matches("https://");
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a TLS connection");
    let request = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                   content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    stream.write_all(request.as_bytes()).await.expect("an open connection");
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    let response = String::from_utf8_lossy(&response);
    let (_, body) = response.split_once("\r\n\r\n").expect("a response");
    serde_json::from_str::<Value>(body).expect("JSON")["status"]["userInfo"].take()
}

#[test]
fn kubeconfigs_name_the_address_for_other_machines() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let note = |expect: &str| {
        let output = pintle(data_dir, &["kubeconfig", "--user", "jane"]);
        let notes = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(notes.contains(expect), "{notes}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let flags = ["--bind-address", "0.0.0.0", "--advertise-address", "192.0.2.9"];
    let server = Server::start(data_dir, &[&flags[..], &["--tls-san", "Extra.example.com,2001:db8:0:0::7"]].concat());
    let kubeconfig = note("names the address that the server advertises, https://192.0.2.9:");
    assert!(field(&kubeconfig, "server").starts_with("https://192.0.2.9:"), "{kubeconfig}");
    // The administrator's kubeconfig has the loopback address, which works on this machine only.
    for name in ["127.0.0.1", "192.0.2.9", "extra.example.com", "2001:db8::7"] {
        kubectl_prints(data_dir, &["--tls-server-name", name, "get", "namespaces"]);
    }
    let refused = kubectl(data_dir, &["--tls-server-name", "other.example.com", "get", "namespaces"]);
    assert!(!refused.status.success(), "{refused:?}");
    server.stop();
    // A start with other addresses issues a new certificate for the same key.
    let key = std::fs::read(data_dir.join("pki/apiserver.key")).expect("a key");
    let server = Server::start(data_dir, &["--bind-address", "127.0.0.2"]);
    kubectl_prints(data_dir, &["get", "namespaces"]);
    let kubeconfig = note("which other machines do not reach");
    assert!(field(&kubeconfig, "server").starts_with("https://127.0.0.2:"), "{kubeconfig}");
    server.stop();
    assert_eq!(std::fs::read(data_dir.join("pki/apiserver.key")).expect("a key"), key);
    let output = serve(data_dir, &["--tls-san", "a b"]).output().expect("the program runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(text.contains("--tls-san: \"a b\" is neither a host name nor an IP address"), "{text}");
}

#[test]
fn kubeconfigs_and_tokens_are_made_for_users() {
    run(async {
        let cluster = Cluster::of_process(Path::new(PROGRAM), Options::default()).await;
        let data_dir = cluster.data_dir().expect("a folder").to_owned();
        let user = ["kubeconfig", "--user", "jane: doe", "--group", "dev", "--group", "ops", "--expires", "2h"];
        let kubeconfig = printed(&data_dir, &user);
        assert_eq!(field(&kubeconfig, "- name"), "pintle");
        assert!(kubeconfig.contains("- name: \"jane: doe\"\n"), "{kubeconfig}");
        let mut found = who_am_i(&kubeconfig).await;
        found.as_object_mut().map(|user| user.remove("extra"));
        assert_eq!(found, json!({"username": "jane: doe", "groups": ["dev", "ops", "system:authenticated"]}));
        let elsewhere = printed(&data_dir, &["kubeconfig", "--user", "a", "--server", "https://example.com:6443/"]);
        assert_eq!(field(&elsewhere, "server"), "https://example.com:6443");

        let create = ["token", "create", "bot"];
        let missing = pintle(&data_dir, &create);
        assert!(!missing.status.success() && missing.stdout.is_empty());
        assert_eq!(String::from_utf8_lossy(&missing.stderr), "pintle: serviceaccounts \"bot\" not found\n");
        let _ = cluster.post(ACCOUNTS, r#"{"metadata":{"name":"bot"}}"#).await.expect(201);
        let kubeconfig = printed(&data_dir, &create);
        let alone = printed(&data_dir, &["token", "create", "bot", "--output", "token", "--expires", "2h"]);
        for token in [field(&kubeconfig, "token"), alone.trim_end()] {
            let own = cluster.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").anonymous();
            let own = own.header("Authorization", &format!("Bearer {token}")).json("{}").send().await.expect(201);
            assert_eq!(own.json()["status"]["userInfo"]["username"], "system:serviceaccount:default:bot");
        }
        cluster.kill_server().await;
        for command in [&["kubeconfig", "--user", ""][..], &["token", "create", "bot"]] {
            assert!(!pintle(&data_dir, command).status.success(), "{command:?}");
        }
    });
}
