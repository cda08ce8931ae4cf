//! Value transformers: the stored bytes, the returned values, and failures.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, Error, ExternalKey, HistoryRetention, Key, KeyInterval, Revision, Store,
    StoredValue, TransformError, TransformedValue, ValueTransformer, unreadable_reason,
};

/// A toy cipher. The first byte of the stored form identifies the cipher key.
#[derive(Debug)]
struct MaskTransformer {
    current: u8,
    known: &'static [u8],
}

impl MaskTransformer {
    fn apply(key: &str, mask: u8, value: &[u8]) -> Vec<u8> {
        value.iter().map(|byte| byte ^ mask ^ key.len() as u8).collect()
    }
}

impl ValueTransformer for MaskTransformer {
    fn transform_to_storage(&self, key: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        if value == "unspeakable" {
            return Err(TransformError::encoding("no key for this"));
        }
        let mut stored = vec![self.current];
        stored.extend(MaskTransformer::apply(key, self.current, &value));
        Ok(StoredValue::exact(stored))
    }

    fn transform_from_storage(&self, key: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        match stored.split_first() {
            Some((mask, rest)) if self.known.contains(mask) => Ok(TransformedValue {
                value: MaskTransformer::apply(key, *mask, rest).into(),
                stale: *mask != self.current,
            }),
            _ => Err(TransformError::encoding("unknown encryption key")),
        }
    }
}

fn open(folder: &Path, current: u8, known: &'static [u8]) -> EmbeddedStore {
    let transformer = Arc::new(MaskTransformer { current, known });
    EmbeddedStore::open(
        folder,
        EmbeddedOptions { transformer, retention: HistoryRetention::default(), ..EmbeddedOptions::default() },
    )
    .unwrap()
}

#[tokio::test]
async fn values_are_stored_transformed_and_stale_ones_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 0x51, &[0x51]);
    let mut feed = store.changes(Revision::EMPTY).await.unwrap();
    store.commit(Change::create("/secrets/a", "the plain text")).await.unwrap();
    let change = feed.next_batch().await.unwrap().changes.remove(0);
    assert_eq!(change.value.unwrap(), "the plain text", "the feed delivers the plain value");
    let record = store.get(Key::from("/secrets/a"), None).await.unwrap().unwrap();
    assert_eq!((record.value.as_ref(), record.stale), (&b"the plain text"[..], false));
    store.close().await.unwrap();
    let content = fs::read(folder.path().join("pintle.db")).unwrap();
    assert!(!content.windows(9).any(|part| part == b"the plain"), "the file contains only the transformed value");

    let store = open(folder.path(), 0x52, &[0x51, 0x52]);
    let record = store.range(KeyInterval::all(), None, None).await.unwrap().records.remove(0);
    assert_eq!((record.value.as_ref(), record.stale), (&b"the plain text"[..], true));
    let change = store.changes(Revision::EMPTY).await.unwrap().next_batch().await.unwrap().changes.remove(0);
    assert!(change.stale, "the history reports it too");
    store.commit(Change::update("/secrets/a", Revision(2), record.value)).await.unwrap();
    assert!(!store.get(Key::from("/secrets/a"), None).await.unwrap().unwrap().stale);
    let history = store.changes(Revision::EMPTY).await.unwrap().next_batch().await.unwrap().changes;
    assert!(history.iter().all(|change| change.value.as_deref() == Some(b"the plain text")));
    assert_eq!(history.iter().map(|change| change.stale).collect::<Vec<_>>(), [true, false]);
    store.compact(Revision(3)).await.unwrap();
    store.close().await.unwrap();

    // The same bytes were really written with the new key: the old key is no longer needed.
    let store = open(folder.path(), 0x52, &[0x52]);
    let record = store.get(Key::from("/secrets/a"), None).await.unwrap().unwrap();
    assert_eq!((record.value.as_ref(), record.stale), (&b"the plain text"[..], false));
    assert_eq!(record.mod_revision, Revision(3));
}

#[tokio::test]
async fn a_value_that_cannot_be_transformed_does_not_affect_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 0x51, &[0x51]);
    store.commit(Change::create("/secrets/a", "old")).await.unwrap();
    let error = store.commit(Change::create("/secrets/b", "unspeakable")).await.unwrap_err();
    assert_eq!(error.to_string(), "the value of /secrets/b cannot be transformed: no key for this");
    assert_eq!(store.current_revision().await.unwrap(), Revision(2));
    store.close().await.unwrap();

    let store = open(folder.path(), 0x52, &[0x52]);
    let error = store.get(Key::from("/secrets/a"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "the value of /secrets/a cannot be transformed: unknown encryption key");
    let (lost, intact) = tokio::join!(
        store.commit(Change::create("/secrets/a", "new")),
        store.commit(Change::create("/secrets/c", "new"))
    );
    let Err(Error::Conflict { current: Some(current) }) = &lost else { panic!("{lost:?}") };
    let why = unreadable_reason(&current.value).map(|error| error.detail);
    assert_eq!(why.as_deref(), Some("unknown encryption key"), "a conflict returns the current value");
    assert!(intact.is_ok(), "{intact:?}");
    store.commit(Change::put("/secrets/a", "new")).await.expect("it is replaced");
    assert_eq!(store.get(Key::from("/secrets/a"), None).await.unwrap().unwrap().value, "new");
}

/// A transformer whose values cannot be read before their keys were fetched. The first byte of a value names the key.
#[derive(Debug, Default)]
struct RemoteKeys(Arc<RemoteState>);

#[derive(Debug, Default)]
struct RemoteState {
    known: Mutex<HashSet<u8>>,
    fetches: AtomicUsize,
}

#[derive(Debug)]
struct RemoteKey {
    id: u8,
    state: Arc<RemoteState>,
}

impl ExternalKey for RemoteKey {
    fn id(&self) -> [u8; 32] {
        [self.id; 32]
    }

    fn fetch(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.state.fetches.fetch_add(1, Ordering::Relaxed);
            if self.id == b'x' {
                return Err("nobody has the key".to_owned());
            }
            self.state.known.lock().expect("no panic").insert(self.id);
            Ok(())
        })
    }
}

impl ValueTransformer for RemoteKeys {
    fn transform_to_storage(&self, _: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        Ok(StoredValue::exact(value))
    }

    fn transform_from_storage(&self, _: &str, stored: Bytes) -> Result<TransformedValue, TransformError> {
        let (id, state) = (stored[0], self.0.clone());
        if state.known.lock().expect("no panic").contains(&id) {
            return Ok(TransformedValue { value: stored, stale: false });
        }
        Err(TransformError::missing_key("the key is missing", Arc::new(RemoteKey { id, state })))
    }
}

/// Each missing key is fetched once. A key that cannot be fetched hides only its own values.
#[tokio::test]
async fn keys_outside_the_process_are_fetched_before_values_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (transformer, options) = (RemoteKeys::default(), EmbeddedOptions::default());
    let state = transformer.0.clone();
    let options = EmbeddedOptions { transformer: Arc::new(transformer), ..options };
    let store = EmbeddedStore::open(folder.path(), options).unwrap();
    for (key, value) in [("/a", "1a"), ("/b", "2b"), ("/c", "xc"), ("/d", "1d")] {
        store.commit(Change::create(key, value)).await.unwrap();
    }
    let records = store.range(KeyInterval::all(), None, None).await.unwrap().records;
    let read = |value: &Bytes| match unreadable_reason(value) {
        Some(error) => format!("{:?}: {error}", error.kind),
        None => String::from_utf8_lossy(value).into_owned(),
    };
    let values: Vec<String> = records.iter().map(|record| read(&record.value)).collect();
    assert_eq!(values, ["1a", "2b", "Encryption: nobody has the key", "1d"]);
    assert_eq!(state.fetches.load(Ordering::Relaxed), 3);
    let error = store.get(Key::from("/c"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "the value of /c cannot be transformed: nobody has the key");
    state.known.lock().expect("no panic").clear();
    assert_eq!(store.get(Key::from("/d"), None).await.unwrap().unwrap().value, "1d");
    state.known.lock().expect("no panic").clear();
    let history = store.changes(Revision::EMPTY).await.unwrap().next_batch().await.unwrap().changes;
    let values: Vec<String> = history.iter().flat_map(|change| &change.value).map(read).collect();
    assert_eq!(values, ["1a", "2b", "Encryption: nobody has the key", "1d"]);
    state.known.lock().expect("no panic").clear();
    let Err(Error::Conflict { current: Some(current) }) = store.commit(Change::create("/b", "3")).await else {
        panic!("the key exists")
    };
    assert_eq!(current.value, "2b");
}
