//! Metrics and health checks, compared with upstream's.
#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pintle_encryption::testing::TestPlugin;
use pintle_encryption::{
    EncryptedObject, EncryptionAtRest, EncryptionEnvironment, EncryptionOptions, KMS_HEALTH_CHECK, KmsPlugin,
    content_hash, decrypt_with_plugin,
};
use pintle_metrics::Exposition;
use pintle_schema::base64;
use pintle_value::time::Time;
use serde_json::Value;
use support::{pattern, resource, rows, text, tool_path};

const KMS_PREFIX: &str = "k8s:enc:kms:v2:kms:";

/// A plugin of upstream's library with the key `one`. It ends when it is dropped.
struct Plugin(Child);

impl Plugin {
    fn start(socket: &Path) -> Self {
        let arguments = ["serve".as_ref(), socket.as_os_str(), "one".as_ref()];
        let child = Command::new(tool_path()).args(arguments).stdin(Stdio::piped()).spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of the metrics. Durations and times are shown as `*`, as are the numbers of durations in buckets.
fn lines(encryption: &EncryptionAtRest) -> BTreeSet<String> {
    let mut exposition = Exposition::default();
    encryption.metrics().write(&mut exposition);
    let line = |line: &str| {
        let (series, _) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().unwrap_or_default();
        let is_measured = ["_bucket", "_sum", "_timestamp_seconds"].iter().any(|end| name.ends_with(end));
        if is_measured && !line.starts_with('#') { format!("{series} *") } else { line.to_owned() }
    };
    exposition.into_text().lines().map(line).collect()
}

fn options(file: &Path, automatic_reload: bool) -> EncryptionOptions {
    EncryptionOptions { config_file: Some(file.to_owned()), automatic_reload }
}

#[test]
fn a_server_without_encryption_has_upstream_metrics() {
    let recorded = rows(include_str!("recorded/metrics.jsonl"));
    let expect: BTreeSet<String> = strings(&recorded[0], "Lines");
    assert_eq!(lines(&EncryptionAtRest::default()), expect);
}

fn strings<C: FromIterator<String>>(row: &Value, field: &str) -> C {
    let list = row[field].as_array().expect("a list");
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// A configuration like the recorded one.
fn configuration(socket: &Path, away: &Path) -> String {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: key1, secret: {KEY}}}, {{name: key2, secret: \
         {KEY}}}]}}}}, {{identity: {{}}}}]\n\
         - resources: [configmaps]\n  providers: [{{kms: {{apiVersion: v2, name: kms, endpoint: 'unix://{}'}}}}]\n\
         - resources: ['*.apps']\n  providers: [{{identity: {{}}}}, {{aescbc: {{keys: [{{name: key1, secret: \
         AAECAwQFBgcICQoLDA0ODw==}}]}}}}, {{kms: {{apiVersion: v2, name: away, endpoint: 'unix://{}', timeout: 100ms}}}}]\n",
        socket.display(),
        away.display()
    )
}

#[tokio::test]
async fn each_step_changes_the_metrics_as_in_upstream() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (socket, file) = (path("kms.sock"), path("encryption.yaml"));
    let _plugin = Plugin::start(&socket);
    while !socket.exists() {
        tokio::task::yield_now().await;
    }
    let text_of_file = configuration(&socket, &path("away.sock"));
    std::fs::write(&file, &text_of_file).expect("a file");
    let mut known = lines(&EncryptionAtRest::default());
    // A failed decryption of a DEK is repeated three seconds later.
    let seconds = Arc::new(AtomicI64::new(1_000_000));
    let clock = seconds.clone();
    let now = Arc::new(move || Time::from_seconds(clock.load(Ordering::Relaxed)));
    let environment = EncryptionEnvironment { now, ..EncryptionEnvironment::default() };
    let encryption = EncryptionAtRest::start(options(&file, true), "server", environment).await;
    let encryption = encryption.expect("a valid configuration");
    let mut written: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for row in rows(include_str!("recorded/metrics.jsonl")).into_iter().skip(1) {
        let (step, name, context) = (text(&row, "Step"), text(&row, "Resource"), text(&row, "Context").as_bytes());
        let transformer = encryption.transformers().of(&resource(name));
        seconds.fetch_add(3, Ordering::Relaxed);
        match step {
            "load" => {}
            "write" | "write and read" => {
                let stored = transformer.encrypt(&pattern(40), context).expect("a key");
                if step == "write and read" {
                    assert!(transformer.decrypt(&stored, context).is_ok());
                }
                written.insert(name.to_owned(), stored);
            }
            "read" => {
                let mut stored = base64::decode(text(&row, "Stored").as_bytes()).expect("base64");
                // The DEK of the recording is not here. The own value gets the recording's ID of the key.
                let object = stored.strip_prefix(KMS_PREFIX.as_bytes()).map(EncryptedObject::decode);
                if let Some(Ok(recorded)) = object {
                    let own = &written[name][KMS_PREFIX.len()..];
                    let mut own = EncryptedObject::decode(own).expect("an object");
                    own.dek.key_id = recorded.dek.key_id;
                    stored = [KMS_PREFIX.as_bytes(), &own.encode()].concat();
                }
                let _ = decrypt_with_plugin(&*transformer, &stored, context).await;
            }
            "reload" => {
                std::fs::write(&file, format!("{}# changed\n", without_away(&text_of_file))).expect("a file");
                assert_eq!(encryption.reload().await, Ok(true));
            }
            "failed reload" => {
                std::fs::write(&file, "").expect("a file");
                assert!(encryption.reload().await.is_err());
            }
            step => panic!("{step}"),
        }
        let now = lines(&encryption);
        // Reloads check plugins again, other than the steps of the recording.
        let is_of_step = |line: &&String| !step.contains("reload") || line.contains("encryption_config_controller");
        let changed = now.difference(&known).filter(is_of_step);
        let hash = content_hash(&file).unwrap_or_default();
        let changed: BTreeSet<String> = match hash.as_str() {
            "" => changed.cloned().collect(),
            hash => changed.map(|line| line.replace(hash, "HASH")).collect(),
        };
        let mut expect: BTreeSet<String> = strings(&row, "Lines");
        if step == "reload" {
            // The recording reloads the same file.
            expect.extend(changed.iter().filter(|line| line.contains("_last_config_info{")).cloned());
        }
        assert_eq!(changed, expect, "{row}");
        known = now;
    }
}

/// The configuration without the provider whose plugin is away.
fn without_away(text: &str) -> String {
    let (before, _) = text.split_once(", {kms: {apiVersion: v2, name: away").expect("the provider");
    format!("{before}]\n")
}

/// The endpoint of a plugin is the ID of its key, or `bad` if the plugin is not healthy.
fn environment() -> EncryptionEnvironment {
    let plugins = |kms: &pintle_encryption::KmsConfiguration| -> Result<Arc<dyn KmsPlugin>, String> {
        let plugin = TestPlugin::new(kms.endpoint.trim_start_matches("unix:///"));
        if kms.endpoint.ends_with("bad") {
            plugin.set_failure(Some("rpc error: code = DeadlineExceeded desc = context deadline exceeded"));
        }
        Ok(plugin)
    };
    EncryptionEnvironment { plugins: Arc::new(plugins), ..EncryptionEnvironment::default() }
}

#[tokio::test]
async fn health_checks_have_upstream_names_and_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("encryption.yaml");
    let rows = rows(include_str!("recorded/health.jsonl"));
    assert_eq!(rows.len(), 10);
    for row in rows {
        std::fs::write(&file, text(&row, "Text")).expect("a file");
        let options = options(&file, row["Reload"] == true);
        let encryption = EncryptionAtRest::start(options, "server", environment()).await.expect("a configuration");
        let checks: Vec<String> = strings(&row, "Checks");
        let expect: &[&str] = if encryption.has_health_check() { &[KMS_HEALTH_CHECK] } else { &[] };
        assert_eq!(checks, expect, "{row}");
        let errors: Vec<String> = strings(&row, "Errors");
        let error = encryption.check_plugins().await.err().unwrap_or_default();
        assert_eq!(error, errors.concat(), "{row}");
    }
}
