//! KMS plugins: values and health checks, compared with upstream's, and the replacement of DEKs.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use pintle_encryption::{
    DekKind, EncryptedDek, EncryptedObject, KmsError, KmsFuture, KmsPlugin, KmsProvider, KmsStatus, Secret,
    decrypt_with_plugin,
};
use pintle_locks::Mutex;
use pintle_schema::base64;
use pintle_value::time::Time;
use serde_json::Value;
use support::kms::{MaskPlugin, transformers_with_kms};
use support::{pattern, resource, rows, text};

const PREFIX: &str = "k8s:enc:kms:v2:kms:";

#[tokio::test]
async fn values_of_upstream_are_read_with_its_results() {
    let providers = rows(include_str!("recorded/kms_providers.jsonl"));
    let transformers: BTreeMap<_, _> =
        providers.iter().map(|row| (text(row, "Name"), transformers_with_kms(text(row, "Text")))).collect();
    let rows = rows(include_str!("recorded/kms_values.jsonl"));
    let mut counts = [0; 3];
    for row in &rows {
        let stored = base64::decode(text(row, "Stored").as_bytes()).expect("base64");
        let configuration = text(row, "Configuration");
        let secrets = transformers[configuration].of(&resource(text(row, "Resource")));
        let decrypted = decrypt_with_plugin(&*secrets, &stored, text(row, "Context").as_bytes()).await;
        match (text(row, "Error"), decrypted) {
            ("", Ok(decrypted)) => {
                let length = row["Length"].as_u64().and_then(|length| usize::try_from(length).ok()).expect("a length");
                assert_eq!(*decrypted.value, *pattern(length), "{row}");
                // There, upstream was made to write without seeds, which no configuration can ask for.
                let stale = row["Stale"] == true || configuration == "key";
                assert_eq!(decrypted.stale, stale, "{row}");
                counts[usize::from(stale)] += 1;
            }
            (error, decrypted) => {
                let found = decrypted.err().map(|error| error.to_string()).unwrap_or_default();
                assert_eq!(found, error, "{row}");
                counts[2] += 1;
            }
        }
    }
    let [fresh, stale, failed] = counts;
    assert!(fresh > 20 && stale > 20 && failed > 150, "{fresh} fresh, {stale} stale, {failed} with an error");
}

/// A plugin with given answers.
#[derive(Debug, Default)]
struct Answers {
    status: Mutex<Option<Result<KmsStatus, KmsError>>>,
    encrypted: Mutex<Option<Result<EncryptedDek, KmsError>>>,
}

impl Answers {
    fn status(&self, healthz: &str, key_id: &str) {
        let status = KmsStatus { version: "v2".to_owned(), healthz: healthz.to_owned(), key_id: key_id.to_owned() };
        *self.status.lock() = Some(Ok(status));
    }

    fn encrypted(&self, key_id: &str) {
        let dek = EncryptedDek { ciphertext: vec![1], key_id: key_id.to_owned(), ..EncryptedDek::default() };
        *self.encrypted.lock() = Some(Ok(dek));
    }
}

impl KmsPlugin for Answers {
    fn status(&self) -> KmsFuture<'_, KmsStatus> {
        let answer = self.status.lock().clone().unwrap_or_else(|| Err("no answer".into()));
        Box::pin(async move { answer })
    }

    fn encrypt<'p>(&'p self, _uid: &'p str, _dek: &'p [u8]) -> KmsFuture<'p, EncryptedDek> {
        let answer = self.encrypted.lock().clone().unwrap_or_else(|| Err("no answer".into()));
        Box::pin(async move { answer })
    }

    fn decrypt<'p>(&'p self, _uid: &'p str, _dek: &'p EncryptedDek) -> KmsFuture<'p, Secret> {
        Box::pin(async { Err("nothing is decrypted".into()) })
    }
}

/// The text without the random UID of a DEK.
fn without_uid(text: &str) -> String {
    let Some((before, rest)) = text.split_once("uid=\"") else { return text.to_owned() };
    let (_, after) = rest.split_once('"').expect("the end of the UID");
    format!("{before}uid=\"UID\"{after}")
}

#[tokio::test]
async fn health_checks_have_upstream_errors() {
    for row in rows(include_str!("recorded/kms_statuses.jsonl")) {
        let or_error = |name: &str| match text(&row, name) {
            "" => Ok(()),
            error => Err(error.into()),
        };
        let plugin = Answers::default();
        let owned = |name: &str| text(&row, name).to_owned();
        let status = KmsStatus { version: owned("Version"), healthz: owned("Healthz"), key_id: owned("KeyID") };
        let length = row["Length"].as_u64().unwrap_or_default();
        let annotations = [(owned("Annotation"), b"x".to_vec())].into_iter().filter(|(name, _)| !name.is_empty());
        let dek = EncryptedDek {
            ciphertext: vec![0; usize::try_from(length).expect("a length")],
            key_id: owned("EncryptKeyID"),
            annotations: annotations.collect(),
        };
        *plugin.status.lock() = Some(or_error("StatusError").map(|()| status));
        *plugin.encrypted.lock() = Some(or_error("EncryptError").map(|()| dek));
        let provider = KmsProvider::new("kms", Arc::new(plugin));
        let first = provider.check().await;
        assert_eq!(first.is_err(), !text(&row, "Error").is_empty(), "{row}");
        // Upstream's recordings are answers to a second call.
        let error = provider.check().await.err().unwrap_or_default();
        assert_eq!(without_uid(&error), text(&row, "Error"), "{row}");
    }
}

/// A clock that tests set, in seconds.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicI64>);

impl TestClock {
    fn set(&self, seconds: i64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    fn provider(&self, plugin: &Arc<Answers>) -> Arc<KmsProvider> {
        let clock = self.clone();
        KmsProvider::with_clock("kms", plugin.clone(), move || Time::from_seconds(clock.0.load(Ordering::Relaxed)))
    }
}

#[tokio::test]
async fn a_new_key_of_the_plugin_makes_a_new_dek() {
    let (clock, plugin) = (TestClock::default(), Arc::new(Answers::default()));
    let provider = clock.provider(&plugin);
    let (_, transformer) = provider.transformer();
    plugin.status("ok", "one");
    plugin.encrypted("one");
    assert_eq!(provider.check().await, Ok(()));
    let old = transformer.encrypt(b"value", b"key").expect("a DEK");
    assert!(!transformer.decrypt(&old, b"key").expect("the same DEK").stale);
    // A result of the last 20 seconds counts.
    plugin.status("ok", "two");
    plugin.encrypted("two");
    clock.set(19);
    assert_eq!(provider.check().await, Ok(()));
    assert!(!transformer.decrypt(&old, b"key").expect("the same DEK").stale);
    clock.set(20);
    assert_eq!(provider.check().await, Ok(()));
    let decrypted = transformer.decrypt(&old, b"key").expect("a cached DEK");
    assert_eq!((&*decrypted.value, decrypted.stale), (b"value".as_slice(), true));
    let new = transformer.encrypt(b"value", b"key").expect("a DEK");
    assert!(!transformer.decrypt(&new, b"key").expect("the same DEK").stale);
    // The same key keeps its DEK.
    clock.set(60);
    assert_eq!(provider.check().await, Ok(()));
    assert_eq!(provider.cached_deks(), 1);
    assert!(!transformer.decrypt(&new, b"key").expect("the same DEK").stale);
    // After a day, a further DEK takes the place of the old one in the cache.
    clock.set(20 + 24 * 60 * 60);
    assert!(transformer.decrypt(&old, b"key").is_ok());
    plugin.status("ok", "three");
    plugin.encrypted("three");
    assert_eq!(provider.check().await, Ok(()));
    assert_eq!(provider.cached_deks(), 1);
    assert!(transformer.decrypt(&old, b"key").expect_err("it is not cached").missing().is_some());
    assert!(transformer.decrypt(&new, b"key").expect("a cached DEK").stale);
}

#[tokio::test]
async fn a_dek_is_used_for_three_minutes_after_the_last_healthy_check() {
    let (clock, plugin) = (TestClock::default(), Arc::new(Answers::default()));
    let provider = clock.provider(&plugin);
    let (_, transformer) = provider.transformer();
    let error = transformer.encrypt(b"value", b"key").expect_err("no DEK").to_string();
    assert_eq!(error, "got unexpected nil transformer");
    plugin.status("ok", "one");
    plugin.encrypted("one");
    assert_eq!(provider.check().await, Ok(()));
    // The plugin says that it has another key, but encrypts with the old one.
    plugin.status("ok", "two");
    clock.set(60);
    let error = provider.check().await.expect_err("an error");
    let [one, two] = ["one", "two"].map(|key| {
        use sha2::Digest as _;
        let hash = sha2::Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("\"sha256:{hash}\"")
    });
    let expect = format!(
        "kmsv2 Provider kms is not healthy, error: failed to rotate DEK uid=\"UID\", useSeed=true, errState=<nil>, \
         errGen=<nil>, statusKeyIDHash={two}, encryptKeyIDHash={one}, stateKeyIDHash={one}, \
         expirationTimestamp=1970-01-01T00:03:00Z"
    );
    assert_eq!(without_uid(&error), expect);
    // The error counts for three seconds.
    plugin.status("ok", "one");
    clock.set(62);
    assert_eq!(provider.check().await, Err(error));
    *plugin.status.lock() = Some(Err("no connection".into()));
    clock.set(63);
    let text = "failed to perform status section of the healthz check for KMS Provider kms, error: no connection";
    assert_eq!(provider.check().await, Err(text.to_owned()));
    assert_eq!(provider.check().await, Err("no connection".to_owned()));
    clock.set(180);
    let stored = transformer.encrypt(b"value", b"key").expect("a DEK");
    clock.set(181);
    let error = transformer.encrypt(b"value", b"key").expect_err("an old DEK").to_string();
    let expect = format!(
        "encryptedDEKSource with keyID hash {one} expired at 1970-01-01T00:03:00Z (current time is 1970-01-01T00:03:01Z)"
    );
    assert_eq!(error, expect);
    assert!(!transformer.decrypt(&stored, b"key").expect("reading goes on").stale);
    // A plugin that is healthy again extends the lifetime of the DEK.
    plugin.status("ok", "one");
    assert_eq!(provider.check().await, Ok(()));
    clock.set(361);
    assert!(transformer.encrypt(b"value", b"key").is_ok());
    clock.set(362);
    assert!(transformer.encrypt(b"value", b"key").is_err());
    // The version never changes.
    let status = KmsStatus { version: "v2beta1".to_owned(), healthz: "ok".to_owned(), key_id: "one".to_owned() };
    *plugin.status.lock() = Some(Ok(status));
    let expect = "kmsv2 Provider kms is not healthy, error: KMSv2 API version should not change after the initial status \
                  response version v2, got v2beta1";
    assert_eq!(provider.check().await, Err(expect.to_owned()));
}

#[tokio::test]
async fn readers_of_a_missing_dek_share_one_call() {
    let writer = KmsProvider::new("kms", MaskPlugin::new("one"));
    assert_eq!(writer.check().await, Ok(()));
    let stored = writer.transformer().1.encrypt(b"value", b"key").expect("a DEK");
    let plugin = MaskPlugin::new("one");
    let clock = Arc::new(AtomicI64::new(100));
    let reader = {
        let clock = clock.clone();
        KmsProvider::with_clock("kms", plugin.clone(), move || Time::from_seconds(clock.load(Ordering::Relaxed)))
    };
    let (_, transformer) = reader.transformer();
    let error = transformer.decrypt(&stored, b"key").expect_err("no check yet").to_string();
    assert_eq!(error, "got unexpected nil transformer");
    assert_eq!(reader.check().await, Ok(()));
    let results = join_all((0..100).map(|_| decrypt_with_plugin(&*transformer, &stored, b"key"))).await;
    assert!(results.into_iter().all(|result| result.is_ok_and(|decrypted| *decrypted.value == *b"value")));
    assert_eq!(plugin.decryptions.load(Ordering::Relaxed), 1);
    assert!(transformer.decrypt(&stored, b"key").is_ok());
    // A key that is lost: each reader gets the error, and readers three seconds later ask again.
    let mut object = EncryptedObject::decode(&stored).expect("an object");
    object.dek.key_id = "lost".to_owned();
    let lost = object.encode();
    for (seconds, calls) in [(0, 2), (2, 2), (3, 3)] {
        clock.store(100 + seconds, Ordering::Relaxed);
        let results = join_all((0..100).map(|_| decrypt_with_plugin(&*transformer, &lost, b"key"))).await;
        let texts: Vec<_> = results.into_iter().filter_map(|result| Some(result.err()?.to_string())).collect();
        assert_eq!(texts, vec!["failed to decrypt DEK, error: the key is lost"; 100]);
        assert_eq!(plugin.decryptions.load(Ordering::Relaxed), calls);
    }
}

#[tokio::test]
async fn stored_values_have_the_message_after_the_prefix() {
    let provider = KmsProvider::new("kms", MaskPlugin::new("one"));
    assert_eq!(provider.check().await, Ok(()));
    let (prefix, transformer) = provider.transformer();
    assert_eq!(prefix, PREFIX.as_bytes());
    for length in [0, 1, 67, 68, 127, 128, 16_384, 1 << 20] {
        let stored = transformer.encrypt(&pattern(length), b"key").expect("a DEK");
        let object = EncryptedObject::decode(&stored).expect("an object");
        assert_eq!((object.kind, object.data.len()), (DekKind::HkdfSeed, length + 60));
        assert_eq!((object.dek.key_id.as_str(), object.dek.ciphertext.len()), ("one", 32));
        assert_eq!(object.encode(), stored);
    }
}

#[test]
fn annotations_have_a_maximum_length() {
    for (length, is_valid) in [((32 << 10) - 3, true), ((32 << 10) - 2, false)] {
        let annotations = [("a.b".to_owned(), vec![0; length])].into();
        let dek = EncryptedDek { ciphertext: vec![1], key_id: "one".to_owned(), annotations };
        let message = EncryptedObject { data: b"data".into(), dek, kind: DekKind::AesGcmKey }.encode();
        let error = EncryptedObject::decode(&message).err().map(|error| error.to_string());
        let expect =
            "failed to validate annotations: total size of annotations is 32769, which exceeds the max size of 32768";
        assert_eq!(error.as_deref(), (!is_valid).then_some(expect));
    }
    let annotations = [("a".to_owned(), vec![0; 32 << 10])].into();
    let dek = EncryptedDek { ciphertext: vec![1], key_id: "one".to_owned(), annotations };
    let message = EncryptedObject { data: b"data".into(), dek, kind: DekKind::AesGcmKey }.encode();
    let error = EncryptedObject::decode(&message).expect_err("two errors").to_string();
    let expect = "failed to validate annotations: [annotations: Invalid value: \"a\": should be a domain with at least two \
                  segments separated by dots, total size of annotations is 32769, which exceeds the max size of 32768]";
    assert_eq!(error, expect);
}

#[test]
fn recordings_have_both_kinds_of_deks() {
    let rows = rows(include_str!("recorded/kms_values.jsonl"));
    let kind = |row: &Value| {
        let stored = base64::decode(text(row, "Stored").as_bytes()).expect("base64");
        EncryptedObject::decode(stored.get(PREFIX.len()..)?).ok().map(|object| object.kind)
    };
    for wanted in [DekKind::AesGcmKey, DekKind::HkdfSeed] {
        assert!(rows.iter().filter(|row| kind(row) == Some(wanted)).count() > 50, "{wanted:?}");
    }
}
