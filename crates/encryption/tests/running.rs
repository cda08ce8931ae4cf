//! Encryption at rest in a running server: reloads of the configuration, and plugins that fail. The time is simulated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pintle_encryption::testing::TestPlugin;
use pintle_encryption::{
    EncryptionAtRest, EncryptionEnvironment, EncryptionOptions, KmsPlugin, NEGATIVE_POLL_INTERVAL,
    POSITIVE_POLL_INTERVAL, TransformError, Transformer,
};
use pintle_metrics::Exposition;
use pintle_registry::GroupResource;
use pintle_value::time::Time;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

const KEY: &[u8] = b"/registry/secrets/shop/password";
const SECRET_1: &str = "AAECAwQFBgcICQoLDA0ODw==";
const SECRET_2: &str = "AQECAwQFBgcICQoLDA0ODw==";
const DEADLINE_EXCEEDED: &str = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";

/// A file with a configuration, and the plugins that its endpoints `unix:///0`, `unix:///1` … name.
struct Fixture {
    folder: TempDir,
    plugins: Vec<Arc<TestPlugin>>,
}

impl Fixture {
    fn new(plugins: &[&Arc<TestPlugin>]) -> Self {
        let plugins = plugins.iter().map(|plugin| (*plugin).clone()).collect();
        Self { folder: tempfile::tempdir().expect("a folder"), plugins }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("encryption.yaml")
    }

    /// Writes a configuration with these providers of secrets.
    fn write(&self, providers: &[String]) {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
             providers: [{}]\n",
            providers.join(", ")
        );
        std::fs::write(self.file(), text).expect("a file");
    }

    async fn start(&self) -> Arc<EncryptionAtRest> {
        let plugins: Vec<_> = self.plugins.iter().map(Arc::downgrade).collect();
        let plugins = move |kms: &pintle_encryption::KmsConfiguration| -> Result<Arc<dyn KmsPlugin>, String> {
            let index: usize = kms.endpoint.trim_start_matches("unix:///").parse().expect("a number");
            Ok(plugins[index].upgrade().expect("a plugin"))
        };
        let start = Instant::now();
        let now = move || {
            let elapsed = start.elapsed();
            Time { seconds: i64::try_from(elapsed.as_secs()).unwrap_or_default(), nanos: elapsed.subsec_nanos() }
        };
        let environment = EncryptionEnvironment { plugins: Arc::new(plugins), now: Arc::new(now) };
        let options = EncryptionOptions { config_file: Some(self.file()), automatic_reload: true };
        EncryptionAtRest::start(options, "server", environment).await.expect("a configuration")
    }
}

fn aes(keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    format!("{{aesgcm: {{keys: [{}]}}}}", keys.join(", "))
}

fn kms(name: &str, plugin: usize) -> String {
    format!("{{kms: {{apiVersion: v2, name: {name}, endpoint: 'unix:///{plugin}'}}}}")
}

fn secrets(encryption: &EncryptionAtRest) -> Arc<dyn Transformer> {
    encryption.transformers().of(&GroupResource::new("", "secrets"))
}

fn write(encryption: &EncryptionAtRest) -> Result<Vec<u8>, String> {
    secrets(encryption).encrypt(b"value", KEY).map_err(|error| error.to_string())
}

/// Returns whether a value is stale.
fn read(encryption: &EncryptionAtRest, stored: &[u8]) -> Result<bool, TransformError> {
    secrets(encryption).decrypt(stored, KEY).map(|decrypted| decrypted.stale)
}

fn starts_with(stored: Result<Vec<u8>, String>, prefix: &str) -> bool {
    stored.is_ok_and(|stored| stored.starts_with(prefix.as_bytes()))
}

/// The number in a line of the metrics, or zero if there is no such line.
fn metric(encryption: &EncryptionAtRest, series: &str) -> f64 {
    let mut exposition = Exposition::default();
    encryption.metrics().write(&mut exposition);
    let text = exposition.into_text();
    let line = text.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_default()
}

fn reloads(encryption: &EncryptionAtRest, status: &str) -> f64 {
    let server = "sha256:b3eacd33433b31b5252351032c9b3e7a2e7aa7738d5decdf0dd6c62680853c06";
    let name = "apiserver_encryption_config_controller_automatic_reloads_total";
    metric(encryption, &format!("{name}{{apiserver_id_hash=\"{server}\",status=\"{status}\"}}"))
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart() {
    let fixture = Fixture::new(&[]);
    fixture.write(&["{identity: {}}".to_owned()]);
    let encryption = fixture.start().await;
    let plain = write(&encryption).expect("a value");
    assert_eq!(encryption.reload().await, Ok(false));
    let identity = "{identity: {}}".to_owned();
    let (one, two) = (("one", SECRET_1), ("two", SECRET_2));
    fixture.write(&[aes(&[one]), identity.clone()]);
    assert_eq!(encryption.reload().await, Ok(true));
    assert_eq!(read(&encryption, &plain).ok(), Some(true));
    let old = write(&encryption).expect("a value");
    assert!(old.starts_with(b"k8s:enc:aesgcm:v1:one:"));
    for (keys, prefix) in
        [([one, two].as_slice(), "k8s:enc:aesgcm:v1:one:"), ([two, one].as_slice(), "k8s:enc:aesgcm:v1:two:")]
    {
        fixture.write(&[aes(keys), identity.clone()]);
        assert_eq!(encryption.reload().await, Ok(true));
        assert!(starts_with(write(&encryption), prefix));
        assert_eq!(read(&encryption, &old).ok(), Some(keys[0] == two));
    }
    fixture.write(&[aes(&[two])]);
    assert_eq!(encryption.reload().await, Ok(true));
    let error = read(&encryption, &old).expect_err("no key").to_string();
    assert_eq!(error, "no matching key was found for the provided AES transformer");
    assert_eq!(read(&encryption, &plain).expect_err("no provider").to_string(), "no matching prefix found");
    assert_eq!(reloads(&encryption, "success"), 4.0);
    assert_eq!(reloads(&encryption, "failure"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_used_changes_nothing_and_is_tried_again() {
    let fixture = Fixture::new(&[]);
    fixture.write(&[aes(&[("one", SECRET_1)])]);
    let encryption = fixture.start().await;
    let following = tokio::spawn(encryption.clone().follow());
    sleep(Duration::from_secs(300)).await;
    assert_eq!((reloads(&encryption, "failure"), reloads(&encryption, "success")), (0.0, 0.0));
    std::fs::write(fixture.file(), "x").expect("a file");
    sleep(Duration::from_secs(3)).await;
    assert!(starts_with(write(&encryption), "k8s:enc:aesgcm:v1:one:"));
    // The time between attempts grows to a minute.
    sleep(Duration::from_secs(300)).await;
    let failures = reloads(&encryption, "failure");
    assert!((8.0..=14.0).contains(&failures), "{failures}");
    // A missing file is another problem.
    std::fs::remove_file(fixture.file()).expect("the file");
    sleep(Duration::from_secs(2)).await;
    let failures = reloads(&encryption, "failure") - failures;
    assert!((1.0..=2.0).contains(&failures), "{failures}");
    fixture.write(&[aes(&[("two", SECRET_2)])]);
    sleep(Duration::from_secs(2)).await;
    assert!(starts_with(write(&encryption), "k8s:enc:aesgcm:v1:two:"));
    assert_eq!(reloads(&encryption, "success"), 1.0);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn new_plugins_have_to_be_healthy() {
    let (old, new) = (TestPlugin::new("one"), TestPlugin::new("two"));
    let fixture = Fixture::new(&[&old, &new]);
    fixture.write(&[kms("a", 0)]);
    let encryption = fixture.start().await;
    let stored = write(&encryption).expect("a value");
    fixture.write(&[kms("b", 1), kms("a", 0)]);
    let failed = "health check for new transformers failed, polling error timed out waiting for the condition:";
    for (hangs, error) in [(false, "no connection"), (true, DEADLINE_EXCEEDED)] {
        new.set_failure((!hangs).then_some(error));
        new.set_hanging(hangs);
        let begun = Instant::now();
        let result = encryption.reload().await;
        // Each attempt checks the plugin anew after three seconds.
        let expect = format!("{failed} kms-provider-0: ");
        let found = result.expect_err("an error");
        assert!(found.starts_with(&expect) && found.ends_with(error), "{found}");
        let took = begun.elapsed();
        assert!((Duration::from_secs(10)..Duration::from_secs(20)).contains(&took), "{took:?}");
        assert!(starts_with(write(&encryption), "k8s:enc:kms:v2:a:"));
        assert_eq!(encryption.check_plugins().await, Ok(()));
    }
    new.set_hanging(false);
    assert_eq!(encryption.reload().await, Ok(true));
    assert!(starts_with(write(&encryption), "k8s:enc:kms:v2:b:"));
    // The new provider of the old plugin has no DEK yet.
    let error = read(&encryption, &stored).expect_err("no DEK");
    error.missing().expect("a DEK").fetch().await.expect("the DEK");
    assert_eq!(read(&encryption, &stored).ok(), Some(true));
    // A plugin that becomes healthy in time is enough.
    new.set_failure(Some("starting"));
    fixture.write(&[kms("c", 1), kms("a", 0)]);
    let later = async {
        sleep(Duration::from_secs(5)).await;
        new.set_failure(None);
    };
    assert_eq!(tokio::join!(encryption.reload(), later).0, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn replaced_plugins_are_closed_when_their_calls_have_ended() {
    let (old, new) = (TestPlugin::new("one"), TestPlugin::new("two"));
    let fixture = Fixture::new(&[&old, &new]);
    fixture.write(&[kms("a", 0)]);
    let encryption = fixture.start().await;
    // One owner is the fixture, another one the variable.
    assert_eq!(Arc::strong_count(&old), 3);
    fixture.write(&[kms("b", 1)]);
    assert_eq!(encryption.reload().await, Ok(true));
    // The default of the time-out is three seconds.
    sleep(Duration::from_millis(5900)).await;
    assert_eq!(Arc::strong_count(&old), 3);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(Arc::strong_count(&old), 2);
    let calls = old.status_calls();
    sleep(10 * POSITIVE_POLL_INTERVAL).await;
    assert_eq!(old.status_calls(), calls);
    assert!(new.status_calls() > 9);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_away_at_the_start_is_checked_until_it_is_there() {
    for hangs in [false, true] {
        let plugin = TestPlugin::new("one");
        plugin.set_failure((!hangs).then_some("no connection"));
        plugin.set_hanging(hangs);
        let fixture = Fixture::new(&[&plugin]);
        fixture.write(&[kms("kms", 0), "{identity: {}}".to_owned()]);
        let encryption = timeout(Duration::from_secs(4), fixture.start()).await.expect("a bounded start");
        assert_eq!(write(&encryption), Err("got unexpected nil transformer".to_owned()));
        let error = encryption.check_plugins().await.expect_err("an error");
        assert!(error.ends_with(if hangs { DEADLINE_EXCEEDED } else { "no connection" }), "{error}");
        plugin.set_failure(None);
        plugin.set_hanging(false);
        sleep(NEGATIVE_POLL_INTERVAL + Duration::from_secs(1)).await;
        assert!(starts_with(write(&encryption), "k8s:enc:kms:v2:kms:"));
        assert_eq!(encryption.check_plugins().await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn another_key_of_the_plugin_is_used_within_a_minute() {
    let plugin = TestPlugin::new("one");
    let fixture = Fixture::new(&[&plugin]);
    fixture.write(&[kms("kms", 0)]);
    let encryption = fixture.start().await;
    let old = write(&encryption).expect("a value");
    plugin.set_key_id("two");
    sleep(POSITIVE_POLL_INTERVAL + Duration::from_secs(1)).await;
    assert_eq!(read(&encryption, &old).ok(), Some(true));
    let new = write(&encryption).expect("a value");
    assert_eq!(read(&encryption, &new).ok(), Some(false));
    // An invalid ID keeps the DEK for three minutes.
    plugin.set_key_id("");
    sleep(2 * POSITIVE_POLL_INTERVAL).await;
    assert!(write(&encryption).is_ok());
    sleep(2 * POSITIVE_POLL_INTERVAL).await;
    assert!(write(&encryption).is_err_and(|error| error.contains("expired at")));
    assert_eq!(read(&encryption, &new).ok(), Some(false));
    let name = "apiserver_envelope_encryption_invalid_key_id_from_status_total{error=\"empty\",provider_name=\"kms\"}";
    assert!(metric(&encryption, name) > 10.0);
    // The plugin recovers.
    plugin.set_key_id("two");
    sleep(NEGATIVE_POLL_INTERVAL + Duration::from_secs(1)).await;
    assert!(write(&encryption).is_ok());
}

#[test]
fn reload_needs_a_file() {
    let options = EncryptionOptions { config_file: None, automatic_reload: true };
    let expect = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config";
    assert_eq!(options.validate(), Err(expect.to_owned()));
    assert_eq!(EncryptionOptions { automatic_reload: false, ..options }.validate(), Ok(()));
}
