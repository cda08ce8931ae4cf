//! The private keys of servers: which keys a start changes, and which keys it accepts.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pintle::{Engine, ManualClock, Options, Server as InProcess, Timestamp};
use pintle_integration::{Etcd, run};

use super::PROGRAM;
use super::server::{Server, kubectl, printed, serve};

/// The output of a start that fails.
#[track_caller]
fn refused(data_dir: &Path, flags: &[&str]) -> String {
    let output = serve(data_dir, flags).output().expect("the program runs");
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn copy_keys(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("pki")).expect("a folder");
    for file in fs::read_dir(from.join("pki")).expect("a folder") {
        let file = file.expect("an entry");
        fs::copy(file.path(), to.join("pki").join(file.file_name())).expect("a copy");
    }
}

#[test]
fn kubeconfigs_stay_valid_whatever_certificate_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data_dir, pki) = (folder.path(), folder.path().join("pki"));
    let log = Server::start(data_dir, &[]).stop();
    for file in ["ca.crt", "apiserver.crt", "admin.crt"] {
        assert!(
            log.contains(&format!(
                "WARN pintle::certificates::plan: Issued a certificate file={}",
                pki.join(file).display()
            )),
            "{log}"
        );
    }
    let old = tempfile::tempdir().expect("a folder");
    fs::copy(data_dir.join("admin.kubeconfig"), old.path().join("admin.kubeconfig")).expect("a copy");
    for file in ["admin.crt", "apiserver.crt", "ca.crt"] {
        fs::remove_file(pki.join(file)).expect("a file");
        let server = Server::start(data_dir, &[]);
        printed(data_dir, &["get", "namespaces"]);
        // The port may change, but the keys may not.
        let url = fs::read_to_string(data_dir.join("admin.kubeconfig")).expect("a kubeconfig");
        let url = url.lines().find_map(|line| line.trim().strip_prefix("server: ")).expect("a server").to_owned();
        printed(old.path(), &["--server", &url, "get", "namespaces"]);
        server.stop();
    }
}

#[test]
fn a_store_is_not_served_with_other_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data_dir, pki) = (folder.path(), folder.path().join("pki"));
    Server::start(data_dir, &[]).stop();
    let away = folder.path().join("away");
    fs::rename(&pki, &away).expect("a folder");
    let text = refused(data_dir, &[]);
    let expect = "the cluster was served with other keys: the certificate authority and the service account key differ";
    assert!(text.contains(expect), "{text}");
    assert!(!pki.exists());
    // Only the authority's key is there.
    fs::create_dir(&pki).expect("a folder");
    fs::copy(away.join("ca.key"), pki.join("ca.key")).expect("a copy");
    assert!(refused(data_dir, &[]).contains("other keys: the service account key differs."));
    fs::rename(pki.join("ca.key"), away.join("again")).expect("a file");
    fs::copy(away.join("sa.key"), pki.join("sa.key")).expect("a copy");
    assert!(refused(data_dir, &[]).contains("other keys: the certificate authority differs."));
    // The server may still accept certificates of the old authority.
    let old = away.join("ca.crt");
    Server::start(data_dir, &["--client-ca-file", old.to_str().expect("UTF-8")]).stop();
    Server::start(data_dir, &[]).stop();
    fs::remove_dir_all(&pki).expect("a folder");
    let log = Server::start(data_dir, &["--accept-key-change"]).stop();
    assert!(log.contains("The keys of this server replace those of the cluster"), "{log}");
    Server::start(data_dir, &[]).stop();
}

#[test]
fn certificates_are_not_issued_with_a_clock_that_contradicts_the_store() {
    run(async {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let etcd = Etcd::start();
        for engine in [Engine::Embedded, Engine::Etcd(etcd.config())] {
            let folder = tempfile::tempdir().expect("a folder");
            let start = async |day: u32, accept_clock| {
                let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000).after(DAY * day)));
                let (data_dir, engine) = (Some(folder.path().to_owned()), engine.clone());
                let options = Options { data_dir, engine, clock, accept_clock, register: true, ..Options::default() };
                let started = InProcess::start(options).await;
                let stopped = match started {
                    Ok(server) => server.stop().await.map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                (stopped, fs::read(folder.path().join("pki/ca.crt")).expect("a file"))
            };
            let (started, first) = start(0, false).await;
            started.expect("a server");
            let (refused, after) = start(4015, false).await;
            let text = refused.expect_err("a wrong clock");
            assert!(
                text.contains("ca.crt has expired at ") && text.contains("newest commit in the store is from 2027-"),
                "{text}"
            );
            assert_eq!(first, after);
            let (started, after) = start(10, false).await;
            started.expect("a server");
            assert_eq!(first, after);
            let (started, after) = start(4015, true).await;
            started.expect("a server");
            assert_ne!(first, after);
            // The previous certificates are valid.
            let (started, after) = start(11, false).await;
            started.expect("a server");
            assert_eq!(first, after);
        }
    });
}

#[test]
fn servers_over_one_etcd_have_the_same_keys() {
    let etcd = Etcd::start();
    let flags = etcd.flags("/registry");
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let server = Server::start(first.path(), &flags);
    let text = refused(second.path(), &flags);
    assert!(text.contains("the cluster was served with other keys"), "{text}");
    assert!(fs::read_dir(second.path()).expect("a folder").next().is_none(), "nothing was written");
    copy_keys(first.path(), second.path());
    // The server completes an incomplete copy.
    fs::remove_file(second.path().join("pki/admin.crt")).expect("a file");
    let other = Server::start(second.path(), &flags);
    let token = printed(first.path(), &["create", "token", "default"]);
    let user = kubectl(second.path(), &["auth", "whoami", "--token", token.trim()]);
    assert!(user.status.success(), "{user:?}");
    other.stop();
    server.stop();
}

#[test]
fn a_failed_start_leaves_no_folder() {
    let parent = tempfile::tempdir().expect("a folder");
    let data_dir = parent.path().join("new");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = port.local_addr().expect("an address").port().to_string();
    let mut command = Command::new(PROGRAM);
    let output = command.args(["serve", "--secure-port", &number, "--data-dir"]).arg(&data_dir).output();
    let output = output.expect("the program runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success() && !data_dir.exists(), "{text}");
    assert!(text.contains(&format!("failed to listen on 127.0.0.1:{number}: ")), "{text}");
    for flags in [
        ["--client-ca-file", "/missing"],
        ["--service-account-issuer", ""],
        ["--cors-allowed-origins", "("],
        ["--proxy-client-cert-file=/missing", "--proxy-client-key-file=/missing"],
    ] {
        refused(&data_dir, &flags);
        assert!(!data_dir.exists(), "{flags:?}");
    }
}
