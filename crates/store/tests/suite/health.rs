//! The health of a store: closed stores and ended threads. Failing disks are in `power_loss`.

use std::sync::Arc;

use bytes::Bytes;
use pintle_store::{
    Change, EmbeddedOptions, EmbeddedStore, Error, HistoryRetention, Key, Revision, Store, StoredValue, TransformError,
    TransformedValue, ValueTransformer,
};

use crate::script::EngineUnderTest;
use crate::until;

/// A transformer that panics on the thread that reads a value.
#[derive(Debug)]
struct PanickingTransformer;

impl ValueTransformer for PanickingTransformer {
    fn transform_to_storage(&self, _: &str, value: Bytes) -> Result<StoredValue, TransformError> {
        Ok(StoredValue::exact(value))
    }

    fn transform_from_storage(&self, _: &str, _: Bytes) -> Result<TransformedValue, TransformError> {
        panic!("the transformer panics, as the test wants")
    }
}

/// A store whose thread panics when it reads the value of `/a`.
async fn open_panicking(folder: &tempfile::TempDir) -> EmbeddedStore {
    let transformer = Arc::new(PanickingTransformer);
    let store =
        EmbeddedStore::open(folder.path(), EmbeddedOptions { transformer, ..EmbeddedOptions::default() }).unwrap();
    store.commit(Change::create("/a", "1")).await.unwrap();
    store.health().unwrap();
    store
}

/// Waits until the store reports that a thread has ended, and returns the name of the thread.
async fn ended_thread(store: &EmbeddedStore) -> &'static str {
    match until(|| store.health().err()).await {
        Error::ThreadEnded { thread } => thread,
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn an_open_store_is_healthy_and_a_closed_one_is_not() {
    for engine in
        [EngineUnderTest::memory(HistoryRetention::default()), EngineUnderTest::embedded(HistoryRetention::default())]
    {
        engine.store.health().unwrap();
        engine.store.commit(Change::create("/a", "1")).await.unwrap();
        engine.store.commit(Change::create("/a", "1")).await.unwrap_err();
        engine.store.health().expect("a conflict is not a failure of the store");
        engine.store.close().await.unwrap();
        assert!(matches!(engine.store.health(), Err(Error::Closed)));
    }
}

#[tokio::test]
async fn an_ended_committing_thread_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_panicking(&folder).await;
    // A conflict returns the current value, so the committing thread reads it.
    assert!(store.commit(Change::create("/a", "2")).await.is_err());
    assert_eq!(ended_thread(&store).await, "store-committer");
    store.close().await.unwrap();
    assert!(matches!(store.health(), Err(Error::Closed)));
}

#[tokio::test]
async fn an_ended_reading_thread_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_panicking(&folder).await;
    assert!(store.get(Key::from("/a"), None).await.is_err());
    assert_eq!(ended_thread(&store).await, "store-reader");
    // Commits still work.
    assert_eq!(store.commit(Change::create("/b", "1")).await.unwrap(), Revision(3));
}
