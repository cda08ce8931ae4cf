//! Encryption at rest: the stored values in etcd and in the embedded store, and servers with other keys.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use pintle_integration::{
    Cluster, EncryptionOptions, Engine, Etcd, Options, Protocol, StoreEncryptionOptions, StoreKeySource, tool_path,
};
use pintle_store::{Change, EtcdOptions, EtcdStore, KeyInterval, Store as _};
use serde_json::{Value, json};

use super::{CRDS, crd, get_until};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const SECRET_KEY: &str = "/registry/secrets/default/a";
const THING_KEY: &str = "/registry/example.com/things/default/a";
const PLAIN: &str = "the clear text of a secret";

/// A provider with a key whose bytes are all the same.
fn provider(name: &str, key: &str, byte: u8) -> Value {
    use base64::Engine as _;
    let secret = base64::engine::general_purpose::STANDARD.encode([byte; 32]);
    json!({name: {"keys": [{"name": key, "secret": secret}]}})
}

/// A configuration for secrets and things.
fn configuration(providers: &[Value]) -> Value {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets", "things.example.com"], "providers": providers}]})
}

/// A folder with files of configurations.
struct Configurations(tempfile::TempDir);

impl Configurations {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, configuration: &Value) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, configuration.to_string()).expect("it is written");
        file
    }
}

fn options(file: Option<&Path>) -> Options {
    let encryption = EncryptionOptions { config_file: file.map(Path::to_owned), automatic_reload: false };
    Options { encryption, ..Options::default() }
}

/// A server over an etcd with the CRD of things.
async fn server(etcd: &Etcd, file: Option<&Path>) -> Cluster {
    let engine = Engine::Etcd(etcd.config());
    let server = Cluster::with_options(Options { engine, ..options(file) }).await;
    let created = server.post(CRDS, crd("things", "Thing").to_string()).await;
    assert!(matches!(created.status.as_u16(), 201 | 409), "{}", created.text());
    server.get_until(THINGS, |found| found.status != 404).await;
    server
}

fn open(etcd: &Etcd) -> EtcdStore {
    EtcdStore::open(EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() })
        .expect("a connection")
}

async fn stored(raw: &EtcdStore, key: &str) -> Bytes {
    raw.get(key.into(), None).await.expect("etcd answers").expect("an object").value
}

fn secret(name: &str) -> String {
    json!({"metadata": {"name": name}, "stringData": {"password": PLAIN}}).to_string()
}

fn thing(name: &str) -> String {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}}).to_string()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// For each provider, a server writes values with its prefix. A server with a newer key reads them, and writes them
/// again although they do not change.
#[test]
fn values_are_encrypted_read_by_other_servers_and_written_again_with_newer_keys() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let files = Configurations::new();
        let identity = json!({"identity": {}});
        for name in ["aesgcm", "aescbc", "secretbox"] {
            let (old, new) = (provider(name, "old", 1), provider(name, "new", 2));
            let first = files.write("first", &configuration(&[old.clone(), identity.clone()]));
            let one = server(&etcd, Some(&first)).await;
            let _ = one.post(SECRETS, secret("a")).await.expect(201);
            let _ = one.post(THINGS, thing("a")).await.expect(201);
            let _ = one.post(CONFIGMAPS, secret("a").replace("stringData", "data")).await.expect(201);
            for key in [SECRET_KEY, THING_KEY] {
                let value = stored(&raw, key).await;
                assert!(value.starts_with(format!("k8s:enc:{name}:v1:old:").as_bytes()), "{}", value.escape_ascii());
                assert!(!contains(&value, PLAIN) && !contains(&value, "Thing"));
            }
            assert!(stored(&raw, "/registry/configmaps/default/a").await.starts_with(b"k8s\0"));

            // The newer key writes, and the older one still reads.
            let second = files.write("second", &configuration(&[new, old]));
            let two = server(&etcd, Some(&second)).await;
            for (path, key) in [(SECRETS, SECRET_KEY), (THINGS, THING_KEY)] {
                let before = one.get(&format!("{path}/a")).await.expect(200).text();
                assert_eq!(two.get(&format!("{path}/a")).await.expect(200).text(), before);
                assert_eq!(two.get(path).await.expect(200).json()["items"][0]["metadata"]["name"], "a");
                let after = two.put(&format!("{path}/a"), before.clone()).await.expect(200).json();
                let before: Value = serde_json::from_str(&before).expect("JSON");
                assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
                let value = stored(&raw, key).await;
                assert!(value.starts_with(format!("k8s:enc:{name}:v1:new:").as_bytes()), "{}", value.escape_ascii());
                let again = two.put(&format!("{path}/a"), after.to_string()).await.expect(200).json();
                assert_eq!(again, after, "the value is not stale any more");
            }
            // The first server does not have the newer key.
            let gone = one.get_until_status(&format!("{SECRETS}/a"), 500).await.json();
            let error = format!(
                "no matching key was found for the provided {} transformer",
                match name {
                    "secretbox" => "Secretbox",
                    _ => "AES",
                }
            );
            assert_eq!(gone["message"], format!("Internal error occurred: {error}"));
            one.stop().await;
            for path in [SECRETS, THINGS, CONFIGMAPS] {
                let _ = two.delete(&format!("{path}/a")).await.expect(200);
            }
            two.stop().await;
        }
    });
}

/// Without the key, an object fails alone, lists and watches of its collection fail, and everything else works.
#[test]
fn what_cannot_be_decrypted_has_upstreams_errors_and_is_served_again_with_its_key() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let files = Configurations::new();
        let file = files.write("file", &configuration(&[provider("aesgcm", "one", 1), json!({"identity": {}})]));
        let one = server(&etcd, Some(&file)).await;
        let _ = one.post(SECRETS, secret("a")).await.expect(201);
        let created = one.post(SECRETS, secret("b")).await.expect(201).json();
        // A value that was moved to another key is not accepted in its place.
        let moved = stored(&raw, SECRET_KEY).await;
        raw.commit(Change::put("/registry/secrets/default/moved", moved)).await.expect("it is stored");
        let error = one.get_until_status(&format!("{SECRETS}/moved"), 500).await.json();
        assert_eq!(error["message"], "Internal error occurred: cipher: message authentication failed");
        let expect =
            "unable to transform key \"/registry/secrets/default/moved\": cipher: message authentication failed";
        let list = one.get(SECRETS).await.expect(429).json();
        let initializing = "storage is (re)initializing: failed to list *core.Secret";
        assert_eq!(list["message"], format!("{initializing}: {expect}"));
        raw.commit(Change::delete("/registry/secrets/default/moved", pintle_store::Compare::Any)).await.expect("gone");
        let _ = one.get_until_status(SECRETS, 200).await;
        one.stop().await;

        let other = server(&etcd, None).await;
        let error = "identity transformer tried to read encrypted data";
        let found = other.get(&format!("{SECRETS}/a")).await.expect(500).json();
        assert_eq!(found["message"], format!("Internal error occurred: {error}"));
        let list = other.get(SECRETS).await.expect(429).json();
        assert_eq!(list["message"], format!("{initializing}: unable to transform key \"{SECRET_KEY}\": {error}"));
        let updated = other.put(&format!("{SECRETS}/b"), created.to_string()).await.expect(500).json();
        assert_eq!(updated["message"], format!("Internal error occurred: {error}"));
        let watch = other.get(&format!("{SECRETS}?watch=1&resourceVersion=1")).await;
        assert!(watch.status.as_u16() >= 400, "{}", watch.text());
        let _ = other.post(SECRETS, secret("c")).await.expect(201);
        let _ = other.get(&format!("{SECRETS}/c")).await.expect(200);
        let _ = other.get(CONFIGMAPS).await.expect(200);
        other.stop().await;

        // With the key, everything is there again, also the object that was written without it.
        let one = server(&etcd, Some(&file)).await;
        let names: Vec<Value> = one.get(SECRETS).await.expect(200).json()["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["metadata"]["name"].clone())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        one.stop().await;
    });
}

/// In the embedded store, too, the values have upstream's form, and the files do not contain a clear text.
#[test]
fn the_embedded_store_has_no_clear_text_of_encrypted_resources() {
    pintle_integration::run(async {
        let files = Configurations::new();
        let file = files.write("file", &configuration(&[provider("secretbox", "one", 1), json!({"identity": {}})]));
        let server = Cluster::durable_with_options(options(Some(&file))).await;
        let _ = server.post(SECRETS, secret("a")).await.expect(201);
        let created = server.get(&format!("{SECRETS}/a")).await.expect(200).json();
        let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let _ = server.patch(&format!("{SECRETS}/a"), "merge", patch).await.expect(200);
        let server = server.restart().await;
        let mut found = server.get(&format!("{SECRETS}/a")).await.expect(200).json();
        assert_eq!(found["data"], created["data"]);
        assert_eq!(found["metadata"]["labels"], json!({"a": "b"}));
        // The state before the restart is read from the store's history.
        let revision = created["metadata"]["resourceVersion"].as_str().expect("a resourceVersion");
        let mut watch = server.watch(&format!("{SECRETS}?watch=1&resourceVersion={revision}")).await;
        assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["labels"], json!({"a": "b"}));
        drop(watch);
        let data = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(PLAIN)
        };
        let folder = server.data_dir().expect("a data directory").to_owned();
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let content = std::fs::read(&path).expect("a file");
                assert!(!contains(&content, PLAIN) && !contains(&content, &data), "{}", path.display());
            }
        }
        found["metadata"]["labels"] = Value::Null;
        let _ = server.put(&format!("{SECRETS}/a"), found.to_string()).await.expect(200);
        server.stop().await;
    });
}

/// A plugin has the key-encryption key of the whole store. A start waits for the plugin for a while.
#[test]
fn a_plugin_has_the_key_of_the_embedded_store() {
    pintle_integration::run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("kms.sock");
        let start = {
            let socket = socket.clone();
            move || {
                let mut command = std::process::Command::new(tool_path("encryption"));
                command.arg("serve").arg(&socket).arg("key1");
                command.stdin(std::process::Stdio::piped()).spawn().expect("the plugin starts")
            }
        };
        let mut plugin = start();
        let endpoint = format!("unix://{}", socket.display());
        let keys = StoreKeySource::Kms { endpoint, timeout: Duration::from_secs(1) };
        let store_encryption = Some(StoreEncryptionOptions { keys, encrypt_existing: false });
        let server = Cluster::durable_with_options(Options { store_encryption, ..Options::default() }).await;
        let _ = server.post(SECRETS, secret("a")).await.expect(201);
        let keys = server.post("/debug/encryption/store/rotate-key", "").await.expect(200).json();
        assert_eq!(keys["dataKeys"].as_array().expect("keys").last().expect("a key")["id"], 2, "{keys}");
        let only_new = |found: &Value| found["dataKeys"].as_array().is_some_and(|keys| keys.len() == 1);
        get_until(&server, "/debug/encryption/store", only_new).await;
        server.stop_server().await;
        plugin.kill().expect("it ends");
        plugin.wait().expect("it has ended");
        std::fs::remove_file(&socket).expect("a socket");

        let later = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(1500));
            start()
        });
        server.start_server().await;
        let mut plugin = later.await.expect("no panic");
        let _ = server.client(Protocol::Any).request("GET", &format!("{SECRETS}/a")).send().await.expect(200);
        // Without the plugin, the server goes on, but it gets no new data key.
        plugin.kill().expect("it ends");
        plugin.wait().expect("it has ended");
        let client = server.client(Protocol::Any);
        let refused = client.request("POST", "/debug/encryption/store/rotate-key").send().await.expect(500).json();
        let message = refused["message"].as_str().expect("a message");
        assert!(message.contains("a data key cannot be wrapped: the KMS plugin at unix://"), "{message}");
        let _ = client.request("POST", SECRETS).json(secret("b")).send().await.expect(201);
        server.stop().await;
    });
}

/// A server starts although its KMS plugin is away. Its secrets cannot be read until the plugin is back; then they are
/// served without a restart. Meanwhile everything else works.
#[test]
fn secrets_are_served_again_when_a_plugin_comes_back() {
    pintle_integration::run(async {
        let etcd = Etcd::start();
        let raw = open(&etcd);
        let files = Configurations::new();
        let socket = files.0.path().join("kms.sock");
        let kms = json!({"kms": {"apiVersion": "v2", "name": "plugin", "timeout": "1s",
            "endpoint": format!("unix://{}", socket.display())}});
        let file = files.write("file", &configuration(&[kms, json!({"identity": {}})]));
        let start = || {
            let mut command = std::process::Command::new(tool_path("encryption"));
            command.arg("serve").arg(&socket).arg("key1");
            command.stdin(std::process::Stdio::piped()).spawn().expect("the plugin starts")
        };
        let mut plugin = start();
        let one = server(&etcd, Some(&file)).await;
        let _ = one.post(SECRETS, secret("a")).await.expect(201);
        assert!(stored(&raw, SECRET_KEY).await.starts_with(b"k8s:enc:kms:v2:plugin:"));
        // A second server has a seed of its own, and reads what the first one has written, also while both run.
        let two = server(&etcd, Some(&file)).await;
        let _ = two.get(&format!("{SECRETS}/a")).await.expect(200);
        let _ = one.post(SECRETS, secret("b")).await.expect(201);
        let _ = two.get_until_status(&format!("{SECRETS}/b"), 200).await;
        let _ = two.post(SECRETS, secret("c")).await.expect(201);
        let _ = one.get_until_status(&format!("{SECRETS}/c"), 200).await;
        two.stop().await;
        // The plugin ends. The server has its seed and goes on for a while.
        plugin.kill().expect("it ends");
        plugin.wait().expect("it has ended");
        let _ = one.post(SECRETS, secret("d")).await.expect(201);
        one.stop().await;
        std::fs::remove_file(&socket).expect("a socket");

        let three = server(&etcd, Some(&file)).await;
        let message = three.get(&format!("{SECRETS}/a")).await.expect(500).json()["message"].clone();
        let message = message.as_str().expect("a message");
        assert!(message.starts_with("Internal error occurred: got unexpected nil transformer"), "{message}");
        let _ = three.get(SECRETS).await.expect(429);
        let refused = three.post(SECRETS, secret("e")).await.expect(500).json();
        assert_eq!(refused["message"], "Internal error occurred: got unexpected nil transformer");
        let _ = three.get("/readyz/kms-providers").await.expect(500);
        let _ = three.get("/livez").await.expect(200);
        let _ = three.get(CONFIGMAPS).await.expect(200);
        let mut plugin = start();
        let _ = three.get_until_status("/readyz/kms-providers", 200).await;
        let _ = three.get_until_status(SECRETS, 200).await;
        let list = three.get(SECRETS).await.expect(200).json();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(4));
        let revision = list["metadata"]["resourceVersion"].as_str().expect("a resourceVersion").to_owned();
        let mut watch = three.watch(&format!("{SECRETS}?watch=1&resourceVersion={revision}")).await;
        let _ = three.post(SECRETS, secret("e")).await.expect(201);
        assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["name"], "e");
        drop(watch);
        let all = raw.range(KeyInterval::prefix("/registry/secrets/"), None, None).await.expect("etcd answers").records;
        assert!(all.iter().all(|record| record.value.starts_with(b"k8s:enc:kms:v2:plugin:")));
        three.stop().await;
        plugin.kill().expect("it ends");
        plugin.wait().expect("it has ended");
    });
}
