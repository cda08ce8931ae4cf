//! Pintle and an API server with upstream's libraries over the same etcd, at the same time and one after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pintle_integration::{Cluster, EncryptionOptions, Engine, Etcd, Options, tool_path};
use pintle_store::{EtcdOptions, EtcdStore, KeyInterval, Store as _};
use serde_json::{Value, json};

use super::{CRDS, crd, get_until};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// The collections that both servers have, each with an object.
fn objects() -> [(&'static str, Value); 6] {
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    [
        (CONFIG_MAPS, json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "<one> & 'two'"}})),
        (
            "/api/v1/namespaces/default/secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "AAECAwQ="}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "spec": {"holderIdentity": "h", "renewTime": "2026-01-02T03:04:05.000006Z"}}),
        ),
        ("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace"})),
        (THINGS, json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"z": 1.5, "a": [null, "b"]}})),
    ]
}

/// The server with upstream's libraries. It ends when this value is dropped.
struct GoServer {
    child: Child,
    kubeconfig: String,
    _folder: tempfile::TempDir,
}

impl Drop for GoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl GoServer {
    fn start(etcd: &Etcd, encryption: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(tool_path("apiserver"))
            .args(["--etcd-servers", etcd.url(), "--data-dir"])
            .arg(folder.path())
            .args(encryption.map(|file| format!("--encryption-provider-config={}", file.display())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("it is ready");
        let kubeconfig = ready["kubeconfig"].as_str().expect("a file").to_owned();
        Self { child, kubeconfig, _folder: folder }
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(tool_path("kubectl"))
            .args(["--kubeconfig", &self.kubeconfig])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("kubectl reads");
        child.wait_with_output().expect("kubectl ends")
    }

    /// The server's answer to a GET.
    fn get(&self, path: &str) -> Option<String> {
        let output = self.kubectl(&["get", "--raw", path], "");
        output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
    }

    fn get_json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path).expect("an answer")).expect("JSON")
    }

    /// Writes an object. Returns the error of kubectl, if any.
    fn write(&self, verb: &str, object: &Value) -> Result<(), String> {
        let output = self.kubectl(&[verb, "--validate=false", "-f", "-"], &object.to_string());
        if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
    }
}

fn named(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["name"] = json!(name);
    object
}

/// The identity and the content of the objects in a list, without defaults that only kube-apiserver sets.
fn contents(list: &Value) -> Vec<Value> {
    let items = list["items"].as_array().expect("items");
    let content = |item: &Value| {
        let metadata = &item["metadata"];
        let identity =
            [&metadata["name"], &metadata["uid"], &metadata["resourceVersion"], &metadata["creationTimestamp"]];
        let spec = &item["spec"];
        json!([
            identity,
            item["data"],
            spec["replicas"],
            spec["selector"],
            spec["holderIdentity"],
            spec["renewTime"],
            spec["z"],
            spec["a"],
            spec["versions"]
        ])
    };
    items.iter().map(content).collect()
}

/// Asserts that both servers have the same objects with the same revisions.
async fn assert_same(pintle: &Cluster, go: &GoServer) {
    for path in objects().iter().map(|(path, _)| *path).chain([CRDS]) {
        let found = pintle.get(path).await.expect(200).json();
        assert_eq!(contents(&found), contents(&go.get_json(path)), "{path}");
    }
}

/// The parts of watch events that are the same in both servers: types, names and revisions.
fn events(body: &str) -> Vec<(String, String, String)> {
    let events = body.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    events
        .map(|event| {
            let metadata = &event["object"]["metadata"];
            (text(&event["type"]), text(&metadata["name"]), text(&metadata["resourceVersion"]))
        })
        .collect()
}

/// Runs both servers over one etcd, each with the same encryption configuration. `prefix` begins all values of resources
/// in etcd.
fn check_shared(encryption: Option<PathBuf>, prefix: &'static str) {
    pintle_integration::run(async move {
        let etcd = Etcd::start();
        let file = encryption.as_deref();
        let start_pintle = async || {
            let options = Options {
                engine: Engine::Etcd(etcd.config()),
                advertise_address: Some([192, 0, 2, 1].into()),
                register: true,
                encryption: EncryptionOptions { config_file: encryption.clone(), automatic_reload: false },
                ..Options::default()
            };
            Cluster::with_options(options).await
        };
        let pintle = start_pintle().await;
        let go = GoServer::start(&etcd, file);
        let revision = go.get_json(CONFIG_MAPS)["metadata"]["resourceVersion"].as_str().expect("text").to_owned();
        // Each server gets a CRD, and both servers serve both kinds.
        let head = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"});
        let mut things = crd("things", "Thing");
        things["apiVersion"] = head["apiVersion"].clone();
        things["kind"] = head["kind"].clone();
        things["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        go.write("create", &things).expect("a definition");
        let _ = pintle.post(CRDS, crd("others", "Other").to_string()).await.expect(201);
        for plural in ["things", "others"] {
            let path = format!("/apis/example.com/v1/namespaces/default/{plural}");
            get_until(&pintle, &path, |_| true).await;
            while go.get(&path).is_none() {}
        }

        for (path, object) in objects() {
            go.write("create", &named(&object, "from-go")).expect("an object");
            let _ = pintle.post(path, named(&object, "from-pintle").to_string()).await.expect(201);
        }
        assert_same(&pintle, &go).await;

        for (path, _) in objects() {
            // A change by one server is a conflict for the other.
            let path = format!("{path}/from-go");
            let mut old = go.get_json(&path);
            let mut new = pintle.get(&path).await.expect(200).json();
            new["metadata"]["labels"] = json!({"changed": "by-pintle"});
            let _ = pintle.put(&path, new.to_string()).await.expect(200);
            old["metadata"]["labels"] = json!({"changed": "by-go"});
            let refused = go.write("replace", &old).expect_err("a conflict");
            assert!(refused.contains("the object has been modified"), "{path}: {refused}");
            let mut again = go.get_json(&path);
            assert_eq!(again["metadata"]["labels"]["changed"], "by-pintle", "{path}");
            again["metadata"]["labels"] = json!({"changed": "by-go"});
            go.write("replace", &again).expect("no conflict");
            let _ = pintle.put(&path, new.to_string()).await.expect(409);
            let found = pintle.get(&path).await.expect(200).json();
            assert_eq!(found["metadata"]["labels"]["changed"], "by-go", "{path}");
        }
        let _ = pintle.delete(&format!("{CONFIG_MAPS}/from-go")).await.expect(200);
        assert_eq!(go.get(&format!("{CONFIG_MAPS}/from-go")), None);
        let deleted = go.kubectl(&["delete", "configmap", "from-pintle"], "");
        assert!(deleted.status.success(), "{deleted:?}");
        assert_eq!(pintle.get(&format!("{CONFIG_MAPS}/from-pintle")).await.status, 404);
        assert_same(&pintle, &go).await;

        // Watches of both servers show the writes of both.
        let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
        let told = events(&pintle.get(&path).await.expect(200).text());
        assert_eq!(told, events(&go.get(&path).expect("events")));
        let kinds: Vec<_> = told.iter().filter(|event| event.1.starts_with("from-")).map(|event| &*event.0).collect();
        assert_eq!(kinds, ["ADDED", "ADDED", "MODIFIED", "MODIFIED", "DELETED", "DELETED"]);

        // Pintle goes on without the Go server, and the Go server goes on after it.
        drop(go);
        let object = json!({"metadata": {"name": "alone"}, "data": {"k": "v"}});
        let _ = pintle.post(CONFIG_MAPS, object.to_string()).await.expect(201);
        let go = GoServer::start(&etcd, file);
        assert_same(&pintle, &go).await;
        pintle.stop().await;
        go.write("create", &named(&objects()[5].1, "last")).expect("an object");
        let pintle = start_pintle().await;
        get_until(&pintle, THINGS, |_| true).await;
        assert_same(&pintle, &go).await;
        pintle.stop().await;
        let options = EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() };
        let raw = EtcdStore::open(options).expect("a connection");
        for record in raw.range(KeyInterval::prefix("/registry/"), None, None).await.expect("etcd answers").records {
            let is_expected =
                record.value.starts_with(prefix.as_bytes()) || record.key.starts_with("/registry/pintle/");
            assert!(is_expected, "{}: {}", record.key, record.value.escape_ascii());
        }
    });
}

#[test]
fn a_server_of_upstreams_libraries_shares_the_same_etcd() {
    check_shared(None, "");
}

/// All resources are encrypted. Each server reads what the other one has encrypted.
#[test]
fn a_server_of_upstreams_libraries_shares_encrypted_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kms.sock");
    let keys = json!({"keys": [{"name": "one", "secret": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]});
    let kms = json!({"apiVersion": "v2", "name": "one", "endpoint": format!("unix://{}", socket.display())});
    let mut plugin = Command::new(tool_path("encryption"));
    plugin.arg("serve").arg(&socket).arg("key").stdin(Stdio::piped());
    let mut plugin = plugin.spawn().expect("the plugin starts");
    for (name, provider) in [("aesgcm", &keys), ("aescbc", &keys), ("secretbox", &keys), ("kms", &kms)] {
        let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["*.*"], "providers": [{name: provider}]}]});
        let file = folder.path().join(name);
        std::fs::write(&file, configuration.to_string()).expect("it is written");
        let prefix = match name {
            "aesgcm" => "k8s:enc:aesgcm:v1:one:",
            "aescbc" => "k8s:enc:aescbc:v1:one:",
            "secretbox" => "k8s:enc:secretbox:v1:one:",
            _ => "k8s:enc:kms:v2:one:",
        };
        check_shared(Some(file), prefix);
    }
    plugin.kill().expect("it ends");
    plugin.wait().expect("it has ended");
}
