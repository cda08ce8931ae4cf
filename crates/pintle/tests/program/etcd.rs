//! `pintle serve --storage-backend etcd3`, with a real etcd.

use pintle_etcd_process::{EtcdProcess, EtcdSettings, EtcdTls};
use pintle_integration::Etcd;
use serde_json::{Value, json};

use super::server::{Server, kubectl, printed, serve};

#[test]
fn objects_and_watches_go_on_when_the_server_restarts() {
    let etcd = Etcd::start();
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let data_dir = folder.path();
    let server = Server::start(data_dir, &etcd.flags("/registry"));
    let get = |arguments: &[&str]| printed(data_dir, arguments);
    get(&["create", "configmap", "a", "--from-literal=k=one"]);
    let version = get(&["get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}"]);
    let patch = json!({"data": {"k": "two"}}).to_string();
    get(&["patch", "configmap", "a", "--type=merge", "-p", &patch]);
    get(&["create", "namespace", "gone"]);
    get(&["create", "configmap", "in-it", "-n", "gone"]);
    get(&["delete", "namespace", "gone", "--timeout=60s"]);
    get(&["wait", "--for=create", "serviceaccount/default", "--timeout=60s"]);
    get(&["create", "service", "nodeport", "with-port", "--tcp=80"]);
    // A server with another prefix has other objects.
    let second = Server::start(other.path(), &etcd.flags("/second/"));
    let found = kubectl(other.path(), &["get", "configmap", "a"]);
    assert!(String::from_utf8_lossy(&found.stderr).contains("NotFound"), "{found:?}");
    printed(other.path(), &["create", "configmap", "a", "--from-literal=k=other"]);
    second.stop();
    server.stop();

    let server = Server::start(data_dir, &etcd.flags("/registry"));
    assert_eq!(get(&["get", "configmap", "a", "-o", "jsonpath={.data.k}"]), "two");
    assert_eq!(get(&["get", "namespaces", "gone", "--ignore-not-found"]), "");
    // The server serves etcd's history: a watch from a revision before the restart gets the events after it.
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let events = get(&["get", "--raw", &path]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let first = &events[0];
    assert_eq!((&first["type"], &first["object"]["data"]["k"]), (&json!("MODIFIED"), &json!("two")), "{events:?}");
    // A list at the old revision works, too.
    let path =
        format!("/api/v1/namespaces/default/configmaps?limit=500&resourceVersionMatch=Exact&resourceVersion={version}");
    let list: Value = serde_json::from_str(&get(&["get", "--raw", &path])).expect("JSON");
    let items = list["items"].as_array().expect("items");
    let a = items.iter().find(|item| item["metadata"]["name"] == "a").expect("the object");
    assert_eq!(a["data"]["k"], "one");
    // The server knows the other data in etcd, such as the record of node ports.
    let log = server.stop();
    assert!(!log.contains("belongs to no resource"), "{log}");
}

#[test]
fn a_server_whose_etcd_is_gone_says_so() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = Server::start(data_dir, &etcd.flags("/registry"));
    printed(data_dir, &["create", "configmap", "a"]);
    drop(etcd);
    // A write during the loss of the connection may have been executed. The server does not send later writes.
    let refused = || {
        let created = kubectl(data_dir, &["create", "configmap", "b"]);
        let found = String::from_utf8_lossy(&created.stderr).into_owned();
        assert!(!created.status.success(), "{found}");
        found.contains("the storage is unavailable")
    };
    assert!(refused() || refused());
    loop {
        let ready = kubectl(data_dir, &["get", "--raw", "/readyz?verbose"]);
        if !ready.status.success() {
            let text = String::from_utf8_lossy(&ready.stderr);
            assert!(text.contains("[-]etcd failed"), "{text}");
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(server);
}

#[test]
fn a_write_whose_outcome_is_unknown_is_not_to_be_repeated() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path();
    let server = Server::start(data_dir, &etcd.flags("/registry"));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "unknown-"}});
    let file = data_dir.join("object.json");
    std::fs::write(&file, object.to_string()).expect("a file");
    etcd.pause();
    let created = kubectl(data_dir, &["create", "-v=8", "--validate=false", "-f", &file.to_string_lossy()]);
    let found = String::from_utf8_lossy(&created.stderr);
    let has = |text: &str| found.to_lowercase().contains(text);
    assert!(has("etcd did not answer in time") && has("500 internal server error") && !has("retry-after"), "{found}");
    etcd.resume();
    // etcd may have kept the request until it could execute it.
    let get = || kubectl(data_dir, &["get", "configmaps", "-o", "name"]);
    let found = loop {
        let found = get();
        if found.status.success() {
            break String::from_utf8_lossy(&found.stdout).into_owned();
        }
    };
    assert!(found.matches("configmap/unknown-").count() <= 1, "{found}");
    printed(data_dir, &["create", "configmap", "after"]);
    drop(server);
}

#[test]
fn an_etcd_that_asks_for_certificates_is_used() {
    let tls = EtcdTls::generate();
    let etcd = EtcdProcess::with_settings(&EtcdSettings { tls: Some(tls.clone()), ..EtcdSettings::default() });
    let folder = tempfile::tempdir().expect("a folder");
    let [authority, certificate, key] =
        [tls.certificate_authority(), tls.certificate(), tls.key()].map(|file| file.display().to_string());
    // As with kube-apiserver, `--etcd-servers` alone suffices.
    let flags = [
        ["--etcd-servers", &etcd.url()],
        ["--etcd-cafile", &authority],
        ["--etcd-certfile", &certificate],
        ["--etcd-keyfile", &key],
    ];
    let server = Server::start(folder.path(), flags.as_flattened());
    printed(folder.path(), &["create", "configmap", "a", "--from-literal=k=v"]);
    assert_eq!(printed(folder.path(), &["get", "configmap", "a", "-o", "jsonpath={.data.k}"]), "v");
    server.stop();
}

#[test]
fn only_events_can_be_in_another_etcd() {
    let (etcd, folder) = (Etcd::start(), tempfile::tempdir().expect("a folder"));
    for (resource, why) in [
        ("/pods", "pods cannot be stored elsewhere, only events"),
        ("apps/deployments", "deployments.apps cannot be stored elsewhere, only events"),
        ("example.com/things", "things.example.com is not served"),
    ] {
        let named = format!("{resource}#{}", etcd.url());
        let mut flags = etcd.flags("/registry").to_vec();
        flags.extend(["--etcd-servers-overrides", &named]);
        let output = serve(folder.path(), &flags).output().expect("the program runs");
        let found = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && found.contains(&format!("--etcd-servers-overrides: {why}")), "{found}");
    }
}

#[test]
fn wrong_flags_of_etcd_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (flags, expect) in [
        (&["--storage-backend", "etcd3"][..], "--etcd-servers must be specified"),
        (&["--etcd-servers-overrides", "/events#http://a:1"], "--etcd-servers must be specified"),
        (
            &["--storage-backend", "memory", "--etcd-servers-overrides", "/events#http://a:1"],
            "--etcd-servers-overrides needs --storage-backend etcd3",
        ),
        (
            &[
                "--storage-backend",
                "etcd3",
                "--etcd-servers",
                "http://127.0.0.1:1",
                "--etcd-servers-overrides",
                "events",
            ],
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon \
             separated",
        ),
        (
            &["--storage-backend", "embedded", "--etcd-servers", "http://127.0.0.1:1"],
            "--etcd-servers needs --storage-backend etcd3",
        ),
        (
            &["--storage-backend", "etcd3", "--etcd-servers", "http://127.0.0.1:1", "--etcd-cafile", "/no/file"],
            "/no/file: No such file or directory",
        ),
        (&["--etcd-servers", "http://127.0.0.1:1"], "failed to read the stored objects: the store is unavailable: "),
    ] {
        let output = serve(folder.path(), flags).output().expect("the program runs");
        let found = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && found.contains(expect), "{flags:?}: {found}");
    }
}
