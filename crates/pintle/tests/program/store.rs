//! `pintle store encryption status` and `pintle store reencrypt`, against a process of the server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::PROGRAM;
use super::server::{Server, kubectl, printed};

const STATUS: &[&str] = &["encryption", "status"];
const SECRETS_STATUS: &[&str] = &["encryption", "status", "--resource", "secrets"];
const REENCRYPT_SECRETS: &[&str] = &["reencrypt", "--resource", "secrets"];

const OLD: &str = "aesgcm: {keys: [{name: old, secret: AAECAwQFBgcICQoLDA0ODw==}]}";
const NEW: &str = "aesgcm: {keys: [{name: new, secret: Dw4NDAsKCQgHBgUEAwIBAA==}]}";
const IDENTITY: &str = "identity: {}";

/// Starts a server that encrypts Secrets and Events with the first provider, and reads them with all.
fn start(data_dir: &Path, providers: &[&str]) -> Server {
    let file = data_dir.join("encryption.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - {{resources: [secrets, events], providers: [{{{}}}]}}\n",
        providers.join("}, {")
    );
    fs::write(&file, text).expect("a file");
    Server::start(data_dir, &["--encryption-provider-config", &file.to_string_lossy()])
}

fn store(data_dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("store").args(arguments).arg("--data-dir").arg(data_dir).output().expect("the program runs")
}

/// Checks what a successful command prints.
#[track_caller]
fn check(data_dir: &Path, arguments: &[&str], expect: &str) {
    let Output { status, stdout, stderr } = store(data_dir, arguments);
    assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8_lossy(&stdout), expect, "{arguments:?}");
}

/// Checks the error with which a command ends.
#[track_caller]
fn check_error(data_dir: &Path, arguments: &[&str], expect: &str) {
    let Output { status, stdout, stderr } = store(data_dir, arguments);
    assert!(!status.success() && stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&stdout));
    assert_eq!(String::from_utf8_lossy(&stderr), format!("pintle: {expect}\n"), "{arguments:?}");
}

fn create_secret(data_dir: &Path, name: &str) {
    printed(data_dir, &["create", "secret", "generic", name, "--from-literal", &format!("key=value of {name}")]);
}

/// The decoded value of a Secret.
fn secret_value(data_dir: &Path, name: &str) -> String {
    printed(data_dir, &["get", "secret", name, "-o", "go-template={{.data.key | base64decode}}"])
}

#[test]
fn values_under_an_old_key_are_counted_and_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = Server::start(data_dir, &[]);
    create_secret(data_dir, "a");
    create_secret(data_dir, "b");
    check(
        data_dir,
        SECRETS_STATUS,
        "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\nsecrets    identity         2         yes\n",
    );
    server.stop();

    let server = start(data_dir, &[OLD, IDENTITY]);
    check(
        data_dir,
        SECRETS_STATUS,
        "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\nsecrets    identity         2         no\n",
    );
    check(data_dir, REENCRYPT_SECRETS, "2 values examined, 2 written again\n");
    check(
        data_dir,
        SECRETS_STATUS,
        "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\nsecrets    aesgcm     old   2         yes\n",
    );
    server.stop();

    let server = start(data_dir, &[NEW, OLD]);
    create_secret(data_dir, "c");
    check(
        data_dir,
        SECRETS_STATUS,
        "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\n\
         secrets    aesgcm     new   1         yes\n\
         secrets    aesgcm     old   2         no\n",
    );
    // Other resources do not change the Secrets.
    let output = store(data_dir, &["reencrypt", "--resource", "configmaps"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.ends_with(" values examined, 0 written again\n"), "{output:?}");
    let output = store(data_dir, &["reencrypt"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.ends_with(" values examined, 2 written again\n"), "{output:?}");
    let text = String::from_utf8(store(data_dir, STATUS).stdout).expect("UTF-8");
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["secrets", "aesgcm", "new", "3", "yes"]), "{text}");
    assert!(rows.iter().any(|row| row.starts_with(&["configmaps", "identity"])), "{text}");
    assert!(rows.iter().all(|row| row.last() == Some(&"yes")), "{text}");
    check(data_dir, REENCRYPT_SECRETS, "3 values examined, 0 written again\n");
    server.stop();

    // Nothing needs the old key any more.
    let server = start(data_dir, &[NEW]);
    for name in ["a", "b", "c"] {
        assert_eq!(secret_value(data_dir, name), format!("value of {name}"));
    }
    server.stop();
}

#[test]
fn the_rate_is_bounded_and_progress_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = Server::start(data_dir, &[]);
    create_secret(data_dir, "a");
    create_secret(data_dir, "b");
    server.stop();
    let server = start(data_dir, &[NEW, IDENTITY]);
    let started = Instant::now();
    let output = store(data_dir, &["reencrypt", "--resource", "secrets", "--per-second", "1"]);
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    let last = "2 values examined, 2 written again\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), last);
    let progress = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && progress.contains(last), "{progress}");
    server.stop();
}

#[test]
fn objects_that_expire_keep_their_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = start(data_dir, &[OLD]);
    let file = data_dir.join("event.json");
    let event = r#"{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Test"}"#;
    fs::write(&file, event).expect("a file");
    printed(data_dir, &["create", "-f", &file.to_string_lossy()]);
    server.stop();
    let server = start(data_dir, &[NEW, OLD]);
    let expect = "1 values examined, 0 written again, 1 left to expire\n";
    check(data_dir, &["reencrypt", "--resource", "events"], expect);
    let expect = "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\nevents     aesgcm     old   1         no\n";
    check(data_dir, &["encryption", "status", "--resource", "events"], expect);
    server.stop();
}

#[test]
fn values_that_cannot_be_decrypted_are_an_error_with_their_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = start(data_dir, &[OLD]);
    create_secret(data_dir, "a");
    create_secret(data_dir, "b");
    server.stop();

    let server = start(data_dir, &[NEW]);
    let refused = kubectl(data_dir, &["get", "secret", "a"]);
    assert!(!refused.status.success(), "{refused:?}");
    create_secret(data_dir, "c");
    let expect = "3 values examined, 0 written again, 2 that cannot be decrypted";
    check_error(data_dir, REENCRYPT_SECRETS, expect);
    let status = "RESOURCE   PROVIDER   KEY   OBJECTS   CURRENT\n\
                  secrets    aesgcm     new   1         yes\n\
                  secrets    aesgcm     old   2         no\n";
    check(data_dir, SECRETS_STATUS, status);
    server.stop();

    // With the key they are written again.
    let server = start(data_dir, &[NEW, OLD]);
    check(data_dir, REENCRYPT_SECRETS, "3 values examined, 2 written again\n");
    assert_eq!(secret_value(data_dir, "a"), "value of a");
    server.stop();
}

#[test]
fn errors_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let missing = data_dir.join("missing");
    let server = start(data_dir, &[NEW]);
    for command in [STATUS, &["reencrypt"]] {
        let with = |arguments: &[&'static str]| [command, arguments].concat();
        check_error(data_dir, &with(&["--resource", "things"]), "invalid resource: \"things\"");
        check_error(data_dir, &with(&["--resource", "secrets.apps"]), "invalid resource: \"secrets.apps\"");
        let output = store(&missing, command);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("missing"), "{text}");
        assert!(!missing.exists(), "nothing is written");
    }
    let output = store(data_dir, &["reencrypt", "--per-second", "0"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("0 is not in 1.."), "{text}");
    server.stop();
    for command in [STATUS, &["reencrypt"]] {
        let output = store(data_dir, command);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.starts_with("pintle: ") && text.contains("refused"), "{text}");
    }
}
