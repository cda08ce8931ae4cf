//! `pintle migrate`, with a real etcd.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use pintle_integration::{Etcd, run};
use pintle_store::{Change, EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, KeyInterval, Store as _};
use serde_json::{Value, json};

use super::PROGRAM;
use super::server::{Server, kubectl, printed, serve};

/// The command `pintle migrate` with these arguments. `to` is the target.
fn migrate(to: &str, data_dir: &Path, etcd: &Etcd) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["migrate", "--to", to, "--etcd-servers", etcd.url(), "--data-dir"]).arg(data_dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of a successful migration.
#[track_caller]
fn migrated(to: &str, data_dir: &Path, etcd: &Etcd) -> String {
    let output = migrate(to, data_dir, etcd).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn fails(command: &mut Command, expect: &str) {
    let output = command.output().expect("the program runs");
    let found = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && found.contains(expect), "{found}");
}

/// The objects of a server by their resources, namespaces and names, except the objects that servers themselves write.
fn objects(data_dir: &Path) -> BTreeMap<(String, String), Value> {
    let resources = printed(data_dir, &["api-resources", "--verbs=list", "-o", "name"]);
    let resources: Vec<&str> = resources.lines().filter(|name| !name.starts_with("componentstatuses")).collect();
    let list = printed(data_dir, &["get", &resources.join(","), "-A", "-o", "json"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let items = list["items"].as_array().expect("items").iter().cloned();
    let named = items.map(|item| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
        let kind = format!("{} {}", item["apiVersion"], item["kind"]);
        ((kind, format!("{}/{}", text("namespace"), text("name"))), item)
    });
    let is_own = |(kind, name): &(String, String)| {
        kind.contains("Lease") && name.starts_with("kube-system/")
            || name == "default/kubernetes"
            || kind.contains("EndpointSlice") && name.starts_with("default/kubernetes")
    };
    named.filter(|(key, _)| !is_own(key)).collect()
}

/// Objects without resource versions, and their names in the order of the resource versions.
type Versionless = (Vec<Value>, Vec<(String, String)>);

#[track_caller]
fn check_same(found: &Versionless, expect: &Versionless) {
    for (found, expect) in found.0.iter().zip(&expect.0) {
        assert_eq!(found, expect);
    }
    assert_eq!((found.0.len(), &found.1), (expect.0.len(), &expect.1));
}

fn versionless(mut objects: BTreeMap<(String, String), Value>) -> Versionless {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok());
    let mut order: Vec<_> =
        objects.iter().map(|(key, object)| (version(object).expect("a number"), key.clone())).collect();
    order.sort();
    for object in objects.values_mut() {
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    }
    (objects.into_values().collect(), order.into_iter().map(|(_, key)| key).collect())
}

fn version_of(data_dir: &Path, object: &str) -> u64 {
    let version = printed(data_dir, &["get", object, "-o", "jsonpath={.metadata.resourceVersion}"]);
    version.parse().expect("a number")
}

/// Asserts that the server answers a watch from an old version with 410.
#[track_caller]
fn is_gone(data_dir: &Path, version: u64) {
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let found = printed(data_dir, &["get", "--raw", &path]);
    let event: Value = serde_json::from_str(&found).expect("one event");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
}

#[test]
fn a_store_is_copied_into_etcd_and_back() {
    let etcd = Etcd::start();
    let [folder, back] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let (data_dir, flags) = (folder.path(), etcd.flags("/registry"));
    let server = Server::start(data_dir, &[]);
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/tests/clients/manifests");
    printed(data_dir, &["apply", "-f", manifests.to_str().expect("UTF-8")]);
    printed(data_dir, &["create", "configmap", "a", "--from-literal=k=one"]);
    printed(data_dir, &["create", "configmap", "z", "--from-literal=k=one"]);
    printed(data_dir, &["patch", "configmap", "a", "--type=merge", "-p", r#"{"data":{"k":"two"}}"#]);
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"}});
    let file = data_dir.join("event.json");
    std::fs::write(&file, event.to_string()).expect("a file");
    printed(data_dir, &["create", "-f", file.to_str().expect("UTF-8")]);
    printed(data_dir, &["wait", "--for=create", "serviceaccount/default", "--timeout=60s"]);
    let before = versionless(objects(data_dir));
    assert!(before.0.len() > 100, "{}", before.0.len());
    let old = version_of(data_dir, "configmap/a");

    fails(&mut migrate("etcd3", data_dir, &etcd), "is in use by another process");
    fails(&mut migrate("etcd3", back.path(), &etcd), "has no store");
    server.stop();
    let printed_report = migrated("etcd3", data_dir, &etcd);
    assert!(printed_report.contains(" keys with ") && printed_report.contains("expired:   0 keys"), "{printed_report}");
    fails(&mut migrate("etcd3", data_dir, &etcd), "has objects already");

    let server = Server::start(data_dir, &flags);
    check_same(&versionless(objects(data_dir)), &before);
    let in_etcd = version_of(data_dir, "configmap/a");
    assert!(in_etcd > old, "{in_etcd} {old}");
    is_gone(data_dir, old);
    printed(data_dir, &["get", "event", "e"]);
    // Writes go on, and the certificates and keys stay the same.
    printed(data_dir, &["patch", "configmap", "a", "--type=merge", "-p", r#"{"data":{"k":"three"}}"#]);
    let before = versionless(objects(data_dir));
    fails(&mut migrate("embedded", back.path(), &etcd), "is in use by the servers with these addresses: ");
    server.stop();

    // A migration does not copy the certificates.
    copy_folder(&data_dir.join("pki"), &back.path().join("pki"));
    migrated("embedded", back.path(), &etcd);
    fails(&mut migrate("embedded", back.path(), &etcd), "has objects already");
    let server = Server::start(back.path(), &[]);
    check_same(&versionless(objects(back.path())), &before);
    assert!(version_of(back.path(), "configmap/a") > in_etcd);
    is_gone(back.path(), in_etcd);
    printed(back.path(), &["delete", "configmap", "a"]);
    server.stop();
    Server::start(back.path(), &[]).stop();
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("a file").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

/// A key of an embedded store, and its value.
fn config_map(number: usize) -> (String, String) {
    let name = format!("n-{number:05}");
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{number}")});
    let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    (format!("/registry/configmaps/default/{name}"), value.to_string())
}

/// Opens the embedded store of a data directory in which a server has run.
fn embedded_store(data_dir: &Path) -> EmbeddedStore {
    Server::start(data_dir, &[]).stop();
    EmbeddedStore::open(data_dir, EmbeddedOptions::default()).expect("a store")
}

#[test]
fn a_migration_that_was_killed_is_not_served_and_goes_on() {
    run(async {
        let etcd = Etcd::start();
        let folder = tempfile::tempdir().expect("a folder");
        let data_dir = folder.path();
        let store = embedded_store(data_dir);
        for number in 0..1000 {
            let (key, value) = config_map(number);
            store.commit(Change::create(key, value)).await.expect("a create");
        }
        store.close().await.expect("the store closes");
        let target = EtcdStore::open(EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() });
        let target = target.expect("a store");
        let copied = KeyInterval::prefix("/registry/configmaps/default/");
        let mut migration = migrate("etcd3", data_dir, &etcd).spawn().expect("the program runs");
        while target.range(copied.clone(), None, Some(1)).await.expect("a range").records.is_empty() {
            assert!(migration.try_wait().expect("a process").is_none(), "it ended before it could be killed");
        }
        migration.kill().expect("it runs");
        migration.wait().expect("it ends");
        let half = target.range(copied.clone(), None, None).await.expect("a range").records.len();
        assert!(half < 1000, "{half}");

        fails(&mut serve(data_dir, &etcd.flags("/registry")), "a migration from the data directory ");
        let output = migrate("etcd3", data_dir, &etcd).output().expect("the program runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && log.contains("Continuing a migration that has not ended"), "{log}");
        let server = Server::start(data_dir, &etcd.flags("/registry"));
        let names = printed(data_dir, &["get", "configmaps", "-o", "name"]);
        assert_eq!(names.matches("configmap/n-").count(), 1000);
        server.stop();
    });
}

#[test]
fn values_that_are_too_large_for_etcd_are_named() {
    run(async {
        let etcd = Etcd::start();
        let folder = tempfile::tempdir().expect("a folder");
        let data_dir = folder.path();
        let store = embedded_store(data_dir);
        let (key, value) = config_map(1);
        let large = value.replace("}}", &format!(r#"}},"data":{{"k":"{}"}}}}"#, "x".repeat(1_600_000)));
        store.commit(Change::create(key, large)).await.expect("a create");
        store.close().await.expect("the store closes");
        let mut command = migrate("etcd3", data_dir, &etcd);
        fails(&mut command, "1 values cannot be copied, and nothing was copied.");
        fails(&mut command, "configmaps/default/n-00001: key and value have 1600");
        let options = EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() };
        let target = EtcdStore::open(options).expect("a store");
        assert!(target.range(KeyInterval::all(), None, None).await.expect("a range").records.is_empty());
    });
}

#[test]
fn values_that_cannot_be_read_are_named() {
    run(async {
        let etcd = Etcd::start();
        let folder = tempfile::tempdir().expect("a folder");
        let store = EtcdStore::open(EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() });
        let store = store.expect("a store");
        store.commit(Change::create("/registry/pods/n/broken", "k8s\0broken")).await.expect("a create");
        store.commit(Change::create("/registry/secrets/n/broken", "{")).await.expect("a create");
        let (key, value) = config_map(1);
        store.commit(Change::create(key, value)).await.expect("a create");
        let mut command = migrate("embedded", folder.path(), &etcd);
        fails(&mut command, "2 values cannot be copied, and nothing was copied.");
        fails(&mut command, "\n  /registry/pods/n/broken: ");
        fails(&mut command, "\n  /registry/secrets/n/broken: ");
        assert!(!folder.path().join("pintle.db").exists());
        for broken in ["/registry/pods/n/broken", "/registry/secrets/n/broken"] {
            store.commit(Change::delete(broken, pintle_store::Compare::Any)).await.expect("a delete");
        }
        migrated("embedded", folder.path(), &etcd);
        let server = Server::start(folder.path(), &[]);
        assert!(kubectl(folder.path(), &["get", "configmap", "n-00001"]).status.success());
        server.stop();
    });
}
