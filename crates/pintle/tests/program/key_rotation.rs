//! Keys are replaced again and again while clients write and the server is killed.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pintle_integration::{
    Client, Cluster, EncryptionOptions, Options, Protocol, StoreEncryptionOptions, StoreKeySource, eventually,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::PROGRAM;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// The number of rotations, and of kills. `PINTLE_ROTATIONS` asks for more.
const ROTATIONS: usize = 4;
/// The number of clients that write.
const WRITERS: usize = 4;
/// The number of secrets of each client, which it writes again and again.
const SECRETS_PER_WRITER: usize = 25;

/// A value that is found in files wherever it lies in clear text. Later versions come later in the alphabet.
fn password(writer: usize, number: usize, version: usize) -> String {
    format!("password-{writer:03}-{number:03}-{version:06}")
}

/// Writes a file with a mode for its owner only, under another name first.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let mut options = std::fs::File::options();
    let mut opened = options.write(true).create_new(true).mode(0o600).open(&new).expect("a file");
    opened.write_all(text.as_bytes()).expect("it is written");
    std::fs::rename(&new, file).expect("it is replaced");
}

/// The configuration with these keys, the writing one first.
fn configuration(keys: &[usize]) -> String {
    let secret = |key: usize| {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&(key as u64).to_le_bytes());
        BASE64.encode(bytes)
    };
    let keys: Vec<Value> =
        keys.iter().map(|key| json!({"name": format!("key{key}"), "secret": secret(*key)})).collect();
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"aesgcm": {"keys": keys}}]}]})
    .to_string()
}

/// The file with the store's keys, the newest first.
fn store_keys(newest: usize) -> String {
    let key = |number: usize| BASE64.encode([number as u8; 32]);
    format!("{}\n{}\n", key(newest), key(newest.saturating_sub(1)))
}

/// The versions of secrets that the server has acknowledged, by writer and number.
type Acknowledged = BTreeMap<(usize, usize), usize>;

/// Writes secrets until told to stop. A write that fails is tried again with the next version.
async fn write(client: Client, writer: usize, is_stopped: Arc<AtomicBool>, total: Arc<AtomicUsize>) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    let mut version = 0;
    while !is_stopped.load(Ordering::Relaxed) {
        for number in 0..SECRETS_PER_WRITER {
            version += 1;
            let name = format!("s-{writer}-{number}");
            let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "stringData": {"password": password(writer, number, version)}});
            let sent = match acknowledged.contains_key(&(writer, number)) {
                false => client.request("POST", SECRETS).json(object.to_string()).try_send().await,
                true => client.request("PUT", &format!("{SECRETS}/{name}")).json(object.to_string()).try_send().await,
            };
            match sent.map(|response| response.status.as_u16()) {
                Ok(200 | 201) => {
                    acknowledged.insert((writer, number), version);
                    total.fetch_add(1, Ordering::Relaxed);
                }
                // The answer to an earlier try was lost.
                Ok(409) => drop(acknowledged.entry((writer, number)).or_insert(0)),
                Ok(status) => panic!("{name}: {status}"),
                // The server was killed.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
    acknowledged
}

/// The output of a command for a data directory. `None` if it fails.
async fn pintle(data_dir: &Path, command: &'static [&'static str]) -> Option<String> {
    let mut program = Command::new(PROGRAM);
    program.args(command).arg("--data-dir").arg(data_dir);
    let output =
        tokio::task::spawn_blocking(move || program.output().expect("the program runs")).await.expect("no panic");
    output.status.success().then(|| String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn nothing_is_lost_and_nothing_is_left_under_old_keys_after_rotations_and_kills() {
    let rotations = std::env::var("PINTLE_ROTATIONS").map_or(ROTATIONS, |text| text.parse().expect("a number"));
    pintle_integration::run(async move {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, key_file) = (folder.path().join("encryption.json"), folder.path().join("store.key"));
        replace(&file, &configuration(&[0]));
        replace(&key_file, &store_keys(0));
        let encryption = EncryptionOptions { config_file: Some(file.clone()), automatic_reload: true };
        let keys = StoreKeySource::File(key_file.clone());
        let store_encryption = Some(StoreEncryptionOptions { keys, encrypt_existing: false });
        let options = Options { encryption, store_encryption, ..Options::default() };
        let cluster = Cluster::of_process(Path::new(PROGRAM), options).await;
        let data_dir = cluster.data_dir().expect("a data directory").to_owned();

        let (is_stopped, total) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(cluster.client(Protocol::Any), writer, is_stopped.clone(), total.clone()));
        }
        for rotation in 1..=rotations {
            // The new key is read everywhere before it writes. Both keys of the store can be used.
            replace(&file, &configuration(&[rotation - 1, rotation]));
            replace(&key_file, &store_keys(rotation));
            let before = total.load(Ordering::Relaxed);
            let rotate = tokio::spawn({
                let data_dir = data_dir.clone();
                async move { pintle(&data_dir, &["store", "rotate-key"]).await }
            });
            eventually("clients write", async || total.load(Ordering::Relaxed) > before + 20).await;
            cluster.kill_server().await;
            rotate.await.expect("no panic");
            replace(&file, &configuration(&[rotation, rotation - 1]));
            cluster.start_server().await;
            let rotated = pintle(&data_dir, &["store", "rotate-key"]).await.expect("it is rotated");
            assert!(rotated.contains("encrypts the whole store"), "{rotated}");
            pintle(&data_dir, &["store", "reencrypt", "--per-second", "100000"]).await.expect("it is rewritten");
            // Writers that have begun before the key changed may still have written with the old key.
        }
        is_stopped.store(true, Ordering::Relaxed);
        let mut acknowledged = Acknowledged::new();
        while let Some(written) = writers.join_next().await {
            acknowledged.extend(written.expect("no panic"));
        }
        assert!(acknowledged.len() > WRITERS * SECRETS_PER_WRITER / 2, "{}", acknowledged.len());
        let status = pintle(&data_dir, &["store", "encryption", "status"]).await.expect("a table");
        let of_secrets: Vec<Vec<&str>> = status
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|line| line.first() == Some(&"secrets"))
            .collect();
        let newest = format!("key{rotations}");
        assert_eq!(of_secrets.iter().map(|line| line[2]).collect::<Vec<_>>(), [&*newest], "{status}");

        // Only the newest keys are left. Everything is read with them.
        cluster.kill_server().await;
        replace(&file, &configuration(&[rotations]));
        replace(&key_file, store_keys(rotations).lines().next().expect("a key"));
        cluster.start_server().await;
        let client = cluster.client(Protocol::Any);
        for ((writer, number), version) in acknowledged {
            let path = format!("{SECRETS}/s-{writer}-{number}");
            let found = client.request("GET", &path).send().await.expect(200).json();
            let found = BASE64.decode(found["data"]["password"].as_str().expect("a password")).expect("base64");
            let found = String::from_utf8(found).expect("text");
            // Writes without an answer may be stored, too.
            assert!(found >= password(writer, number, version), "{path}: {found} is older than version {version}");
        }
        cluster.kill_server().await;
        for entry in std::fs::read_dir(&data_dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            if !path.is_file() || path.ends_with("log") {
                continue;
            }
            let content = std::fs::read(&path).expect("a file");
            let contains = |text: &str| content.windows(text.len()).any(|part| part == text.as_bytes());
            let encoded = BASE64.encode("password-");
            let clear =
                ["password-", &*encoded, "/registry/secrets", "k8s:enc:"].into_iter().find(|text| contains(text));
            assert_eq!(clear, None, "{}", path.display());
        }
    });
}
